"""How a site stands: which release is to be replaced, what is left over, and whether anything needs to change."""

from __future__ import annotations

from collections.abc import Mapping

from b70ctl.core.deployment import Deployment
from b70ctl.core.release import Observed, Release, State, Verdict


def incumbent(state: State, observed: Observed) -> str | None:
    """The release that runs: the recorded one, else whichever of ours does."""
    if observed.runs(state.serving):
        return state.serving
    running = (item.release for item in observed.containers if not item.foreign and observed.runs(item.release))
    return next(running, None)


def leftovers(kept: Mapping[str, Release], observed: Observed, incumbent: str | None) -> tuple[str, ...]:
    """Our containers beside the incumbent's, as `stop` leaves one; those made by hand are nobody's to remove."""
    names = [item.release for item in observed.containers if not item.foreign and item.release != incumbent]
    return tuple(name for name in names if kept[name].kind == "engine")


def leaving(observed: Observed, *releases: Release | None) -> set[str]:
    """The containers that will have stopped by the time that another starts."""
    known = [release for release in releases if release]
    names = {release.id for release in known}
    ours = {item.id for item in observed.containers if item.release in names and not item.foreign}
    return ours | {release.container for release in known if release.container}


def serves_already(
    release: Release | None, wanted: Deployment, observed: Observed, verdict: Verdict | None
) -> bool:  # fmt: skip
    """Whether the wanted deployment is what runs, and was proven; one that restarts over and over does not run."""
    if release is None or release.deployment.digest != wanted.digest:
        return False
    container = observed.of(release.id)
    proven = verdict is not None and verdict.state == "proven"
    return proven and container is not None and container.state == "running"
