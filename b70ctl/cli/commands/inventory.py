"""b70ctl inventory …"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import options
from b70ctl.cli.commands.doctor import HostRoot

app = typer.Typer(invoke_without_command=True, add_completion=False, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="An inventory that `-o` wrote.")]


@app.callback()
def inventory(
    ctx: typer.Context,
    image: Annotated[
        str | None, typer.Option("--image", metavar="REF", help="Ask this image; left out, the one that serves.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", dir_okay=False, help="Write the JSON here.")
    ] = None,
    host_root: HostRoot = None,
    json: options.Json = False,
) -> None:
    """List the software stack, host and image side by side, fit to attach to a bug report.

    It holds no secrets, host names or serial numbers.

    Example: b70ctl inventory --image intel/vllm:latest -o mine.json
    """
    if ctx.invoked_subcommand is not None:
        return
    from b70ctl.cli import inventories
    from b70ctl.cli.here import Here

    inventories.show(Here(ctx, json=json), image, host_root, output)


@app.command()
def diff(ctx: typer.Context, before: File, after: File, json: options.Json = False) -> None:
    """Show where two inventories differ; exit 4 when they do.

    Example: b70ctl inventory diff mine.json theirs.json
    """
    from b70ctl.cli import inventories
    from b70ctl.cli.here import Here

    inventories.diff(Here(ctx, json=json), before, after)
