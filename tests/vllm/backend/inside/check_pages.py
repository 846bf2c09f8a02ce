"""The cache is the one that this vLLM allots: the same bytes a page, wherever its dimensions stand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from b70_kernels.plugin.backend_pages import cache_of
from b70_kernels.plugin.backend_versions import HEADS_FIRST, release
from b70_kernels.presets import HEAD_SIZES, PRESETS
from engine import Shape, backend, cache_for, layer
from world import Request, Turn, World

pytestmark = pytest.mark.feature("the cache is the release's own")


@pytest.mark.parametrize("head_size", HEAD_SIZES)
@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_page_is_as_large_as_vllm_counts_it(preset: str, head_size: int) -> None:
    for page in (16, 64):
        here = layer(Shape(preset, head_size=head_size, page=page), 3)
        assert here.spec.page_size_bytes == here.pages.page_bytes
        assert here.pages.page_size == page


@pytest.mark.skipif(release() < (0, 20), reason="0.19 knows no TurboQuant")
@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_slot_is_as_large_as_vllms_own(preset: str) -> None:
    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig

    for size in HEAD_SIZES:
        theirs = TurboQuantConfig.from_cache_dtype(f"turboquant_{preset}", size).slot_size_aligned
        assert theirs == PRESETS[preset].slot_bytes(size)


@pytest.mark.skipif(not (0, 20) <= release() < (0, 29), reason="these releases ask a backend for its shape")
def test_the_shape_is_vllms_own() -> None:
    from vllm.v1.attention.backends.turboquant_attn import TurboQuantAttentionBackend

    asked = (7, 32, 4, 128)
    for preset in PRESETS:
        theirs = TurboQuantAttentionBackend.get_kv_cache_shape(*asked, cache_dtype_str=f"turboquant_{preset}")
        assert backend().get_kv_cache_shape(*asked, cache_dtype_str=f"turboquant_{preset}") == theirs


@pytest.mark.skipif(release() < (0, 28), reason="earlier releases know TurboQuant's slots themselves")
def test_a_spec_is_customised_as_vllms_own_backend_does() -> None:
    from vllm.v1.attention.backends.turboquant_attn import TurboQuantAttentionBackend

    here = layer(Shape("3bit_nc"), 3)
    spec = here.module.get_kv_cache_spec(here.config)
    ours = backend().customize_spec(spec)
    assert ours == TurboQuantAttentionBackend.customize_spec(spec)
    assert backend().customize_spec(ours) is ours


@pytest.mark.skipif(release() < (0, 29), reason="earlier releases know no layouts")
def test_the_layout_is_vllms_own() -> None:
    from vllm.v1.attention.backends.turboquant_attn import TurboQuantAttentionBackend

    assert backend().supported_kv_cache_layouts() == TurboQuantAttentionBackend.supported_kv_cache_layouts()


def test_pages_may_lie_apart(note: Any) -> None:
    here = layer(Shape(), 2)
    apart = cache_for(here.spec, 24, apart=48)
    here.cache = apart
    world = World(here)
    request = Request(150)
    for positions in (70, 78, 1):
        outcome = note(world.step([Turn(request, positions)]))
        assert outcome.within_gates(), outcome.errors
    size = here.pages.page_bytes
    between = torch.as_strided(apart, (24, 48), (apart.stride(0), 1), size)
    assert bool((between == 0xFF).all())


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(4, 16, 3, 102, dtype=torch.uint8), torch.zeros(4, 16, 2, 64, dtype=torch.uint8),
        torch.zeros(4, 16, 2 * 62, dtype=torch.uint8), torch.zeros(4, 16, 2, 124, dtype=torch.uint8)[..., ::2],
    ],
    ids=["heads", "slot", "dimensions", "strides"],
)  # fmt: skip
def test_a_cache_of_another_kind_is_refused(wrong: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="cache"):
        cache_of(wrong, PRESETS["k3v4_nc"], 64, 2)


def test_the_order_of_dimensions_is_the_releases() -> None:
    shape = backend().get_kv_cache_shape(5, 32, 2, 64, cache_dtype_str="turboquant_k8v4")
    assert shape == ((5, 2, 32, 100) if release() >= HEADS_FIRST else (5, 32, 2, 100))
