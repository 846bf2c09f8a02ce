"""General plugins of vLLM's, and our kernels' among them."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable

from .crash import BootFailed
from .knobs import faults, version
from .log import Log, emit

KERNELS = "b70_kernels"


def load_plugins(log: Log) -> None:
    """Load general plugins from the path, as vLLM does: one that cannot be imported is logged and left out, and one
    that raises when it is called ends the process."""
    from importlib import metadata

    allowed = os.environ.get("VLLM_PLUGINS")
    registers: list[Callable[[], object]] = []
    for entry in metadata.entry_points(group="vllm.general_plugins"):
        if allowed is not None and entry.name not in allowed.split(","):
            continue
        if entry.name == KERNELS:
            registers.append(lambda: tell_kernels(log))
            continue
        log.early("__init__.py:44", f"Loading plugin {entry.name}")
        try:
            registers.append(entry.load())
        except Exception as error:  # noqa: BLE001, any failure of foreign code is only logged
            log.early("__init__.py:61", f"Failed to load plugin {entry.name}: {error}", level="ERROR")
    for register in registers:
        try:
            register()
        except Exception as error:
            raise BootFailed(f"{type(error).__name__}: {error}") from error


def tell_kernels(log: Log) -> None:
    """Our kernels' plugin, which is found and not called: it needs a vLLM, and this process plays several.

    Its version comes from the package that Python finds, as it would for vLLM.
    """
    try:
        name = f"{KERNELS} {importlib.import_module(KERNELS).__version__}"
        if importlib.util.find_spec(f"{KERNELS}.plugin") is None or _kernels_are("broken", log):
            raise ImportError(f"No module named '{KERNELS}.plugin'")
    except ImportError as error:
        log.early("__init__.py:61", f"Failed to load plugin {KERNELS}", level="ERROR")
        emit(f"ImportError: {error}", error=True)
        return
    if _kernels_are("silent", log):
        return
    if os.environ.get("B70_KERNELS", "").lower() == "off":
        log.early("__init__.py:70", f"{name}: off: B70_KERNELS=off (pid {log.pid})")
    elif _kernels_are("refused", log):
        why = f"vLLM {version()} is not one that it was proven with (set B70_KERNELS_UNPROVEN={version()} to use it)"
        log.early("__init__.py:70", f"{name}: refused: {why} (pid {log.pid})", level="WARNING")
    else:
        backend = f"{KERNELS}.plugin.backend.B70TurboQuantBackend"
        log.early("__init__.py:70", f"{name}: in use with vLLM {version()}, TURBOQUANT is {backend} (pid {log.pid})")


def _kernels_are(fault: str, log: Log) -> bool:
    return not faults().isdisjoint({f"kernels-{fault}", f"kernels-{fault}:{log.name}"})
