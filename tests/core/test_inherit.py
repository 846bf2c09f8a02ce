"""Laws of inheritance: what a child says is what counts, and what it does not say is its parent's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.inherit import inherit, kind_of, lineage, merge, override
from b70ctl.errors import UsageError

keys = st.sampled_from(["a", "b", "c"])
scalars = st.integers() | st.text(max_size=3) | st.booleans() | st.lists(st.integers(), max_size=3)
written = st.recursive(st.dictionaries(keys, scalars, max_size=3), lambda inner: st.dictionaries(keys, inner | scalars))


@given(written)
def test_nothing_over_a_parent_is_the_parent(parent):
    assert merge(parent, {}) == parent


@given(written)
def test_a_child_over_nothing_is_the_child(child):
    assert merge({}, child) == child


@given(written, written, written)
def test_merging_is_associative_where_nothing_is_removed_or_appended(first, second, third):
    assert merge(merge(first, second), third) == merge(first, merge(second, third))


@given(written, written)
def test_saying_a_thing_twice_says_it_once(parent, child):
    once = merge(parent, child)
    assert merge(once, child) == once


@given(written, written)
def test_a_merge_leaves_both_as_they_were(parent, child):
    before = repr(parent), repr(child)
    merge(parent, child)
    assert (repr(parent), repr(child)) == before


@given(written, keys)
def test_null_removes_a_key_whatever_it_held(parent, key):
    assert merge(parent, {key: None}) == {name: value for name, value in parent.items() if name != key}


@given(st.lists(st.integers()), st.lists(st.integers()))
def test_plus_appends_in_order(inherited, more):
    assert merge({"x": inherited}, {"+x": more}) == {"x": inherited + more}


def test_plus_on_what_nobody_wrote_is_the_list_itself():
    assert merge({}, {"+x": [1]}) == {"x": [1]}


def test_a_list_is_replaced_and_not_merged():
    assert merge({"x": [1, 2]}, {"x": [3]}) == {"x": [3]}


def test_a_mapping_replaces_what_was_not_one():
    assert merge({"x": 1}, {"x": {"y": 2}}) == {"x": {"y": 2}}


def test_a_null_inside_a_new_mapping_removes_nothing_and_does_not_stay():
    assert merge({}, {"x": {"y": None, "z": 1}}) == {"x": {"z": 1}}


@pytest.mark.parametrize(
    ("parent", "child", "said"),
    [({}, {"+x": 1}, "a number"), ({"x": "text"}, {"+x": [1]}, "text"), ({"e": {"x": {}}}, {"e": {"+x": [1]}}, "e.x")],
)
def test_appending_to_what_is_no_list_is_refused(parent, child, said):
    with pytest.raises(UsageError, match=said):
        merge(parent, child)


def family(**parents):
    return lambda name: {"extends": parents[name]} if parents.get(name) else {}


def test_a_lineage_begins_with_the_oldest():
    assert [name for name, _ in lineage("c", family(a=None, b="a", c="b"))] == ["a", "b", "c"]


@given(st.integers(1, 6), st.integers(0, 5))
def test_a_cycle_of_any_length_is_refused_and_shown(length, start):
    start %= length
    names = [f"p{number}" for number in range(length)]
    read = family(**{name: names[(at + 1) % length] for at, name in enumerate(names)})
    with pytest.raises(UsageError, match="extends itself") as refused:
        lineage(names[start], read)
    assert refused.value.what.count(names[start]) == 3


@pytest.mark.parametrize("parent", [["a", "b"], {"a": 1}, 5, True])
def test_a_profile_has_one_parent_by_name(parent):
    with pytest.raises(UsageError, match="names one profile"):
        lineage("c", lambda _: {"extends": parent})


def test_extends_does_not_remain_and_defaults_lie_below_all():
    chain = [("a", {"x": 1, "y": 1}), ("b", {"extends": "a", "x": 2})]
    assert inherit(chain, {"x": 0, "z": 0}) == {"x": 2, "y": 1, "z": 0}


def test_a_profile_may_append_to_a_default_of_the_site():
    assert inherit([("a", {"+patches": ["two"]})], {"patches": ["one"]}) == {"patches": ["one", "two"]}


@given(written, st.lists(keys, min_size=1, max_size=3), st.integers())
def test_an_override_is_found_where_it_was_put(raw, path, value):
    found = override(raw, ".".join(path), value)
    for key in path:
        found = found[key]
    assert found == value


def test_an_override_leaves_what_is_beside_it():
    assert override({"a": {"b": 1, "c": 2}}, "a.b", 3) == {"a": {"b": 3, "c": 2}}


def test_an_override_removes_with_null_and_appends_with_plus():
    assert override({"a": {"b": 1}}, "a.b", None) == {"a": {}}
    assert override({"a": {"b": [1]}}, "a.+b", [2]) == {"a": {"b": [1, 2]}}


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "+", "a.+"])
def test_a_path_with_a_hole_in_it_is_refused(path):
    with pytest.raises(UsageError, match="dotted path"):
        override({}, path, 1)


def test_a_value_is_named_in_a_persons_words():
    assert [kind_of(each) for each in (None, {}, [], "x", 1, True, 1.5)] == [
        "nothing", "a mapping", "a list", "text", "a number", "true or false", "a float",
    ]  # fmt: skip
