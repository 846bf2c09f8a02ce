"""Waiting for what another process does."""

import time
from collections.abc import Callable
from pathlib import Path


def eventually(holds: Callable[[], object], within: float = 20.0) -> None:
    """Return as soon as it holds; fail when it never does."""
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True
