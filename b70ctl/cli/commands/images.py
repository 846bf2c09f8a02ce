"""b70ctl images …"""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import completing, options

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="Ask images what they hold, and pin them."
)

Reference = Annotated[
    str,
    typer.Argument(
        metavar="IMAGE", help="repository:tag, repository@sha256:… or an image id.", autocompletion=completing.images
    ),
]


@app.command("list")
def list_(ctx: typer.Context, json: options.Json = False) -> None:
    """The images that profiles use and the catalog knows, and what they are pinned to at this site.

    Example: b70ctl images list
    """
    from b70ctl.cli import images
    from b70ctl.cli.here import Here

    images.list_(Here(ctx, json=json))


@app.command()
def probe(ctx: typer.Context, image: Reference, json: options.Json = False) -> None:
    """Ask an image what it holds, in one short container without a card and without a network.

    Example: b70ctl images probe intel/vllm:latest
    """
    from b70ctl.cli import images
    from b70ctl.cli.here import Here

    images.probe(Here(ctx, json=json), image)


@app.command()
def pin(ctx: typer.Context, image: Reference) -> None:
    """Record what a reference means now, so that it means the same tomorrow; kept in the site's lock file.

    The repository digest is recorded, or the image id of an image that was built or imported on this box.

    Example: b70ctl images pin intel/vllm:latest
    """
    from b70ctl.cli import images
    from b70ctl.cli.here import Here

    images.pin(Here(ctx), image)
