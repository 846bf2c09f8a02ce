"""What served when, and what a name given to `rollback` means."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from b70ctl.core.release import Release, State, Verdict
from b70ctl.errors import Refused, UsageError


def before(state: State, served: Sequence[str], kept: Mapping[str, Release]) -> str:
    """The release that served before the serving one; `served` is oldest first."""
    found = _before(state, served, kept)
    if found is None:
        raise Refused("nothing served before, so there is nothing to go back to", hint="b70ctl history")
    return found


def _before(state: State, served: Sequence[str], kept: Collection[str]) -> str | None:
    earlier = [name for name in served if name != state.serving and name in kept]
    if state.serving in served:
        last = len(served) - 1 - list(reversed(served)).index(str(state.serving))
        earlier = [name for name in served[:last] if name != state.serving and name in kept] or earlier
    return earlier[-1] if earlier else None


def meant(
    name: str, state: State, kept: Mapping[str, Release], verdicts: Mapping[str, Verdict | None]
) -> str:  # fmt: skip
    """The release that a name means: a snapshot, else a profile, else part of the names in history.

    Within one name it is the newest proven release that is not serving. Several names are a UsageError with the list.
    """
    if name in state.snapshots:
        return _kept(name, state.snapshots[name], kept)
    if name in kept:
        return _servable(kept[name])
    kept = {each: release for each, release in kept.items() if not release.dark}
    profiles = {release.profile for release in kept.values()}
    if name in profiles:
        return _newest(name, {name}, state, kept, verdicts)
    matching = {profile for profile in profiles if name in profile}
    # names of the form before-<release> are ours, not words that a person chose
    spoken = {known: of for known, of in state.snapshots.items() if name in known and not known.startswith("before-")}
    # a snapshot of a profile that is meant anyway is no second meaning
    others = {known: of for known, of in spoken.items() if of not in kept or kept[of].profile not in matching}
    things = sorted({*matching, *others})
    if not things:
        raise UsageError(f"nothing in history is called `{name}`", hint="b70ctl history")
    if len(matching) + len(set(others.values())) > 1:
        raise UsageError(f"`{name}` may mean {', '.join(things)}", hint=f"b70ctl rollback {things[0]}")
    if others:
        return _kept(things[0], others[things[0]], kept)
    return _newest(name, matching, state, kept, verdicts)


def _kept(name: str, release: str, kept: Mapping[str, Release]) -> str:
    if release not in kept:
        raise Refused(f"snapshot `{name}` is of release {release}, whose folder is gone", hint="b70ctl history")
    return release


def _servable(release: Release) -> str:
    if release.dark:
        raise Refused(f"release {release.id} was made for a window, on port {release.deployment.address.port}, and "
                      "does not serve clients", hint=f"b70ctl switch {release.profile}")  # fmt: skip
    return release.id


def _newest(
    name: str, profiles: set[str], state: State, kept: Mapping[str, Release], verdicts: Mapping[str, Verdict | None]
) -> str:
    candidates = [release for release in kept.values() if release.profile in profiles and release.id != state.serving]
    proven = [release for release in candidates if (verdict := verdicts.get(release.id)) and verdict.state == "proven"]
    if not proven:
        count = f"{len(candidates)} other release(s) of it, none proven" if candidates else "no other release of it"
        raise Refused(f"`{name}`: history has {count}", hint="b70ctl history")
    return max(proven, key=lambda release: release.number).id


def newest_proven(
    profile: str, kept: Mapping[str, Release], verdicts: Mapping[str, Verdict | None], *, before: int | None = None
) -> Release | None:
    """The newest proven release of a profile, of those older than number `before` where it is given."""
    found = [
        release
        for release in kept.values()
        if release.profile == profile and (before is None or release.number < before)
        and (verdict := verdicts.get(release.id)) is not None and verdict.state == "proven"
    ]  # fmt: skip
    return max(found, key=lambda release: release.number, default=None)


AUTOMATIC = "before-"
"""How the names begin that a switch gives, as opposed to a person."""


def prunable(
    state: State, kept: Mapping[str, Release], served: Sequence[str], keep: int,
    verdicts: Mapping[str, Verdict | None] | None = None, unread: Collection[str] = (),
) -> dict[str, str]:  # fmt: skip
    """Releases that may go, each with the reason; never the serving one, the one before it, or a named one.

    `keep` more of each kind are kept, the newest: of those that were proven, of those that were not, and of those made
    for windows. A row of failures, or a night of measuring, must not take the ways back. Names of the form `before-…`
    protect only the releases that are kept anyway: else every switch would keep one release for ever. Of those that
    are `unread` all may go, but for the same ones: a person may know how to mend a way back.
    """
    named = {release for name, release in state.snapshots.items() if not name.startswith(AUTOMATIC)}
    protected = {*named, state.serving, _before(state, served, kept), _before(state, served, {*kept, *unread})}
    rest = sorted((r for r in kept.values() if r.id not in protected), key=lambda r: r.number, reverse=True)
    kinds: dict[str, list[Release]] = {}
    for release in rest:
        kinds.setdefault(_kind(release, (verdicts or {}).get(release.id)), []).append(release)
    gone = {r.id: kind for kind, found in kinds.items() for r in found[keep:]}
    told = {name: "cannot be read, so nothing can go back to it" for name in unread if name not in protected}
    oldest_first = (release.id for release in reversed(rest) if release.id in gone)
    return told | {name: f"older than the {keep} newest {gone[name]}, and has no name" for name in oldest_first}


def _kind(release: Release, verdict: Verdict | None) -> str:
    if release.dark:
        return "of windows"
    return "proven ones" if verdict and verdict.state == "proven" else "that were not proven"
