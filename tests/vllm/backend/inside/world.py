"""Requests in a paged cache, scheduled step by step as vLLM's runner does: its metadata, its order of calls."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import truth
from b70_kernels.plugin import backend_room
from engine import Layer, fields_of
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.utils import reorder_batch_to_split_decodes_and_prefills

NULL = 0
"""vLLM's null page: block tables are filled up with it. Here it holds nothing but NaNs."""


@dataclass
class Request:
    """What the runner knows of one."""

    prompt: int
    computed: int = 0
    """Tokens in the cache that count; drafts that were rejected do not."""
    table: list[int] = field(default_factory=list)
    rejected: int = 0
    """Drafts that the last step computed and that were rejected, which the host does not know yet."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request's share of a step."""

    request: Request
    positions: int


@dataclass(frozen=True, slots=True)
class Padding:
    """What a captured graph adds to a step."""

    requests: int = 0
    tokens: int = 0


@dataclass
class Outcome:
    """A step, and how far it is from what it has to be."""

    batch: CommonAttentionMetadata
    metadata: Any
    out: torch.Tensor
    errors: dict[str, float]
    """The largest row error by kind of request: decode, short, prompt, continuation, pieces; and of what was stored."""

    @property
    def kinds(self) -> set[str]:
        """Which kinds of requests there were."""
        return set(self.errors) - {"stored"}

    def within_gates(self, *, rounded: float = 1.0) -> bool:
        """Whether every row is as close as it has to be; `rounded`: how much coarser the model's type is than fp16."""
        gates = {"prompt": truth.PLAIN, "continuation": truth.JOINED * rounded, "stored": truth.STORED}
        return all(error <= gates.get(kind, truth.FUSED) for kind, error in self.errors.items())


class World:
    """One layer, its pages, and the requests that hold them."""

    def __init__(self, layer: Layer, seed: int = 0) -> None:
        self.layer = layer
        self.chance = random.Random(seed)
        self.numbers = torch.Generator().manual_seed(seed)
        self.free = list(range(1, layer.cache.shape[0]))
        self.chance.shuffle(self.free)

    # -- pages ---------------------------------------------------------------------------------------------------------

    def grow(self, request: Request, tokens: int) -> None:
        """Give it the pages that so many tokens need."""
        while len(request.table) * self.layer.shape.page < tokens:
            request.table.append(self.free.pop())

    def drop(self, request: Request) -> None:
        """Preempt it: its pages are others', and what was in them is gone."""
        for page in request.table:
            self.layer.cache[page] = 0xFF
        self.free.extend(request.table)
        self.chance.shuffle(self.free)
        request.table, request.computed, request.rejected = [], 0, 0

    def share(self, request: Request, tokens: int, prompt: int) -> Request:
        """Another request with the same first tokens, whose whole pages are found in the prefix cache."""
        pages = tokens // self.layer.shape.page
        return Request(prompt, computed=pages * self.layer.shape.page, table=request.table[:pages])

    def reject(self, request: Request, drafts: int) -> None:
        """Some of the last step's drafts were wrong: the tokens stay in the cache and do not count."""
        request.computed -= drafts
        request.rejected = drafts

    # -- a step --------------------------------------------------------------------------------------------------------

    def step(self, turns: Sequence[Turn], padding: Padding = Padding(), builder: Any = None) -> Outcome:
        """Run one step, and compare every row of it."""
        turns = self.ordered(turns)
        for turn in turns:
            self.grow(turn.request, turn.request.computed + turn.positions)
        batch = self.metadata(turns, padding)
        metadata = (builder or self.layer.builder).build(0, batch)
        query, key, value = self.numbers_for(batch.num_actual_tokens)
        out = self.run(metadata, batch.slot_mapping, query, key, value)
        return Outcome(batch, metadata, out, self.compared(turns, query, key, value, out))

    def ordered(self, turns: Sequence[Turn]) -> list[Turn]:
        """As vLLM's own function orders a batch."""
        batch = Batch(list(turns))
        scheduled = Scheduled({str(number): turn.positions for number, turn in enumerate(turns)})
        reorder_batch_to_split_decodes_and_prefills(batch, scheduled, self.layer.builder.reorder_batch_threshold)
        return batch.turns

    def metadata(self, turns: Sequence[Turn], padding: Padding) -> CommonAttentionMetadata:
        """What the runner tells every builder: exact lengths on the device, and on the host what it can know."""
        page = self.layer.shape.page
        counts = [turn.positions for turn in turns] + [0] * padding.requests
        lengths = [turn.request.computed + turn.positions for turn in turns] + [0] * padding.requests
        hoped = [length + turn.request.rejected for length, turn in zip(lengths, turns, strict=False)]
        hoped += [0] * padding.requests
        starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
        width = math.ceil(max(lengths) / page) + 2
        table = torch.full((len(counts), width), NULL, dtype=torch.int32)
        slots = []
        for row, turn in enumerate(turns):
            held = turn.request.table
            table[row, : len(held)] = torch.tensor(held[:width], dtype=torch.int32)
            positions = range(turn.request.computed, turn.request.computed + turn.positions)
            slots += [held[at // page] * page + at % page for at in positions]
        slots += [-1] * padding.tokens
        values = {
            "query_start_loc": starts.clone(), "query_start_loc_cpu": starts,
            "seq_lens": torch.tensor(lengths, dtype=torch.int32), "num_reqs": len(counts),
            "num_actual_tokens": len(slots), "max_query_len": max(counts), "max_seq_len": max(hoped),
            "block_table_tensor": table, "slot_mapping": torch.tensor(slots, dtype=torch.int64), "causal": True,
            "seq_lens_cpu_upper_bound": torch.tensor(hoped, dtype=torch.int32),
        }  # fmt: skip
        known = fields_of(CommonAttentionMetadata, values)
        if "seq_lens_cpu_upper_bound" not in known:
            known["_seq_lens_cpu"] = values["seq_lens_cpu_upper_bound"]
        return CommonAttentionMetadata(**known)

    def numbers_for(self, tokens: int) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values as a model has them: side by side in one tensor."""
        shape = self.layer.shape
        heads = shape.heads + 2 * shape.kv_heads
        packed = torch.randn(tokens, heads, shape.head_size, generator=self.numbers).to(shape.dtype)
        return packed.split([shape.heads, shape.kv_heads, shape.kv_heads], dim=1)

    def run(
        self, metadata: Any, slots: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    ) -> torch.Tensor:  # fmt: skip
        """Store, then attend, with scratch memory that holds nothing but NaNs; the output is not cast: float32."""
        for shared in backend_room._shared.values():
            shared.fill_(0xFF)
        layer = self.layer
        layer.impl.do_kv_cache_update(layer.module, key, value, layer.cache, slots)
        out = torch.full(query.shape, float("nan"))
        found = layer.impl.forward(layer.module, query, key, value, layer.cache, metadata, output=out)
        assert found is out, "the output is not written in place"
        return out

    def compared(
        self, turns: Sequence[Turn], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor,
    ) -> dict[str, float]:  # fmt: skip
        """The largest row errors; the requests have these tokens from here on."""
        worst: dict[str, float] = {}
        begin = 0
        for turn in turns:
            request, rows = turn.request, slice(begin, begin + turn.positions)
            length = request.computed + turn.positions
            kind = self.kind(turn)
            what = truth.Rows(query[rows], key[rows], value[rows], length, torch.tensor(request.table))
            exact = truth.expected(
                what, self.layer.pages, own=kind in ("prompt", "continuation"), scale=self.layer.impl.scale,
                window=self.layer.shape.window or 0, softcap=self.layer.shape.softcap or 0.0,
            )  # fmt: skip
            worst[kind] = max(worst.get(kind, 0.0), truth.row_error(out[rows], exact))
            worst["stored"] = max(worst.get("stored", 0.0), truth.stored_error(what, self.layer.pages))
            request.computed, request.rejected = length, 0
            begin = rows.stop
        return worst

    def kind(self, turn: Turn) -> str:
        """How a request has to be computed: what decodes reads the cache, prompts read their own tokens as they are."""
        if turn.positions <= self.layer.builder.reorder_batch_threshold:
            return "decode"
        impl = self.layer.impl
        if turn.request.computed == 0:
            return "prompt" if impl.flash_is_whole else "pieces"
        if turn.positions <= 64:
            return "short"
        fits = turn.request.computed + turn.positions <= impl.room.rows
        return "continuation" if fits and impl.flash_is_whole else "pieces"


@dataclass
class Scheduled:
    """A scheduler's output, as far as ordering reads it."""

    num_scheduled_tokens: dict[str, int]


class Batch:
    """A runner's batch, as far as ordering reads and writes it."""

    def __init__(self, turns: list[Turn]) -> None:
        self.turns = turns
        self.req_ids = [str(number) for number in range(len(turns))]
        self.num_computed_tokens_cpu = np.array([turn.request.computed for turn in turns])
        self.num_prompt_tokens = np.array([turn.request.prompt for turn in turns])

    def swap_states(self, one: int, other: int) -> None:
        """Two rows change places."""
        self.turns[one], self.turns[other] = self.turns[other], self.turns[one]
        self.req_ids[one], self.req_ids[other] = self.req_ids[other], self.req_ids[one]
