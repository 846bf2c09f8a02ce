from __future__ import annotations

import itertools

import pytest
import torch
from b70_kernels.cache import Layout
from b70_kernels.presets import HEAD_SIZES, PRESETS

from tests.xpu.card import SHARED_BYTES
from tests.xpu.compiling import Shape, attending, storing
from tests.xpu.driver import Recorder

from .running import config

EVERY = list(itertools.product(PRESETS, Layout, HEAD_SIZES))
NAMES = [f"{preset}-{layout.value}-{size}" for preset, layout, size in EVERY]


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.mark.parametrize(("preset", "layout", "head_size"), EVERY, ids=NAMES)
def test_attention_compiles_for_every_tile_and_group_and_uses_the_matrix_unit(recorder, preset, layout, head_size):
    for rows, group in itertools.product((16, 32, 64), (4, 8)):
        modules = attending(recorder, Shape(preset, head_size, group, layout), config(preset, rows, head_size, 8))
        kernels = {"attend_splits", "merge_splits"} | ({"rotate_queries"} if PRESETS[preset].rotated else set())
        assert set(modules) == kernels
        assert b"matrix_mad_k16" in modules["attend_splits"].spirv
        assert all(each.shared <= SHARED_BYTES for each in modules.values())


@pytest.mark.parametrize(("preset", "layout", "head_size"), EVERY, ids=NAMES)
def test_storing_and_dequantising_compile_and_fit_in_local_memory(recorder, preset, layout, head_size):
    modules = storing(recorder, Shape(preset, head_size, 8, layout))
    assert set(modules) == {"store_tokens", "dequantise_tokens"}
    assert all(each.shared <= SHARED_BYTES for each in modules.values())


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("options", [{"window": 20}, {"softcap": 30.0}, {"window": 20, "softcap": 30.0}], ids=str)
def test_bf16_larger_pages_windows_and_caps_compile(recorder, preset, options):
    for page, layout in itertools.product((32, 64), Layout):
        shape = Shape(preset, 128, 8, layout, page=page, dtype=torch.bfloat16)
        modules = attending(recorder, shape, config(preset, 16, 128, 8), **options)
        assert b"matrix_mad_k16" in modules["attend_splits"].spirv
        assert all(each.shared <= SHARED_BYTES for each in (*modules.values(), *storing(recorder, shape).values()))
