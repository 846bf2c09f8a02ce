"""b70ctl patches …"""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import completing, options

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    help="List and write patches, ask what they are to an image, and accept a base.",
)  # fmt: skip


@app.command("list")
def list_(ctx: typer.Context, json: options.Json = False) -> None:
    """Every patch, the vLLM versions that it is for, and why it is needed.

    Example: b70ctl patches list
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.list_(Here(ctx, json=json))


@app.command()
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="PATCH", help="The patch.", autocompletion=completing.patch_names)],
    json: options.Json = False,
) -> None:
    """One patch with its reasons, what it changes, and where it does not belong.

    Example: b70ctl patches show marlin-moe-xpu
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.show(Here(ctx, json=json), name)


@app.command()
def check(
    ctx: typer.Context,
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="REF",
            help="An image, which is asked in a short container without a card.",
            autocompletion=completing.images,
        ),
    ] = None,
    vllm: Annotated[str | None, typer.Option("--vllm", metavar="VERSION", help="A version; no image is asked.")] = None,
    json: options.Json = False,
) -> None:
    """What every patch is to an image or to a version: applies, needless, harmful, unknown or broken, with the reason.

    An image is asked for its own files: whether their hashes are known or were accepted, and else whether each anchor
    stands there exactly once.

    Example: b70ctl patches check --image intel/vllm:latest
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.check(Here(ctx, json=json), image, vllm)


@app.command()
def new(ctx: typer.Context, name: Annotated[str, typer.Argument(metavar="NAME", help="The new patch's name.")]) -> None:
    """Start a patch of your own at this site.

    Example: b70ctl patches new my-fix
    """
    from b70ctl.cli import patches
    from b70ctl.cli.here import Here

    patches.new(Here(ctx), name)


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
    image: Annotated[
        str | None,
        typer.Option(
            "--image",
            metavar="REF",
            help="The image; else one that was asked before.",
            autocompletion=completing.images,
        ),
    ] = None,
) -> None:
    """Take responsibility for applying a patch to a file that it was not made for.

    Development builds have files that no release has. It is looked at the image's own file before: the version has to
    be in the patch's range, and each anchor has to stand there exactly once; what is accepted is that the rest of the
    file may be different. The hash is kept in the site's lock file.

    Example: b70ctl patches accept marlin-moe-xpu:5fa2dcf8… --image intel/vllm:latest
    """
    from b70ctl.cli import accepting
    from b70ctl.cli.here import Here

    accepting.accept(Here(ctx), base, image)
