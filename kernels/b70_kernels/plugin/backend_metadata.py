"""What the attention of one step needs to know, built once for all layers of a group."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from vllm.v1.attention.backend import (
    AttentionCGSupport,
    AttentionMetadata,
    AttentionMetadataBuilder,
    CommonAttentionMetadata,
)
from vllm.v1.attention.backends.utils import split_decodes_and_prefills

from . import backend_room
from .backend_limits import check_batch, check_engine
from .backend_plan import LONGEST, Kind, Part, Room, parts_after
from .backend_versions import longest_lengths


@dataclass(frozen=True, slots=True)
class Joined:
    """Where long continuations put their tokens; all on the device, from its lengths."""

    cached: torch.Tensor
    """[requests] int32: tokens before the ones at hand."""
    starts: torch.Tensor
    """[requests + 1] int32: where each request's tokens start, cached ones first."""
    own: torch.Tensor
    """[positions] int64: the rows of the tokens at hand."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the batch, with what is needed to compute it."""

    part: Part
    starts: torch.Tensor
    """[requests + 1] int32 on the device: where query positions start, from the part's first on."""
    offsets: tuple[int, ...] = ()
    """The same on the host, for parts that read prompts: no draft is rejected there, so both agree."""
    joined: Joined | None = None


@dataclass
class B70Metadata(AttentionMetadata):  # type: ignore[misc]
    """One step's batch: what the layers read, as vLLM reads nothing of another's metadata (looked up up to 0.33).

    Lengths and starts are the runner's own tensors on the device, never a copy of the host's.
    """

    seq_lens: torch.Tensor
    block_table: torch.Tensor
    num_actual_tokens: int
    steps: tuple[Step, ...]


class B70MetadataBuilder(AttentionMetadataBuilder[B70Metadata]):  # type: ignore[misc]
    """Cuts a batch into a part that decodes and parts that read prompts.

    Requests of 1 to 1 + drafts positions decode, verification included. For a batch of nothing else, no host length is
    read and nothing is launched, so that it can be captured in a graph and replayed with other lengths.
    """

    _cudagraph_support: ClassVar[AttentionCGSupport] = AttentionCGSupport.UNIFORM_BATCH

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        check_engine(vllm_config)
        self._set_threshold()
        self.room = room_for(vllm_config, kv_cache_spec.head_size)

    def _set_threshold(self) -> None:
        """The longest request that decodes: vLLM's own count, as far as the kernel goes."""
        self._init_reorder_batch_threshold(1, supports_spec_as_decode=True)
        self.reorder_batch_threshold: int = decode_length(self.reorder_batch_threshold)

    @classmethod
    def get_varlen_cudagraph_max_query_len(cls, vllm_config: Any, kv_cache_spec: Any) -> int | None:  # noqa: ARG003
        """The longest request that decodes, and so the most that any graph is captured for (0.31 and later ask).

        A graph that was captured with a `max_query_len` up to this takes requests of any lengths up to that: they are
        read on the device.
        """
        asked = cls.__new__(cls)
        asked.vllm_config = vllm_config
        asked._set_threshold()  # noqa: SLF001 - one of this class
        return asked.reorder_batch_threshold

    def build_for_cudagraph_capture(self, common_attn_metadata: CommonAttentionMetadata) -> B70Metadata:
        """As `build`, with lengths that make the capture short; a replay finds others in the same tensor."""
        built = self.build(0, common_attn_metadata)
        built.seq_lens.fill_(max(1, common_attn_metadata.max_query_len))
        return built

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False,  # noqa: ARG002
    ) -> B70Metadata:  # fmt: skip
        """Metadata of one step. Raises Unsupported for a batch that is not plain causal attention."""
        batch = common_attn_metadata
        check_batch(batch)
        decodes, _, positions, _ = split_decodes_and_prefills(batch, decode_threshold=self.reorder_batch_threshold)
        parts = self._prompts(batch, decodes) if decodes < batch.num_reqs else []
        if decodes:
            # the host may not know how many drafts each request kept: bounded by the batch, not by its rows
            longest = min(max(1, batch.max_query_len), self.reorder_batch_threshold)
            parts.insert(0, Part(Kind.FUSED, 0, decodes, 0, positions, longest, batch.max_seq_len, 0))
        return B70Metadata(
            seq_lens=batch.seq_lens, block_table=batch.block_table_tensor, num_actual_tokens=batch.num_actual_tokens,
            steps=tuple(step_of(part, batch) for part in parts),
        )  # fmt: skip

    def _prompts(self, batch: CommonAttentionMetadata, decodes: int) -> list[Part]:
        starts = batch.query_start_loc_cpu.tolist()
        bounds = longest_lengths(batch)
        lengths = [batch.max_seq_len] * batch.num_reqs if bounds is None else bounds[: batch.num_reqs].tolist()
        counts = [end - begin for begin, end in itertools.pairwise(starts)]
        # a bound that cannot be one, from a runner that does not fill it in, is none
        lengths = [
            length if length >= count else batch.max_seq_len for length, count in zip(lengths, counts, strict=False)
        ]
        return list(parts_after(decodes, starts, lengths, self.room))


def step_of(part: Part, batch: CommonAttentionMetadata) -> Step:
    """A part with its tensors."""
    starts = batch.query_start_loc[part.first : part.last + 1]
    if part.begin:
        starts = starts - part.begin
    if part.kind is Kind.FUSED:
        return Step(part, starts)
    offsets = tuple((batch.query_start_loc_cpu[part.first : part.last + 1] - part.begin).tolist())
    if part.kind is not Kind.CONTINUED:
        return Step(part, starts, offsets)
    return Step(part, starts, offsets, joined(batch.seq_lens[part.first : part.last], starts, offsets[-1]))


def joined(seq_lens: torch.Tensor, starts: torch.Tensor, positions: int) -> Joined:
    """Rows for cached tokens and the ones at hand, request after request; nothing waits for the device."""
    cached = seq_lens - (starts[1:] - starts[:-1])
    before = cached.cumsum(0)
    ends = starts.clone()
    ends[1:] += before
    position = torch.arange(positions, device=starts.device, dtype=starts.dtype)
    request = torch.bucketize(position, starts[1:], right=True)
    return Joined(cached, ends, position + before[request])


def decode_length(threshold: int | None) -> int:
    """How many positions a request may have and still decode."""
    return min(threshold or 1, LONGEST)


def room_for(config: Any, head_size: int) -> Room:
    """What fits at a time: alike for a builder and for the layers that took the memory."""
    rows = min(config.model_config.max_model_len, backend_room.WORKSPACE // (4 * head_size))
    return Room(rows, positions_for(config))


def positions_for(config: Any) -> int:
    """Query positions of the fused kernel: every request with all its drafts, and 512 where a step has so many."""
    scheduler, speculation = config.scheduler_config, config.speculative_config
    # twice the drafts: parallel drafting verifies and drafts in one request
    each = 1 if speculation is None else decode_length(1 + 2 * (speculation.num_speculative_tokens or 0))
    wanted = max(512, scheduler.max_num_seqs * each)
    # whole graphs are captured at sizes that are multiples of 8
    return -(-min(wanted, max(LONGEST, scheduler.max_num_batched_tokens)) // LONGEST) * LONGEST
