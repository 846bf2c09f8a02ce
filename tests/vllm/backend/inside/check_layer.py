"""vLLM's own attention layer, called as a model calls it: its custom operators, its forward context, its output."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import truth
from engine import NAME, Shape, layer
from vllm.config import set_current_vllm_config
from vllm.forward_context import set_forward_context
from world import Padding, Request, Turn, World

pytestmark = pytest.mark.feature("through vLLM's own attention layer")

ROUNDED = 2**-11
"""Half of fp16's last place, of every element."""


def test_the_whole_way_through_vllms_layer_is_right() -> None:
    here = World(layer(Shape(), 40, 3))
    old, new = Request(40), Request(70)
    here.step([Turn(old, 40)])
    turns = here.ordered([Turn(new, 70), Turn(old, 4)])
    for turn in turns:
        here.grow(turn.request, turn.request.computed + turn.positions)
    batch = here.metadata(turns, Padding())
    numbers = here.numbers_for(batch.num_actual_tokens)
    out = through_the_layer(here, batch, numbers)
    errors = here.compared(turns, *numbers, out)
    assert set(errors) == {"decode", "prompt", "stored"}
    assert errors["decode"] <= truth.FUSED + ROUNDED
    assert errors["prompt"] <= truth.PLAIN + ROUNDED


def through_the_layer(here: World, batch: Any, numbers: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The layer's `forward`, with the cache bound as the runner binds it."""
    module, config = here.layer.module, here.layer.config
    metadata = {NAME: here.layer.builder.build(0, batch)}
    module.kv_cache = [here.layer.cache] if isinstance(module.kv_cache, list) else here.layer.cache
    with (
        set_current_vllm_config(config),
        set_forward_context(metadata, config, slot_mapping={NAME: batch.slot_mapping}),
    ):
        flat = [each.reshape(each.shape[0], -1) for each in numbers]
        return module(*flat).view(batch.num_actual_tokens, here.layer.shape.heads, -1)
