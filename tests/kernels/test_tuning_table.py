"""Tables of tile sizes: whole as shipped, refused where a row says what no kernel takes, and what is chosen by them."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from b70_kernels import tuning, tuning_table
from b70_kernels.presets import HEAD_SIZES, PRESETS
from b70_kernels.tuning_table import Choice, Table, parse, read
from hypothesis import given, settings
from hypothesis import strategies as st

ROW = {"preset": "k8v4", "rows": 16, "head_size": 128, "choice": {"keys": 64, "warps": 4, "stages": 2, "programs": 256}}
XPU, CUDA = torch.device("xpu"), torch.device("cuda")
CHOICES = st.builds(
    Choice, st.sampled_from(tuning_table.KEYS), st.sampled_from(tuning_table.WARPS), st.integers(1, 8),
    st.integers(1, 65536),
) | st.builds(
    Choice, st.just(32), st.just(4), st.just(1), st.just(128), st.booleans(), st.just(False),
    st.just({}) | st.builds(lambda number: {"maxnreg": number}, st.integers(24, 255)),
) | st.builds(
    Choice, st.just(32), st.just(4), st.just(1), st.just(128), st.just(False), st.booleans(),
    st.just({}) | st.builds(lambda mode: {"grf_mode": mode}, st.sampled_from(tuning_table.GRF_MODES)),
)  # fmt: skip
TABLES = st.dictionaries(
    st.tuples(st.sampled_from(list(PRESETS)), st.sampled_from((16, 32, 64)), st.sampled_from(HEAD_SIZES)), CHOICES
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def fresh() -> Iterator[None]:
    """What was read and asked of a device before is forgotten, and after."""
    for cached in (tuning._choices, tuning.converts_fp8):
        cached.cache_clear()
    yield
    for cached in (tuning._choices, tuning.converts_fp8):
        cached.cache_clear()


@pytest.mark.parametrize(("version", "said"), [
    ("3.3.0", "large"), ("3.5.1", "large"), ("3.6.0", "256"), ("3.6.0+git1b0418a9", "256"), ("3.10.0", "256"),
    ("4.0.0", "256"),
])  # fmt: skip
def test_modes_of_registers_are_called_as_that_triton_calls_them(version: str, said: str) -> None:
    given = {"grf_mode": "large", "num_stages": 1}
    assert tuning.spoken(given, version) == {"grf_mode": said, "num_stages": 1}
    assert given["grf_mode"] == "large"
    for others in ({"maxnreg": 128}, {"grf_mode": "auto"}, {"grf_mode": "default"}, {}):
        assert tuning.spoken(others, version) == others


def launches() -> list[ast.Call]:
    """Every call of device code in the package, kernel[grid](...)."""
    trees = [ast.parse(file.read_text()) for file in Path(tuning.__file__).parent.glob("*.py")]
    every = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [each for each in every if isinstance(each.func, ast.Subscript)]


def test_every_launch_is_told_what_a_table_says_or_at_least_to_fuse_nothing() -> None:
    told = {ast.unparse(each.func).partition("[")[0]: [ast.unparse(word.value) for word in each.keywords
            if word.arg is None] for each in launches()}  # fmt: skip
    assert told == {
        "rotate_queries": ["config.compiler_options"],
        "attend_splits": ["config.compiler_options"],
        "merge_splits": ["tuning.UNFUSED"],  # its warps and registers are not the table's
        "store_tokens": ["launch.compiler_options"],
        "dequantise_tokens": ["launch.compiler_options"],
    }


def test_what_a_compiler_is_told_lets_it_fuse_nothing_by_itself() -> None:
    given = {"grf_mode": "large", "num_stages": 1}
    for launched in (tuning.Config(16, 32, 4, 1, 1, options=given), tuning.INTEL, tuning.OTHERS):
        said = launched.compiler_options
        assert said == {"enable_fp_fusion": False, **tuning.spoken(launched.options, triton.__version__)}


def text(*rows: object, device: object = "a card") -> str:
    return json.dumps({"device": device, "rows": list(rows)})


def changed(**changes: Any) -> dict[str, Any]:
    """The row, with other values; names of a choice go into the choice."""
    inner = {name: value for name, value in changes.items() if name not in ROW}
    outer = {name: value for name, value in changes.items() if name in ROW}
    return {**ROW, "choice": {**ROW["choice"], **inner}, **outer}  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["intel.json", "nvidia.json"])
def test_a_shipped_table_has_a_row_for_every_launch(name: str) -> None:
    table = read(tuning.TABLES / name)
    assert set(table.choices) == set(itertools.product(PRESETS, (16, 32, 64), HEAD_SIZES))
    assert tuning.fitting(tuning.TABLES / name, XPU if name == "intel.json" else CUDA) == table


@settings(deadline=None)
@given(TABLES, st.text())
def test_a_table_comes_back_as_it_was_written(choices: dict[tuning_table.Key, Choice], device: str) -> None:
    assert parse(tuning_table.dump(device, choices)) == Table(device, choices)


@settings(deadline=None)
@given(st.data())
def test_a_row_with_anything_in_it_is_legal_or_refused(data: st.DataObject) -> None:
    names = [*ROW, *ROW["choice"], "native_fp8", "paired", "options", data.draw(st.text(max_size=9))]  # type: ignore[misc]
    row = changed(**{data.draw(st.sampled_from(names)): data.draw(anything)})
    try:
        choices = parse(text(row)).choices
    except ValueError:
        return
    assert parse(tuning_table.dump("a card", choices)).choices == choices


@settings(deadline=None)
@given(anything | st.builds(lambda rows: {"device": "x", "rows": rows}, anything))
def test_a_text_of_anything_is_a_table_or_refused(said: object) -> None:
    try:
        found = parse(json.dumps(said))
    except ValueError:
        return
    assert found.choices == {}


@pytest.mark.parametrize(("row", "word"), [
    (changed(rows=48), "rows 48"), (changed(rows=True), "rows True"), (changed(rows=16.0), r"rows 16\.0"),
    (changed(preset="k9v9"), "preset 'k9v9'"), (changed(preset=["k8v4"]), "preset"),
    (changed(head_size=96), "head_size 96"), (changed(keys=24), "keys 24"), (changed(keys="64"), "keys '64'"),
    (changed(warps=3), "warps 3"), (changed(warps=64), "warps 64"), (changed(stages=0), "stages 0"),
    (changed(stages=9), "stages 9"), (changed(programs=0), "programs 0"), (changed(programs=65537), "programs 65537"),
    (changed(programs=True), "programs True"), (changed(native_fp8=1), "native_fp8 1"),
    (changed(paired="no"), "paired 'no'"),
    (changed(options={"num_ctas": 2}), "options"), (changed(options={"grf_mode": "huge"}), "grf_mode 'huge'"),
    (changed(options={"maxnreg": 23}), "maxnreg 23"), (changed(options={"maxnreg": True}), "maxnreg True"),
    (changed(options=[]), "options"), (changed(choice=None), "None"), (changed(speed=1), "'speed'"),
    ({**ROW, "more": 1}, "'more'"), ({**ROW, "choice": {}}, "no keys"), ({}, "no choice"), (7, "7"),
    (changed(paired=True, native_fp8=True), "at once"),
    (changed(options={"grf_mode": "large", "maxnreg": 64}), "at once"),
])  # fmt: skip
def test_a_row_that_no_kernel_takes_is_refused_with_its_place_and_what_is_wrong(
    tmp_path: Path, row: object, word: str
) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(text(changed(rows=64), row))
    with pytest.raises(ValueError, match=f"(?s)tuning.json: .*row 2: .*{word}"):
        read(path)


def test_a_row_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 2: .*twice"):
        parse(text(ROW, changed(keys=32)))


@pytest.mark.parametrize(("octets", "word"), [
    (b"", "Expecting value"), (b"\xff\xfe{", "utf-8"), (b"[" * 900_000, "deep"), (b" " * 1_000_001, "1000000 bytes"),
    (b"[]", "device"), (b'{"rows": []}', "device"), (b'{"device": "x"}', "rows"),
    (b'{"device": "x", "rows": {}}', "rows"),
    (b'{"device": "x", "rows": [' + b"9" * 5000 + b"]}", "tuning.json"),
])  # fmt: skip
def test_a_file_that_is_no_table_is_refused_by_name(tmp_path: Path, octets: bytes, word: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_bytes(octets)
    with pytest.raises(ValueError, match=word) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}: no tuning table: ")


def test_a_table_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(ValueError, match="directory"):
        read(tmp_path)


@pytest.mark.parametrize(("device", "of", "row"), [
    (XPU, "NVIDIA H200", ROW), (CUDA, "Intel(R) Arc(TM) Pro B70", ROW), (torch.device("cpu"), "Intel", ROW),
    (XPU, "a card", changed(native_fp8=True)), (XPU, "a card", changed(options={"maxnreg": 128})),
    (CUDA, "a card", changed(paired=True)), (CUDA, "a card", changed(options={"grf_mode": "auto"})),
])  # fmt: skip
def test_a_table_of_another_family_is_refused_and_says_to_measure_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None, device: torch.device, of: str, row: object
) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(text(row, device=of))
    monkeypatch.setenv(tuning.TABLE, str(path))
    for ask in (lambda: tuning.choose(device, PRESETS["k8v4"], 128, 8, 4, 100), lambda: tuning.in_use(device)):
        with pytest.raises(ValueError, match=r"tuning.json: measured on .*python -m b70_kernels.tune"):
            ask()


def test_an_owners_rows_come_before_the_shipped_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    device = torch.device("xpu")
    before = tuning.choose(device, PRESETS["k8v4"], 64, 8, 4, 100_000)
    assert tuning.in_use(device) == "shipped intel.json (bmg-g31, compiled only)"
    path = tmp_path / "tuning.json"
    path.write_text(text(changed(paired=True, options={"grf_mode": "small"}), device="Intel B70"))
    monkeypatch.setenv(tuning.TABLE, str(path))
    tuning._choices.cache_clear()
    found = tuning.choose(device, PRESETS["k8v4"], 128, 8, 4, 100_000)
    assert (found.keys, found.warps, found.stages, found.options) == (64, 4, 2, {"grf_mode": "small"})
    assert found.splits == 256 // 4
    assert tuning.choose(device, PRESETS["k8v4"], 64, 8, 4, 100_000) == before
    assert tuning.in_use(device) == f"{path} (Intel B70)"


@pytest.mark.parametrize(("capability", "native"), [((8, 0), False), ((8, 6), False), ((8, 9), True), ((9, 0), True)])
def test_a_device_that_cannot_convert_fp8_is_not_asked_to(
    monkeypatch: pytest.MonkeyPatch, fresh: None, capability: tuple[int, int], native: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert any(choice.native_fp8 for choice in tuning_table.load(tuning.shipped(CUDA)).values())
    assert tuning.choose(CUDA, PRESETS["k8v4"], 128, 8, 4, 100).native_fp8 is native


@pytest.mark.parametrize("kind", ["cpu", "xpu", "cuda"])
@settings(deadline=None)
@given(
    st.sampled_from(list(PRESETS.values())), st.sampled_from(HEAD_SIZES), st.integers(1, 600), st.integers(1, 5000),
    st.integers(0, 2_000_000),
)  # fmt: skip
def test_a_launch_covers_its_rows_and_fills_the_device_without_empty_parts(
    kind: str, preset: Any, head_size: int, rows: int, units: int, tokens: int
) -> None:
    if kind == "cuda" and not torch.cuda.is_available():
        kind = "cpu"
    config = tuning.choose(torch.device(kind), preset, head_size, rows, units, tokens)
    assert (config.rows, config.keys, config.warps) in itertools.product(
        (16, 32, 64), tuning_table.KEYS, tuning_table.WARPS
    )
    assert config.rows == tuning.tile_rows(rows)
    blocks = -(-rows // config.rows)
    programs = tuning._choices(torch.device(kind))[preset.name, config.rows, head_size].programs
    assert config.splits >= 1
    assert config.splits == 1 or config.splits * units * blocks <= programs
    assert config.splits == 1 or (config.splits - 1) * config.keys < tokens
    # no more parts would have fitted
    assert (config.splits + 1) * units * blocks > programs or config.splits * config.keys >= tokens


@given(st.integers(1, 600))
def test_a_tile_is_the_smallest_that_holds_the_rows(rows: int) -> None:
    tile = tuning.tile_rows(rows)
    assert tile in (16, 32, 64)
    assert tile >= min(rows, 64)
    assert tile == 16 or tile // 2 < rows


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken.json").mkdir()
    for path in (tmp_path / "taken.json", tmp_path / "none" / "tuning.json"):
        with pytest.raises(tuning_table.Unwritten, match=f"{path.name} cannot be written: "):
            tuning_table.write(path, "x")
    assert [each.name for each in tmp_path.rglob("*")] == ["taken.json"]


def test_a_link_to_a_table_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "tuning.json")
    tuning_table.write(tmp_path / "link.json", "whole")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "tuning.json").read_text() == "whole"
