"""The command that follows the engine."""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import options


def watch(
    ctx: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Look once, touch nothing; exit 1 when it is not well.")] = False,
    every: Annotated[
        float | None,
        typer.Option("--every", metavar="MINUTES", min=0.001, max=1440, help="Minutes between two probes, here."),
    ] = None,
    install: Annotated[bool, typer.Option("--install", help="Write a systemd unit that runs the watch.")] = False,
    system: Annotated[
        bool | None, typer.Option("--system/--user", help="Whose unit; left out, the machine's for root, else yours.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show the unit, write nothing.")] = False,
    json: options.Json = False,
) -> None:
    """Follow the engine: health, a probe every few minutes, its own figures; on a fault capture it, then restart.

    It tells one line for each change. An engine that is gone, does not answer, has requests and gives no token, or
    answers its probe with nonsense has its logs, metrics, processes and host captured below .b70ctl/incidents, and is
    restarted, proven, at most as often as `watch.restarts` in site.yaml allows; then the watch ends with 1. A lower
    decode rate and a full KV cache are told. While another command is at work, or the site is drained or stopped, it
    waits. SIGTERM ends it with 0, Ctrl-C with 130.

    Example: b70ctl watch --install --user
    """
    from b70ctl.cli.here import Here
    from b70ctl.errors import UsageError

    if not install and (system is not None or dry_run):
        raise UsageError("--system, --user and --dry-run are about --install", hint="b70ctl watch --install --dry-run")
    if once and every is not None:
        raise UsageError("--once ends after its look, so --every says nothing to it", hint="b70ctl watch --once")
    if install and (once or every is not None):
        raise UsageError("--install takes neither --once nor --every: the pace is the site's",
                         hint="site.yaml: watch: { every: 5 }")  # fmt: skip
    if install:
        from b70ctl.cli.here import is_root
        from b70ctl.cli.installing import install as install_unit

        install_unit(Here(ctx, json=json), system=is_root() if system is None else system, dry_run=dry_run)
    elif once:
        from b70ctl.cli.watchonce import watch_once

        watch_once(Here(ctx, json=json))
    else:
        from b70ctl.cli import watching

        watching.watch(ctx, every=every, json=json)
