"""Chosen by zero spills and the shortest loop on bmg-g31: keys, warps, stages, programs, native fp8, options."""

from __future__ import annotations

from typing import Any

INTEL: dict[tuple[str, int, int], tuple[int, int, int, int, bool, dict[str, Any]]] = {
    ("k8v4", 16, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 16, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 16, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 32, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 32, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 32, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 64, 64): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 64, 128): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("k8v4", 64, 256): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 16, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 16, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 16, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 32, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 32, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 32, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 64, 64): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 64, 128): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("4bit_nc", 64, 256): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 16, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 16, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 16, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 32, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 32, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 32, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 64, 64): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 64, 128): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("k3v4_nc", 64, 256): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 16, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 16, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 16, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 32, 64): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 32, 128): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 32, 256): (32, 4, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 64, 64): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 64, 128): (32, 8, 1, 256, False, {"grf_mode": "large"}),
    ("3bit_nc", 64, 256): (32, 8, 1, 256, False, {"grf_mode": "large"}),
}
