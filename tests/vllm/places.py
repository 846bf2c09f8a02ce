"""Where the tiers keep what is worth keeping between runs."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
# read once: tests take the person's settings away
_MOVED = os.environ.get("B70CTL_VLLM_CACHE")


def cache_dir() -> Path:
    """A folder of the tiers' own in the checkout, made when missing; `B70CTL_VLLM_CACHE` moves it."""
    path = Path(_MOVED or CHECKOUT / ".cache" / "vllm")
    path.mkdir(parents=True, exist_ok=True)
    return path
