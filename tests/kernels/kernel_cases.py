"""The package under test, and calls of it on caches whose every stored and every unstored byte is known."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
from kernel_scope import DEVICE

HUGE = 2**31 - 1
SPARE = 3
"""Pages that no request has."""


@dataclass(frozen=True, slots=True)
class Kit:
    """One copy of the package: the real one, or a mutant under another name."""

    package: str = "b70_kernels"

    def __getattr__(self, name: str) -> ModuleType:
        """A module of the package."""
        return importlib.import_module(f"{self.package}.{name}")


REAL = Kit()


@dataclass(frozen=True, slots=True)
class Shape:
    """What one compiled variant is for."""

    preset: str
    layout: str = "planar"
    head_size: int = 64
    group: int = 2
    kv_heads: int = 1
    page: int = 16
    dtype: str = "float16"

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def heads(self) -> int:
        return self.group * self.kv_heads

    def __str__(self) -> str:
        return f"{self.preset}-{self.layout}-D{self.head_size}-G{self.group}-P{self.page}-{self.dtype}"


EVERY_CACHE = [Shape(preset, layout) for preset in ("k8v4", "4bit_nc", "k3v4_nc", "3bit_nc")
               for layout in ("planar", "interleaved")]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Poison:
    """What lies wherever nothing was written."""

    octet: int = 0xFF
    tail: int = -1
    """In the block table behind a request's pages."""
    number: float = float("nan")
    """In scratch, in what is written to, and in the queries of no request."""


NAN = Poison()
OTHER = Poison(0x7B, HUGE, 3.0e38)


@dataclass(frozen=True, slots=True)
class Call:
    """What attention is called with; `tokens` are the keys and values of every request as they were stored."""

    kit: Kit
    shape: Shape
    query: torch.Tensor
    cache: Any
    table: torch.Tensor
    seq_lens: torch.Tensor
    query_start: torch.Tensor
    tokens: list[tuple[torch.Tensor, torch.Tensor]] = field(repr=False)
    poison: Poison = NAN

    @property
    def longest(self) -> int:
        return int((self.query_start[1:] - self.query_start[:-1]).max())

    def asked(self, lengths: Sequence[int], q_lens: Sequence[int], query: torch.Tensor, rows: Sequence[int]) -> Call:
        """The same cache asked by other requests: of these lengths, each with the pages that row of the table has."""
        return replace(self, query=query, table=self.table[list(rows)], seq_lens=whole(lengths),
                       query_start=whole([0, *q_lens]).cumsum(0).to(torch.int32))  # fmt: skip


def whole(numbers: Sequence[int]) -> torch.Tensor:
    """int32 on the device."""
    return torch.tensor(list(numbers), dtype=torch.int32, device=DEVICE)


def config(kit: Kit, splits: int = 1, rows: int = 16, keys: int = 32, paired: bool = DEVICE == "xpu") -> Any:
    """Tile sizes that a law is tested with: small, for many borders in short contexts; paired as the device is."""
    options = kit.tuning.INTEL.options if DEVICE == "xpu" else {}
    return kit.tuning.Config(
        rows=rows, keys=keys, warps=4, stages=1, splits=splits, paired=paired, options=options,
    )  # fmt: skip


def normal(*size: int, seed: int, spread: float = 1.0) -> torch.Tensor:
    """float32 on the CPU, the same on every machine."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)) * spread


def random_tokens(shape: Shape, lengths: Sequence[int], seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Normal keys and values of every request, [length, KV heads, D]."""
    kinds = [[normal(length, shape.kv_heads, shape.head_size, seed=seed + 7919 * at + kind) for kind in range(2)]
             for at, length in enumerate(lengths)]  # fmt: skip
    return [(keys, values) for keys, values in kinds]


def spiky_tokens(shape: Shape, lengths: Sequence[int], seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Values with one large number each: what the weights lose by rounding, the other dimensions show."""
    tokens = random_tokens(shape, lengths, seed)
    for _, values in tokens:
        hot = torch.arange(values.shape[0])[:, None, None] * 5 % shape.head_size
        values.zero_().scatter_(2, hot.expand(-1, shape.kv_heads, 1), 3.0)
    return tokens


def filled(
    kit: Kit, shape: Shape, tokens: list[tuple[torch.Tensor, torch.Tensor]], poison: Poison = NAN, seed: int = 0
) -> tuple[Any, torch.Tensor]:
    """A cache with these tokens in shuffled pages, put there by the store kernel, and its block table."""
    counts = [-(-len(keys) // shape.page) for keys, _ in tokens]
    order = torch.randperm(sum(counts) + SPARE, generator=torch.Generator().manual_seed(seed)).tolist()
    table = torch.full((len(tokens), max(counts) + 2), poison.tail, dtype=torch.int32)
    slots = []
    for row, (count, (keys, _)) in enumerate(zip(counts, tokens, strict=True)):
        pages = torch.tensor([order.pop() for _ in range(count)], dtype=torch.int64)
        table[row, :count] = pages
        at = torch.arange(len(keys))
        slots.append(pages[at // shape.page] * shape.page + at % shape.page)
    cache = kit.cache.empty_cache(
        sum(counts) + SPARE, kit.presets.PRESETS[shape.preset], shape.head_size, shape.kv_heads, shape.page,
        kit.cache.Layout(shape.layout), DEVICE,
    )  # fmt: skip
    cache.pages.fill_(poison.octet)
    keys, values = (torch.cat([each[kind] for each in tokens]).to(shape.torch_dtype).to(DEVICE) for kind in range(2))
    kit.store.store(keys, values, cache, torch.cat(slots).to(DEVICE))
    return cache, table.to(DEVICE)


def call(
    kit: Kit, shape: Shape, requests: Sequence[tuple[int, int]], *, poison: Poison = NAN, seed: int = 0,
    tokens: list[tuple[torch.Tensor, torch.Tensor]] | None = None, query: torch.Tensor | None = None,
) -> Call:  # fmt: skip
    """A batch of requests, each (length, query positions), with normal queries, keys and values unless given."""
    lengths, q_lens = [length for length, _ in requests], [q_len for _, q_len in requests]
    tokens = random_tokens(shape, lengths, seed) if tokens is None else tokens
    cache, table = filled(kit, shape, tokens, poison, seed)
    if query is None:
        query = normal(sum(q_lens), shape.heads, shape.head_size, seed=seed + 1)
    return Call(kit, shape, query.to(shape.torch_dtype).to(DEVICE), cache, table, whole(lengths),
                whole([0, *q_lens]).cumsum(0).to(torch.int32), tokens, poison)  # fmt: skip


def attended(of: Call, config: Any = None, *, dtype: torch.dtype = torch.float32, **options: Any) -> torch.Tensor:
    """What the kernels answer; everything they may write to holds the poison before."""
    tokens, heads, size = of.query.shape
    splits = config.splits if config else 1
    room = of.kit.attention.scratch(tokens, heads, splits, size, of.query.device) if config else None
    for part in (room.partial, room.lse, room.rotated) if room else ():
        part.fill_(of.poison.number)
    out = torch.full(of.query.shape, of.poison.number, device=DEVICE).to(dtype)
    return of.kit.attention.attend(
        of.query,
        of.cache,
        of.table,
        of.seq_lens,
        of.query_start,
        of.longest,
        config=config,
        room=room,
        out=out,
        **options,
    )


def expected(of: Call, **options: Any) -> torch.Tensor:
    """What the law says, float64, from the stored bytes."""
    return of.kit.reference.attend(of.query, of.cache, of.table, of.seq_lens, of.query_start, **options)
