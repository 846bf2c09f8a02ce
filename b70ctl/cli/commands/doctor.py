"""b70ctl doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import options

HostRoot = Annotated[
    Path | None,
    typer.Option("--host-root", metavar="DIR", file_okay=False, help="A host that `--record` wrote, not this one."),
]


def doctor(
    ctx: typer.Context,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="DIR", file_okay=False, help="Write what was read, to send or to keep."),
    ] = None,
    host_root: HostRoot = None,
    json: options.Json = False,
) -> None:
    """Check whether this box can serve: cards, driver, firmware, power, Docker, disks; exit 3 when something blocks.

    Each check is answered ok, problem or unknown, with its evidence and what to do. Nothing is changed, and what only
    root may read is said to be unknown. With `--record` the exit status is 0 once the record is written.

    Example: b70ctl doctor --record my-box
    """
    from b70ctl.cli import doctoring
    from b70ctl.cli.here import Here

    doctoring.doctor(Here(ctx, json=json), recording=record, host_root=host_root)
