"""The source tier: what plugin, patches and b70ctl say of vLLM, held against the sources of releases, and recorded.

    python -m tests.vllm.source [VERSION ... | all]

Without a version it is the three that every run of the test suite looks at. Nothing is recorded of a release in which
something does not hold; what it is stands on stdout, and the exit status is 1.
"""

from __future__ import annotations

import sys
import time

from tests.rig.talk import exit_status, give, say
from tests.vllm.record import Row, record
from tests.vllm.sdist import releases
from tests.vllm.source.tier import IN_CI, rows
from tests.vllm.source.tree import Tree


def main(arguments: list[str]) -> int:
    """Look at every release that is asked for, and record what was found."""
    found: list[Row] = []
    for version in releases() if arguments == ["all"] else arguments or IN_CI:
        started = time.monotonic()
        fresh = rows(Tree.of(version))
        give(f"vLLM {version}: {_summary(fresh)}")
        say(f"{version} took {time.monotonic() - started:.1f} s")
        found += fresh
    failed = {row.version for row in found if row.outcome == "failed"}
    sound = [row for row in found if row.version not in failed]
    record("source", sound, command="make test-vllm-source", whole=True)
    return 1 if failed else 0


def _summary(fresh: list[Row]) -> str:
    failed = [f"\n  {row.feature}: {row.note}" for row in fresh if row.outcome == "failed"]
    return f"{len(fresh) - len(failed)} of {len(fresh)} hold{''.join(failed)}"


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
