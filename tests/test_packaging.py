"""What is built is what people get: from a checkout, a wheel and an sdist alike, and from any directory."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parent.parent
SHIPPED = ("profiles", "templates", "patches")
PROFILE = "qwen3-30b-eagle3"


@dataclass(frozen=True)
class Built:
    """A wheel, and the sdist that it was built from."""

    wheel: Path
    sdist: Path

    def wheel_names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as packed:
            return {name for name in packed.namelist() if not name.endswith("/")}

    def sdist_names(self) -> set[str]:
        with tarfile.open(self.sdist) as packed:
            return {name.partition("/")[2] for name in packed.getnames()}


@dataclass(frozen=True)
class Installed:
    """A Python that has b70ctl, run where nothing of the checkout is at hand."""

    python: Path
    elsewhere: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.execute("-m", "b70ctl", *words)

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": os.defpath, "HOME": str(self.elsewhere), "LC_ALL": "C.UTF-8"}
        return subprocess.run((self.python, *words), cwd=self.elsewhere, env=env, text=True, capture_output=True)

    def says(self, *words: str) -> str:
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def location(self) -> Path:
        return Path(self.execute("-c", "import b70ctl; print(b70ctl.__file__)").stdout.strip())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """One build for all: the sdist from the checkout, the wheel from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    ran = subprocess.run(
        (sys.executable, "-m", "build", "--outdir", out, CHECKOUT), cwd=out, text=True, capture_output=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return Built(next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


def _clean_venv(folder: Path) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    ran = subprocess.run(
        (python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), text=True, capture_output=True
    )
    # the dependencies of the environment that runs the tests; a .pth in there, such as an editable install's, is inert
    (Path(ran.stdout.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture(scope="module")
def from_wheel(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    python = _clean_venv(folder / "venv")
    ran = subprocess.run(
        (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", built.wheel),
        text=True,
        capture_output=True,
    )
    assert ran.returncode == 0, ran.stderr
    (folder / "elsewhere").mkdir()
    return Installed(python, folder / "elsewhere")


@pytest.fixture(scope="module")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(Path(sys.executable), tmp_path_factory.mktemp("editable"))


@pytest.fixture(params=["from_wheel", "editable"])
def installed(request: pytest.FixtureRequest) -> Installed:
    return request.getfixturevalue(request.param)


@pytest.fixture
def site(installed: Installed, tmp_path: Path) -> Path:
    """A site as it is made for CI: its models and groups are written down, not looked up."""
    root = tmp_path / "site"
    installed.says("init", str(root), "--models", "/srv/models")
    with (root / "site.yaml").open("a") as file:
        file.write("gids: [992]\n")
    return root


# --- what is in them --------------------------------------------------------------------------------------------------


def _files(folder: str) -> set[str]:
    paths = (path for path in (CHECKOUT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(CHECKOUT)) for path in paths}


def test_the_wheel_is_the_package_with_what_it_ships_and_nothing_else(built):
    shipped = {f"b70ctl/_share/{name}" for kind in SHIPPED for name in _files(kind)}
    metadata = {name for name in built.wheel_names() if ".dist-info/" in name}
    kernels = {name.removeprefix("kernels/") for name in _files("kernels/b70_kernels")}
    assert built.wheel_names() - metadata == _files("b70ctl") | shipped | kernels


def test_the_wheel_carries_its_licence_and_the_mark_of_a_typed_package(built):
    names = built.wheel_names()
    assert "b70ctl/py.typed" in names
    with zipfile.ZipFile(built.wheel) as packed:
        licence = next(name for name in names if name.endswith(".dist-info/licenses/LICENSE"))
        assert packed.read(licence) == (CHECKOUT / "LICENSE").read_bytes()
        assert b"Apache License" in packed.read(licence)


def test_the_wheel_declares_what_the_project_file_does(built):
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    with zipfile.ZipFile(built.wheel) as packed:
        metadata = next(name for name in packed.namelist() if name.endswith("METADATA"))
        lines = packed.read(metadata).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist: ") and "extra ==" not in line]
    assert len(needed) == len(project["dependencies"])
    assert f"Version: {project['version']}" in lines
    assert "License-Expression: Apache-2.0" in lines


def test_the_sdist_has_what_it_takes_to_test_and_to_read(built):
    names = built.sdist_names()
    for folder in ("b70ctl", *SHIPPED, "kernels", "docs"):
        assert _files(folder) <= names
    assert {"Makefile", "README.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert {"tests/rig/demo.py", "tests/rig/setup.sh", "tests/test_rooms.py"} <= names


def test_neither_holds_what_a_checkout_gathers(built):
    gathered = {".venv", ".cache", ".git", "__pycache__", ".b70ctl", ".hypothesis", ".mypy_cache"}
    for name in built.wheel_names() | built.sdist_names():
        assert not gathered & set(name.split("/")), name


# --- what they do, from another directory -----------------------------------------------------------------------------


def test_the_wheel_is_what_runs_and_not_the_checkout(from_wheel):
    assert CHECKOUT not in from_wheel.location().parents
    assert from_wheel.location().is_relative_to(from_wheel.python.parent.parent)


def test_the_editable_install_is_the_checkout(editable):
    assert editable.location() == CHECKOUT / "b70ctl" / "__init__.py"


def test_every_profile_is_found(installed):
    listed = {row["name"]: row["origin"] for row in json.loads(installed.says("profiles", "list", "--json"))}
    assert listed == {path.stem: "shipped" for path in (CHECKOUT / "profiles").glob("*.yaml")}


def test_every_patch_and_every_known_image_is_found(installed):
    patches = {path.parent.name for path in (CHECKOUT / "patches").glob("*/patch.yaml")}
    known = yaml.safe_load((CHECKOUT / "b70ctl/data/images.yaml").read_text())["images"]
    listed = installed.says("patches", "list")
    assert patches
    assert all(name in listed for name in patches)
    assert {item["ref"] for item in known} <= {
        row["image"] for row in json.loads(installed.says("images", "list", "--json"))
    }


def test_a_profile_renders_without_docker(installed, site):
    text = installed.says("--site", str(site), "render", PROFILE)
    engine = yaml.safe_load(text)["services"]["engine"]
    assert engine["group_add"] == ["992"]
    assert engine["command"][:2] == ["vllm", "serve"]


def test_the_kernels_have_one_import_name_and_are_found_to_be_mounted(installed, site):
    named = installed.execute("-c", "import b70_kernels; print(b70_kernels.__path__[0])").stdout.strip()
    shown = json.loads(installed.says("--site", str(site), "kernels", "check", PROFILE, "--dry-run", "--json"))
    mounted = {mount["Target"]: mount["Source"] for mount in shown["container"]["HostConfig"]["Mounts"]}
    assert mounted["/opt/b70/b70_kernels"] == named
    assert shown["kernels"] == f"{named} (shipped)"
    shipped = {path.name for path in (CHECKOUT / "kernels" / "b70_kernels").glob("*.py")}
    assert shipped == {path.name for path in Path(named).glob("*.py")}


def test_wheel_and_checkout_render_alike(from_wheel, editable, tmp_path):
    root = tmp_path / "site"
    editable.says("init", str(root), "--models", "/srv/models")
    with (root / "site.yaml").open("a") as file:
        file.write("gids: [992]\n")
    rendered = [each.says("--site", str(root), "render", PROFILE) for each in (from_wheel, editable)]
    assert rendered[0] == rendered[1]


def test_the_wheel_brings_the_command(from_wheel):
    command = from_wheel.python.parent / "b70ctl"
    ran = subprocess.run((command, "--version"), cwd=from_wheel.elsewhere, text=True, capture_output=True)
    assert ran.stdout.startswith("b70ctl ")
