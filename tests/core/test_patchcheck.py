"""What a patch is to an image is told with its reason, and never guessed."""

import hashlib

import pytest

from b70ctl.core.patch import Answer
from b70ctl.core.patchcheck import by_files, by_release, unknown_bases, unread
from tests.making import a_patch, some_facts

FILE = "vllm/a.py"
TEXT = "before\nold\nafter\n"


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


KNOWN = {digest(TEXT): "0.21.0"}
OVERLAY = a_patch(edits=None, overlays=[{"file": FILE, "source": "mine.py", "base": digest(TEXT)}])
SCRIPT = a_patch(edits=None, scripts=[{"file": "s.py", "where": "there", "touches": [FILE]}])


def checked(text=TEXT, patch=None, accepted=(), vllm="0.21.0"):
    patch = patch or a_patch(bases=KNOWN)
    facts = some_facts(files={FILE: digest(text) if text is not None else "absent"}, vllm=vllm)
    texts = dict.fromkeys(unread(patch, facts), text)
    return by_files("p", patch, facts, frozenset(accepted), texts)


@pytest.mark.parametrize(
    ("given", "answer", "reason"),
    [
        ({}, "applies", "a.py is that of 0.21.0"),
        ({"text": TEXT + "more\n", "accepted": [digest(TEXT + "more\n")]}, "applies", "was accepted here"),
        ({"text": TEXT + "more\n"}, "unknown", "stands there once, at line 2: b70ctl patches accept p:"),
        ({"text": "another\n", "accepted": [digest("another\n")]}, "unknown", "0 times"),
        ({"patch": a_patch(bases={digest("another\n"): "0.21.0"}), "text": "another\n"}, "unknown", "0 times"),
        ({"text": TEXT + "old\n"}, "unknown", "2 times, at lines 2 and 4"),
        ({"text": "another\n"}, "unknown", "0 times"),
        ({"text": None}, "unknown", "the image has no vllm/a.py"),
        ({"vllm": "0.24.0"}, "unknown", "it is for vLLM >=0.19,<0.23"),
        ({"patch": OVERLAY}, "applies", "is the file that it was made from"),
        ({"patch": OVERLAY, "text": TEXT + "more\n"}, "unknown", "its base is " + digest(TEXT + "more\n")),
        ({"patch": SCRIPT}, "applies", "looks for its own anchors"),
        ({"patch": SCRIPT, "text": None}, "unknown", "the image has no vllm/a.py, which its script edits"),
    ],
)
def test_an_image_is_judged_by_its_own_files(given, answer, reason):
    found = checked(**given)
    assert found.answer == answer
    assert reason in found.reason


def test_one_doubtful_file_makes_a_patch_of_two_doubtful():
    edits = [{"file": file, "old": "old", "new": "new"} for file in (FILE, "vllm/b.py")]
    facts = some_facts(files={FILE: digest(TEXT), "vllm/b.py": "f" * 64})
    found = by_files("p", a_patch(edits=edits, bases=KNOWN), facts, frozenset(), {FILE: TEXT})
    assert found.answer is Answer.UNKNOWN
    assert "b.py" in found.reason


def test_only_files_that_an_image_has_and_a_patch_for_it_edits_are_read():
    patch, facts = a_patch(bases=KNOWN), some_facts(files={FILE: "f" * 64})
    assert unread(patch, facts) == [FILE]
    assert unread(patch, some_facts(files={FILE: digest(TEXT)})) == [FILE]
    assert unread(patch, some_facts(files={FILE: "absent"})) == []
    assert unread(patch, facts.model_copy(update={"vllm": "0.30.0"})) == []
    assert unread(OVERLAY, facts) == []


@pytest.mark.parametrize(
    ("vllm", "answer", "reason"),
    [
        ("0.21.0", "applies", "made for 0.21.0"),
        ("0.21.1.dev17+g0a4756bb5", "unknown", "--image"),
        ("0.22.0rc1", "unknown", "--image"),
        ("0.24.0", "harmful", "no"),
        ("0.18.0", "unknown", "nothing is known"),
    ],
)
def test_a_version_alone_says_less_of_a_development_build(vllm, answer, reason):
    found = by_release(a_patch(bases=KNOWN, harmful=[{"versions": ">=0.23", "reason": "no"}]), vllm)
    assert found.answer == answer
    assert reason in found.reason


def test_a_version_alone_says_nothing_of_edits_whose_files_are_not_recorded():
    found = by_release(a_patch(), "0.21.0")
    assert (found.answer, "ask the image: --image REF" in found.reason) == (Answer.UNKNOWN, True)
    assert "it is in its range" in found.reason


@pytest.mark.parametrize(("vllm", "answer"), [("0.21.0", "applies"), ("0.22.0", "unknown")])
def test_a_version_alone_says_nothing_of_a_patch_that_depends_on_the_kernels(vllm, answer):
    span = {"versions": ">=0.22", "kernels": ">=0.1.14.1", "reason": "they do it"}
    found = by_release(a_patch(bases=KNOWN, needless=[span]), vllm)
    assert found.answer == answer
    assert ("they do it" in found.reason) is (answer == "unknown")


def test_a_script_is_for_a_version_or_not_without_any_file():
    assert by_release(SCRIPT, "0.21.1.dev17").answer is Answer.APPLIES


def test_an_overlay_that_is_older_than_the_image_is_foreseen_with_what_to_do_and_cannot_be_accepted():
    facts = some_facts(files={FILE: "f" * 64})
    [found] = unknown_bases("p", OVERLAY, facts, {"p": frozenset({"f" * 64})})
    assert "was made from another" in found.what
    assert found.hint == f"make it anew from the image's file, then in patch.yaml: base: {'f' * 64}"


def test_hashes_that_are_known_or_were_accepted_are_no_obstacle():
    assert unknown_bases("p", OVERLAY, some_facts(files={FILE: digest(TEXT)}), {}) == []
    facts = some_facts(files={FILE: "f" * 64})
    assert unknown_bases("p", a_patch(), facts, {"p": frozenset({"f" * 64})}) == []
    assert unknown_bases("p", a_patch(), some_facts(), {}) == []
    [absent] = unknown_bases("p", a_patch(), some_facts(files={FILE: "absent"}), {})
    assert "does not have" in absent.what
