"""The device nodes: are they there, who may open them, who has them open."""

from __future__ import annotations

from collections.abc import Iterator

from b70ctl.core.checkup.case import AS_ROOT, Answer, Case, Device
from b70ctl.core.hostfacts import Entry, Holder, HostFacts
from b70ctl.errors import to_type


def by_path(case: Case) -> Iterator[Answer]:
    """Whether each card is found by its PCI address, as b70ctl and oneCCL look for it."""
    for card in case.cards:
        link = f"{case.facts.asked.dri}/by-path/pci-{card.address}-render"
        if case.facts.target(link):
            yield Answer("ok", f"{link} -> {card.node}", card.address)
        else:
            yield Answer("problem", f"{link} does not exist", card.address)


def render_node(case: Case) -> Iterator[Answer]:
    """Whether each card has a render node that a group may open."""
    groups = _group_names(case.facts)
    for card in case.cards:
        path, entry = _node(case, card)
        if entry is None:
            yield Answer("problem", f"no render node below {case.facts.asked.dri}", card.address)
            continue
        named = f" ({groups[entry.gid]})" if entry.gid in groups else ""
        said = f"{path} has mode {entry.mode & 0o777:04o}, group {entry.gid}{named}"
        open_to_group = entry.mode & 0o060 == 0o060 or entry.mode & 0o006 == 0o006
        yield Answer("ok" if open_to_group else "problem", said, card.address,
                     do=None if open_to_group else to_type("sudo", "chmod", "g+rw", path))  # fmt: skip


def node_access(case: Case) -> Iterator[Answer]:
    """Whether the user who looks may open each node; the container's own groups are set by b70ctl."""
    asked = case.facts.asked
    for card in case.cards:
        path, entry = _node(case, card)
        if entry is None:
            continue
        if _may_open(entry, asked.uid, asked.gids):
            yield Answer("ok", f"{'root' if asked.uid == 0 else 'this user'} may open {path}", card.address)
        else:
            name = _group_names(case.facts).get(entry.gid)
            yield Answer("problem", f"this user is not in group {entry.gid}, which owns {path}", card.address,
                         do=f"sudo usermod -aG {name} $USER, then log in again" if name else None)  # fmt: skip


def holders(case: Case) -> Iterator[Answer]:
    """Who has each card open besides this site's engine."""
    asked = case.facts.asked
    for card in case.cards:
        found = [holder for holder in asked.holders if holder.address == card.address]
        others = [holder for holder in found if not (holder.site and holder.site == asked.site)]
        if others:
            yield _held(card, others)
        elif asked.uid != 0:
            yield Answer("unknown", "processes of other users are seen by root only", card.address, do=AS_ROOT)
        else:
            yield Answer("ok", f"held by {_names(found)} of this site" if found else "nobody holds it", card.address)


def _held(card: Device, others: list[Holder]) -> Answer:
    container = next((holder.container for holder in others if holder.container), None)
    adoptable = container is not None and all(holder.container == container for holder in others)
    if adoptable:
        return Answer("problem", f"held by {_names(others)}", card.address, severity="warn",
                      do=f"b70ctl switch PROFILE --adopt {container}, or: docker stop {container}")  # fmt: skip
    pids = " ".join(str(holder.pid) for holder in others if not holder.container)
    return Answer("problem", f"held by {_names(others)}", card.address, do=f"end it: kill {pids}" if pids else None)


def _names(found: list[Holder]) -> str:
    names = [f"container {each.container}" if each.container else f"process {each.pid} ({each.process})"
             for each in found]  # fmt: skip
    return ", ".join(dict.fromkeys(names))


def _node(case: Case, card: Device) -> tuple[str, Entry | None]:
    path = card.node or ""
    if not path:
        names = case.facts.matching(f"{card.folder}/drm/renderD*")
        path = f"{case.facts.asked.dri}/{names[0].rsplit('/', 1)[-1]}" if names else ""
    entry = case.facts.entries.get(path)
    return path, entry if entry and entry.kind not in ("denied", "broken") else None


def _may_open(entry: Entry, uid: int, gids: tuple[int, ...]) -> bool:
    if uid == 0:
        return True
    if uid == entry.uid:
        return entry.mode & 0o600 == 0o600
    if entry.gid in gids:
        return entry.mode & 0o060 == 0o060
    return entry.mode & 0o006 == 0o006


def _group_names(facts: HostFacts) -> dict[int, str]:
    rows = [line.split(":") for line in (facts.text("/etc/group") or "").splitlines()]
    return {int(row[2]): row[0] for row in rows if len(row) > 2 and row[2].isdecimal()}
