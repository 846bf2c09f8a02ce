from __future__ import annotations

import itertools

import pytest
from b70_kernels import tuning
from b70_kernels.cache import Layout
from b70_kernels.presets import HEAD_SIZES, PRESETS

from tests.xpu import compiling, tune
from tests.xpu.card import DEVICE
from tests.xpu.disassembler import disassemble
from tests.xpu.driver import Recorder

pytestmark = pytest.mark.process

MOST_MICROSECONDS = 150
"""To issue the instructions for 4 requests of 8192 tokens with 8 query positions of 32 heads, 4 KV heads of 128."""
MOST_SPILLED = tune.A_LITTLE
"""Bytes a hardware thread, of 16 KiB of registers: with a head size of 256 the sums alone take half of them."""
TABLE = tuning.load(tuning.TABLES / "intel.json")


@pytest.fixture(autouse=True)
def compiler() -> None:
    """Intel's offline compiler is not to be had everywhere; the suite says so at its end."""
    if not (tune.FOLDER / "ocloc").exists():
        pytest.skip((tune.FOLDER / "no-ocloc").read_text().strip())


@pytest.mark.parametrize(("preset", "head_size"), list(itertools.product(PRESETS, HEAD_SIZES)))
def test_shipped_configurations_spill_nothing_up_to_heads_of_128_and_use_the_matrix_unit(preset, head_size, tell):
    for rows in (16, 32, 64):
        key = (preset, rows, head_size)
        found = tune.judged(key, TABLE[key])
        tell(f"{preset:8} head {head_size:3} rows {rows}: {tune.line(found)}")
        assert found.listing.matrix_instructions > 0
        assert found.listing.spilled_bytes <= (0 if head_size < 256 else MOST_SPILLED)
        if head_size == 128:
            assert found.microseconds <= MOST_MICROSECONDS


@pytest.mark.parametrize(("preset", "head_size"), list(itertools.product(PRESETS, HEAD_SIZES)))
def test_storing_and_dequantising_spill_nothing(preset, head_size, tell):
    for name, module in compiling.storing(Recorder(), compiling.Shape(preset, head_size, 8, Layout.PLANAR)).items():
        listing = disassemble(tune.FOLDER / "ocloc", name, module.spirv, module.flags, DEVICE)
        counts = f"{listing.spilled_bytes} bytes spilled, {listing.instructions} instructions"
        tell(f"{preset:8} head {head_size:3} {name}: {counts}")
        assert listing.spilled_bytes == 0
