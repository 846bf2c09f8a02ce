"""Options and arguments that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from b70ctl.cli import completing

Profile = Annotated[
    str, typer.Argument(metavar="PROFILE", help="A profile's name.", autocompletion=completing.profiles)
]
MaybeProfile = Annotated[
    str | None, typer.Argument(metavar="PROFILE", help="A profile's name.", autocompletion=completing.profiles)
]
Profiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="PROFILE", help="Left out, all of them.", autocompletion=completing.profiles),
]
DARK_PORT = 8001
"""Where a window's engines answer, unless told otherwise."""
Tried = Annotated[
    list[str],
    typer.Argument(
        metavar="PROFILE", help="Profiles, in the order of their turns.", autocompletion=completing.profiles
    ),
]
KeptName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="A snapshot, a profile, or part of a name in history.", autocompletion=completing.kept
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one value of the profile, e.g. engine.max_model_len=65536."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show the plan and touch nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Data for programs, on stdout.")]
Port = Annotated[
    int | None,
    typer.Option("--port", metavar="N", min=1, max=65535, help="Publish on this port instead of the site's."),
]
AllowStatus = Annotated[
    str | None,
    typer.Option("--allow-status", metavar="STATUS", help="Use a profile in spite of its status: `rejected`."),
]
Adopt = Annotated[
    str | None,
    typer.Option(
        "--adopt",
        metavar="CONTAINER",
        help="Stop this container, made by hand, and make it the way back.",
        autocompletion=completing.containers,
    ),
]
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write into this directory.")]
