"""Which tables of tile sizes are taken: those that the kernels can run with; a new one loses no measured row."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.tuning import (
    GRF_MODES,
    HEAD_SIZES,
    KEY,
    KEYS,
    LARGEST,
    NUMBERS,
    OPTIONS,
    PRESETS,
    PROGRAMS,
    REGISTERS,
    ROWS,
    STAGES,
    SWITCHES,
    WARPS,
    fault,
    merged,
)
from b70ctl.errors import B70Error
from tests.fake_kernels import TABLE_ROW

KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "b70_kernels"
STATEMENTS = [each for file in sorted(KERNELS.glob("tuning*.py")) for each in ast.parse(file.read_text()).body]
CHOICE = TABLE_ROW["choice"]


def table(device, **rows):
    found = [
        {"preset": key[:4], "rows": int(key[4:]), "head_size": 128, "choice": CHOICE | {"keys": keys}}
        for key, keys in rows.items()
    ]
    return json.dumps({"device": device, "rows": found})


def keys(text):
    return {f"{row['preset']}{row['rows']}": row["choice"]["keys"] for row in json.loads(text)["rows"]}


def one_row(**change):
    """A table with a good row, and another one that is changed."""
    good = TABLE_ROW | {"preset": "3bit_nc", "rows": 64, "head_size": 256}
    return json.dumps({"device": "x", "rows": [good, TABLE_ROW | change]}).encode()


def chosen(**change):
    return one_row(choice={name: value for name, value in (CHOICE | change).items() if value is not None})


# -- what the kernels read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((KERNELS / "tables").glob("*.json")), ids=lambda path: path.stem)
def test_the_shipped_tables_are_tables(path):
    assert fault(path.read_bytes()) is None


def test_a_choice_has_the_fields_that_the_kernels_make_of_it_and_what_they_need_must_be_there():
    (made,) = (each for each in STATEMENTS if isinstance(each, ast.ClassDef) and each.name == "Choice")
    fields = [each for each in made.body if isinstance(each, ast.AnnAssign)]
    types = {each.target.id: ast.unparse(each.annotation) for each in fields}
    assert {name for name, kind in types.items() if kind == "int"} == NUMBERS.keys()
    assert {name for name, kind in types.items() if kind == "bool"} == SWITCHES
    assert types.keys() == NUMBERS.keys() | SWITCHES | {OPTIONS}
    assert {each.target.id for each in fields if each.value is None} == NUMBERS.keys()


@pytest.mark.parametrize(
    ("name", "ours"),
    [("ROWS", ROWS), ("KEYS", KEYS), ("WARPS", WARPS), ("STAGES", STAGES), ("PROGRAMS", PROGRAMS),
     ("GRF_MODES", GRF_MODES), ("REGISTERS", REGISTERS), ("LARGEST", LARGEST)],
)  # fmt: skip
def test_what_is_possible_is_what_the_kernels_take(name, ours):
    (made,) = (
        each.value for each in STATEMENTS if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name
    )
    theirs = range(*map(ast.literal_eval, made.args)) if isinstance(made, ast.Call) else ast.literal_eval(made)
    assert theirs == ours


def test_presets_and_head_sizes_are_those_of_the_kernels():
    statements = ast.parse((KERNELS / "presets.py").read_text())
    made = [each for each in ast.walk(statements) if isinstance(each, ast.Call) and ast.unparse(each.func) == "Preset"]
    assert {each.args[0].value for each in made} == set(PRESETS)
    sizes = next(each for each in statements.body if isinstance(each, ast.Assign) and "HEAD_SIZES" in ast.unparse(each))
    assert ast.literal_eval(sizes.value) == HEAD_SIZES


@pytest.mark.parametrize(
    "content",
    [one_row(), chosen(native_fp8=True, paired=False, options={"maxnreg": 128}),
     chosen(paired=True, options={"grf_mode": "large"}), b'{"device": "x", "rows": []}',
     *(one_row(preset=name) for name in PRESETS), *(one_row(rows=each) for each in ROWS),
     *(one_row(head_size=each) for each in HEAD_SIZES), *(chosen(keys=each) for each in KEYS),
     *(chosen(warps=each) for each in WARPS), *(chosen(stages=each) for each in (STAGES[0], STAGES[-1])),
     *(chosen(programs=each) for each in (PROGRAMS[0], PROGRAMS[-1])),
     *(chosen(options={"grf_mode": each}) for each in ("default", "large", "small", "auto")),
     *(chosen(options={"maxnreg": each}) for each in (24, 255))],
)  # fmt: skip
def test_what_the_kernels_run_with_is_a_table(content):
    assert fault(content) is None


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"rows": 1}', b'{"rows": {}}', b'{"rows": [1]}', b'{"rows": [{"preset": "k8v4"}]}',
        b"[" * 100_000, b'{"rows":' * 100_000, b"\xff", one_row(preset="x").replace(b'"x"', b'"\xff"'),
        b"\xef\xbb\xbf" + one_row(),
        one_row(choice=3), one_row(choice={}), one_row(choice={"nonsense": 1}), one_row(choice=[*CHOICE]),
        chosen(nonsense=1), *(chosen(**{name: None}) for name in CHOICE),
        *(chosen(**{name: value}) for name in CHOICE for value in ("4", 4.0, True, 0, -1, [], float("nan"))),
        chosen(paired="yes"), chosen(native_fp8=1), chosen(options=[]), chosen(options="large"),
        one_row(preset=[]), one_row(preset=8), one_row(rows=[16]), one_row(rows="16"), one_row(head_size={}),
        one_row(head_size=None),
    ],
)  # fmt: skip
def test_what_the_kernels_would_stop_at_is_no_table(content):
    assert fault(content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (chosen(keys=24), "row 2: `keys` is 24; one of 16, 32, 64, 128"),
        (chosen(keys=8), "`keys` is 8;"), (chosen(keys=256), "`keys` is 256;"),
        (chosen(warps=3), "`warps` is 3; one of 1, 2, 4, 8, 16, 32"), (chosen(warps=64), "`warps` is 64;"),
        (chosen(stages=9), "`stages` is 9; from 1 to 8"),
        (chosen(programs=65_537), "`programs` is 65537; from 1 to 65536"),
        (chosen(programs=None), "`programs` is null;"),
        (chosen(options={"grf_mode": "huge"}), '`grf_mode` is "huge"; one of default, large, small, auto'),
        (chosen(options={"grf_mode": 256}), "`grf_mode` is 256;"),
        (chosen(options={"maxnreg": 23}), "`maxnreg` is 23; from 24 to 255"),
        (chosen(options={"maxnreg": 256}), "`maxnreg` is 256;"),
        (chosen(options={"maxnreg": True}), "`maxnreg` is true;"),
        (chosen(options={"num_ctas": 2}), "there is no option `num_ctas`; there are grf_mode, maxnreg"),
        (chosen(paired=1), "`paired` is 1; true or false"), (chosen(more=1), "there is no `more` in a choice"),
        (one_row(rows=24), "`rows` is 24; one of 16, 32, 64"), (one_row(rows=128), "`rows` is 128;"),
        (one_row(head_size=96), "`head_size` is 96; one of 64, 128, 256"),
        (one_row(preset="fp8"), '`preset` is "fp8"; one of k8v4, 4bit_nc, k3v4_nc, 3bit_nc'),
        (one_row(choice=[1]), "`choice` is a list; an object"), (b"[]", "it is not a JSON object"),
        (one_row() + b" " * LARGEST, "of 1,000,000 bytes at most"), (b'{"rows": []}', "it does not say its `device`"),
        (b'{"device": 1, "rows": []}', "it does not say its `device`"),
        (one_row(note="x"), "row 2: there is no `note` in a row"),
        (one_row(preset="3bit_nc", rows=64, head_size=256), "row 2: it is of 3bit_nc, 64, 256, as a row before it is"),
        (chosen(paired=True, native_fp8=True), "row 2: `paired` and `grf_mode` are for Intel's"),
        (chosen(options={"grf_mode": "large", "maxnreg": 64}), "not both"),
    ],
)  # fmt: skip
def test_a_number_that_no_gpu_takes_is_told_with_its_row_and_what_is_possible(content, told):
    assert told in str(fault(content))


@given(st.binary())
def test_no_content_of_a_file_breaks_the_reading(content):
    assert isinstance(fault(content), str | None)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*KEY, "choice"]), values), st.dictionaries(st.sampled_from([*CHOICE]), values))
def test_whatever_is_taken_the_kernels_can_look_up_and_cut_by(change, sizes):
    content = one_row(**({"choice": CHOICE | sizes} | change))
    if fault(content) is None:
        for row in json.loads(content)["rows"]:
            assert {tuple(row[name] for name in KEY): row["choice"]}
            assert all(row["choice"][name] in known for name, known in NUMBERS.items())
            assert row["choice"]["keys"].bit_count() == row["choice"]["warps"].bit_count() == 1


# -- an earlier run ---------------------------------------------------------------------------------------------------


def test_rows_that_are_not_measured_anew_are_kept_on_one_device():
    made = merged(table("x", k8v416=16, k8v432=32), table("x", k8v416=64, k8v464=128))
    assert keys(made) == {"k8v416": 64, "k8v432": 32, "k8v464": 128}


@pytest.mark.parametrize(
    "before", [None, "", "{", "[]", '{"rows": 3}', '{"rows": [1]}', "[" * 100_000, table("y", k8v432=32)]
)
def test_a_table_of_another_device_or_none_gives_nothing(before):
    assert keys(merged(before, table("x", k8v416=16))) == {"k8v416": 16}


@pytest.mark.parametrize("choice", [{}, CHOICE | {"keys": 24}])
def test_rows_at_which_the_kernels_would_stop_do_not_outlive_the_run_that_mends_them(choice):
    bad = one_row(choice=choice).decode()
    made = merged(bad, table("x", k8v432=16))
    assert fault(made.encode()) is None
    assert keys(made) == {"k8v432": 16, "3bit_nc64": 32}


@pytest.mark.parametrize("after", ["", "{}", "[]", "null", '{"rows": "x"}', "[" * 100_000, table("x", k8v416=24)])
def test_what_is_no_table_replaces_none(after):
    with pytest.raises(B70Error, match="wrote no table"):
        merged(table("x", k8v416=16), after)
