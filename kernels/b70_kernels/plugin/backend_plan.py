"""How a batch is cut up on the host: which requests are computed by which kernel, and how many at a time.

Host numbers choose a kernel and bound memory; which tokens a query sees is decided on the device alone. A bound that is
too long therefore costs time and never changes a result.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

LONGEST = 64
"""Query positions of one request that the fused kernel takes."""


class Kind(enum.Enum):
    """By what a part of the batch is computed."""

    FUSED = "fused"
    """Attention over the quantised cache: decode, verify, and whatever else has few positions."""
    FRESH = "fresh"
    """Prompts from their first token on: FlashAttention over the keys and values at hand."""
    CONTINUED = "continued"
    """Long parts of prompts with tokens before them: those are dequantised, then FlashAttention."""
    PIECES = "pieces"
    """The same where that would not fit: attention over the quantised cache, 64 positions at a time."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive requests that are computed together."""

    kind: Kind
    first: int
    last: int
    """Requests [first, last)."""
    begin: int
    end: int
    """Their query positions in the batch, [begin, end)."""
    longest: int
    """Bounds the query positions of each."""
    reach: int
    """Bounds the length of each."""
    total: int
    """Bounds the sum of their lengths."""


@dataclass(frozen=True, slots=True)
class Room:
    """What fits at a time."""

    rows: int
    """Dequantised tokens."""
    positions: int
    """Query positions of the fused kernel, beyond the requests that decode."""


def parts_after(decodes: int, starts: Sequence[int], lengths: Sequence[int], room: Room) -> Iterator[Part]:
    """What comes after the requests that decode, in order.

    starts: where each request's query positions start, and where the last ends; lengths: an upper bound on each
    request's tokens, positions included. A request without positions belongs to no part.
    """
    open_part: Part | None = None
    for request in range(decodes, len(lengths)):
        begin, end = starts[request], starts[request + 1]
        if begin == end:
            continue
        length = lengths[request]
        kind = kind_of(end - begin, length, room)
        alone = Part(kind, request, request + 1, begin, end, end - begin, length, length)
        if open_part is not None and joins(open_part, alone, room):
            open_part = replace(
                open_part, last=request + 1, end=end, longest=max(open_part.longest, alone.longest),
                reach=max(open_part.reach, length), total=open_part.total + length,
            )  # fmt: skip
            continue
        if open_part is not None:
            yield open_part
        open_part = alone
    if open_part is not None:
        yield open_part


def kind_of(positions: int, length: int, room: Room) -> Kind:
    """Of one request. A fresh one is certain: its length lies between its positions and its bound."""
    if positions == length:
        return Kind.FRESH
    if positions <= LONGEST:
        return Kind.FUSED
    return Kind.CONTINUED if length <= room.rows else Kind.PIECES


def joins(part: Part, other: Part, room: Room) -> bool:
    """Whether a request may be computed with those before it."""
    if part.kind is not other.kind or part.end != other.begin or part.last != other.first:
        return False
    if part.kind is Kind.FUSED:
        return other.end - part.begin <= room.positions
    if part.kind is Kind.CONTINUED:
        return part.total + other.total <= room.rows
    return part.kind is Kind.FRESH
