"""The Arc Pro B70, as far as these tools need to know it."""

from __future__ import annotations

DEVICE = "bmg-g31"
"""What Intel's offline compiler calls its chip."""

VECTOR_ENGINES = 256
"""32 Xe cores with 8 each; `gpu_eu_count` of its driver."""

CLOCK_HZ = 2.8e9
"""The most that it boosts to."""

SHARED_BYTES = 128 * 1024
"""Of local memory, for one work-group."""
