"""What plugin and b70ctl each write down says the same: who is accepted, by which names, and the line in the log."""

import importlib
import logging
import os
import re
import sys
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from types import SimpleNamespace

import fake_legacy
import fake_vllm
import pytest
from b70_kernels import __version__, plugin
from b70_kernels.plugin import proven
from b70_kernels.plugin.copies import DISTRIBUTION, PACKAGE
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core import kernels as carried
from b70ctl.core import plugin as core
from b70ctl.core.bootlog import BootLog
from b70ctl.edge.plugin import described

SHIPPED = described(None)
NAME = f"b70_kernels {__version__}"
FORMAT = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"
"""vLLM's own, in every release."""
versions = st.builds(
    "{}{}".format, st.sampled_from((*proven.VERSIONS, "0.34.0", "dev", "")), st.sampled_from(("", "+xpu", "+", ".dev7"))
) | st.text(max_size=12)


@given(versions, st.none() | versions)
def test_b70ctl_expects_what_the_plugin_will_decide(version: str, unproven: str | None) -> None:
    for value in (unproven, version):
        assert SHIPPED.accepts(version, value) == proven.is_accepted(version, value)


def test_both_call_the_same_things_by_the_same_names() -> None:
    assert (core.SWITCH, core.ACCEPT) == (plugin.SWITCH, proven.ACCEPT)
    assert (carried.PACKAGE, SHIPPED.version) == (PACKAGE, __version__)
    assert SHIPPED.proven == proven.VERSIONS


def test_a_release_describes_the_package_as_the_plugin_looks_for_it() -> None:
    texts = {Path(name).name: text for name, text in core.metadata(__version__).items()}
    assert f"Name: {DISTRIBUTION}\n" in texts["METADATA"]
    points = ConfigParser()
    points.read_string(texts["entry_points.txt"])
    module, _, function = points[core.GROUP][PACKAGE].partition(":")
    assert getattr(importlib.import_module(module), function) is plugin.register


# --- the line, as it is really written -------------------------------------------------------------------------------


Heard = Callable[[], BootLog]


@pytest.fixture(params=["vLLM's logger", "before it has a handler"])
def heard(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Heard:  # fmt: skip
    """What b70ctl makes of all that `register` writes in this process, the API server's by what comes after it."""
    monkeypatch.setattr(plugin, "_said", [])
    monkeypatch.setattr(sys, "path", [str(Path(plugin.__file__).parents[2])])
    for name in (plugin.SWITCH, plugin.ACCEPT, "VLLM_LOGGING_LEVEL", "VLLM_CONFIGURE_LOGGING"):
        monkeypatch.delenv(name, raising=False)
    logger = logging.getLogger("vllm")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", False)
    caplog.set_level(logging.INFO, "vllm")

    def hear() -> BootLog:
        if request.param == "vLLM's logger":
            handler = logging.StreamHandler(sys.stdout)
            handler.setFormatter(logging.Formatter(FORMAT, datefmt="%m-%d %H:%M:%S"))
            logger.handlers = [handler]
        plugin.register()
        [line] = capsys.readouterr().out.splitlines()
        assert re.search(r"\[(__init__\.py:\d+|b70_kernels)\] b70_kernels ", line), line
        log = BootLog()
        log.feed(line)
        log.feed(f"(APIServer pid={os.getpid()}) INFO 11-30 10:00:00 [api_server.py:1] Starting")
        return log

    return hear


@pytest.mark.parametrize("version", ["0.19.0", "0.33.0"])
def test_a_plugin_in_use_is_read_as_in_use_in_its_process(
    version: str, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    if proven.is_legacy(version):
        fake_legacy.install(monkeypatch)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8="uint8"))
    else:
        fake_vllm.install(monkeypatch, version)
    log = heard()
    facts = log.facts()
    assert (facts.kernels, facts.kernels_in) == (NAME, ("APIServer",))
    assert log.plugin.fault(SHIPPED.name) is None


def test_a_refusal_is_read_with_its_reason(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vllm.install(monkeypatch, "0.34.0")
    log = heard()
    assert log.facts().kernels is None
    assert log.plugin.fault(SHIPPED.name) == (
        f"APIServer says that {NAME} is refused: vLLM 0.34.0 is not one that it was proven with "
        "(set B70_KERNELS_UNPROVEN=0.34.0 to use it all the same)"
    )


def test_a_plugin_that_is_off_is_read_as_off(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(core.SWITCH, "off")
    assert heard().plugin.fault(SHIPPED.name) == f"APIServer says that {NAME} is off: B70_KERNELS=off"
