"""Whether a box is quiet enough to measure on: each question with its answer and what the answer rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from b70ctl.core.checkup.sensors import MIB, STRAY_MIB
from b70ctl.core.deployment import Value
from b70ctl.core.sockets import Socket

SHOWN = 4
AS_ROOT = "processes of other users are seen by root only"


class Sign(Value):
    """One question about the box; `quiet` is None where the answer cannot be known."""

    question: str
    quiet: bool | None
    evidence: str
    asked: bool = True
    """Whether the site gives anything to ask about; where it does not, nothing disturbs."""

    @property
    def answer(self) -> str:
        """The answer as a word."""
        if not self.asked:
            return "not asked"
        return "unknown" if self.quiet is None else "yes" if self.quiet else "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The engine's own network namespace, where connections to a published port arrive."""

    container: str
    ports: tuple[int, ...]
    """The container's ports behind the published one."""
    sockets: tuple[Socket, ...] | None
    """None where its table cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSeen:
    """One card: who has its render node open, and bytes of its memory, all and in use."""

    address: str
    holders: tuple[str, ...]
    memory: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What was looked at."""

    port: int
    host: tuple[Socket, ...] | None
    """The host's sockets; None where its table cannot be read."""
    inside: Inside | None
    """None when no engine of ours runs."""
    running: tuple[str, ...] | None
    """Names of our containers that run; None when Docker does not answer."""
    feeders: tuple[str, ...]
    load: float
    load_limit: float
    cards: tuple[CardSeen, ...]
    cardless: bool = False
    """The site serves without a card."""
    root: bool
    """Whether processes of every user can be seen."""


def signs(box: Box) -> tuple[Sign, ...]:
    """Every question, in the order in which a person would ask."""
    return (_clients(box), _feeders(box), _load(box), _ours(box), _cards(box), _memory(box))


def lasting(box: Box) -> tuple[Sign, ...]:
    """What a drain does not change: feeders that are connected to anything but the engine, and the load average."""
    beside = tuple(socket for socket in box.host or () if socket.local_port != box.port)
    return (_feeders(replace(box, inside=None, host=None if box.host is None else beside)), _load(box))


def _clients(box: Box) -> Sign:
    question = "no client is connected"
    arrived = [socket for socket in box.host or () if socket.live and socket.local_port == box.port]
    entered = _entered(box.inside) if box.inside else []
    if arrived or entered:
        where = [*(f"{socket.peer} to port {box.port}" for socket in arrived),
                 *(f"{socket.peer} inside the engine's container" for socket in entered)]  # fmt: skip
        return Sign(question=question, quiet=False, evidence=_listed(where))
    if box.host is None:
        return Sign(question=question, quiet=None, evidence="the host's table of sockets cannot be read")
    if box.running is None:
        return Sign(question=question, quiet=None, evidence="Docker does not say what runs, and connections to a "
                    "published port are seen inside its container only")  # fmt: skip
    if box.inside is None:
        return Sign(question=question, quiet=True, evidence=f"none to port {box.port}; no engine runs")
    if box.inside.sockets is None:
        return Sign(question=question, quiet=None, evidence=f"none in the host's table, and that of "
                    f"{box.inside.container}, where they arrive, cannot be read")  # fmt: skip
    return Sign(question=question, quiet=True,
                evidence=f"none to port {box.port}, and none inside {box.inside.container}")  # fmt: skip


def _entered(inside: Inside) -> list[Socket]:
    """Clients that came through the published port or over the companions' network."""
    return [
        socket
        for socket in inside.sockets or ()
        if socket.live and not socket.within and socket.local_port in inside.ports
    ]


def _feeders(box: Box) -> Sign:
    question = "no feeder is connected"
    if not box.feeders:
        return _not_asked(question, "site.yaml names none under `feeders`")
    known = [*(box.host or ()), *((box.inside.sockets or ()) if box.inside else ())]
    found = [socket.peer for socket in known if socket.live and socket.remote in box.feeders]
    if found:
        return Sign(question=question, quiet=False, evidence=_listed(found))
    if box.host is None or box.running is None or (box.inside and box.inside.sockets is None):
        return Sign(question=question, quiet=None, evidence="not every table of sockets can be read")
    return Sign(question=question, quiet=True, evidence=f"none of {', '.join(box.feeders)}")


def _load(box: Box) -> Sign:
    said = f"{box.load:.2f} over the last minute, limit {box.load_limit:g}"
    return Sign(question="the load average is low", quiet=box.load <= box.load_limit, evidence=said)


def _ours(box: Box) -> Sign:
    question = "nothing of this site runs"
    if box.running is None:
        return Sign(question=question, quiet=None, evidence="Docker does not answer")
    return Sign(question=question, quiet=not box.running, evidence=_listed(box.running) or "no container of it runs")


def _cards(box: Box) -> Sign:
    question = "nobody holds the card"
    held = [f"{card.address}: {who}" for card in box.cards for who in card.holders]
    if held:
        return Sign(question=question, quiet=False, evidence=_listed(held))
    if not box.cards:
        return _cardless(box, question)
    if not box.root:
        return Sign(question=question, quiet=None, evidence=AS_ROOT)
    return Sign(question=question, quiet=True, evidence=", ".join(card.address for card in box.cards))


def _memory(box: Box) -> Sign:
    question = "the card's memory is free"
    read = [(card.address, *card.memory) for card in box.cards if card.memory]
    told = [f"{address}: {(size - used) // MIB} of {size // MIB} MiB are free" for address, size, used in read]
    if any(used > STRAY_MIB * MIB for _, _, used in read):
        return Sign(question=question, quiet=False, evidence=_listed(told))
    if not box.cards:
        return _cardless(box, question)
    if len(read) < len(box.cards):
        said = "debugfs does not tell it" if box.root else "debugfs is read by root only"
        return Sign(question=question, quiet=None, evidence=said)
    return Sign(question=question, quiet=True, evidence=_listed(told))


def _cardless(box: Box, question: str) -> Sign:
    if box.cardless:
        return _not_asked(question, "what serves here has `cards: none`")
    return Sign(question=question, quiet=None, evidence="no card of this site is to be seen")


def _not_asked(question: str, why: str) -> Sign:
    return Sign(question=question, quiet=True, evidence=why, asked=False)


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join([*names[:SHOWN], *more])
