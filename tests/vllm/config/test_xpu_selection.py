"""Whom real vLLM chooses on an Intel card: our attention backend with the plugin, the right code for int4 weights."""

from __future__ import annotations

from typing import Any

import pytest
from b70_kernels.plugin.legacy import with_boundary
from b70_kernels.plugin.proven import is_legacy
from b70_kernels.presets import PRESETS

from b70ctl.core.image import within
from b70ctl.core.patch import Answer, by_version
from tests.vllm.config.answers import BRIEFLY, DTYPES, LAYERS, NATIVE, answers, patches
from tests.vllm.versions import CONFIG

pytestmark = pytest.mark.process
OURS = "b70_kernels.plugin.backend.B70TurboQuantBackend"
TAUGHT = "b70_kernels.plugin.legacy_backend.B70LegacyBackend"
UPSTREAM = "vllm.v1.attention.backends.turboquant_attn.TurboQuantAttentionBackend"
FLASH = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
KEPT = {"0", "1", "6", "7"}
"""The two at either end keep the model's own type."""
HEADS, HEAD_SIZE = 2, 128
every_release = pytest.mark.parametrize("version", CONFIG)
a_few_releases = pytest.mark.parametrize("version", BRIEFLY)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def ours(version: str) -> str:
    return TAUGHT if is_legacy(version) else OURS


@pytest.mark.feature("plugin: says that it is in use", "ok")
@every_release
def test_the_plugin_says_in_one_line_that_it_is_in_use(version: str) -> None:
    said = answers(version, "plugin")["log"].count("b70_kernels 0.1.0: in use with")
    (line,) = answers(version, "plugin")["plugin"]
    name = "CUSTOM" if is_legacy(version) else "TURBOQUANT"
    assert (said, line) == (1, f"in use with vLLM {version}, {name} is {ours(version)}")


@pytest.mark.feature("plugin: TURBOQUANT is ours", "ok")
@every_dtype
@every_release
def test_a_turboquant_layer_is_ours_and_its_pages_take_what_the_preset_says(version: str, dtype: str) -> None:
    told = answers(version, "plugin")
    assert told[f"{dtype} route"] == ours(version)
    slot = PRESETS[dtype.removeprefix("turboquant_")].slot_bytes(HEAD_SIZE)
    for number, layer in told[f"{dtype} layers"].items():
        if number in KEPT:
            assert (layer["backend"], layer["spec"]) == (FLASH, "FullAttentionSpec")
        else:
            assert (layer["backend"], layer["computes"]) == (ours(version), "B70TurboQuantImpl")
            assert layer["page_bytes"] == layer["block_size"] * HEADS * slot
    assert len(told[f"{dtype} layers"]) == LAYERS


@pytest.mark.feature("plugin: one pool for its pages and for the others", "ok")
@every_dtype
@every_release
def test_vllms_planning_shares_memory_between_such_layers_and_the_others(version: str, dtype: str) -> None:
    pool = answers(version, "plugin")[f"{dtype} pool"]
    assert pool.get("managed"), pool
    assert pool["blocks"] == 512


@pytest.mark.feature("plugin: pages as large as vLLM's own", "ok")
@every_dtype
@pytest.mark.parametrize("version", [version for version in CONFIG if not is_legacy(version)])
def test_a_page_is_as_large_as_the_one_that_vllm_would_have(version: str, dtype: str) -> None:
    def pages(how: str) -> dict[str, Any]:
        return {number: layer["page_bytes"] for number, layer in answers(version, how)[f"{dtype} layers"].items()}

    assert pages("plugin") == pages("alone")


@pytest.mark.feature("plugin: other cache types are left alone", "ok")
@pytest.mark.parametrize("dtype", NATIVE)
@every_release
def test_other_cache_types_go_where_they_went(version: str, dtype: str) -> None:
    alone, beside = answers(version, "alone"), answers(version, "plugin")
    assert beside[f"{dtype} route"] == alone[f"{dtype} route"] == FLASH
    assert beside[f"{dtype} layers"] == alone[f"{dtype} layers"]


@pytest.mark.feature("plugin: vLLM's own backend without it", "ok")
@every_dtype
@every_release
def test_without_the_plugin_vllm_has_its_own_backend_or_none(version: str, dtype: str) -> None:
    route = answers(version, "alone")[f"{dtype} route"]
    if is_legacy(version):
        assert "SystemExit" in route["error"]
    else:
        assert route == UPSTREAM


@pytest.mark.feature("plugin: off, and refused when it is there twice", "refused")
@pytest.mark.parametrize("how", ["off", "refused"])
@a_few_releases
def test_switched_off_or_refused_it_leaves_vllm_as_it_was(version: str, how: str) -> None:
    told = answers(version, how)
    (line,) = told["plugin"]
    assert line.startswith("off: B70_KERNELS=off" if how == "off" else "refused: it is on Python's path 2 times")
    assert told["log"].count(f"b70_kernels 0.1.0: {how}") == 1
    assert told[f"{DTYPES[0]} route"] == answers(version, "alone")[f"{DTYPES[0]} route"]


@pytest.mark.feature("plugin: refuses a version that it was not proven with", "refused")
@a_few_releases
def test_an_unknown_version_is_refused_and_taken_when_a_person_says_so(version: str) -> None:
    strange = f"{version}.dev7"
    refused, accepted = answers(version, "strange"), answers(version, "strange, accepted")
    (line,) = refused["plugin"]
    assert line.startswith(f"refused: vLLM {strange} is not one that it was proven with")
    assert f"B70_KERNELS_UNPROVEN={strange}" in line
    assert refused[f"{DTYPES[0]} route"] == answers(version, "alone")[f"{DTYPES[0]} route"]
    assert accepted[f"{DTYPES[0]} route"] == ours(version)


@pytest.mark.feature("plugin: an exception in it would end vLLM", "ok")
@a_few_releases
def test_vllm_does_not_survive_a_plugin_that_raises(version: str) -> None:
    """Why a refusal is said and not raised."""
    assert "RuntimeError: raised on purpose" in answers(version, "raising")["log"]


def test_the_layers_at_either_end_are_never_all_of_them() -> None:
    assert with_boundary([], LAYERS) == sorted(KEPT)
    assert with_boundary(["sliding_window", "3"], 4) == ["0", "1", "2", "3", "sliding_window"]
    assert with_boundary([], 1) == []


# --- int4 weights -----------------------------------------------------------------------------------------------------


def needs(name: str, version: str) -> bool:
    return by_version(patches()[name], version).answer is Answer.APPLIES


@pytest.mark.feature("patch: marlin-moe-xpu decides who computes W4A16 experts", "ok")
@every_release
def test_experts_go_to_code_that_an_intel_build_has(version: str) -> None:
    alone, with_patch = answers(version, "alone")["experts"], answers(version, "patched")["experts"]
    if needs("marlin-moe-xpu", version):
        assert alone.startswith("CompressedTensorsWNA16MarlinMoEMethod")
        assert not alone.endswith("XPU")
        assert with_patch.startswith("CompressedTensorsWNA16MoEMethod")
    else:
        assert alone.endswith("with XPU")
        assert answers(version, "alone")["int4 experts"] == ["XPU"]


@pytest.mark.feature("patch: marlin-moe-xpu does harm where it is refused", "ok")
@pytest.mark.parametrize("version", [version for version in CONFIG if within(version, ">=0.23,<0.27")])
def test_where_the_patch_is_refused_it_would_divert_experts_from_intels_kernel(version: str) -> None:
    with_patch = answers(version, "patched")
    assert with_patch["marlin takes experts"] is False
    assert with_patch["experts"].startswith("CompressedTensorsWNA16MoEMethod")
    assert not with_patch["experts"].endswith("XPU")


@pytest.mark.feature("patch: gptq-xpu decides who computes GPTQ linear layers", "ok")
@every_release
def test_gptq_linear_layers_go_to_the_int4_kernel(version: str) -> None:
    alone, with_patch = answers(version, "alone")["gptq linear"], answers(version, "patched")["gptq linear"]
    if needs("gptq-xpu", version):
        assert "gptq_shuffle" in alone["error"]
        assert with_patch == "GPTQLinearMethod with XPUwNa16LinearKernel"
    else:
        assert alone.endswith("with XPUwNa16LinearKernel")
