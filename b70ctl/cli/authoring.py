"""init and render: making a site, and the Compose text of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import options
from b70ctl.cli.here import Here, sets
from b70ctl.cli.linting import show_errors
from b70ctl.cli.profiles import schema_text
from b70ctl.core.release import release_id
from b70ctl.edge import places
from b70ctl.edge.preparing import Wanted, Workshop
from b70ctl.edge.store import replace
from b70ctl.errors import B70Error, Exit, Refused, UsageError

PREVIEW = "preview"

SITE_TEXT = """\
# The place of one engine. Every key: b70ctl profiles schema --site
# yaml-language-server: $schema=.b70ctl/site.schema.json
name: {name}
models: {models}
port: 8000
bind: 127.0.0.1

# An API key for clients; needed before `bind` may be anything but loopback:
# secrets:
#   VLLM_API_KEY: {{ file: secrets/api-key }}

# Compose files of your own that run beside the engine, which answers them at http://engine:8000/v1:
# companions: [open-webui/compose.yaml]
"""


def init(
    ctx: typer.Context,
    directory: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where; left out, the default site.")
    ] = None,
    models: Annotated[str, typer.Option("--models", metavar="DIR", help="The directory with your models.")] = "models",
    name: Annotated[str, typer.Option("--name", help="Prefix of everything that b70ctl makes in Docker.")] = "b70",
) -> None:
    """Make a site: a directory with a site.yaml, ready for profiles of your own.

    Example: b70ctl init ~/b70 --models /srv/models
    """
    here = Here(ctx)
    root = (directory.expanduser() if directory else places.default_site()).absolute()
    file = root / places.SITE_FILE
    if file.exists():
        raise Refused(f"{file} exists already", hint=f"b70ctl --site {root} status")
    from b70ctl.core.compose import quoted
    from b70ctl.core.site import Site
    from b70ctl.edge.catalog import checked

    checked(Site, {"name": name, "models": models}, [])
    try:
        for folder in ("profiles", "templates", "patches"):
            (root / folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"{root} cannot be made: {error.strerror}") from error
    replace(root / places.STATE / "site.schema.json", schema_text(site=True))
    replace(root / places.STATE / "profile.schema.json", schema_text())
    if not (root / ".gitignore").exists():
        replace(root / ".gitignore", f"{places.STATE}/\nsecrets/\n")
    replace(file, SITE_TEXT.format(name=name, models=quoted(models).replace("$$", "$")))
    here.console.say(f"{file} is ready")
    here.console.say(f"next: b70ctl --site {root} profiles list")


def render(
    ctx: typer.Context,
    profile: Annotated[
        str | None, typer.Argument(metavar="[PROFILE]", help="A profile's name.", autocompletion=options._profiles)
    ] = None,
    set_: options.Set = None,
    output: options.Out = None,
    port: options.Port = None,
    all_: Annotated[bool, typer.Option("--all", help="Every profile of the site, and the shipped ones.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 when one cannot be rendered.")] = False,
    json: options.Json = False,
) -> None:
    """Write the Compose file of a profile to stdout, or into DIR; Docker is not asked.

    Groups and the dri path come from the site (or from the box where the site is silent), the image's facts from the
    catalog. With --all --check every profile is resolved, linted and rendered: for CI.

    Example: b70ctl render qwen3-30b-eagle3 -o out/
    """
    here = Here(ctx, json=json)
    if all_ == (profile is not None):
        raise UsageError("give a PROFILE, or --all", hint="b70ctl render --all --check")
    workshop = here.workshop(docker=False)
    names = [entry.name for entry in here.catalog.profiles()] if all_ else [str(profile)]
    failed = [
        name for name in names if not _render(here, workshop, name, sets(set_), port, output, check=check, many=all_)
    ]
    if check and not json:
        here.console.say(f"{len(names) - len(failed)} of {len(names)} profiles render")
    if failed:
        raise typer.Exit(int(Exit.FAILED))


def _render(
    here: Here, workshop: Workshop, name: str, given: tuple[str, ...], port: int | None, output: Path | None,
    *, check: bool, many: bool,
) -> bool:  # fmt: skip
    """Render one profile; False when it has an error, told already."""
    try:
        wanted = workshop.wanted(name, given, port=port, drop=True)
        errors = show_errors(here, wanted)
        text = workshop.text(wanted.deployment, release_id(0, name, wanted.deployment.digest), PREVIEW)
    except B70Error as error:
        if not many:
            raise
        here.console.error(type(error)(f"{name}: {error.what}", hint=error.hint))
        return False
    if errors and not many:
        raise Refused(f"profile `{name}` has {errors} error(s)", hint=f"b70ctl profiles lint {name}")
    if output is not None and not check:
        _write(output / name if many else output, text, wanted)
        here.console.say(f"{output / name if many else output}/compose.yaml")
    elif not check:
        here.console.text(text)
    return not errors


def _write(folder: Path, text: str, wanted: Wanted) -> None:
    replace(folder / "compose.yaml", text)
    replace(folder / "deployment.json", wanted.deployment.canonical())
