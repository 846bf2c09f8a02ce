"""b70ctl diagnose"""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import completing, options


def diagnose(
    ctx: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="RELEASE|FILE|-",
            help="A release of history, a log file, or - for stdin.",
            autocompletion=completing.logs,
        ),
    ] = None,
    container: Annotated[
        str | None,
        typer.Option(
            "--container", "-c", metavar="NAME", help="Read this container's log.", autocompletion=completing.containers
        ),
    ] = None,
    dmesg: Annotated[bool, typer.Option("--dmesg", help="Read the kernel's log of this boot.")] = False,
    json: options.Json = False,
) -> None:
    """Read a log and name what caused the trouble in it, with the lines that show it and what to do.

    Without a target: the release that failed last, if nothing was done since, else the one that serves. Of a release
    that was not proven its verdict is told first. Exit status 0 when a cause was found, or the engine came to serve and
    nothing failed; 1 when what failed is not known, or the text is no engine's log.

    Example: b70ctl diagnose engine.log
    """
    from b70ctl.cli import diagnosing
    from b70ctl.cli.here import Here

    diagnosing.diagnose(Here(ctx, json=json), target, container=container, kernel=dmesg)
