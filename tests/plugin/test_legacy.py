import dataclasses
import importlib
import sys
import types
from types import SimpleNamespace
from typing import Any

import pytest
from b70_kernels.plugin import legacy
from b70_kernels.presets import CACHE_TYPES, PRESETS
from hypothesis import given
from hypothesis import strategies as st

LEGACY_SPEC = "b70_kernels.plugin.legacy_spec"


@given(st.integers(1, 200), st.lists(st.integers(0, 199).map(str) | st.just("sliding_window"), max_size=5))
def test_two_layers_at_either_end_are_kept_and_never_more_than_half_for_that(layers: int, asked: list[str]) -> None:
    kept = legacy.with_boundary(asked, layers)
    ends = {str(number) for number in range(layers) if min(number, layers - 1 - number) < min(2, layers // 2)}
    assert set(kept) == ends | set(asked)
    assert len(kept) == len(set(kept))
    assert len(ends) <= 4


def test_boundary_layers_stand_in_order_and_names_behind_them() -> None:
    assert legacy.with_boundary(["sliding_window", "10"], 48) == ["0", "1", "10", "46", "47", "sliding_window"]


def asked(dtype: str | None, **given: Any) -> SimpleNamespace:
    return SimpleNamespace(
        kv_cache_dtype=dtype, **{"attn_type": "decoder", "use_mla": False, "use_sparse": False, **given}
    )


@pytest.fixture
def routed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A platform's decision with the route around it; layers are not taught here."""
    monkeypatch.setitem(sys.modules, LEGACY_SPEC, SimpleNamespace(teach_attention=lambda: None))
    monkeypatch.setattr(
        importlib.import_module("b70_kernels.plugin"), "legacy_spec", sys.modules[LEGACY_SPEC], raising=False
    )
    monkeypatch.setitem(
        sys.modules, "vllm.platforms", SimpleNamespace(current_platform=SimpleNamespace(is_xpu=lambda: False))
    )
    return lambda config: legacy._routed(lambda _cls, _selected, _config: "vllm's own")(object, None, config)


@pytest.mark.parametrize("dtype", CACHE_TYPES)
def test_turboquant_is_sent_to_us(routed: Any, dtype: str) -> None:
    assert routed(asked(dtype)) == legacy.BACKEND


@pytest.mark.parametrize(
    "config", [asked("auto"), asked("fp8"), asked(None), asked("turboquant_k8v4", attn_type="encoder")]
)
def test_everything_else_goes_where_it_went(routed: Any, config: SimpleNamespace) -> None:
    assert routed(config) == "vllm's own"


@pytest.mark.parametrize("kind", ["use_mla", "use_sparse"])
def test_latent_attention_is_refused_in_words(routed: Any, kind: str) -> None:
    with pytest.raises(ValueError, match="turboquant_k8v4 is not for models with latent attention"):
        routed(asked("turboquant_k8v4", **{kind: True}))


def config(dtype: str, *, hybrid: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        cache_config=SimpleNamespace(cache_dtype=dtype, kv_cache_dtype_skip_layers=["9"]),
        model_config=SimpleNamespace(is_hybrid=hybrid, hf_text_config=SimpleNamespace(num_hidden_layers=12)),
        attention_config=SimpleNamespace(flash_attn_version=3),
    )


def test_a_config_with_turboquant_gets_vllms_own_later_rules() -> None:
    made = legacy._guarded(lambda _self, made: made)(None, config("turboquant_k8v4"))
    assert made.cache_config.kv_cache_dtype_skip_layers == ["0", "1", "9", "10", "11"]
    assert made.attention_config.flash_attn_version == 2


def test_a_config_without_it_is_left_alone() -> None:
    made = legacy._guarded(lambda _self, made: made)(None, config("fp8"))
    assert made.cache_config.kv_cache_dtype_skip_layers == ["9"]
    assert made.attention_config.flash_attn_version == 3


def test_hybrid_models_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="turboquant_k8v4 is not for hybrid models"):
        legacy._guarded(lambda _self, made: made)(None, config("turboquant_k8v4", hybrid=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FullAttentionSpec:
    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    dtype: object


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Any:
    """legacy_spec, imported with what it asks of vLLM."""
    for name in ("vllm", "vllm.v1", "vllm.v1.core"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.v1.kv_cache_interface", SimpleNamespace(FullAttentionSpec=FullAttentionSpec))
    managers = SimpleNamespace(spec_manager_map={}, FullAttentionManager=object())
    monkeypatch.setitem(sys.modules, "vllm.v1.core.single_type_kv_cache_manager", managers)
    monkeypatch.delitem(sys.modules, LEGACY_SPEC, raising=False)
    module = importlib.import_module(LEGACY_SPEC)
    monkeypatch.delitem(sys.modules, LEGACY_SPEC)
    assert managers.spec_manager_map == {module.B70TurboQuantSpec: managers.FullAttentionManager}
    return module


def layer(dtype: str = "turboquant_k8v4", **given: Any) -> SimpleNamespace:
    shape = {"head_size": 128, "head_size_v": 128, "num_kv_heads": 4, "sliding_window": None}
    return SimpleNamespace(kv_cache_dtype=dtype, layer_name="l", kv_cache_torch_dtype="uint8", **{**shape, **given})


@pytest.mark.parametrize("name", PRESETS)
def test_a_page_takes_the_slots_of_its_preset(spec: Any, name: str) -> None:
    wanted = spec.wanted_by(layer(f"turboquant_{name}"), 64)
    assert wanted.real_page_size_bytes == 64 * 4 * PRESETS[name].slot_bytes(128)


def test_layers_that_ask_for_the_same_share_a_group_and_others_are_told_apart_as_vllm_looks_for_it(spec: Any) -> None:
    one, other = spec.wanted_by(layer(), 64), spec.wanted_by(layer("turboquant_3bit_nc"), 64)
    assert spec.B70TurboQuantSpec.merge([one, one]) == one
    with pytest.raises(AssertionError):
        spec.B70TurboQuantSpec.merge([one, other])


@pytest.mark.parametrize(
    ("given", "why"),
    [({"sliding_window": 128}, "no sliding window"), ({"head_size": 96, "head_size_v": 96}, "head size 96"),
     ({"head_size_v": 64}, "head size 128")],
)  # fmt: skip
def test_a_layer_that_no_kernel_reads_is_refused_in_words(spec: Any, given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        spec.wanted_by(layer(**given), 64)
