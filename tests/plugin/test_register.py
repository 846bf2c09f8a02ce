import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fake_vllm
import pytest
from b70_kernels import __version__, plugin
from b70_kernels.plugin.copies import copies
from b70_kernels.plugin.proven import VERSIONS, is_accepted, is_legacy, is_proven
from hypothesis import given
from hypothesis import strategies as st

KERNELS = Path(plugin.__file__).parents[2]
NAME = f"b70_kernels {__version__}"
Said = Callable[[], list[str]]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Said:
    """Nothing has been said in this process, and vLLM's logger is set up; gives what is said from now on."""
    monkeypatch.setattr(plugin, "_said", [])
    monkeypatch.setattr(sys, "path", [str(KERNELS)])
    for name in (plugin.SWITCH, plugin.ACCEPT):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level(logging.INFO, "vllm")
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [caplog.handler])
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", False)
    return lambda: [_without_id(record.getMessage()) for record in caplog.records]


def _without_id(line: str) -> str:
    """A line without the id of this process, with which it must end."""
    tail = f" (pid {os.getpid()})"
    assert line.endswith(tail)
    return line.removesuffix(tail)


@pytest.mark.parametrize("version", [*(version for version in VERSIONS if not is_legacy(version)), "0.30.0+xpu"])
def test_a_proven_release_gets_the_backend_and_says_so_once(
    version: str, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm = fake_vllm.install(monkeypatch, version)
    plugin.register()
    plugin.register()
    assert said() == [f"{NAME}: in use with vLLM {version}, TURBOQUANT is {plugin.BACKEND}"]
    assert vllm.registered == {"TURBOQUANT": plugin.BACKEND}


@pytest.mark.parametrize("version", ["0.34.0", "0.21.1.dev17+g0a4756bb5", "0.30.0rc1", "dev", ""])
def test_another_version_is_refused_in_words_and_left_as_it_was(
    version: str, said: Said, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    vllm = fake_vllm.install(monkeypatch, version)
    plugin.register()
    (line,) = said()
    assert line.startswith(f"{NAME}: refused: vLLM {version} is not one that it was proven with ")
    assert line.endswith(f"(set B70_KERNELS_UNPROVEN={version} to use it all the same)")
    assert caplog.records[0].levelname == "WARNING"
    assert vllm.registered == {}


def test_a_person_takes_one_version_upon_themselves_and_no_other(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_vllm.install(monkeypatch, "0.34.0+xpu")
    monkeypatch.setenv(plugin.ACCEPT, "0.34.0")
    plugin.register()
    assert vllm.registered == {}
    monkeypatch.setattr(plugin, "_said", [])
    monkeypatch.setenv(plugin.ACCEPT, "0.34.0+xpu")
    plugin.register()
    assert vllm.registered == {"TURBOQUANT": plugin.BACKEND}
    assert [line.split(": ")[1][:7] for line in said()] == ["refused", "in use "]


def test_switched_off_it_does_nothing_and_says_so(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_vllm.install(monkeypatch, "0.30.0")
    monkeypatch.setenv(plugin.SWITCH, "OFF")
    plugin.register()
    assert said() == [f"{NAME}: off: B70_KERNELS=off"]
    assert vllm.registered == {}


def test_a_vllm_that_lacks_a_name_is_refused_with_the_name(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vllm.install(monkeypatch, "0.30.0", members=("FLASH_ATTN",))
    plugin.register()
    assert said() == [f"{NAME}: refused: this vLLM has no {fake_vllm.REGISTRY}.AttentionBackendEnum.TURBOQUANT"]


def test_a_vllm_that_lacks_a_module_is_refused_with_the_module(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vllm.install(monkeypatch, "0.30.0")
    monkeypatch.delitem(sys.modules, fake_vllm.REGISTRY)
    plugin.register()
    (line,) = said()
    assert line.startswith(f"{NAME}: refused: this vLLM has no {fake_vllm.REGISTRY}: ")


def test_a_vllm_whose_names_mean_something_else_is_refused_with_what_it_said(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_vllm.install(monkeypatch, "0.30.0")
    monkeypatch.setattr(sys.modules[fake_vllm.REGISTRY], "register_backend", lambda member: member)
    plugin.register()
    (line,) = said()
    assert line.startswith(f"{NAME}: refused: it does not fit this vLLM: TypeError: ")


def test_rocm_keeps_its_own(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = fake_vllm.install(monkeypatch, "0.30.0", platform="rocm")
    plugin.register()
    assert "refused: its kernels are for Intel and NVIDIA" in said()[0]
    assert vllm.registered == {}


def test_two_copies_are_refused_and_both_are_named(said: Said, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vllm = fake_vllm.install(monkeypatch, "0.30.0")
    described = tmp_path / "b70_kernels-0.0.9.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: b70-kernels\nVersion: 0.0.9\n")
    monkeypatch.setattr(sys, "path", [str(KERNELS), str(tmp_path)])
    plugin.register()
    (line,) = said()
    assert f"refused: it is on Python's path 2 times, and only one can be meant: {KERNELS}, {tmp_path}" in line
    assert vllm.registered == {}


def test_one_copy_is_one_by_whatever_path_it_is_named(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(KERNELS)
    assert copies([str(KERNELS), f"{KERNELS}/", str(link), str(tmp_path / "nothing")]) == (str(KERNELS),)


def test_a_copy_without_metadata_is_seen_too(tmp_path: Path) -> None:
    (tmp_path / "b70_kernels").mkdir()
    (tmp_path / "b70_kernels" / "__init__.py").touch()
    assert copies([str(tmp_path), str(KERNELS)]) == (str(tmp_path), str(KERNELS))


def test_where_vllm_has_no_handler_yet_the_line_is_written_as_vllm_would(
    said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_vllm.install(monkeypatch, "0.33.0")
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [])
    plugin.register()
    level, day, clock, _, line = capsys.readouterr().out.strip().split(" ", 4)
    assert (level, len(day), len(clock)) == ("INFO", 5, 8)
    assert _without_id(line) == f"{NAME}: in use with vLLM 0.33.0, TURBOQUANT is {plugin.BACKEND}"


@pytest.mark.parametrize(("variable", "value"), [("VLLM_LOGGING_LEVEL", "WARNING"), ("VLLM_CONFIGURE_LOGGING", "0")])
def test_what_vllm_would_not_say_is_not_said(
    variable: str, value: str, said: Said, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_vllm.install(monkeypatch, "0.33.0")
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [])
    monkeypatch.setenv(variable, value)
    plugin.register()
    assert capsys.readouterr().out == ""


@given(st.text(max_size=30) | st.sampled_from(VERSIONS).map(lambda version: f"{version}.dev1"))
def test_only_releases_of_the_table_and_their_local_builds_are_proven(version: str) -> None:
    assert is_proven(version) == (version.partition("+")[0] in VERSIONS)
    assert is_accepted(version, version)
    assert is_accepted(version, None) == is_proven(version)


def test_the_legacy_releases_are_those_before_vllms_own_turboquant() -> None:
    assert [version for version in VERSIONS if is_legacy(version)] == ["0.19.0", "0.19.1"]
    assert is_legacy("0.19.2.dev3+gabc")
    assert not is_legacy("0.190.0")


@pytest.mark.process
def test_loading_the_plugin_imports_neither_torch_nor_triton_nor_vllm() -> None:
    look = "import sys, b70_kernels.plugin; print(sorted({'torch', 'triton', 'vllm'} & {*sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(KERNELS)!r}); {look}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
