"""The command line, cut off where a test says so: python cut.py WHEN LINE ARGS…

WHEN is `before` or `after` the LINE-th line that the command writes into its journal, counted from 1. Line 0 is
never written, so it cuts nothing off. `B70CTL_TEST_CLOCK` moves the clock by that many seconds.
"""

import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from b70ctl.__main__ import main
from b70ctl.edge import store

when, line = sys.argv[1], int(sys.argv[2])
sys.argv = ["b70ctl", *sys.argv[3:]]
count = 0
write = store.Journal.write


def cut() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def counted(journal: store.Journal, event: Any, **fields: Any) -> None:
    global count
    count += 1
    if (when, line) == ("before", count):
        cut()
    write(journal, event, **fields)
    if (when, line) == ("after", count):
        cut()


store.Journal.write = counted  # type: ignore[method-assign]
if moved := os.environ.get("B70CTL_TEST_CLOCK"):
    stamp = (datetime.now(UTC) + timedelta(seconds=float(moved))).strftime("%Y-%m-%dT%H:%M:%SZ")
    now = store.now
    for name, module in list(sys.modules.items()):
        if name.startswith("b70ctl.") and getattr(module, "now", None) is now:
            module.now = lambda: stamp  # type: ignore[attr-defined]
main()
