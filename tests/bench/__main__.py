"""Every benchmark, one after the other; figures and no verdicts."""

from __future__ import annotations

from . import diagnosing, memory, rendering, startup, switching, verifying, watching

for benchmark in (startup, rendering, switching, memory, diagnosing, verifying, watching):
    benchmark.main()
