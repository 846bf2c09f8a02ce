"""YAML is read as YAML 1.2 says, within bounds, and a fault has a line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.edge import yamlfile
from b70ctl.errors import UsageError
from tests.hostile import hostile
from tests.no_files import NO_FILES


def value(text):
    return yamlfile.parse(f"v: {text}\n", "f").data["v"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"), ("2026-01-01", "2026-01-01"),
        ("12:30:45", "12:30:45"), ("1_000", "1_000"), ("0b1", "0b1"), ("=", "="), ("1e3", 1000.0), ("1e+3", 1000.0),
        (".5", 0.5), ("5.", 5.0), ("017", 17), ("0o17", 15), ("0x1F", 31), ("+1", 1), ("-1", -1), ("true", True),
        ("TRUE", True), ("tRUE", "tRUE"), ("null", None), ("~", None), ("", None), ("# all comment", None),
        ("'.inf'", ".inf"), ("inf", "inf"), ("0.21.0", "0.21.0"), ("'1'", "1"), ('"no"', "no"), ("1.5.1", "1.5.1"),
        ("+", "+"),
    ],
)  # fmt: skip
def test_a_plain_word_means_what_yaml_1_2_says(text, meant):
    assert value(text) == meant
    assert type(value(text)) is type(meant)


def test_a_key_without_a_value_is_null_so_that_it_removes():
    assert yamlfile.parse("a:\n  b:\nc:\n", "f").data == {"a": {"b": None}, "c": None}


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", "? [a]\n"])
def test_a_key_that_is_no_text_is_refused_with_its_line(key):
    with pytest.raises(UsageError, match=r"f:2: a key is text"):
        yamlfile.parse(f"a: b\n{key}: c\n", "f")


@pytest.mark.parametrize("key", ["no", "on", "2026-01-01", "'1'"])
def test_a_key_that_only_older_yaml_takes_for_something_else_is_text(key):
    assert list(yamlfile.parse(f"{key}: c", "f").data) == [key.strip("'")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", "f:3: `a` stands here twice"),
        ("x:\n  a: 1\n  a: 1\n", "f:3: `a`"),
        ("a: {b: 1, b: 1}", "f:1: `b`"),
        ("a: 1\n\tb: 2\n", "f:2"),
        ("a: [1\n", "f:2"),
        ("a: b: c", "f:1"),
        ("a: *nobody", "f:1"),
        ("a: !!python/object/apply:os.system [id]", "f:1: could not determine a constructor"),
        ("a: !secret x", "f:1"),
        ("- a", "f is a list"),
        ("text", "f is text"),
        ("a: 1\n---\nb: 2", "f:2"),
        ("a: \0", "f"),
        ("a: " + "9" * 5000, "f"),
    ],
)
def test_a_fault_is_told_with_its_file_and_line(text, said):
    with pytest.raises(UsageError) as refused:
        yamlfile.parse(text, "f")
    assert refused.value.what.startswith(said)


@pytest.mark.parametrize("text", ["a: !!bool 7", "a: !!timestamp x", "a: !!int x", "a: !!set [b]", "a: !mine b"])
def test_a_tag_that_its_value_does_not_fit_is_refused(text):
    with pytest.raises(UsageError, match=r"x\.yaml"):
        yamlfile.parse(text, "x.yaml")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &x {b: *x}", "a: &x\n  <<: *x\n"])
def test_an_alias_of_what_it_stands_in_is_refused(text):
    with pytest.raises(UsageError):
        yamlfile.parse(text, "f")


def nested(width, levels, merge=False):
    lines = ["l0: &l0 {a: 1, b: 2}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*l{level - 1}"] * width)
        lines.append(f"l{level}: &l{level} {f'{{<<: [{aliases}]}}' if merge else f'[{aliases}]'}")
    return "\n".join(lines)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize(("width", "levels"), [(9, 10), (3, 30), (99, 3), (2, 40)])
def test_aliases_that_explode_are_refused(width, levels, merge):
    with pytest.raises(UsageError, match="alias"):
        yamlfile.parse(nested(width, levels, merge), "f")


def test_aliases_in_reason_are_read():
    assert yamlfile.parse("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n", "f").data["d"] == {"b": 1, "e": 2}


@pytest.mark.parametrize("text", ["[" * 60 + "]" * 60, "a: " + "{a: " * 60 + "1" + "}" * 60])
def test_depth_is_bounded(text):
    with pytest.raises(UsageError, match="levels"):
        yamlfile.parse(text, "f")


def test_a_file_that_is_too_large_is_refused_unread(tmp_path):
    path = tmp_path / "large.yaml"
    path.write_bytes(b"a: 1\n" + b"#" * 1_000_000)
    with pytest.raises(UsageError, match=r"1,000,005 bytes"):
        yamlfile.read(path)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_another_encoding_is_refused_with_its_line_and_a_way_out(tmp_path, encoding):
    path = tmp_path / "f.yaml"
    path.write_bytes("a: 1\nb: é\n".encode(encoding))
    with pytest.raises(UsageError, match=r"is not UTF-8") as refused:
        yamlfile.read(path)
    assert "iconv" in str(refused.value.hint)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert yamlfile.read(path).data == {"a": 1, "b": 2}


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"f\.yaml cannot be read: No such file"):
        yamlfile.read(tmp_path / "f.yaml")


@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_with_what_it_is(tmp_path, kind):
    NO_FILES[kind](tmp_path / "f.yaml")
    with pytest.raises(UsageError, match=f"cannot be read: it is {kind}, not a file"):
        yamlfile.read(tmp_path / "f.yaml")


def test_an_empty_file_is_an_empty_mapping():
    assert yamlfile.parse("", "f").data == yamlfile.parse("# only a comment\n", "f").data == {}


TEXT = "a: 1\nb:\n  c:\n    - x\n    - y: 2\n"


@pytest.mark.parametrize(
    ("path", "at"),
    [(("a",), "f:1"), (("b", "c"), "f:3"), (("b", "c", 1), "f:5"), (("b", "c", 1, "y"), "f:5"), (("b", "z"), "f:2"),
     (("b", "c", 7, "z"), "f:3"), (("z",), "f:1"), ((), "f:1")],
)  # fmt: skip
def test_a_value_is_found_on_its_line_or_the_one_of_what_is_around_it(path, at):
    assert yamlfile.parse(TEXT, "f").at(path) == at


def is_read_or_refused(text):
    try:
        return isinstance(yamlfile.parse(text, "f").data, dict)
    except UsageError as error:
        return error.what.startswith("f")


@given(st.binary(max_size=200))
def test_no_bytes_at_all_crash_the_reader(raw):
    assert is_read_or_refused(raw)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@`,? \n\t<~0", max_size=40))
def test_no_arrangement_of_yamls_own_characters_crashes_the_reader(text):
    assert is_read_or_refused(text)


finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = hostile | st.integers() | st.booleans() | st.none() | finite
trees = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(hostile, inner, max_size=3))


@given(st.dictionaries(hostile, trees, max_size=4))
def test_what_is_dumped_is_read_back_equal(data):
    assert yamlfile.parse(yamlfile.dump(data), "f").data == data


@pytest.mark.parametrize("word", ["no", "1e3", "0o17", "017", "~", "", "2026-01-01", "0x1", "on", "null", "1_0"])
def test_a_word_that_either_yaml_misreads_is_dumped_in_quotes(word):
    assert yamlfile.dump({"v": word}) != f"v: {word}\n"


@pytest.mark.parametrize(
    ("text", "meant"),
    [("65536", 65536), ("no", "no"), ("", None), ("null", None), ("[a, b]", ["a", "b"]), ("{a: 1}", {"a": 1}),
     ("'1'", "1"), ("fp8", "fp8"), ("0.21.0", "0.21.0"), ("a=b", "a=b"), ("-1", -1)],
)  # fmt: skip
def test_a_value_on_the_command_line_is_yaml_too(text, meant):
    assert yamlfile.value(text) == meant


@pytest.mark.parametrize("text", ["[", "a: b", "- x", "*a", "{a: 1, a: 2}"])
def test_a_value_on_the_command_line_that_is_no_yaml_is_refused(text):
    with pytest.raises(UsageError, match="--set"):
        yamlfile.value(text)


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", ".NaN", "1e999", "-1e999", "{a: [1, .inf]}"])
def test_a_number_that_is_not_finite_is_refused_with_its_line(text):
    with pytest.raises(UsageError, match=r"f:2: .* is not a finite number"):
        yamlfile.parse(f"a: 1\nv: {text}\n", "f")


@pytest.mark.parametrize("text", ["9" * 401, "-" + "9" * 400, "0x" + "f" * 4000])
def test_a_number_that_could_not_be_written_again_is_refused_with_its_line(text):
    with pytest.raises(UsageError, match=r"f:1: .*… is a number of [0-9,]+ digits"):
        value(text)


@pytest.mark.parametrize("text", ['v: "a\\0b"', '"a\\0b": 1', 'v: [{w: "\\x00"}]', 'v: "\\u0000"'])
def test_a_nul_that_is_written_as_an_escape_is_refused_too(text):
    with pytest.raises(UsageError, match=r"f:1: .* holds a NUL character"):
        yamlfile.parse(text, "f")
