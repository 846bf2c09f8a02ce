"""What a container sees of the host, and what its release carries instead."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping

from b70ctl.core import draft as drafts
from b70ctl.core import patchset, serving
from b70ctl.core.deployment import Mount, Order
from b70ctl.core.image import ImageFacts
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.core.profile import Profile
from b70ctl.core.sizes import plain
from b70ctl.errors import UsageError


def requires(profile: Profile, place: Place) -> tuple[str, ...]:
    """What must lie on the host: a model directory with its config, or the hub's copy of one."""
    draft = drafts.draft_of(profile)
    found: list[str] = []
    for model in (profile.model, draft):
        if model is None:
            continue
        folder = place.model(model.path)
        if folder:
            found.append(f"{folder}/config.json")
        elif not profile.boot.download:
            found.append(drafts.in_cache(str(model.hub), model.revision, place))
    found += (place.path(mount.source) for mount in profile.mounts if mount.carried)
    return tuple(found)


def shows(mounted: Iterable[str], hidden: Iterable[str]) -> bool:
    """Whether a mount makes readable what is to be hidden; each is given by all its names on the host.

    It does where it holds it, and where it lies in it. The models and the hub's cache, which may hold a token of the
    hub, are mounted as they are: their owner named them for that.
    """
    others = tuple(hidden)
    return any(meet(one, other) for one in mounted for other in others)


def meet(one: str, other: str) -> bool:
    """Whether two plain paths are the same, or one lies below the other."""
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)


def mounts(profile: Profile, place: Place, orders: tuple[Order, ...]) -> list[Mount]:
    """What is mounted from the host as it is; UsageError when two things have one target."""
    found = []
    draft = drafts.draft_of(profile)
    if profile.model.path is not None or (draft and draft.path is not None):
        models = place.path(str(place.site.models))
        found.append(Mount(source=models, target=serving.MODELS, read_only=True))
    if profile.model.hub is not None or (draft and draft.hub is not None):
        cache = drafts.cache(place)
        found.append(Mount(source=cache, target=serving.HF_CACHE, read_only=not profile.boot.download))
    found += (
        Mount(source=place.path(mount.source), target=mount.target, read_only=mount.read_only)
        for mount in profile.mounts
        if not mount.carried
    )
    _refuse_one_target(profile, [*(mount.target for mount in found), *(order.target for order in orders)])
    return found


def _refuse_one_target(profile: Profile, targets: Iterable[str]) -> None:
    taken = Counter([*map(plain, targets), serving.CACHE, "/dev/dri/by-path"])
    if twice := next((target for target, times in taken.items() if times > 1), None):
        own = [number for number, mount in enumerate(profile.mounts) if mount.target == twice]
        raise UsageError(f"two mounts have the target {twice}",
                         hint=f"another target for mounts.{own[-1]}, or without it" if own else None)  # fmt: skip


def orders(profile: Profile, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]) -> tuple[Order, ...]:
    """Every file that the release must bring."""
    found = patchset.orders(profile.patches, place, facts, patches)
    return (*found, *carried(profile, place), *drafts.orders(profile, place, patches))


def carried(profile: Profile, place: Place) -> tuple[Order, ...]:
    """The profile's own files that the release must bring."""
    return tuple(
        Order(kind="tree", to=f"files/mounts/{number:02}-{posixpath.basename(mount.source)}", target=mount.target,
              name="mounts", source=place.path(mount.source))
        for number, mount in enumerate(profile.mounts)
        if mount.carried
    )  # fmt: skip
