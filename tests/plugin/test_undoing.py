"""A vLLM that the plugin does not fit is left as it was, however late that is found out."""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_legacy
import fake_vllm
import pytest
from b70_kernels import plugin
from b70_kernels.plugin import legacy
from b70_kernels.presets import CACHE_TYPES
from pydantic import ValidationError

Fault = Callable[[fake_legacy.Legacy, pytest.MonkeyPatch], None]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A process in which nothing was said yet, with what is said from now on."""
    found: list[str] = []
    monkeypatch.setattr(plugin, "_said", found)
    monkeypatch.setattr(sys, "path", [str(Path(plugin.__file__).parents[2])])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(uint8="uint8"))
    for name in (plugin.SWITCH, plugin.ACCEPT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [logging.NullHandler()])
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", False)
    return found


def test_0_19_is_taught_the_types_and_sends_them_to_us(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_legacy.install(monkeypatch)
    plugin.register()
    assert said == [f"in use with vLLM 0.19.0, CUSTOM is {legacy.BACKEND}"]
    for name in CACHE_TYPES:
        assert vllm.outer(cache_config={"cache_dtype": name}).cache_config.cache_dtype == name
        assert vllm.widths[name] == "uint8"
    with pytest.raises(ValidationError):
        vllm.cache_config(cache_dtype="turboquant_other")


@pytest.mark.parametrize("fault", fake_legacy.FAULTS)
def test_what_was_taught_is_taken_back_when_a_later_step_fails(
    fault: Fault, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm = fake_legacy.install(monkeypatch)
    fault(vllm, monkeypatch)
    before = vllm.state()
    plugin.register()
    assert said[0].startswith("refused: it does not fit this vLLM: ")
    assert vllm.state() == before
    assert vllm.outer(cache_config={"cache_dtype": "fp8"}).cache_config.cache_dtype == "fp8"
    with pytest.raises(ValidationError):
        vllm.cache_config(cache_dtype=CACHE_TYPES[0])


def test_a_stand_in_that_is_taught_has_changed(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_legacy.install(monkeypatch)
    before = vllm.state()
    plugin.register()
    assert not [now for now, then in zip(vllm.state(), before, strict=True) if now == then]


def test_a_name_that_cannot_be_read_back_is_given_back(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_vllm.install(monkeypatch, "0.33.0")
    kind: Any = sys.modules[fake_vllm.REGISTRY].AttentionBackendEnum
    monkeypatch.setattr(kind, "get_path", fake_legacy.raising)
    plugin.register()
    assert said == ["refused: it does not fit this vLLM: LookupError: it does not fit"]
    assert vllm.registered == {}
