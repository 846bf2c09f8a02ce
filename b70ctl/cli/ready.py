"""Before anything is stopped: whether what is to start can start on this box, now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from b70ctl.cli.here import Change, Here, is_root
from b70ctl.cli.linting import refusals, unrefused
from b70ctl.core.compose import project
from b70ctl.core.patchcheck import unknown_bases
from b70ctl.core.preflight import faults, refusal
from b70ctl.core.release import Container, Observed, Release
from b70ctl.core.standing import leaving
from b70ctl.edge.preparing import Wanted
from b70ctl.errors import B70Error, MachineError, Refused, UsageError

if TYPE_CHECKING:
    from b70ctl.edge.composer import Composer


def obstacles(here: Here, wanted: Wanted, incumbent: Release | None, observed: Observed) -> list[B70Error]:
    """Everything that stands in the way of a new release where the incumbent leaves."""
    from b70ctl.edge import draft
    from b70ctl.edge.companions import companion_files
    from b70ctl.edge.preflight import look
    from b70ctl.edge.secretfiles import secret_files

    companion_files(here.catalog.site, here.site_root)
    host = here.workshop(docker=True).host
    seen = look(wanted.deployment, host, here.daemon, leaving(observed, incumbent) | here.going,
                root=is_root(),
                store=here.store.folder)  # fmt: skip
    found = faults(wanted.deployment, wanted.written.profile, seen)
    found += draft.in_the_way(wanted.deployment, seen.missing, secret_files(here.catalog.site, here.site_root))
    return [*namesake(here, observed), *found, *refusals(here, wanted)]


def namesake(here: Here, observed: Observed) -> list[B70Error]:
    """The refusal of a site's name that another site on this box has: networks, caches and image names would mix."""
    from b70ctl.edge.places import SITE_FILE, another_site

    for container in observed.containers:
        if another_site(container.root, here.site_root):
            what = f"the site in {container.root} is called `{here.catalog.site.name}` too, and has {container.name}"
            return [Refused(what, hint=f"another `name` in {here.site_root / SITE_FILE}")]
    return []


def foreseen(here: Here, wanted: Wanted) -> list[B70Error]:
    """What can be told of patches without reading the image's files, which only a switch does."""
    from b70ctl.edge.filling import unfit
    from b70ctl.edge.secretfiles import secret_files

    accepted = here.workshop(docker=True).lock.accepted()
    patches = wanted.patches.items()
    bases = [error for name, patch in patches for error in unknown_bases(name, patch, wanted.facts, accepted)]
    hidden = secret_files(here.catalog.site, here.site_root)
    return [*bases, *unfit(unrefused(here, wanted), wanted.patches, hidden)]


def can_become(here: Here, wanted: Wanted, incumbent: Release | None, observed: Observed) -> None:
    """Raise, with everything that stands in the way, unless a new release can start."""
    if found := obstacles(here, wanted, incumbent, observed):
        raise refusal(found)


def prepare(change: Change, wanted: Wanted, number: int, *, dark: bool = False) -> Release:
    """The new release with everything that it will hold, ready to be written; Compose has read it by then."""
    from b70ctl.edge.preparing import check_with_compose

    here, world = change.here, change.world
    made = here.workshop(docker=True).prepare(wanted, number, change.command)
    made = replace(made, release=made.release.model_copy(update={"dark": dark}))
    check_with_compose(made, here.store, world.compose())
    world.prepared[made.release.id] = made
    release: Release = made.release
    return release


def can_leave(here: Here) -> None:
    """Raise where the serving engine could not be taken out of service: a hook that would not start, a full disk."""
    from b70ctl.core.preflight import cramped
    from b70ctl.edge.preflight import rooms

    hook_can_run(here)
    if found := cramped(rooms(here.store.folder, here.daemon.root(), root=is_root())):
        raise refusal(found)


def stop_is_recorded(here: Here) -> None:
    """Raise where a stop could not be written down: an engine whose stop is not is started again, and proven.

    Where Docker keeps its own things is not looked at: a stop makes nothing there.
    """
    from b70ctl.core.preflight import ROOM_FOR_STOP, cramped
    from b70ctl.edge.preflight import rooms

    if found := cramped(rooms(here.store.folder, None, root=is_root()), ROOM_FOR_STOP):
        raise refusal(found)


def hook_can_run(here: Here) -> None:
    """MachineError for a router hook whose program would not start."""
    from b70ctl.edge.process import cannot_run

    router = here.catalog.site.router
    if router and router.command and (why := cannot_run(router.command[0], here.site_root)):
        raise MachineError(f"the router hook `{router.command[0]}` {why}", hint="look at `router` in site.yaml")


def companions_fit(change: Change) -> None:
    """Raise for companions that Compose refuses, and for one that would answer in the engine's place."""
    from b70ctl.core.companions import impostors
    from b70ctl.edge.companions import companions_file, companions_project

    site, root = change.here.catalog.site, change.here.site_root
    if not site.companions:
        return
    file = companions_file(site, root, change.here.store.folder)
    document = change.world.compose().companions(file, companions_project(site))
    for name in impostors(document, site.network):
        raise UsageError(f"companion `{name}` answers to `engine` on the network {site.network}, as the engine does: "
                         "requests would go to either", hint=f"rename it in {', '.join(site.companions)}")  # fmt: skip


def can_return(change: Change, target: Release, incumbent: Release | None, observed: Observed) -> None:
    """Raise unless a kept release can start again: its card may be another site's by now, its image or a file gone."""
    from b70ctl.edge.filling import damage
    from b70ctl.edge.preflight import look
    from b70ctl.edge.startscripts import cut_short

    here = change.here
    deployment = target.deployment
    if deployment.site != here.catalog.site.name:
        raise Refused(f"release {target.id} is of `{deployment.site}`, as this site was called before",
                      hint=f"b70ctl switch {target.profile}")  # fmt: skip
    if target.kind == "adopted":
        if here.daemon.inspect(str(target.container)) is None:
            raise Refused(f"release {target.id} cannot come back: container {target.profile} is gone",
                          hint="docker ps --all")  # fmt: skip
        # what it mounts is its own affair, and need not be a path of this host
        deployment = deployment.model_copy(update={"mounts": (), "devices": ()})
    elif damaged := damage(target, here.store.release_folder(target.id)):
        raise refusal([*damaged])
    elif (there := observed.of(target.id)) is None or cut_short(target, there, here.daemon):
        _can_be_made(here, target, change.world.compose(), there)
    host = here.workshop(docker=True).host
    stops = observed.runs(target.id) or (incumbent is not None and observed.runs(incumbent.id))
    seen = look(deployment, host, here.daemon, leaving(observed, incumbent, target), root=is_root(),
                store=here.store.folder if stops else None)  # fmt: skip
    if found := [*namesake(here, observed), *faults(deployment, None, seen)]:
        raise refusal(found)


def _can_be_made(here: Here, target: Release, composer: Composer, there: Container | None) -> None:
    """Its container, or another in the place of its own, has to be made: Compose is needed, and the project's name."""
    name, own = project(here.catalog.site.name, target.id), there.id if there else None
    if foreign := [each["Name"].lstrip("/") for each in here.daemon.of_project(name) if each["Id"] != own]:
        raise Refused(f"container {foreign[0]} says that it is of {name}, and b70ctl did not make it: "
                      "remove it, if you know what it is", hint=f"docker rm {foreign[0]}")  # fmt: skip
    composer.accepts(here.store.release_folder(target.id))
