"""What the tiers run with is what is set up for them, and what a release carries."""

from __future__ import annotations

import re
from pathlib import Path

from b70ctl.core.plugin import metadata
from b70ctl.edge.kernels import carried, find
from tests.vllm import versions

SETUP = (Path(versions.__file__).with_name("setup.sh")).read_text(encoding="utf-8")


def test_setup_installs_the_builds_that_the_tiers_run() -> None:
    assert re.findall(r"^NEWEST=(\S+)$", SETUP, re.MULTILINE) == [versions.BUILT]
    [served] = re.findall(r"in \$\{B70CTL_VLLM_VERSIONS:-(.+?)\}; do environment", SETUP)
    assert tuple(served.replace("$NEWEST", versions.BUILT).split()) == versions.SERVED
    [told] = re.findall(r"^#   tests/vllm/setup\.sh engine .*$", SETUP, re.MULTILINE)
    assert set(re.findall(r"\d+\.\d+\.\d+", told)) == set(versions.SERVED)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_plugin_s_folder_is_what_a_release_carries(tmp_path: Path) -> None:
    package, _ = find(None)
    wanted = {f"b70_kernels/{name}": content for name, content in carried(package).items()}
    version = re.findall(rb'^__version__ = "(.+)"', wanted["b70_kernels/__init__.py"], re.MULTILINE)[0].decode()
    wanted |= {name: text.encode() for name, text in metadata(version).items()}
    assert files(versions.plugin_folder(tmp_path / "plugin")) == wanted


def test_nothing_of_another_version_stays_in_the_plugin_s_folder(tmp_path: Path) -> None:
    folder = versions.plugin_folder(tmp_path)
    fresh = files(folder)
    (folder / "b70_kernels-0.0.9.dist-info").mkdir()
    (folder / "b70_kernels-0.0.9.dist-info" / "METADATA").write_text("Name: b70-kernels\n")
    (folder / "b70_kernels" / "gone.py").touch()
    (folder / "b70_kernels" / "__init__.py").write_text("")
    assert files(versions.plugin_folder(folder)) == fresh
    assert not (folder / "b70_kernels-0.0.9.dist-info").exists()


def test_a_folder_that_is_right_is_left_alone(tmp_path: Path) -> None:
    written = {path: path.stat().st_ino for path in versions.plugin_folder(tmp_path).rglob("*")}
    assert {path: path.stat().st_ino for path in versions.plugin_folder(tmp_path).rglob("*")} == written
