"""Commands that write: a site, and the Compose text of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import options


def init(
    ctx: typer.Context,
    directory: Annotated[Path | None, typer.Argument(metavar="DIR", help="Where; left out, the default site.")] = None,
    models: Annotated[
        Path | None,
        typer.Option("--models", metavar="DIR", help="The directory with your models; left out, `models` in the site."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Prefix of everything that b70ctl makes in Docker.")
    ] = "b70",
) -> None:
    """Make a site: a directory with a site.yaml, ready for profiles of your own.

    Example: b70ctl init ~/b70 --models /srv/models
    """
    from b70ctl.cli import authoring
    from b70ctl.cli.here import Here

    authoring.init(Here(ctx), directory, models, name)


def render(
    ctx: typer.Context,
    profile: options.MaybeProfile = None,
    set_: options.Set = None,
    output: options.Out = None,
    port: options.Port = None,
    all_: Annotated[bool, typer.Option("--all", help="Every profile of the site, and the shipped ones.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when one cannot be rendered.")] = False,
) -> None:
    """Write the Compose file of a profile to stdout, or into DIR; Docker is not asked.

    Groups and the dri path come from the site (or from the box where the site is silent), the image's facts from the
    catalog, or from what it said when it was last asked. With --all --check every profile is resolved, linted and
    rendered: for CI. With --all, one whose patches need an image that nobody asked is passed over with a warning.

    Example: b70ctl render qwen3-30b-eagle3 -o out/
    """
    from b70ctl.cli import authoring
    from b70ctl.cli.here import Here

    job = authoring.Job(sets=tuple(set_ or ()), port=port, output=output, check=check, many=all_)
    authoring.render(Here(ctx), profile, job)
