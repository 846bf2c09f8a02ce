from __future__ import annotations

import pytest

from .card import CLOCK_HZ, VECTOR_ENGINES
from .issue import Work, microseconds


def test_one_engine_issues_one_instruction_a_cycle():
    # as many tiles as there are engines: the loop's instructions, one after the other
    work = Work(requests=1, kv_heads=1, tokens=32 * VECTOR_ENGINES)
    assert microseconds(work, 32, 1, 2800) == pytest.approx(2800 / CLOCK_HZ * 1e6)


def test_a_tile_that_is_not_full_costs_a_whole_one():
    assert Work(requests=2, kv_heads=3, tokens=33).tiles(32) == 12


def test_time_grows_with_warps_and_instructions():
    work = Work()
    assert microseconds(work, 32, 8, 2000) == pytest.approx(2 * microseconds(work, 32, 4, 2000))
    assert microseconds(work, 32, 8, 2000) == pytest.approx(4 * microseconds(work, 32, 8, 500))
