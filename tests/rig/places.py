"""Where the rig keeps what is worth keeping between runs."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """The rig's own cache in the checkout, made when missing; `B70CTL_RIG_CACHE` moves it."""
    path = Path(os.environ.get("B70CTL_RIG_CACHE") or CHECKOUT / ".cache" / "rig")
    path.mkdir(parents=True, exist_ok=True)
    return path
