"""Copies of the package with one fault each."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import b70_kernels
from kernel_cases import Kit

SOURCE = Path(b70_kernels.__file__).parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: in these files, each of these pieces of text replaced by another."""

    name: str
    files: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]

    def made_in(self, folder: Path) -> Kit:
        """The package with this fault, importable; ValueError where the text to change is not there exactly once."""
        package = f"mutant_{self.name}"
        shutil.copytree(SOURCE, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        paths = [folder / package / file for file in self.files]
        for before, after in self.changes:
            having = [path for path in paths for _ in range(path.read_text().count(before))]
            if len(having) != 1:
                raise ValueError(f"{', '.join(self.files)}: {len(having)} times: {before}")
            having[0].write_text(having[0].read_text().replace(before, after))
        sys.path.insert(0, str(folder))
        try:
            __import__(package)
        finally:
            sys.path.remove(str(folder))
        return Kit(package)


def attention(name: str, *changes: tuple[str, str]) -> Mutant:
    """A fault of the attention kernel."""
    return Mutant(name, ("attention_kernel.py", "merge_kernel.py"), changes)


INFINITE = [(f"tl.constexpr({number})", 'tl.constexpr(float("-inf"))') for number in ("-1.0e30", "-1.0e38")]
LIMIT = "seq_len - q_len + position + 1, 0)"

# exp(-inf - -inf) where a split has nothing that a row sees, as the softmax over splits is often written
INFINITE_SOFTMAX = attention(
    "infinite_softmax",
    *INFINITE,
    ("inverse = tl.where(some, 1.0 / tl.where(some, total, 1.0), 0.0)", "inverse = 1.0 / total"),
    (
        "lse = tl.where(some, maximum - LEVEL + tl.log2(tl.where(some, total, 1.0)), LOWEST)",
        "lse = maximum + tl.log2(total)",
    ),
    ("counts = ~(lse <= LOWEST * 0.5)", "counts = known"),
)
INFINITE_SENTINEL = attention("infinite_sentinel", *INFINITE)
LIMIT_ONE_LATE = attention("limit_one_late", (LIMIT, "seq_len - q_len + position + 2, 0)"))
LIMIT_ONE_EARLY = attention("limit_one_early", (LIMIT, "seq_len - q_len + position, 0)"))
SAME_LIMIT_FOR_ALL = attention("same_limit_for_all", (LIMIT, "seq_len, 0)"))
DROPPED_TAIL_TILE = attention("dropped_tail_tile", ("last_position + KEYS) // KEYS", "last_position + 1) // KEYS"))
WINDOW_ONE_SHORT = attention("window_one_short", ("limit[:, None] - window)", "limit[:, None] - window + 1)"))
TAIL_IS_READ = attention(
    "tail_is_read", ("tl.minimum(at, seq_len - 1)", "tl.minimum(at, (seq_len + PAGE - 1) // PAGE * PAGE - 1)")
)
EMPTY_SPLIT_UNWRITTEN = attention(
    "empty_split_unwritten", ("partial_lse + part, lse, mask=valid)", "partial_lse + part, lse, mask=valid & some)")
)
SINGLE_FP16_WEIGHTS = attention(
    "single_fp16_weights",
    (
        "        # each tile is summed from zero",
        "        low = (low * 0.0).to(tl.float16)\n        # each tile is summed from zero",
    ),
)
SINGLE_FP16_QUERY = attention(
    "single_fp16_query",
    ("    return halves(wide)", "    high, low = halves(wide)\n    return high, (low * 0.0).to(tl.float16)"),
)
MAXIMUM_WITHOUT_SCALES = attention("maximum_without_scales", ("score + level[None, :], 1)", "score + 127.0, 1)"))
# the weights of a fixed size, as small as the largest scales would need
SCALES_OUT_OF_SIGHT = attention("scales_out_of_sight", ("score + level[None, :], 1)", "score + 140.0, 1)"))
WEIGHTS_LIFTED_TOO_FAR = attention(
    "weights_lifted_too_far", ("tl.constexpr(127.0 + 14.0)", "tl.constexpr(127.0 + 16.0)")
)
NAN_COUNTS_AS_NOTHING = attention(
    "nan_counts_as_nothing", ("    some = total != 0.0\n    inverse", "    some = total > 0.0\n    inverse")
)
NAN_IS_NOT_MERGED = attention("nan_is_not_merged", ("counts = ~(lse <= LOWEST * 0.5)", "counts = lse > LOWEST * 0.5"))
TOO_LARGE_QUERIES = attention("too_large_queries", ("tl.abs(wide) <= LARGEST_HALF", "tl.abs(wide) <= 1.0e38"))
NO_REST_OF_KEYS = attention(
    "no_rest_of_keys",
    ("            score = tl.dot(high_1, rest_1", "            # score = tl.dot(high_1, rest_1"),
    ("            score = tl.dot(high_3, rest_3", "            # score = tl.dot(high_3, rest_3"),
)
PADDING_IS_MERGED = attention(
    "padding_is_merged", ("    splits = tl.where(token < tl.load(query_end), splits, 0)\n", "")
)
MERGE_FORGETS_WEIGHTS = attention("merge_forgets_weights", ("part * weight[:, None], 0)", "part, 0)"))
READ_BEFORE_A_WINDOW = attention("read_before_a_window", ("tl.maximum(inside, lowest)", "tl.maximum(inside, 0)"))
ROUNDED_TWICE = attention(
    "rounded_twice",
    (
        "mean.to(out.dtype.element_ty)",
        "(mean if out.dtype.element_ty == tl.float32 else mean.to(tl.bfloat16)).to(out.dtype.element_ty)",
    ),
)
CAP_TOO_WIDE = attention("cap_too_wide", ("2.8853900817779268", "1.4426950408889634"))
ONE_KV_HEAD_FOR_ALL = attention("one_kv_head_for_all", ("head_block = kv_head.to", "head_block = 0 * kv_head.to"))
NOT_ROTATED_BACK = Mutant("not_rotated_back", ("dequantise_kernel.py",), (("key_scale * D**-0.5", "key_scale"),))
ONE_ROW_LATE = Mutant("one_row_late", ("dequantise_kernel.py",), (("request) + at)", "request) + at + 1)"),))
STORED_WITHOUT_A_SLOT = Mutant(
    "stored_without_a_slot",
    ("store_kernel.py",),
    (("kept = slot >= 0\n    slot = tl.where(kept,", "kept = inside\n    slot = tl.where(slot >= 0,"),),
)
SWAPPED_NIBBLE = Mutant(
    "swapped_nibble",
    ("unpack.py",),
    (("centred(word, 0, 15, 8.0), centred(word, 4,", "centred(word, 4, 15, 8.0), centred(word, 0,"),),
)
SWAPPED_THIRDS = Mutant(
    "swapped_thirds", ("unpack.py",), (("cubic(word, 0), cubic(word, 3)", "cubic(word, 3), cubic(word, 0)"),)
)
NO_NORM_CORRECTION = Mutant(
    # as if every direction's codes were as long as those of the ideal codebook
    "no_norm_correction",
    ("store_kernel.py",),
    (("norm / tl.sqrt(tl.sum(square, 1))", "norm * 0.0816"),),
)
CUT_VALUE_CODES = Mutant("cut_value_codes", ("store_kernel.py",), (("scale[:, None] + 0.5)", "scale[:, None])"),))
WRONG_SIGMA = Mutant(
    "wrong_sigma",
    ("store.py",),
    (("return (*borders,", "borders = tuple(each / 2**0.5 for each in borders)\n    return (*borders,"),),
)
