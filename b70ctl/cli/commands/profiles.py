"""b70ctl profiles …"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import completing, options

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="List, show, check and write profiles."
)


@app.command("list")
def list_(ctx: typer.Context, json: options.Json = False) -> None:
    """Every profile with its status, where it comes from, and what it needs that nobody publishes.

    Example: b70ctl profiles list
    """
    from b70ctl.cli import profiles
    from b70ctl.cli.here import Here

    profiles.list_(Here(ctx, json=json))


@app.command()
def show(ctx: typer.Context, profile: options.Profile, set_: options.Set = None, json: options.Json = False) -> None:
    """A profile with everything that it inherits, and the evidence for it.

    Example: b70ctl profiles show qwen3-30b-eagle3
    """
    from b70ctl.cli import profiles
    from b70ctl.cli.here import Here

    profiles.show(Here(ctx, json=json), profile, tuple(set_ or ()))


@app.command()
def lint(
    ctx: typer.Context,
    profile: options.Profiles = None,
    set_: options.Set = None,
    json: options.Json = False,
) -> None:
    """What will not work, or not as meant, with the image that a profile names; exit 1 when there is an error.

    Example: b70ctl profiles lint qwen3-30b-eagle3
    """
    from b70ctl.cli import profiles
    from b70ctl.cli.here import Here

    profiles.lint_(Here(ctx, json=json), profile or [], tuple(set_ or ()))


@app.command()
def schema(
    ctx: typer.Context,
    site: Annotated[bool, typer.Option("--site", help="Of site.yaml instead of a profile.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
) -> None:
    """The JSON Schema of a profile, or of site.yaml, for editors.

    Example: b70ctl profiles schema -o profile.schema.json
    """
    from b70ctl.cli import profiles
    from b70ctl.cli.here import Here

    profiles.schema(Here(ctx), output, site=site)


@app.command()
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new profile's name.")],
    extends: Annotated[
        str,
        typer.Option(
            "--extends", metavar="PROFILE", help="The profile to build on.", autocompletion=completing.profiles
        ),
    ],
) -> None:
    """Start a profile of your own at this site, on top of another.

    Example: b70ctl profiles new my-qwen --extends qwen3-30b-eagle3
    """
    from b70ctl.cli import profiles
    from b70ctl.cli.here import Here

    profiles.new(Here(ctx), name, extends)
