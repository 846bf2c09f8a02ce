"""Before anything is stopped: whether what is to start can start on this box, now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from b70ctl.cli.here import Change, Here, is_root
from b70ctl.cli.linting import refusals
from b70ctl.core.compose import project
from b70ctl.core.patch import unknown_bases
from b70ctl.core.preflight import faults, refusal
from b70ctl.core.release import Observed, Release
from b70ctl.core.standing import leaving
from b70ctl.edge.preparing import Wanted
from b70ctl.errors import B70Error, Refused

if TYPE_CHECKING:
    from b70ctl.edge.composer import Composer


def obstacles(here: Here, wanted: Wanted, incumbent: Release | None, observed: Observed) -> list[B70Error]:
    """Everything that stands in the way of a new release where the incumbent leaves."""
    from b70ctl.edge.companions import companion_files
    from b70ctl.edge.preflight import look

    companion_files(here.catalog.site, here.site_root)
    host = here.workshop(docker=True).host
    seen = look(wanted.deployment, wanted.facts, host, here.daemon, leaving(observed, incumbent), root=is_root())
    return [*faults(wanted.deployment, wanted.written.profile, seen), *refusals(here, wanted)]


def foreseen(here: Here, wanted: Wanted) -> list[B70Error]:
    """What can be told of patches without reading the image's files, which only a switch does."""
    accepted = here.workshop(docker=True).lock.accepted()
    patches = wanted.patches.items()
    return [error for name, patch in patches for error in unknown_bases(name, patch, wanted.facts, accepted)]


def can_become(here: Here, wanted: Wanted, incumbent: Release | None, observed: Observed) -> None:
    """Raise, with everything that stands in the way, unless a new release can start."""
    if found := obstacles(here, wanted, incumbent, observed):
        raise refusal(found)


def can_return(change: Change, target: Release, incumbent: Release | None, observed: Observed) -> None:
    """Raise unless a kept release can start again: its card may be another site's by now, and its image gone."""
    from b70ctl.edge.preflight import look

    here = change.here
    deployment = target.deployment
    if target.kind == "adopted":
        if here.daemon.inspect(str(target.container)) is None:
            raise Refused(f"release {target.id} cannot come back: container {target.profile} is gone",
                          hint="docker ps --all")  # fmt: skip
        # what it mounts is its own affair, and need not be a path of this host
        deployment = deployment.model_copy(update={"mounts": (), "devices": ()})
    elif observed.of(target.id) is None:
        _can_be_made(here, target, change.world.compose())
    host = here.workshop(docker=True).host
    seen = look(deployment, None, host, here.daemon, leaving(observed, incumbent, target), root=is_root())
    if found := faults(deployment, None, seen):
        raise refusal(found)


def _can_be_made(here: Here, target: Release, composer: Composer) -> None:
    """Its container has to be made anew: Compose is needed, and the project's name."""
    name = project(here.catalog.site.name, target.id)
    if foreign := [about["Name"].lstrip("/") for about in here.daemon.of_project(name)]:
        raise Refused(f"container {foreign[0]} says that it is of {name}, and b70ctl did not make it",
                      hint=f"docker rm {foreign[0]}, if you know what it is")  # fmt: skip
    composer.accepts(here.store.release_folder(target.id))
