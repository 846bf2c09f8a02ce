"""What makes a bare root filesystem look like each family of vLLM images: paths, launchers, metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .places import CHECKOUT

SITE = "opt/venv/lib/python3.12/site-packages"
MARLIN = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"
ENGINE = CHECKOUT / "tests" / "rig" / "engine"
"""The stand-in's package: Python runs the folder, images have it under a name of its own."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of an image: a file with its text, or a link with its target."""

    path: str
    text: str = ""
    mode: int = 0o644
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """An image family and the quirks that a deployment must cope with."""

    ref: str
    vllm: str
    torch: str
    triton: str
    kernels: str
    entrypoint: tuple[str, ...]
    workdir: str
    oneapi: bool

    def changes(self, digest: str) -> list[str]:
        """The image's configuration, as Dockerfile lines for an import."""
        env = {
            "PATH": "/opt/venv/bin:/usr/local/bin:/usr/bin:/bin",
            "VLLM_TARGET_DEVICE": "xpu",
            "PYTHONPATH": "/opt/image/python",
            "STANDIN_VLLM_VERSION": self.vllm,
        }
        return [
            f"ENTRYPOINT {json.dumps(self.entrypoint)}",
            f"WORKDIR {self.workdir}",
            "LABEL b70ctl.standin=" + digest,
            *(f"ENV {key}={value}" for key, value in env.items()),
        ]


SOURCE_SETVARS = 'source /opt/intel/oneapi/setvars.sh --force && exec "$@"'
INTEL = Family(
    ref="b70ctl-standin/intel:0.21.1.dev17",
    vllm="0.21.1.dev17+g0a4756bb5",
    torch="2.11.0+xpu",
    triton="3.7.0",
    kernels="0.1.7",
    entrypoint=("/bin/bash", "-c", SOURCE_SETVARS, "--"),
    workdir="/",
    oneapi=True,
)
OPENAI = Family(
    ref="b70ctl-standin/openai-xpu:0.30.0",
    vllm="0.30.0",
    torch="2.13.0+xpu",
    triton="3.7.2",
    kernels="0.1.14.1",
    entrypoint=("vllm", "serve"),
    workdir="/workspace/vllm",
    oneapi=False,
)
FAMILIES = {"intel": INTEL, "openai": OPENAI}

VLLM = """\
#!/opt/venv/bin/python
import sys

import image_marker
from b70ctl_standin_engine import main

sys.exit(main(sys.argv[1:]))
"""
# a deployment that replaces PYTHONPATH instead of appending to it loses this module, as it would lose real ones
MARKER = '"""Present when the image\'s own PYTHONPATH has survived."""\n'
SETVARS = """\
# sourced by the image's entrypoint before anything else runs
export ONEAPI_ROOT=/opt/intel/oneapi
echo ":: stand-in oneAPI environment is set (arguments: $*) ::"
"""
PLATFORMS = '''\
"""Which device this build is for."""


class _Platform:
    device_type = "xpu"

    def is_rocm(self):
        return False

    def is_xpu(self):
        return True


current_platform = _Platform()
'''
MARLIN_UTILS = '''\
"""Which layers the Marlin kernels can serve; stands where upstream's file of this name stands."""

from vllm.platforms import current_platform

GROUP_SIZES = (-1, 32, 64, 128)


def check_moe_marlin_supports_layer(layer, group_size):
    """True when the fused experts of a layer may be given to the Marlin kernels."""
    if current_platform.is_rocm():
        return False
    hidden_size = layer.hidden_size
    return hidden_size % 128 == 0 and group_size in GROUP_SIZES
'''


def entries(family: Family) -> Iterator[Entry]:
    """Every path that the family's image has on top of the root filesystem."""
    yield from _interpreter()
    for module in sorted(ENGINE.glob("*.py")):
        yield Entry(f"{SITE}/b70ctl_standin_engine/{module.name}", module.read_text())
    yield Entry("opt/venv/bin/vllm", VLLM, mode=0o755)
    yield Entry("opt/image/python/image_marker.py", MARKER)
    yield from _package(f"{SITE}/vllm", family.vllm)
    versions = {"vllm": family.vllm, "torch": family.torch, "triton": family.triton, "vllm_xpu_kernels": family.kernels}
    for name, version in versions.items():
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        yield Entry(f"{SITE}/{name}-{version}.dist-info/METADATA", metadata)
    if family.oneapi:
        yield Entry("opt/intel/oneapi/setvars.sh", SETVARS, mode=0o755)
    if family.workdir != "/":
        yield from _package(f"{family.workdir.lstrip('/')}/vllm", "source checkout")


def _interpreter() -> Iterator[Entry]:
    """A virtual environment whose packages lie under python3.12 whatever the interpreter's own version."""
    yield Entry("opt/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    for name in ("python", "python3"):
        yield Entry(f"opt/venv/bin/{name}", link="/usr/bin/python3")
    for minor in (11, 13, 14):
        yield Entry(f"opt/venv/lib/python3.{minor}/site-packages/image.pth", f"/{SITE}\n")


def _package(root: str, version: str) -> Iterator[Entry]:
    yield Entry(f"{root}/__init__.py", f'"""The stand-in for vLLM\'s package."""\n\n__version__ = "{version}"\n')
    yield Entry(f"{root}/platforms/__init__.py", PLATFORMS)
    for parent in list(Path(MARLIN).parents)[:-2]:
        yield Entry(f"{root}/{parent.relative_to('vllm')}/__init__.py")
    yield Entry(f"{root}/{Path(MARLIN).relative_to('vllm')}", MARLIN_UTILS)
