"""b70ctl patches …"""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import completing, options

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="List patches, and accept a base."
)


@app.command("list")
def list_(ctx: typer.Context, json: options.Json = False) -> None:
    """Every patch, the vLLM versions that it is for, and why it is needed.

    Example: b70ctl patches list
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.list_(Here(ctx, json=json))


@app.command()
def accept(
    ctx: typer.Context,
    base: Annotated[
        str,
        typer.Argument(
            metavar="PATCH:SHA256",
            help="The patch, and the hash of the file in the image.",
            autocompletion=completing.patches,
        ),
    ],
) -> None:
    """Take responsibility for applying a patch to a file that it was not made for.

    Development builds have files that no release has. The patch still has to find its anchor exactly once, and the
    image's version has to be in its range; what is accepted here is that the rest of the file may be different. The
    hash is kept in the site's lock file.

    Example: b70ctl patches accept marlin-moe-xpu:5fa2dcf8…
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.accept(Here(ctx), base)
