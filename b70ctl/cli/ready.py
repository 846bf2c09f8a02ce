"""Before anything is stopped: whether what is to start can start on this box, now."""

from __future__ import annotations

from b70ctl.cli.here import Here, is_root
from b70ctl.cli.linting import refusals
from b70ctl.core.preflight import faults, refusal
from b70ctl.core.release import Observed, Release
from b70ctl.edge.preparing import Wanted
from b70ctl.errors import Refused


def can_become(here: Here, wanted: Wanted, incumbent: Release | None, observed: Observed) -> None:
    """Raise, with everything that stands in the way, unless a new release can start where the incumbent leaves."""
    from b70ctl.edge.companions import companion_files
    from b70ctl.edge.preflight import look

    companion_files(here.catalog.site, here.site_root)
    host = here.workshop(docker=True).host
    seen = look(wanted.deployment, wanted.facts, host, here.daemon, _leaving(observed, incumbent), root=is_root())
    found = [*faults(wanted.deployment, wanted.written.profile, seen), *refusals(here, wanted)]
    if found:
        raise refusal(found)


def can_return(here: Here, target: Release, incumbent: Release | None, observed: Observed) -> None:
    """Raise unless a kept release can start again: its card may be another site's by now, and its image gone."""
    from b70ctl.edge.preflight import look

    deployment = target.deployment
    if target.kind == "adopted":
        if here.daemon.inspect(str(target.container)) is None:
            raise Refused(f"release {target.id} cannot come back: container {target.profile} is gone",
                          hint="docker ps --all")  # fmt: skip
        # what it mounts is its own affair, and need not be a path of this host
        deployment = deployment.model_copy(update={"mounts": (), "devices": ()})
    host = here.workshop(docker=True).host
    seen = look(deployment, None, host, here.daemon, _leaving(observed, incumbent, target), root=is_root())
    if found := faults(deployment, None, seen):
        raise refusal(found)


def _leaving(observed: Observed, *releases: Release | None) -> set[str]:
    """The containers that will have stopped by then."""
    known = [release for release in releases if release]
    ours = {
        item.id for item in observed.containers for release in known if item.release == release.id and not item.foreign
    }
    return ours | {release.container for release in known if release.container}
