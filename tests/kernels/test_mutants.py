"""Every gate can fail: copies of the package with one fault each do not get past the gate that is named for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import kernel_gates as gates
import kernel_store_gates as store_gates
import mutants
import pytest
import torch
from kernel_cases import NAN, OTHER, REAL, Kit, Shape, attended, call, config, normal, random_tokens
from kernel_scope import FULL
from mutants import Mutant

FOUR, THREE = Shape("4bit_nc"), Shape("3bit_nc")
Gate = Callable[[Kit], object]


def short_contexts(kit: Kit) -> object:
    return gates.short_contexts(kit, Shape("k3v4_nc"), [5, 20, 33], [4], [2], keys=16)


def accuracy(kit: Kit) -> object:
    return gates.accuracy(call(kit, FOUR, [(37, 3), (20, 1)]), config(kit, 2))


def accuracy_of_three_bits(kit: Kit) -> object:
    return gates.accuracy(call(kit, THREE, [(37, 2)]), config(kit, 2))


def window(kit: Kit) -> object:
    # the first tile, up to token 63, is hidden from the last four rows
    return gates.accuracy(call(kit, FOUR, [(87, 8)]), config(kit), window=20)


def future(kit: Kit) -> object:
    return gates.future_changes_nothing(kit, FOUR, 37, 3)


def needle(kit: Kit) -> object:
    return gates.needle(kit, FOUR, 37, 3, [31, 32, 36])


def verify(kit: Kit) -> object:
    return gates.verify_is_decode(kit, FOUR, 37, 3)


def spiky(kit: Kit) -> object:
    return gates.spiky_values(kit, FOUR)


def sharp(kit: Kit, shape: Shape = FOUR, spread: float = 8.0) -> object:
    query = normal(4, shape.heads, shape.head_size, seed=1, spread=spread)
    return gates.accuracy(call(kit, shape, [(37, 3), (70, 1)], query=query), config(kit, 2))


def sharp_in_vllm_s_layout(kit: Kit) -> object:
    return sharp(kit, Shape("4bit_nc", "interleaved"), spread=24.0)


def large_values(kit: Kit) -> object:
    tokens = [(keys, values * 12_000.0) for keys, values in random_tokens(FOUR, [37])]
    return gates.accuracy(call(kit, FOUR, [(37, 3)], tokens=tokens), config(kit, 2))


def splits(kit: Kit) -> object:
    return gates.splits_change_nothing(call(kit, FOUR, [(37, 2)]), (2,))


def before_a_window(kit: Kit) -> object:
    of = call(kit, FOUR, [(99, 2)])
    kept = attended(of, config(kit, keys=64), window=9)
    # tokens from 89 on are seen, and the tile begins at 64
    of.cache.pages[of.table[0, : 89 // FOUR.page].long()] = 0xFF
    assert gates.same_bits(kept, attended(of, config(kit, keys=64), window=9)), "a page before the window is read"
    return of


def padding(kit: Kit) -> object:
    of = call(kit, FOUR, [(20, 2)], poison=OTHER)
    more = replace(of, query=torch.cat([of.query, of.query]))
    assert not bool(attended(more, config(kit, 3))[2:].any()), "a row of no request is not zero"
    return of


def poison(kit: Kit) -> object:
    return gates.poison_is_never_read(kit, FOUR, [(37, 2), (5, 1)], [NAN, OTHER])


def codes(kit: Kit) -> object:
    return store_gates.codes_and_scales(kit, FOUR, *(normal(40, 1, 64, seed=kind).half() for kind in range(2)))


def distortion(kit: Kit) -> object:
    return store_gates.distortion(kit, FOUR, 512)


def behind_a_sink(kit: Kit) -> object:
    return gates.sink(kit, Shape("k8v4"), 14.0, 0.0, 1.0)


def unfit_queries(kit: Kit) -> object:
    return gates.unfit_queries_show(kit, Shape("k8v4"), float("nan"), 1)


def too_large_queries(kit: Kit) -> object:
    return gates.unfit_queries_show(kit, Shape("k8v4"), -60_000.0, 1)


def unfit_scales(kit: Kit) -> object:
    return gates.unfit_scales_show(kit, FOUR, 3)


def rounding(kit: Kit) -> object:
    return gates.rounded_once(call(kit, FOUR, [(20, 1)]), config(kit))


def cap(kit: Kit) -> object:
    return gates.accuracy(call(kit, FOUR, [(20, 1)]), config(kit), softcap=3.0)


def heads(kit: Kit) -> object:
    return gates.heads_are_their_own(kit, FOUR)


def given_slots(kit: Kit) -> object:
    return store_gates.only_given_slots(kit, FOUR)


def dequantise(kit: Kit) -> object:
    return store_gates.tokens_come_back(kit, FOUR, [20, 5])


NAMED: list[tuple[Mutant, tuple[Gate, ...]]] = [
    (mutants.INFINITE_SOFTMAX, (short_contexts,)),
    (mutants.INFINITE_SENTINEL, (window,)),
    (mutants.LIMIT_ONE_LATE, (accuracy, future, needle)),
    (mutants.LIMIT_ONE_EARLY, (accuracy, future, needle)),
    (mutants.SAME_LIMIT_FOR_ALL, (accuracy, future, verify)),
    (mutants.DROPPED_TAIL_TILE, (accuracy, needle, short_contexts)),
    (mutants.WINDOW_ONE_SHORT, (window,)),
    (mutants.TAIL_IS_READ, (poison,)),
    (mutants.EMPTY_SPLIT_UNWRITTEN, (poison,)),
    (mutants.SINGLE_FP16_WEIGHTS, (spiky,)),
    (mutants.SINGLE_FP16_QUERY, (sharp,)),
    (mutants.MAXIMUM_WITHOUT_SCALES, (large_values,)),
    (mutants.SCALES_OUT_OF_SIGHT, (behind_a_sink,)),
    (mutants.WEIGHTS_LIFTED_TOO_FAR, (large_values,)),
    (mutants.NAN_COUNTS_AS_NOTHING, (unfit_queries, unfit_scales)),
    (mutants.NAN_IS_NOT_MERGED, (unfit_scales,)),
    (mutants.TOO_LARGE_QUERIES, (too_large_queries,)),
    (mutants.ROUNDED_TWICE, (rounding,)),
    (mutants.CAP_TOO_WIDE, (cap,)),
    (mutants.ONE_KV_HEAD_FOR_ALL, (heads,)),
    (mutants.NOT_ROTATED_BACK, (dequantise,)),
    (mutants.ONE_ROW_LATE, (dequantise,)),
    (mutants.STORED_WITHOUT_A_SLOT, (given_slots,)),
    (mutants.NO_REST_OF_KEYS, (sharp_in_vllm_s_layout,)),
    (mutants.PADDING_IS_MERGED, (padding,)),
    (mutants.MERGE_FORGETS_WEIGHTS, (accuracy, splits)),
    (mutants.READ_BEFORE_A_WINDOW, (before_a_window,)),
    (mutants.SWAPPED_NIBBLE, (accuracy,)),
    (mutants.SWAPPED_THIRDS, (accuracy_of_three_bits,)),
    (mutants.NO_NORM_CORRECTION, (codes,)),
    (mutants.CUT_VALUE_CODES, (codes,)),
    (mutants.WRONG_SIGMA, (codes, distortion)),
]
EVERY_GATE = sorted({gate for _, named in NAMED for gate in named}, key=lambda gate: gate.__name__)


def caught(gate: Gate, kit: Kit) -> bool:
    """Whether a gate refuses a copy of the package; any other error is no answer."""
    try:
        gate(kit)
    except AssertionError:
        return True
    return False


if not FULL:

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize(("mutant", "named"), NAMED, ids=lambda value: getattr(value, "name", "gates"))
    def test_a_fault_is_caught_by_every_gate_that_is_named_for_it(
        mutant: Mutant, named: tuple[Gate, ...], tmp_path: Path
    ) -> None:
        kit = mutant.made_in(tmp_path)
        for gate in named:
            assert caught(gate, kit), f"{gate.__name__} lets {mutant.name} through"

    @pytest.mark.parametrize("gate", EVERY_GATE, ids=lambda gate: gate.__name__)
    def test_without_a_fault_the_gate_lets_through(gate: Gate) -> None:
        gate(REAL)

    def test_a_copy_without_a_fault_is_let_through(tmp_path: Path) -> None:
        accuracy(mutants.attention("none").made_in(tmp_path))


def test_a_fault_that_no_longer_fits_the_source_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 times: no such text"):
        mutants.attention("outdated", ("no such text", "")).made_in(tmp_path)
