"""init and render: making a site, and the Compose text of a profile."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import typer

from b70ctl.cli.here import Here
from b70ctl.cli.linting import errors_of, findings, line
from b70ctl.cli.profiles import schema_text
from b70ctl.core.release import release_id
from b70ctl.edge import places
from b70ctl.edge.files import replace
from b70ctl.edge.preparing import Workshop
from b70ctl.errors import B70Error, Exit, MachineError, NotAsked, Refused, UsageError, to_type

PREVIEW = "preview"

SITE_TEXT = """\
# The place of one engine. Every key: b70ctl profiles schema --site
# yaml-language-server: $schema=.b70ctl/site.schema.json
name: {name}
models: {models}
hf_cache: ~/.cache/huggingface
port: 8000
bind: 127.0.0.1

# Where there is no card to read it from, as in CI, the group that owns /dev/dri/renderD*:
# gids: [992]

# An API key for clients; needed before `bind` may be anything but loopback:
# secrets:
#   VLLM_API_KEY: {{ file: secrets/api-key }}

# Compose files of your own that run beside the engine, which answers them at http://engine:8000/v1:
# companions: [open-webui/compose.yaml]
"""


def init(here: Here, directory: Path | None, models: Path | None, name: str) -> None:
    """Make a site: a directory with a site.yaml, ready for profiles of your own."""
    root = places.absolute(directory) if directory else places.default_site()
    file = root / places.SITE_FILE
    from b70ctl.core.compose import quoted
    from b70ctl.core.site import Site
    from b70ctl.edge.catalog import checked

    lies = _models(root, models)
    checked(Site, {"name": name, "models": lies}, [])
    _make_folders(root, file)
    replace(root / places.STATE / "site.schema.json", schema_text(site=True))
    replace(root / places.STATE / "profile.schema.json", schema_text())
    if not (root / ".gitignore").exists():
        replace(root / ".gitignore", f"{places.STATE}/\nsecrets/\n")
    replace(file, SITE_TEXT.format(name=quoted(name), models=quoted(lies).replace("$$", "$")))
    here.console.say(f"{file} is ready")
    here.console.say(f"next: {to_type('b70ctl', '--site', root, 'profiles', 'list')}")


def _models(root: Path, given: Path | None) -> str:
    """Where the models lie, as site.yaml says it: a directory of the site by its path from there, another whole."""
    if given is None:
        return "models"
    path = os.path.normpath(places.absolute(given))
    return os.path.relpath(path, root) if Path(path).is_relative_to(root) else path


def _make_folders(root: Path, file: Path) -> None:
    try:
        if file.exists():
            raise Refused(f"{file} exists already", hint=to_type("b70ctl", "--site", root, "status"))
        for folder in ("profiles", "templates", "patches", places.STATE):
            (root / folder).mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise Refused(f"{error.filename} is in the way: a site has a directory of that name",
                      hint=to_type("mv", error.filename, f"{error.filename}.old")) from error  # fmt: skip
    except OSError as error:
        raise Refused(f"{error.filename or root} cannot be made: {error.strerror}; a site is a directory of your own",
                      hint="b70ctl init DIR") from error  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do with each profile that is rendered."""

    sets: tuple[str, ...] = ()
    port: int | None = None
    output: Path | None = None
    check: bool = False
    many: bool = False


def render(here: Here, profile: str | None, job: Job) -> None:
    """Write the Compose file of a profile to stdout, or into DIR; Docker is not asked."""
    if job.many == (profile is not None):
        raise UsageError("give a PROFILE, or --all", hint="b70ctl render --all --check")
    if job.output is not None and job.output.exists() and not job.output.is_dir():
        raise MachineError(f"{job.output} cannot be written: a profile is rendered into a directory",
                           hint="leave --output out, and it is written to stdout")  # fmt: skip
    workshop = here.workshop(docker=False)
    names = [entry.name for entry in here.catalog.profiles()] if job.many else [str(profile)]
    ends = [_render(here, workshop, name, job) for name in names]
    if job.check:
        passed = f", {ends.count(None)} passed over" if None in ends else ""
        here.console.say(f"{ends.count(True)} of {len(names)} profiles render{passed}")
    if False in ends:
        raise typer.Exit(int(Exit.FAILED))


def _render(here: Here, workshop: Workshop, name: str, job: Job) -> bool | None:
    """Render one profile; False when it has an error, told already, and None when it was passed over."""
    try:
        wanted = workshop.wanted(name, job.sets, port=job.port, any_status=True)
        errors = errors_of(here, workshop, wanted, meant=not job.many)
        text = workshop.text(wanted.deployment, release_id(0, name, wanted.deployment.digest), PREVIEW)
    except NotAsked as error:
        if not job.many:
            raise
        return _passed_over(here, workshop, name, job, error)
    except B70Error as error:
        if not job.many:
            raise
        here.console.error(type(error)(f"{name}: {error.what}", hint=error.hint))
        return False
    for finding in errors:
        here.console.say(line(name, finding))
    if errors and not job.many:
        raise Refused(f"profile `{name}` has {len(errors)} error(s)", hint=f"b70ctl profiles lint {name}")
    if job.check:
        return not errors
    if job.output is not None:
        folder = job.output / name if job.many else job.output
        replace(folder / "compose.yaml", text)
        replace(folder / "deployment.json", wanted.deployment.canonical())
        here.console.say(f"{folder}/compose.yaml")
    else:
        here.console.text(f"---\n{text}" if job.many else text)
    return not errors


def _passed_over(here: Here, workshop: Workshop, name: str, job: Job, error: NotAsked) -> bool | None:
    """What is not the profile's fault fails no check: where nobody can ask its image, its rules are still looked at."""
    here.console.warn(f"{name} is passed over: {error.what} ({error.hint})")
    found = findings(here, workshop, name, job.sets, meant=False, drafts=False)
    errors = [finding for finding in found if finding.severity == "error"]
    for finding in errors:
        here.console.say(line(name, finding))
    return False if errors else None
