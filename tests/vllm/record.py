"""What the tiers found, kept as rows: which feature of which release was proven, and how.

Every tier writes a file of its own, results/TIER.json: one row a line, and a first line that says when its rows last
changed and by which command. `python -m tests.vllm.table` makes docs/compatibility.md of them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.version import Version

from b70ctl.edge.files import replace

RESULTS = Path(__file__).with_name("results")
WAYS = ("source", "config", "engine", "backend")
"""How a feature can be proven: by reading vLLM's sources, by running its argument and platform code, by an engine that
serves on a CPU, by driving our backend with vLLM's own objects."""
OUTCOMES = ("ok", "refused", "declared", "absent", "failed")
"""It works; it is refused, as it should be; it is said to work, and what can be seen of it agrees; the release has
nothing of the kind, as declared; it does not hold."""


@dataclass(frozen=True, slots=True)
class Row:
    """One feature of one release, and what came of it."""

    version: str
    feature: str
    """`area: what`, for example `plugin: TURBOQUANT is ours`; the areas are the table's."""
    outcome: str
    how: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES or self.how not in WAYS or ": " not in self.feature:
            raise ValueError(f"no result: {self}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A tier's file."""

    when: str
    command: str
    rows: tuple[Row, ...]


def read(tier: str, folder: Path = RESULTS) -> Recorded:
    """What a tier has recorded; nothing where it never ran."""
    path = folder / f"{tier}.json"
    if not path.exists():
        return Recorded("", "", ())
    head, *lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return Recorded(head["recorded"], head["command"], tuple(Row(**line) for line in lines))


def record(
    tier: str, rows: Iterable[Row], *, command: str, whole: bool = False, folder: Path = RESULTS, today: str = ""
) -> None:
    """Keep rows in a tier's file, in place of those about the same feature of the same release.

    With `whole`, every older row of the releases at hand goes: a run that looked at all its features knows which of
    them are no more. A file whose rows stay as they were is not touched.
    """
    fresh = {_key(row): row for row in rows}
    seen = {row.version for row in fresh.values()}
    with _alone(folder):
        before = read(tier, folder)
        kept = {_key(row): row for row in before.rows if not (whole and row.version in seen)}
        merged = tuple(sorted((kept | fresh).values(), key=_place))
        if merged != before.rows:
            day = today or datetime.now(UTC).date().isoformat()
            head = {"recorded": day, "command": command}
            lines = (json.dumps(line, ensure_ascii=False) for line in (head, *map(_line, merged)))
            replace(folder / f"{tier}.json", "\n".join(lines) + "\n")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two runs that end at once both keep their rows."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _key(row: Row) -> tuple[str, str, str]:
    return row.version, row.feature, row.how


def _place(row: Row) -> tuple[Version, str, str]:
    return Version(row.version), row.feature, row.how


def _line(row: Row) -> dict[str, Any]:
    return {name: value for name, value in asdict(row).items() if value or name != "note"}
