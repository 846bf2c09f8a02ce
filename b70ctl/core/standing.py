"""How a site stands: which release is to be replaced, what is left over, and whether anything needs to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b70ctl.core.deployment import Deployment
from b70ctl.core.plan import Plan, Step, Verb
from b70ctl.core.release import Observed, Release, State, Verdict


def resting(state: State) -> str | None:
    """Why the engine is not to be followed now, as its owner left the site; None when it is."""
    if state.drained:
        return f"the site is drained since {state.drained.at}"
    if state.stopped:
        return "the engine is stopped as its owner asked"
    return None if state.serving else "nothing serves at this site"


def down(release: str, observed: Observed) -> tuple[str, str] | None:
    """Why a release cannot serve, as its container shows, and what starts it; None where its container is up."""
    container = observed.of(release)
    if container is None:
        return f"the container of {release} is gone", "b70ctl start"
    if container.state in ("running", "paused"):
        return None
    if container.state == "restarting":
        again = f"{release} ends over and over, with exit {container.exit_code}, and Docker starts it again"
        return again, "b70ctl restart"
    return f"{release} has ended, with exit {container.exit_code}", "b70ctl start"


def paused(release: str, observed: Observed) -> tuple[str, str] | None:
    """Why a release whose container is paused answers nobody, and what goes on with it; None where it is not paused."""
    container = observed.of(release)
    if container is None or container.state != "paused":
        return None
    return f"{release} is paused, so it answers nobody", f"docker unpause {container.name}"


def incumbent(state: State, observed: Observed) -> str | None:
    """The release that runs: the recorded one, else whichever of ours does."""
    if observed.runs(state.serving):
        return state.serving
    running = (item.release for item in observed.containers if not item.foreign and observed.runs(item.release))
    return next(running, None)


def called_otherwise(
    state: State, cut: Plan | None, kept: Mapping[str, Release], name: str
) -> Release | None:  # fmt: skip
    """A release that is at work, or of a command that was cut off, from when the site had another name.

    Its containers carry that name, and would not be found: another engine would be started beside it. What was stopped
    for good is nobody's concern, so a site that is stopped may be renamed.
    """
    names = [] if state.stopped and not (state.drained or cut) else [state.serving]
    if cut:
        names += [cut.wanted, cut.incumbent, *cut.tried]
    found = (kept[each] for each in names if each and each in kept)
    return next((release for release in found if release.deployment.site != name), None)


def leftovers(kept: Mapping[str, Release], observed: Observed, incumbent: str | None) -> tuple[str, ...]:
    """Our containers beside the incumbent's, as `stop` leaves one; those made by hand are nobody's to remove."""
    names = [item.release for item in observed.containers if not item.foreign and item.release != incumbent]
    return tuple(name for name in names if kept[name].kind == "engine")


def after(steps: Sequence[Step], observed: Observed) -> Observed:
    """What Docker will show once these steps were done; a container that is not there yet is not foreseen."""
    states: dict[str, str] = {}
    for step in steps:
        if step.verb is Verb.START:
            states[step.subject] = "running"
        elif step.verb in (Verb.STOP, Verb.REMOVE, Verb.DISCARD):
            states[step.subject] = "exited"
    return Observed(containers=tuple(
        item if item.foreign or item.release not in states else item.model_copy(update={"state": states[item.release]})
        for item in observed.containers
    ))  # fmt: skip


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
