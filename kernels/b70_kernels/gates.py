"""What the kernels are held to on a device: each gate yields the errors that it measured, and raises Wrong.

The bar is float64 computed from the stored bytes, or equal bits. A number that is not finite fails.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import attention, dequantise, reference, store, tuning
from .cache import Layout, empty_cache
from .graphs import capture
from .presets import HEAD_SIZES, PAGE_SIZES, Preset
from .workload import Batch, batch

BAR = 3e-4
"""Largest relative error of a row, before the last rounding."""
STORED = 1024
"""Tokens that are stored to be looked at."""
TIES = 0.02
"""How far what was stored may be from the law, all numbers together: codes that lie on a border fall to either side.
A step of values, or of a key's codebook, cut off and not rounded is 0.1."""
ROUNDING = {torch.float16: 2**-11, torch.bfloat16: 2**-8}


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is tried."""

    device: torch.device
    full: bool
    presets: tuple[Preset, ...]

    def batch(self, preset: Preset, seq_lens: list[int], q_lens: list[int], **more: Any) -> Batch:
        """A filled batch of the usual shape on the device, unless more says otherwise."""
        shape: dict[str, Any] = {"heads": 16, "kv_heads": 2, "head_size": 128, "device": self.device, **more}
        return batch(preset, seq_lens, q_lens, **shape)


class Wrong(AssertionError):
    """A gate that does not hold, and what was found."""


def attention_is_right(scope: Scope) -> Iterator[float]:
    """Decode and a ragged verify against float64, every preset and layout."""
    shapes = [([700, 33], [1, 1]), ([517, 1200, 64], [8, 3, 5])]
    extents: list[dict[str, Any]] = [{}]
    if scope.full:
        kinds = itertools.product(HEAD_SIZES, PAGE_SIZES, (1, 6, 8), ROUNDING)
        extents = [{"head_size": size, "page_size": page, "heads": 2 * group, "dtype": dtype}
                   for size, page, group, dtype in kinds]  # fmt: skip
    for preset, layout, (seq_lens, q_lens), extent in itertools.product(scope.presets, Layout, shapes, extents):
        of = scope.batch(preset, seq_lens, q_lens, layout=layout, **extent)
        wanted = _law(of)
        what = f"{preset.name} {layout.value} {extent or ''}"
        yield _below(BAR, _worst(_attend(of, out=_wide(of)), wanted), what)
        _below(BAR + ROUNDING[of.query.dtype], _worst(_attend(of), wanted), f"{what}, rounded")


def short_contexts_are_right(scope: Scope) -> Iterator[float]:
    """Every short length with every small number of positions, split in many parts: some parts are seen by no row."""
    longest = 600 if scope.full else 48
    for preset, splits, positions in itertools.product(
        scope.presets, (1, 7, 32), range(1, 10) if scope.full else (1, 8)
    ):
        lengths = list(range(positions, longest + 1))
        of = scope.batch(preset, lengths, [positions] * len(lengths), heads=4, kv_heads=1, head_size=64)
        what = f"{preset.name}, {splits} splits, N={positions}"
        yield _below(BAR, _worst(_attend(of, splits, _wide(of)), _law(of)), what)


def unwritten_bytes_are_not_read(scope: Scope) -> Iterator[float]:
    """The same bits, whatever lies in pages and table entries that no token was stored to; slots there hold NaN."""
    for preset in scope.presets:
        of = scope.batch(preset, [77, 33], [3, 1])
        first = _attend(of, out=_wide(of)).clone()
        needed = [-(-int(length) // of.cache.page_size) for length in of.seq_lens]
        kept = [set(row[:pages].tolist()) for row, pages in zip(of.block_table, needed, strict=True)]
        used = torch.tensor(sorted(set().union(*kept)), device=scope.device)
        held = of.cache.pages[used].clone()
        of.cache.pages.fill_(0x7E)
        of.cache.pages[used] = held
        for row, pages in zip(of.block_table, kept, strict=True):
            row[len(pages) :] = 2**30
        if not torch.equal(first, _attend(of, out=_wide(of))):
            raise Wrong(f"{preset.name}: bits changed with bytes that belong to nobody")
        yield 0.0


def verify_equals_decode(scope: Scope) -> Iterator[float]:
    """Row n of a verify is the decode at that length; with one split and one tile, bit for bit."""
    for preset in scope.presets:
        of = scope.batch(preset, [200], [4], heads=8)
        together = _attend(of, 1, _wide(of))
        for position in range(4):
            alone = Batch(of.query[position : position + 1], of.cache, of.block_table, of.seq_lens - 3 + position,
                          torch.tensor([0, 1], dtype=torch.int32, device=scope.device), 1)  # fmt: skip
            if not torch.equal(_attend(alone, 1, _wide(alone))[0], together[position]):
                raise Wrong(f"{preset.name}: position {position} differs")
            split = _attend(alone, 7, _wide(alone))
            yield _below(1e-5, _worst(split, together[position : position + 1].double()), preset.name)


def runs_agree(scope: Scope) -> Iterator[float]:
    """Twice the same call, the same bits."""
    for preset in scope.presets:
        of = scope.batch(preset, [999, 1500], [8, 8])
        if not torch.equal(_attend(of), _attend(of)):
            raise Wrong(f"{preset.name}: two runs differ")
        yield 0.0


def windows_and_caps_hold(scope: Scope) -> Iterator[float]:
    """Sliding window and soft cap."""
    choices: tuple[dict[str, Any], ...] = ({"window": 100}, {"softcap": 3.0})
    for preset, more in itertools.product(scope.presets, choices):
        of = scope.batch(preset, [513, 40], [5, 2])
        yield _below(BAR, _worst(_attend(of, out=_wide(of), **more), _law(of, **more)), f"{preset.name} {more}")


def long_contexts_are_right(scope: Scope) -> Iterator[float]:
    """One long context in few parts: sums over many tiles keep their low bits."""
    length = 65536 if scope.full else 16384
    for preset in scope.presets:
        of = scope.batch(preset, [length], [1], kv_heads=1, heads=8)
        yield _below(BAR, _worst(_attend(of, 2, _wide(of)), _law(of)), preset.name)


def stored_is_right(scope: Scope) -> Iterator[float]:
    """What was stored is what the law makes of the same keys and values, but for codes that lie on a border."""
    for preset, layout in itertools.product(scope.presets, Layout):
        generator = torch.Generator(device=scope.device).manual_seed(5)
        keys, values = (torch.randn(STORED, 2, 128, generator=generator, device=scope.device).half() for _ in range(2))
        cache = empty_cache(STORED // 16, preset, 128, 2, 16, layout, scope.device)
        store.store(keys, values, cache, torch.arange(STORED, device=scope.device))
        pages = torch.arange(STORED // 16, dtype=torch.int32, device=scope.device)
        told = reference.dequantise(cache, pages, STORED)
        for kind, found, wanted in zip(
            ("keys", "values"), told, reference.kept(keys, values, preset, layout), strict=True
        ):
            what = f"{preset.name} {layout.value}, stored {kind}"
            yield _below(TIES, float((found - wanted).norm() / wanted.norm()), what)


def dequantised_is_right(scope: Scope) -> Iterator[float]:
    """Keys and values back in fp16, within a rounding."""
    for preset, layout in itertools.product(scope.presets, Layout):
        of = scope.batch(preset, [300], [1], layout=layout)
        keys, values = (
            torch.full((300, 2, 128), float("nan"), dtype=torch.float16, device=scope.device) for _ in range(2)
        )
        zero = torch.zeros(1, dtype=torch.int32, device=scope.device)
        dequantise.dequantise(of.cache, of.block_table, of.seq_lens, zero, 300, keys, values)
        for found, wanted in zip((keys, values), reference.dequantise(of.cache, of.block_table[0], 300), strict=True):
            yield _below(BAR + ROUNDING[torch.float16], _worst(found, wanted), f"{preset.name} {layout.value}")


def graphs_replay_other_lengths(scope: Scope) -> Iterator[float]:
    """A captured graph, replayed at other lengths, gives what a new call gives."""
    for preset in scope.presets:
        of = scope.batch(preset, [900, 900], [8, 8])
        out = _wide(of)
        _attend(of, out=out)
        graph = capture(functools.partial(_attend, of, out=out), scope.device)
        if graph is None:
            return
        for lengths, starts in (([31, 900], [0, 8, 16]), ([700, 8], [0, 3, 11]), ([9, 9], [0, 1, 2])):
            of.seq_lens.copy_(torch.tensor(lengths))
            of.query_start.copy_(torch.tensor(starts))
            graph.replay()
            if not torch.equal(out, _attend(of, out=_wide(of))):
                raise Wrong(f"{preset.name}: lengths {lengths}, starts {starts} differ from a new call")
            yield 0.0


GATES: tuple[Callable[[Scope], Iterator[float]], ...] = (
    attention_is_right, short_contexts_are_right, unwritten_bytes_are_not_read, verify_equals_decode, runs_agree,
    windows_and_caps_hold, long_contexts_are_right, stored_is_right, dequantised_is_right,
    graphs_replay_other_lengths,
)  # fmt: skip


def _attend(of: Batch, splits: int | None = None, out: torch.Tensor | None = None, **more: Any) -> torch.Tensor:
    """With the table's configuration, or with so many splits."""
    config = None
    if splits is not None:
        group = of.query.shape[1] // of.cache.kv_heads
        tuned = tuning.choose(of.query.device, of.cache.preset, of.cache.head_size, of.longest_query * group, 1, 1)
        config = replace(tuned, splits=splits)
    return attention.attend(of.query, of.cache, of.block_table, of.seq_lens, of.query_start, of.longest_query,
                            config=config, out=out, **more)  # fmt: skip


def _wide(of: Batch) -> torch.Tensor:
    return torch.full(of.query.shape, float("nan"), dtype=torch.float32, device=of.query.device)


def _law(of: Batch, **more: Any) -> torch.Tensor:
    return reference.attend(of.query, of.cache, of.block_table, of.seq_lens, of.query_start, **more)


def _worst(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest relative error of a row; Wrong where a number is not finite, of the law's as well."""
    for whose, numbers in (("", found), ("the law's ", wanted)):
        if not torch.isfinite(numbers).all():
            wrong = int((~torch.isfinite(numbers)).sum())
            raise Wrong(f"{wrong} of {whose}{numbers.numel()} numbers are not finite")
    return float(((found.double() - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max())


def _below(bar: float, error: float, what: str) -> float:
    if not error <= bar:
        raise Wrong(f"{what}: relative error {error:.1e}, at most {bar:.1e} is let pass")
    return error
