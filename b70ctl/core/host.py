"""What is known of the box: its cards and the groups that may open them."""

from __future__ import annotations

from dataclasses import dataclass

INTEL = "0x8086"
INTEGRATED = frozenset({"0000:00:02.0"})
"""Intel puts its integrated graphics at this address; Level Zero counts it, b70ctl does not serve from it."""


@dataclass(frozen=True, slots=True)
class Card:
    """One render node of a graphics card."""

    address: str
    """PCI address, for example `0000:03:00.0`."""
    node: str
    """Path of its render node."""
    gid: int
    """Group that owns the node."""
    vendor: str | None = None
    """PCI vendor from sysfs; none where sysfs does not know the address."""


@dataclass(frozen=True, slots=True)
class Host:
    """The cards below one dri path, in PCI order; empty where there is none."""

    cards: tuple[Card, ...] = ()

    @property
    def level_zero(self) -> tuple[Card, ...]:
        """The cards that Level Zero counts, in its order: Intel's, by PCI address."""
        return tuple(card for card in self.cards if card.vendor in (None, INTEL))

    @property
    def usable(self) -> tuple[Card, ...]:
        """The cards that a model can be served from."""
        return tuple(card for card in self.level_zero if card.address not in INTEGRATED)

    @property
    def gids(self) -> tuple[int, ...]:
        """Groups of the usable cards' nodes."""
        return tuple(sorted({card.gid for card in self.usable}))
