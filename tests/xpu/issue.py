"""How long a card needs at least to issue a kernel's instructions: a lower bound, and a measure to compare by.

A vector engine issues one instruction a cycle at most. The loop over tiles of tokens is nearly all that runs, so

    seconds = tiles * warps * instructions of the loop / (vector engines * clock)

with one instruction stream a warp. Memory, latency, barriers and the matrix unit's own time come on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from .card import CLOCK_HZ, VECTOR_ENGINES


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch has to attend to."""

    requests: int = 4
    kv_heads: int = 4
    tokens: int = 8192

    def tiles(self, keys: int) -> int:
        """Tiles of `keys` tokens, for one block of query rows each."""
        return self.requests * self.kv_heads * -(-self.tokens // keys)


def microseconds(work: Work, keys: int, warps: int, loop: int) -> float:
    """For a kernel that needs `loop` instructions a tile and warp."""
    return work.tiles(keys) * warps * loop / (VECTOR_ENGINES * CLOCK_HZ) * 1e6
