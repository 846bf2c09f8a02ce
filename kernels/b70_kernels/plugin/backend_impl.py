"""One layer's attention: stores into the quantised cache, and attends over it or over the prompt at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.platforms import current_platform
from vllm.v1.attention.backend import AttentionImpl, AttentionType

from b70_kernels import tuning
from b70_kernels.attention import attend
from b70_kernels.cache import Cache
from b70_kernels.dequantise import dequantise
from b70_kernels.quantiser import hadamard
from b70_kernels.store import store

from . import backend_room as room
from .backend_limits import check_engine, check_layer, preset_of
from .backend_metadata import B70Metadata, Joined, Step, room_for
from .backend_pages import cache_of, heads_of
from .backend_plan import LONGEST, Kind
from .backend_versions import flash_attention, flash_caps_scores


class B70TurboQuantImpl(AttentionImpl[B70Metadata]):  # type: ignore[misc]
    """Attention of one layer whose keys and values are kept as TurboQuant codes.

    A token is stored before it is attended to. Memory beyond the cache is shared by all layers, taken when the first is
    made: `backend_room.WORKSPACE` at most for dequantised tokens, and what the fused kernel's parts take for as many
    positions as can decode in a step.
    """

    supports_quant_query_input = False
    supports_dcp = False
    supports_pcp = False

    def __init__(
        self, num_heads: int, head_size: int, scale: float, num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None, sliding_window: int | None = None, kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None, attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None, **others: Any,
    ) -> None:  # fmt: skip
        """A layer as vLLM describes it. Raises Unsupported, in words, for what the kernels would compute wrongly."""
        config = get_current_vllm_config()
        self.num_heads = num_heads
        self.head_size = head_size
        self.scale = float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.kv_cache_dtype = kv_cache_dtype
        self.preset = preset_of(kv_cache_dtype)
        check_layer(
            heads=num_heads, kv_heads=self.num_kv_heads, head_size=head_size, window=sliding_window,
            alibi=alibi_slopes, attn_type=attn_type, shares_with=kv_sharing_target_layer_name, others=others,
        )  # fmt: skip
        check_engine(config)
        self.group = num_heads // self.num_kv_heads
        self.window = sliding_window or 0
        self.softcap = float(logits_soft_cap or 0.0)
        self.room = room_for(config, head_size)
        self.heads_at_once = max(1, min(self.num_kv_heads, room.WORKSPACE // (4 * self.room.rows * head_size)))
        self.flash = self.varlen_attention()
        self.flash_is_whole = not self.softcap or flash_caps_scores()
        self._seen: tuple[torch.Tensor, Cache] | None = None
        # made on the host: a graph could not hold that
        hadamard(head_size, str(torch.empty(0, device=current_platform.device_type).device))
        room.reserve(current_platform.device_type, max(
            room.scratch_bytes(self.room.positions, num_heads, head_size),
            room.rows_bytes(self.room.rows, self.heads_at_once, head_size),
        ))  # fmt: skip

    def varlen_attention(self) -> Callable[..., Any]:
        """Attention over ragged batches of plain keys and values, as vLLM's `flash_attn_varlen_func` promises it.

        For tests: a subclass may give its own where vLLM has none.
        """
        return flash_attention(self.head_size)

    def do_kv_cache_update(
        self, layer: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor,  # noqa: ARG002
    ) -> None:  # fmt: skip
        """Store this step's tokens; a slot of -1 is padding."""
        count = min(slot_mapping.shape[0], key.shape[0])
        if count:
            shape = (count, self.num_kv_heads, self.head_size)
            store(key[:count].view(shape), value[:count].view(shape), self._cache(kv_cache), slot_mapping[:count])

    def forward(
        self, layer: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor,  # noqa: ARG002
        attn_metadata: B70Metadata | None, output: torch.Tensor | None = None,
        output_scale: torch.Tensor | None = None, output_block_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Attention of the step's positions, written into `output`; rows past the last position are nobody's."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("TurboQuant's kernels do not quantise what they put out")
        if output is None:
            output = torch.zeros_like(query)
        if attn_metadata is None or not attn_metadata.num_actual_tokens:
            return output.fill_(0)
        shape = (-1, self.num_heads, self.head_size)
        queries, out = query.view(shape), output.view(shape)
        cache = self._cache(kv_cache)
        for step in attn_metadata.steps:
            if step.part.kind is Kind.FUSED:
                self._fused(step, queries, cache, attn_metadata, out)
            elif step.part.kind is Kind.PIECES or not self.flash_is_whole:
                self._pieces(step, queries, cache, attn_metadata, out)
            else:
                self._flash_step(step, queries, key, value, cache, attn_metadata, out)
        return output

    def _cache(self, tensor: torch.Tensor) -> Cache:
        if self._seen is None or self._seen[0] is not tensor:
            self._seen = tensor, cache_of(tensor, self.preset, self.head_size, self.num_kv_heads)
        return self._seen[1]

    # -- over the quantised cache --------------------------------------------------------------------------------------

    def _fused(
        self, step: Step, query: torch.Tensor, cache: Cache, batch: B70Metadata, out: torch.Tensor,
    ) -> None:  # fmt: skip
        part = step.part
        self._attend(
            query[part.begin : part.end], cache, batch.block_table[part.first : part.last],
            batch.seq_lens[part.first : part.last], step.starts, part.longest, out[part.begin : part.end],
        )  # fmt: skip

    def _attend(
        self, query: torch.Tensor, cache: Cache, table: torch.Tensor, lengths: torch.Tensor, starts: torch.Tensor,
        longest: int, out: torch.Tensor,
    ) -> None:  # fmt: skip
        config = tuning.choose(
            query.device, self.preset, self.head_size, longest * self.group,
            lengths.shape[0] * self.num_kv_heads, table.shape[1] * cache.page_size,
        )  # fmt: skip
        attend(
            query, cache, table, lengths, starts, longest, scale=self.scale, window=self.window, softcap=self.softcap,
            out=out, config=config,
            room=room.scratch(query.device, query.shape[0], self.num_heads, config.splits, self.head_size),
        )  # fmt: skip

    def _pieces(
        self, step: Step, query: torch.Tensor, cache: Cache, batch: B70Metadata, out: torch.Tensor,
    ) -> None:  # fmt: skip
        """Long requests, each 64 positions as if they were one of their own, as many at a time as there is room for."""
        part, at_once = step.part, self.room.positions // LONGEST
        for index, (begin, end) in enumerate(itertools.pairwise(step.offsets)):
            request = part.first + index
            lengths = lengths_of_pieces(batch.seq_lens[request], end - begin)
            for first in range(0, lengths.shape[0], at_once):
                some = lengths[first : first + at_once]
                low = part.begin + begin + first * LONGEST
                high = min(low + some.shape[0] * LONGEST, part.begin + end)
                starts = multiples(some.shape[0] + 1, out.device).clamp_(max=high - low)
                table = batch.block_table[request : request + 1].expand(some.shape[0], -1)
                self._attend(query[low:high], cache, table, some, starts, LONGEST, out[low:high])

    # -- over plain keys and values ------------------------------------------------------------------------------------

    def _flash_step(
        self, step: Step, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, cache: Cache,
        batch: B70Metadata, out: torch.Tensor,
    ) -> None:  # fmt: skip
        """A prompt attends to its own tokens as they are, and to those before them as they were stored."""
        rows = slice(step.part.begin, step.part.end)
        shape = (-1, self.num_kv_heads, self.head_size)
        keys, values = key.view(shape)[rows], value.view(shape)[rows]
        if step.joined is None:
            self._flash(query[rows], keys, values, step, step.starts, step.part.longest, out[rows])
            return
        for first in range(0, self.num_kv_heads, self.heads_at_once):
            last = min(first + self.heads_at_once, self.num_kv_heads)
            self._continue(step, step.joined, slice(first, last), query[rows], keys, values, cache, batch, out[rows])

    def _continue(
        self, step: Step, rows: Joined, heads: slice, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
        cache: Cache, batch: B70Metadata, out: torch.Tensor,
    ) -> None:  # fmt: skip
        """Some of the KV heads of long continuations."""
        part, count = step.part, heads.stop - heads.start
        keys, values = room.dequantised(query.device, query.dtype, part.total, count, self.head_size)
        dequantise(
            heads_of(cache, heads.start, count), batch.block_table[part.first : part.last], rows.cached,
            rows.starts[:-1], part.reach, keys, values,
        )  # fmt: skip
        keys.index_copy_(0, rows.own, key[:, heads])
        values.index_copy_(0, rows.own, value[:, heads])
        if count == self.num_kv_heads:
            self._flash(query, keys, values, step, rows.starts, part.reach, out)
            return
        of_heads = slice(heads.start * self.group, heads.stop * self.group)
        some = torch.empty_like(out[:, of_heads], memory_format=torch.contiguous_format)
        self._flash(query[:, of_heads].contiguous(), keys, values, step, rows.starts, part.reach, some)
        out[:, of_heads] = some

    def _flash(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, step: Step, key_starts: torch.Tensor,
        longest_key: int, out: torch.Tensor,
    ) -> None:  # fmt: skip
        self.flash(
            q=query, k=key, v=value, cu_seqlens_q=step.starts, cu_seqlens_k=key_starts,
            max_seqlen_q=step.part.longest, max_seqlen_k=longest_key, softmax_scale=self.scale, causal=True,
            window_size=[self.window - 1, 0] if self.window else [-1, -1], softcap=self.softcap, out=out,
        )  # fmt: skip


def lengths_of_pieces(length: torch.Tensor, positions: int) -> torch.Tensor:
    """How many tokens there are at the end of each 64 of a request's last positions; on the device, int32."""
    ends = multiples(-(-positions // LONGEST) + 1, length.device)[1:].clamp_(max=positions)
    return length - positions + ends


def multiples(count: int, device: torch.device) -> torch.Tensor:
    """0, 64, 128 and so on, int32."""
    return torch.arange(count, device=device, dtype=torch.int32) * LONGEST
