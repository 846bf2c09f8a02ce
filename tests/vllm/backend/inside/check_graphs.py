"""What a captured graph may bake in: nothing that a later step changes, and nothing that waits for the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine import Shape, layer
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.v1.attention.backend import AttentionCGSupport
from world import Padding, Request, Turn, World

pytestmark = pytest.mark.feature("captured graphs replay with other lengths")

WAITS = {"_local_scalar_dense", "is_nonzero", "nonzero", "item", "unique", "masked_select"}


class NoWaiting(TorchDispatchMode):
    """Fails where the host asks for a value that the device computes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert function.overloadpacket.__name__ not in WAITS, f"{function} waits for the device"
        return function(*args, **(kwargs or {}))


def verifying(drafts: int = 3) -> tuple[World, list[Request]]:
    here = World(layer(Shape(), 40, drafts))
    requests = [Request(30), Request(17), Request(50)]
    here.step([Turn(each, each.prompt) for each in requests])
    return here, requests


def grown(here: World, requests: list[Request]) -> list[Turn]:
    """A verification of each, with the pages that it needs."""
    for each in requests:
        here.grow(each, each.computed + 4)
    return [Turn(each, 4) for each in requests]


def test_one_capture_serves_every_later_length(note: Any) -> None:
    here, requests = verifying()
    turns = grown(here, requests)
    captured = here.metadata(turns, Padding(requests=1, tokens=4))
    captured.seq_lens.fill_(1)
    replayed = here.layer.builder.build_for_cudagraph_capture(captured)
    assert int(replayed.seq_lens.max()) == 4
    for rejected in ((0, 0, 0), (3, 1, 0), (2, 2, 2)):
        grown(here, requests)
        now = here.metadata(turns, Padding(requests=1, tokens=4))
        table = torch.zeros(now.block_table_tensor.shape[0], 8, dtype=torch.int32)
        table[:, : now.block_table_tensor.shape[1]] = now.block_table_tensor
        replayed.seq_lens.copy_(now.seq_lens)
        replayed.block_table = table
        numbers = here.numbers_for(now.num_actual_tokens)
        out = here.run(replayed, now.slot_mapping, *numbers)
        errors = here.compared(turns, *numbers, out)
        assert errors["decode"] <= 3e-4
        assert not out[12:].any()
        for each, count in zip(requests, rejected, strict=True):
            here.reject(each, count)


@pytest.mark.parametrize("lengths", [(10, 1, 1), (1, 10, 1), (1, 1, 10), (7, 3, 2)])
def test_one_capture_serves_starts_that_the_host_does_not_know(lengths: tuple[int, ...]) -> None:
    # more rows of a tile than four positions have: a graph that is captured for the host's lengths drops some
    here, requests = verifying(15)
    for each in requests:
        here.grow(each, each.computed + 16)
    # the host spreads twelve positions evenly, and knows of each request only that it has no more than the bound
    even = here.metadata([Turn(each, 4) for each in requests], Padding(requests=1))
    even.max_query_len = here.layer.builder.get_varlen_cudagraph_max_query_len(here.layer.config, here.layer.spec)
    captured = here.layer.builder.build_for_cudagraph_capture(even)
    turns = [Turn(each, count) for each, count in zip(requests, lengths, strict=True)]
    now = here.metadata(turns, Padding(requests=1))
    even.query_start_loc.copy_(now.query_start_loc)
    captured.seq_lens.copy_(now.seq_lens)
    captured.block_table = now.block_table_tensor
    numbers = here.numbers_for(12)
    out = here.run(captured, now.slot_mapping, *numbers)
    assert here.compared(turns, *numbers, out)["decode"] <= 3e-4


@pytest.mark.parametrize("drafts", [0, 3, 200])
def test_no_graph_is_promised_for_more_than_a_request_that_decodes(drafts: int) -> None:
    here = layer(Shape(), 4, drafts)
    promised = here.builder.get_varlen_cudagraph_max_query_len(here.config, here.spec)
    assert promised == here.builder.reorder_batch_threshold == min(1 + drafts, 64)


def test_nothing_waits_for_the_device_when_drafts_are_verified() -> None:
    here, requests = verifying()
    turns = grown(here, requests)
    batch = here.metadata(turns, Padding(requests=1, tokens=4))
    query, key, value = here.numbers_for(batch.num_actual_tokens)
    out = torch.empty(query.shape)
    with NoWaiting():
        metadata = here.layer.builder.build(0, batch)
        here.layer.impl.do_kv_cache_update(here.layer.module, key, value, here.layer.cache, batch.slot_mapping)
        here.layer.impl.forward(here.layer.module, query, key, value, here.layer.cache, metadata, output=out)
    assert metadata.seq_lens is batch.seq_lens
    assert torch.isfinite(out).all()


def test_verification_is_declared_as_what_a_graph_may_hold() -> None:
    here = layer(Shape(), 4, 3)
    assert here.builder.get_cudagraph_support(here.config, here.spec) is AttentionCGSupport.UNIFORM_BATCH
    assert here.builder.reorder_batch_threshold == 4
    assert layer(Shape(), 4).builder.reorder_batch_threshold == 1
    assert layer(Shape(), 4, 200).builder.reorder_batch_threshold == 64


def test_memory_is_taken_before_the_first_step_and_never_again() -> None:
    from b70_kernels.plugin import backend_room

    here, requests = verifying()
    held = {device: (shared.data_ptr(), shared.numel()) for device, shared in backend_room._shared.items()}
    here.step([Turn(each, 4) for each in requests])
    here.step([Turn(requests[0], 4), Turn(Request(90), 90)])
    assert held == {device: (shared.data_ptr(), shared.numel()) for device, shared in backend_room._shared.items()}
