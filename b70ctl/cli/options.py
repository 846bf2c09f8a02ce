"""Options and arguments that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _profiles(incomplete: str) -> list[str]:
    """Completion asks often and must be quick: names of files, nothing read, nothing said."""
    from b70ctl.edge import places

    try:
        root = places.site_root(None)
        folders = [*([root / "profiles"] if root else []), places.shipped("profiles")]
        return sorted(
            {path.stem for folder in folders for path in folder.glob("*.yaml") if path.stem.startswith(incomplete)}
        )
    except Exception:  # noqa: BLE001 - a completion that fails is an empty one
        return []


def _kept(incomplete: str) -> list[str]:
    from b70ctl.edge import places
    from b70ctl.edge.store import Store

    try:
        root = places.site_root(None)
        store = Store(root / places.STATE) if root else None
        known = [*store.state().snapshots, *(r.profile for r in store.releases().values())] if store else []
        return sorted({name for name in known if name.startswith(incomplete)})
    except Exception:  # noqa: BLE001 - a completion that fails is an empty one
        return []


Profile = Annotated[str, typer.Argument(metavar="PROFILE", help="A profile's name.", autocompletion=_profiles)]
MaybeProfile = Annotated[
    str | None, typer.Argument(metavar="[PROFILE]", help="A profile's name.", autocompletion=_profiles)
]
Profiles = Annotated[
    list[str] | None, typer.Argument(metavar="[PROFILE]...", help="Left out, all of them.", autocompletion=_profiles)
]
KeptName = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="A snapshot, a profile, or part of a name in history.", autocompletion=_kept),
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
    int | None, typer.Option("--port", min=1, max=65535, help="Publish on this port instead of the site's.")
]
AllowStatus = Annotated[
    str | None,
    typer.Option("--allow-status", metavar="STATUS", help="Use a profile in spite of its status: `rejected`."),
]
Adopt = Annotated[
    str | None,
    typer.Option("--adopt", metavar="CONTAINER", help="Stop this container, made by hand, and make it the way back."),
]
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write into this directory.")]
