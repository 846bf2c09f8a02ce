"""Before anything starts: what was looked at, and what of it stands in the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from b70ctl.core.deployment import Deployment, Mount
from b70ctl.core.profile import Profile
from b70ctl.core.serving import MODELS
from b70ctl.errors import B70Error, MachineError, Refused, to_type

MB = 1_000_000
ROOM_FOR_RELEASE = 64 * MB
"""Free bytes below which no new release is begun: its files, its log, and the journal's lines up to the way back."""
ROOM_FOR_RECORDS = 4 * MB
"""The same for a release that lies there already."""
ROOM_FOR_STOP = MB // 10
"""The same where an engine is to stop and nothing to start: the journal's lines and the state, so that it is not
started again for want of the record. More is not asked for, since whoever stops it may do so for the disk's sake."""


@dataclass(frozen=True, slots=True)
class Room:
    """What is free on the disk under a folder."""

    folder: str
    holds: str
    free: int
    look: str
    """The command that shows what takes the room."""


@dataclass(frozen=True, slots=True)
class CardHolder:
    """Somebody who has a card that we need; `container` only where it is one that may be adopted."""

    card: str
    who: str
    container: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was found on the box, with the engine that is to be replaced left out of it."""

    image_present: bool
    port_holder: str | None = None
    port_container: str | None = None
    missing: tuple[str, ...] = ()
    """Host paths that would be mounted and do not exist."""
    nearest: Mapping[str, str] = field(default_factory=dict)
    """What of each is there."""
    lost: tuple[tuple[str, str], ...] = ()
    """Links on the way to what must be there that lead nowhere inside the container, and where they lead."""
    holders: tuple[CardHolder, ...] = ()
    rooms: tuple[Room, ...] = ()
    """Looked at where an engine is to be stopped."""


def faults(deployment: Deployment, profile: Profile | None, seen: Seen) -> list[B70Error]:
    """Everything that stands in the way, the most basic first; a release that is kept needs no profile any more."""
    found: list[B70Error] = []
    wheres = {need.what: need.where for need in profile.needs} if profile else {}
    if not seen.image_present:
        where = wheres.get(deployment.image_ref, to_type("docker", "pull", deployment.image_ref))
        found.append(Refused(f"Docker does not have the image {deployment.image_ref}", hint=where))
    found += [_absent(path, deployment, wheres, seen.nearest.get(path)) for path in seen.missing]
    found += [lost_link(link, target, deployment.mounts) for link, target in seen.lost]
    if seen.port_holder:
        found.append(_port(deployment, seen))
    found += [_card(holder) for holder in seen.holders]
    need = ROOM_FOR_RELEASE if profile else ROOM_FOR_RECORDS
    found += cramped(seen.rooms, need)
    if deployment.card_count and not deployment.cards:
        found.append(MachineError("no card was found, and the profile needs one", hint="ls -l /dev/dri/by-path"))
    return found


def cramped(rooms: Iterable[Room], need: int = ROOM_FOR_RECORDS) -> list[B70Error]:
    """Disks that have too little room for an engine to be stopped."""
    return [_full(room, need) for room in rooms if room.free < need]


def _absent(path: str, deployment: Deployment, wheres: dict[str, str], nearest: str | None) -> B70Error:
    what, folder = f"{path} does not exist", path.removesuffix("/config.json")
    if path in (source for source, _ in deployment.devices):
        return MachineError(f"{what}, and `dri` in site.yaml names it", hint="ls -l /dev/dri/by-path")
    where = next((where for name, where in wheres.items() if folder.endswith(name)), None)
    return Refused(what, hint=where or to_type("ls", nearest or folder.rpartition("/")[0] or "/"))


def lost_link(link: str, target: str, mounts: Iterable[Mount]) -> B70Error:
    """A link on the way to what must be there that leads nowhere inside the container."""
    hint = "mount what it leads to at the same path: mounts"
    models = next((mount.source for mount in mounts if mount.target == MODELS), None)
    if models and link.startswith(f"{models}/"):
        # of a model's own file all the others are links too
        folder = link.removesuffix("/config.json")
        before = folder.removeprefix(f"{models}/")
        hint = (f"{to_type('cp', '-rL', folder, f'{folder}-copied')}, and in the profile's `path` "
                f"{before}-copied in place of {before}; or {hint}")  # fmt: skip
    return Refused(
        f"{link} is a link to {target}, which the container does not have: the engine would not find it", hint=hint
    )


def _port(deployment: Deployment, seen: Seen) -> B70Error:
    address = deployment.address
    adopt = f"{_adopt(seen.port_container)}; or " if seen.port_container else ""
    hint = f"{adopt}give another port with --port N"
    return Refused(f"port {address.port} on {address.bind} is taken by {seen.port_holder}", hint=hint)


def _adopt(container: str) -> str:
    # in words: which command was typed is not known here
    return f"switch with --adopt {container}, if that is the engine to be replaced"


def _card(holder: CardHolder) -> B70Error:
    hint = _adopt(holder.container) if holder.container else None
    return Refused(f"card {holder.card} is held by {holder.who}", hint=hint)


def _full(room: Room, need: int) -> B70Error:
    free = f"{room.free / MB:.1f} MB are free in {room.folder}, where {room.holds}"
    return MachineError(f"{free}; {need / MB:g} MB are needed before an engine is stopped", hint=room.look)


def refusal(found: list[B70Error]) -> B70Error:
    """One error that tells all of them; its exit code is the first's."""
    first, *rest = found
    if not rest:
        return first
    told = "\n".join(f"  {error.what}" + (f" ({error.hint})" if error.hint else "") for error in found)
    joined = type(first)(f"{len(found)} things stand in the way, and nothing was touched:\n{told}")
    joined.exit_code = first.exit_code
    return joined
