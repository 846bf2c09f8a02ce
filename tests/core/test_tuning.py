"""Which tables of tile sizes are taken: those that the kernels read, and no others; a new one loses no measured row."""

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.tuning import KEY, NUMBERS, OPTIONS, SWITCHES, is_table, merged
from tests.fake_kernels import TABLE_ROW

KERNELS = Path(__file__).resolve().parents[2] / "kernels" / "b70_kernels"
CHOICE = TABLE_ROW["choice"]


def table(device, **rows):
    found = [
        {"preset": key[0], "rows": int(key[1:]), "head_size": 128, "choice": CHOICE | {"keys": keys}}
        for key, keys in rows.items()
    ]
    return json.dumps({"device": device, "rows": found})


def keys(text):
    return {f"{row['preset']}{row['rows']}": row["choice"]["keys"] for row in json.loads(text)["rows"]}


def one_row(**change):
    return json.dumps({"device": "x", "rows": [TABLE_ROW, TABLE_ROW | change]}).encode()


def chosen(**change):
    return one_row(choice={name: value for name, value in (CHOICE | change).items() if value is not None})


# -- what the kernels read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((KERNELS / "tables").glob("*.json")), ids=lambda path: path.stem)
def test_the_shipped_tables_are_tables(path):
    assert is_table(path.read_bytes())


def test_a_choice_has_the_fields_that_the_kernels_make_of_it_and_what_they_need_must_be_there():
    statements = ast.parse((KERNELS / "tuning.py").read_text()).body
    (made,) = (each for each in statements if isinstance(each, ast.ClassDef) and each.name == "Choice")
    fields = [each for each in made.body if isinstance(each, ast.AnnAssign)]
    types = {each.target.id: ast.unparse(each.annotation) for each in fields}
    assert {name for name, kind in types.items() if kind == "int"} == NUMBERS
    assert {name for name, kind in types.items() if kind == "bool"} == SWITCHES
    assert types.keys() == NUMBERS | SWITCHES | {OPTIONS}
    assert {each.target.id for each in fields if each.value is None} == NUMBERS


@pytest.mark.parametrize(
    "content",
    [one_row(), chosen(native_fp8=True, paired=False, options={"grf_mode": "large"}), one_row(note="measured twice"),
     b'{"rows": []}'],
)  # fmt: skip
def test_what_the_kernels_read_is_a_table(content):
    assert is_table(content)


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
    assert not is_table(content)


@given(st.binary())
def test_no_content_of_a_file_breaks_the_reading(content):
    assert is_table(content) in (True, False)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*KEY, "choice"]), values), st.dictionaries(st.sampled_from([*CHOICE]), values))
def test_whatever_is_taken_the_kernels_can_look_up_and_cut_by(change, sizes):
    content = one_row(**({"choice": CHOICE | sizes} | change))
    if is_table(content):
        for row in json.loads(content)["rows"]:
            assert {tuple(row[name] for name in KEY): row["choice"]}
            assert all(row["choice"][name] // 1 >= 1 for name in NUMBERS)


# -- an earlier run ---------------------------------------------------------------------------------------------------


def test_rows_that_are_not_measured_anew_are_kept_on_one_device():
    assert keys(merged(table("x", a16=1, a32=2), table("x", a16=3, b16=4))) == {"a16": 3, "a32": 2, "b16": 4}


@pytest.mark.parametrize(
    "before", [None, "", "{", "[]", '{"rows": 3}', '{"rows": [1]}', "[" * 100_000, table("y", a32=2)]
)
def test_a_table_of_another_device_or_none_gives_nothing(before):
    assert keys(merged(before, table("x", a16=1))) == {"a16": 1}


def test_rows_at_which_the_kernels_would_stop_do_not_outlive_the_run_that_mends_them():
    bad = one_row(choice={}).decode()
    made = merged(bad, table("x", a16=1))
    assert is_table(made.encode())
    assert keys(made) == {"a16": 1, "k8v416": 32}


@pytest.mark.parametrize("after", ["", "{}", "[]", "null", '{"rows": "x"}', "[" * 100_000])
def test_what_is_no_table_replaces_none(after):
    with pytest.raises(Exception, match="wrote no table"):
        merged(table("x", a16=1), after)
