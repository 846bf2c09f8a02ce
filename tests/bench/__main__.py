"""Every benchmark, one after the other; figures and no verdicts."""

from __future__ import annotations

from . import diagnosing, memory, rendering, startup, switching

for benchmark in (startup, rendering, switching, memory, diagnosing):
    benchmark.main()
