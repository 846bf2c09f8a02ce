"""What the kernels would compute wrongly is refused, in words that say what to do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from b70_kernels.plugin.backend_impl import B70TurboQuantImpl
from b70_kernels.plugin.backend_limits import Unsupported
from engine import Shape, backend, config_for, layer
from vllm.config import set_current_vllm_config
from world import Padding, Request, Turn, World

pytestmark = pytest.mark.feature("what the kernels are not for is refused in words")

GOOD: dict[str, Any] = {
    "num_heads": 4, "head_size": 64, "scale": 0.125, "num_kv_heads": 2, "kv_cache_dtype": "turboquant_k3v4_nc",
}  # fmt: skip


def made(config: Any, **changed: Any) -> Any:
    with set_current_vllm_config(config):
        return backend().get_impl_cls()(**GOOD | changed)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"head_size": 96}, "head size 96"),
        ({"num_kv_heads": 3}, "4 query heads over 3 KV heads"),
        ({"alibi_slopes": [0.1, 0.2, 0.3, 0.4]}, "ALiBi"),
        ({"attn_type": "encoder_only"}, "encoder_only attention"),
        ({"attn_type": "encoder_decoder"}, "encoder_decoder attention"),
        ({"kv_sharing_target_layer_name": "model.layers.1.attn"}, "the cache of model.layers.1.attn"),
        ({"sinks": torch.zeros(4)}, "sinks"),
        ({"kv_lora_rank": 512, "q_lora_rank": None}, "kv_lora_rank: TurboQuant"),
        ({"kv_cache_dtype": "fp8"}, "a cache of fp8"),
        ({"kv_cache_dtype": "auto"}, "a cache of auto"),
        ({"kv_cache_dtype": "turboquant_2bit"}, "a cache of turboquant_2bit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_layer_that_the_kernels_are_not_for_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        made(config_for(Shape()), **changed)


@pytest.mark.parametrize("what", ["decode_context_parallel_size", "prefill_context_parallel_size"])
def test_parallelism_over_a_context_is_refused(what: str) -> None:
    import copy

    config = config_for(Shape())
    config.parallel_config = copy.copy(config.parallel_config)
    setattr(config.parallel_config, what, 2)
    with pytest.raises(Unsupported, match="--" + what.replace("_", "-") + " 2"):
        made(config)


def test_a_type_that_no_kernel_takes_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"--dtype torch\.float32"):
        made(config_for(Shape(dtype=torch.float32)))


@pytest.mark.parametrize("what", ["causal", "mm_req_doc_ranges", "rswa_prefix_lens"])
def test_a_batch_that_is_not_plain_and_causal_is_refused(what: str) -> None:
    here = World(layer(Shape(), 8))
    request = Request(20)
    here.grow(request, 20)
    batch = here.metadata([Turn(request, 20)], Padding())
    if what != "causal" and not hasattr(batch, what):
        return
    setattr(batch, what, False if what == "causal" else {0: [(1, 2)]})
    with pytest.raises(Unsupported):
        here.layer.builder.build(0, batch)


def test_a_vllm_without_flash_attention_is_refused() -> None:
    with set_current_vllm_config(config_for(Shape())), pytest.raises(NotImplementedError, match="none for cpu"):
        B70TurboQuantImpl(**GOOD)


def test_what_vllm_asks_of_a_backend_is_answered() -> None:
    ours = backend()
    assert not ours.supports_kv_cache_dtype("auto")
    assert not ours.supports_kv_cache_dtype(None)
    assert ours.supports_kv_cache_dtype("turboquant_3bit_nc")
    assert ours.supports_head_size(256)
    assert not ours.supports_head_size(80)
    assert ours.get_supported_kernel_block_sizes() == [16, 32, 64]
    assert not ours.supports_sink()
    assert not ours.is_mla()
    assert not ours.supports_attn_type("encoder")
    assert not ours.forward_includes_kv_cache_update
