"""A patch applies exactly, or the start is refused."""

import hashlib
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.patch import Answer, by_version, lines_of, patched, refuse_unless_meant_for
from b70ctl.core.patchset import brought
from b70ctl.core.place import Place
from b70ctl.core.plugin import Kernels
from b70ctl.core.resolve import Request, resolve
from b70ctl.core.serving import mark
from b70ctl.core.sizes import LONGEST_SCRIPT
from b70ctl.errors import Refused
from tests.making import ADDRESS, a_host, a_patch, a_profile, a_site, some_facts

BASE = "before\nold\nafter\n"


def digest(text):
    return hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest()


def for_base(text, **changes):
    return a_patch(bases={digest(text): "0.21.0"}, **changes)


def test_a_known_base_is_changed_at_its_anchor_and_nowhere_else():
    assert patched("p", for_base(BASE), "vllm/a.py", BASE) == "before\nnew\nafter\n"


@pytest.mark.parametrize(("base", "times"), [("before\nafter\n", 0), ("old\nold\n", 2)])
def test_an_anchor_that_is_not_there_once_is_refused_even_for_a_known_base(base, times):
    with pytest.raises(Refused, match=f"{times} times") as refused:
        patched("p", for_base(base), "vllm/a.py", base)
    assert "patches show p" in refused.value.hint


def test_an_unknown_base_is_refused_with_the_command_that_accepts_it():
    with pytest.raises(Refused, match="not made for this") as refused:
        patched("p", for_base("another"), "vllm/a.py", BASE)
    assert refused.value.hint == f"b70ctl patches accept p:{digest(BASE)}"


def test_an_accepted_base_is_as_good_as_a_known_one():
    assert "new" in patched("p", a_patch(), "vllm/a.py", BASE, frozenset({digest(BASE)}))


def test_accepting_a_base_does_not_make_up_for_a_missing_anchor():
    base = "nothing of the kind"
    with pytest.raises(Refused, match="0 times"):
        patched("p", a_patch(), "vllm/a.py", base, frozenset({digest(base)}))


def test_edits_of_other_files_are_left_out():
    edits = [{"file": "vllm/a.py", "old": "old\n", "new": "new\n"}, {"file": "b.py", "old": "x", "new": "y"}]
    assert patched("p", for_base(BASE, edits=edits), "vllm/a.py", BASE) == "before\nnew\nafter\n"


def test_edits_of_one_file_are_made_in_order():
    edits = [{"file": "f", "old": "old", "new": "mid"}, {"file": "f", "old": "mid", "new": "end"}]
    assert "end" in patched("p", for_base(BASE, edits=edits), "f", BASE)


def test_a_file_that_is_not_utf8_is_refused_or_patched_and_never_a_crash():
    base = (b"\xff" + BASE.encode()).decode("utf-8", errors="surrogateescape")
    made = patched("p", for_base(base), "vllm/a.py", base)
    assert made.encode("utf-8", errors="surrogateescape") == b"\xffbefore\nnew\nafter\n"


@given(st.text(), st.text())
def test_all_of_a_base_but_the_anchor_stays(before, after):
    base = f"{before}<anchor>{after}"
    if base.count("<anchor>") == 1:
        patch = for_base(base, edits=[{"file": "f", "old": "<anchor>", "new": "<made>"}])
        assert patched("p", patch, "f", base) == f"{before}<made>{after}"


@pytest.mark.parametrize(("word", "verb"), [("harmful", "must not be applied"), ("needless", "is needless")])
def test_a_version_that_does_not_want_it_is_refused_with_the_reason_before_the_range_is_looked_at(word, verb):
    patch = a_patch(**{word: [{"versions": ">=0.21", "reason": "it diverts"}]})
    with pytest.raises(Refused, match=f"{verb}.*it diverts"):
        refuse_unless_meant_for("p", patch, some_facts(vllm="0.21.1"))


def test_a_version_out_of_range_is_refused_and_one_within_is_not():
    with pytest.raises(Refused, match="is for vLLM"):
        refuse_unless_meant_for("p", a_patch(), some_facts(vllm="0.18.0"))
    refuse_unless_meant_for("p", a_patch(), some_facts(vllm="0.21.1.dev17+g0a4756bb5"))


def test_harm_goes_before_needlessness():
    spans = {word: [{"versions": ">=0.21", "reason": word}] for word in ("needless", "harmful")}
    assert by_version(a_patch(**spans), "0.22.0") == (Answer.HARMFUL, "harmful")


@pytest.mark.parametrize(
    ("kernels", "answer"),
    [("0.1.14.1", "needless"), ("0.1.15", "needless"), ("0.1.12.3", "applies"), (None, "applies")],
)
def test_the_kernels_of_an_image_may_make_a_patch_needless_and_unknown_ones_do_not(kernels, answer):
    patch = a_patch(needless=[{"kernels": ">=0.1.14.1", "reason": "they do it"}])
    assert by_version(patch, "0.21.0", kernels)[0] == answer
    if answer == "needless":
        with pytest.raises(Refused, match=f"kernels {kernels}"):
            refuse_unless_meant_for("p", patch, some_facts(kernels=kernels))


def test_a_span_of_both_holds_only_for_both():
    patch = a_patch(harmful=[{"versions": ">=0.22", "kernels": "<0.1.9", "reason": "no"}])
    held = {(v, k): by_version(patch, v, k)[0] for v in ("0.21.0", "0.22.0") for k in ("0.1.8", "0.1.9")}
    assert [key for key, answer in held.items() if answer is Answer.HARMFUL] == [("0.22.0", "0.1.8")]


def test_an_anchor_that_stands_twice_is_told_with_both_lines():
    base = "one\nold\ntwo\nold\n"
    with pytest.raises(Refused, match="2 times, at lines 2 and 4, not once"):
        patched("p", for_base(base), "vllm/a.py", base)


@given(st.lists(st.sampled_from(["x", "ab", "\n", "aab"]), max_size=12).map("".join))
def test_the_lines_of_an_anchor_are_as_many_as_its_places(text):
    lines = lines_of(text, "ab")
    assert len(lines) == text.count("ab")
    assert all("ab" in text.split("\n")[line - 1] for line in lines)


OVERLAY = {"file": "vllm/a.py", "source": "mine.py", "base": "a" * 64}


@pytest.mark.parametrize(
    "changes",
    [
        {"edits": None},
        {"scripts": [{"file": "a.py", "where": "there"}]},
        {"overlays": [OVERLAY]},
        {"edits": None, "overlays": [OVERLAY, OVERLAY]},
        {"edits": None, "overlays": [OVERLAY | {"file": "vllm/models/"}]},
        {"edits": None, "overlays": [OVERLAY | {"base": "a"}]},
        {"edits": None, "overlays": [{"file": "vllm/a.py", "source": "mine.py"}]},
        {"edits": [{"file": "/etc/passwd", "old": "a", "new": "b"}]},
        {"edits": [{"file": "a.py", "old": "", "new": "b"}]},
        {"bases": {"abc": "0.1"}},
        {"bases": {"A" * 64: "0.1"}},
        {"env": {"NOT OK": "1"}},
        {"markers": [{"file": "vllm/b.py", "text": "x"}]},
        {"needless": [{"reason": "of no version"}]},
        {"unneeded": [{"versions": ">1", "reason": "an old word"}]},
    ],
)
def test_a_patch_that_cannot_be_meant_is_no_patch(changes):
    with pytest.raises(ValidationError):
        a_patch(**changes)


@pytest.mark.parametrize(("kind", "each"), [
    ("scripts", {"file": "fix/p.py", "where": "there"}), ("overlays", OVERLAY | {"file": "fix/p.py"}),
])  # fmt: skip
def test_a_file_that_a_release_has_once_is_named_once(kind, each):
    other = each | {"file": "fix/q.py"}
    assert a_patch(edits=None, **{kind: [each, other]})
    with pytest.raises(ValidationError, match=f"`{kind}` names fix/p.py twice"):
        a_patch(edits=None, **{kind: [each, other, each]})


@pytest.mark.parametrize("longest", ["x" * LONGEST_SCRIPT, "é" * (LONGEST_SCRIPT // 2)])
def test_a_script_whose_mark_no_file_system_has_a_name_for_is_refused_when_the_patch_is_read(longest):
    patch = a_patch(edits=None, scripts=[{"file": f"deep/{longest}", "where": "there"}])
    [order] = brought("p", patch, Place(site=a_site(), root="/srv/site"))
    numbered = order.target.replace("/00-0-", "/99999-99999-")
    assert len(mark(numbered, "0" * 64).encode()) in (254, 255)
    with pytest.raises(ValidationError, match=f"a start script has {LONGEST_SCRIPT} at most"):
        a_patch(edits=None, scripts=[{"file": f"deep/{longest}x", "where": "there"}])


@pytest.mark.parametrize("kind", [{}, {"edits": None, "overlays": [OVERLAY]}])
def test_only_scripts_come_after_others(kind):
    with pytest.raises(ValidationError, match="`after` is for `scripts` alone"):
        a_patch(**kind, after=["one"])


@pytest.mark.parametrize(
    "changes", [{"versions": "newer"}, {"versions": ","}, {"harmful": [{"versions": "x", "reason": "y"}]}]
)
def test_a_range_that_is_none_is_found_when_the_patch_is_read(changes):
    with pytest.raises(ValidationError, match=r"versions"):
        a_patch(**changes)


@pytest.mark.parametrize("file", ["../outside.py", "vllm/../../outside.py", "a/.."])
def test_a_patch_reaches_nothing_above_its_folder(file):
    with pytest.raises(ValidationError):
        a_patch(edits=[{"file": file, "old": "a", "new": "b"}])
    with pytest.raises(ValidationError):
        a_patch(edits=None, scripts=[{"file": file, "where": "there"}])


@pytest.mark.parametrize(
    "file", [".", "./vllm/a.py", "vllm/./a.py", "vllm//a.py", "vllm/.", "a/./b", "vllm/" + "x" * 256, "x/" * 600 + "x"]
)
def test_a_file_has_one_spelling_and_a_name_that_a_disk_can_hold(file):
    for changes in ({"edits": [{"file": file, "old": "a", "new": "b"}]},
                    {"edits": None, "overlays": [OVERLAY | {"file": file}]},
                    {"edits": None, "overlays": [OVERLAY | {"source": file}]},
                    {"edits": None, "scripts": [{"file": "a.py", "where": "there", "touches": [file]}]}):  # fmt: skip
        with pytest.raises(ValidationError):
            a_patch(**changes)


@given(st.lists(st.sampled_from([".", "", "..", "a", "b.py"]), min_size=1, max_size=6).map("/".join))
def test_of_two_spellings_of_one_file_one_at_most_is_a_path(spelling):
    plain = posixpath.normpath(spelling)
    try:
        a_patch(edits=[{"file": spelling, "old": "a", "new": "b"}])
    except ValidationError:
        return
    assert spelling == plain


@pytest.mark.parametrize("value", ["", "a\0b", "\0"])
def test_a_variable_that_no_engine_can_be_given_is_found_when_the_patch_is_read(value):
    with pytest.raises(ValidationError, match="env"):
        a_patch(env={"X": value})


def test_what_b70ctl_itself_sets_comes_from_no_patch():
    tuned = Kernels(folder="/k", origin="shipped", version="1", digest="a" * 64, proven=("0.21.0",), table="/t")
    place = Place(site=a_site(), root="/srv/site", host=a_host(ADDRESS))
    asked = Request(name="p", profile=a_profile(kernels="b70"))
    made = resolve(asked, place, some_facts(), {}, tuned)
    assert {"ZE_AFFINITY_MASK", "PYTHONPATH", "B70_KERNELS_TUNING"} <= set(made.env)
    for variable in made.env:
        with pytest.raises(ValidationError, match=f"itself sets {variable}"):
            a_patch(env={variable: "1"})


@pytest.mark.parametrize("changes", [
    {"versions": ">=" + "9" * 5000}, {"versions": ",".join([">=0.1"] * 50)},
    {"harmful": [{"versions": ">=" + "9" * 5000, "reason": "x"}]},
    {"harmful": [{"kernels": ">=" + "9" * 5000, "reason": "x"}]},
    {"markers": [{"file": "vllm/a.py", "text": "x" * 1001}]},
])  # fmt: skip
def test_ranges_and_markers_have_an_end(changes):
    with pytest.raises(ValidationError):
        a_patch(**changes)
