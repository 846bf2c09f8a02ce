"""TurboQuant's attention with these kernels, as a plugin of vLLM.

A folder on PYTHONPATH with this package and a `*.dist-info/entry_points.txt` is enough: vLLM calls `register` in each
of its processes, before it reads its arguments. From 0.20 on the backend takes the place of vLLM's own for
`turboquant_*`; 0.19 does not know TurboQuant and is taught it first (legacy.py).

What was done is said in one line a process, which b70ctl looks for:

    b70_kernels 0.1.0: in use with vLLM 0.30.0, TURBOQUANT is b70_kernels.plugin.backend.B70TurboQuantBackend (pid 7)
    b70_kernels 0.1.0: refused: vLLM 0.34.0 is not one that it was proven with (set … to use it all the same) (pid 7)
    b70_kernels 0.1.0: off: B70_KERNELS=off (pid 7)

The process tells its id itself: not every one of vLLM's has its name in front of its lines yet.

A refusal is that line and nothing else: what was changed by then is put back, and vLLM goes on as if the plugin were
not there. It is not raised, because vLLM guards the import of a plugin but not its call, in no release from 0.19 to
0.33: an exception here would end vLLM, the API server while it still builds its argument parser.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from b70_kernels import __version__

from .anchors import REGISTRY, Refused, anchor, put_behind
from .copies import PACKAGE, copies
from .proven import ACCEPT, is_accepted, is_legacy

BACKEND = "b70_kernels.plugin.backend.B70TurboQuantBackend"
"""By name: whoever serves without TurboQuant never imports it."""
SWITCH = "B70_KERNELS"

_said: list[str] = []
_log = logging.getLogger("vllm.b70_kernels")
"""Below vLLM's own logger, so that its handler and its prefix are used."""


def register() -> None:
    """Put the backend in place, or say why not; the second call in a process does nothing."""
    if _said:
        return
    if os.environ.get(SWITCH, "").lower() == "off":
        _say(logging.INFO, f"off: {SWITCH}=off")
        return
    try:
        _say(logging.INFO, f"in use with {_taken_over()}")
    except Refused as why:
        _say(logging.WARNING, f"refused: {why}")
    except Exception as fault:  # noqa: BLE001 - in a vLLM that nobody tried it with; vLLM goes on
        _say(logging.WARNING, f"refused: it does not fit this vLLM: {type(fault).__name__}: {fault}")


def _say(level: int, text: str) -> None:
    _said.append(text)
    line = f"b70_kernels {__version__}: {text} (pid {os.getpid()})"
    if logging.getLogger("vllm").handlers:
        _log.log(level, line)
    elif os.environ.get("VLLM_CONFIGURE_LOGGING") != "0":
        _write_as_vllm(level, line)


def _write_as_vllm(level: int, line: str) -> None:
    """The API server of 0.31 and later loads plugins before its logger has a handler: the line would be lost."""
    if level >= logging.getLevelNamesMapping().get(os.environ.get("VLLM_LOGGING_LEVEL", "INFO").upper(), logging.INFO):
        stamp = time.strftime("%m-%d %H:%M:%S")
        sys.stdout.write(f"{logging.getLevelName(level)} {stamp} [{PACKAGE}] {line}\n")
        sys.stdout.flush()


def _taken_over() -> str:
    version = str(anchor("vllm", "__version__"))
    _refuse_two_copies()
    if not is_accepted(version, os.environ.get(ACCEPT)):
        way = f"set {ACCEPT}={version} to use it all the same"
        raise Refused(f"vLLM {version} is not one that it was proven with ({way})")
    if anchor("vllm.platforms", "current_platform").is_rocm():
        raise Refused("its kernels are for Intel and NVIDIA, and this vLLM runs on ROCm")
    if is_legacy(version):
        from . import legacy

        return f"vLLM {version}, {legacy.teach()}"
    member = anchor(REGISTRY, "AttentionBackendEnum.TURBOQUANT")
    return f"vLLM {version}, {put_behind(member, BACKEND)}"


def _refuse_two_copies() -> None:
    places = copies()
    if len(places) > 1:
        raise Refused(f"it is on Python's path {len(places)} times, and only one can be meant: {', '.join(places)}")
