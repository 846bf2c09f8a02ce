"""The list of gates in the kernels' README, and how tests are divided among processes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import shards
from kernel_cases import EVERY_CACHE

HERE = Path(__file__).resolve().parent
FILES = [*HERE.glob("test_*.py"), *HERE.parent.glob("xpu/laws/test_*.py")]
DEFINED = set(re.findall(r"def (test_\w+)", "".join(path.read_text() for path in FILES)))


def test_every_gate_that_the_readme_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (HERE.parent.parent / "kernels/README.md").read_text()))
    assert len(named) > 40
    assert named <= DEFINED


def an_item(shape: object = None) -> SimpleNamespace:
    return SimpleNamespace(callspec=SimpleNamespace(params={"shape": shape})) if shape else SimpleNamespace()


@pytest.mark.parametrize("of", [2, 3, 8])
def test_every_test_falls_to_one_process_and_those_of_a_cache_to_the_same(
    monkeypatch: pytest.MonkeyPatch, of: int
) -> None:
    items = [an_item(shape) for shape in (*EVERY_CACHE, None, None, *EVERY_CACHE, None)]
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
    taken: list[set[int]] = []
    for at in range(of):
        monkeypatch.setenv(shards.SHARD, f"{at}/{of}")
        mine = list(items)
        shards.take(config, mine)
        taken.append(set(map(id, mine)))
    assert sorted(one for mine in taken for one in mine) == sorted(map(id, items))
    for first, second in zip(items[:8], items[10:18], strict=True):
        assert [id(first) in mine for mine in taken] == [id(second) in mine for mine in taken]
