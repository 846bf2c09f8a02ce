"""Forgets an old release: its container, its image tag, its cache, its folder."""

from __future__ import annotations

from collections.abc import Mapping

from b70ctl.core.plan import Step
from b70ctl.core.release import Release
from b70ctl.edge.world import World, image_tag
from b70ctl.errors import DaemonAway, DaemonError, Refused


def forget(step: Step, world: World) -> None:
    """Everything that belongs to a release, its folder last: cut off in between, the rest is still to be found."""
    observed = world.observe()
    kept = world.store.releases()
    release = kept.get(step.subject)
    # of a release that cannot be read nobody knows which container is its own, and which cache
    named = [item for item in observed.containers if item.release == step.subject and not (release and item.foreign)]
    if any(item.state == "running" for item in named):
        raise Refused(f"release {step.subject} runs, so it is not forgotten", hint="b70ctl status")
    if release is None and step.subject not in world.store.unread():
        return
    container = observed.of(step.subject)
    if container is not None and release is not None and release.kind == "engine":
        world.daemon.remove(container.id)
    world.daemon.untag(":".join(image_tag(world.site, step.subject)))
    if release is not None:
        _forget_cache(release, kept, world)
    state = world.store.state()
    world.update_state(snapshots={name: of for name, of in state.snapshots.items() if of != step.subject})
    world.store.forget(step.subject)


def _forget_cache(release: Release, kept: Mapping[str, Release], world: World) -> None:
    volume = release.deployment.cache_volume
    if release.kind != "engine" or any(
        other.deployment.cache_volume == volume for other in kept.values() if other.id != release.id
    ):
        return
    try:
        world.daemon.remove_volume(volume)
    except DaemonAway:
        raise
    except DaemonError:
        pass  # a container of somebody's uses it; a cache is no reason to stop
