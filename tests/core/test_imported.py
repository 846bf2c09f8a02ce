"""A changed file is proven only when it is the one that Python imports, and is what it should be."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.deployment import Changed
from b70ctl.core.imported import Seen, is_module, judged, question

PLACE = "/sp/vllm/a.py"
SHA = "a" * 64
FILE = Changed(patch="one", file="vllm/a.py", target=PLACE, to="files/one/vllm/a.py", markers=("MARK",))
EDITED = FILE.model_copy(update={"to": None})
DIGESTS = {"files/one/vllm/a.py": SHA}
BOTH = {"serve": PLACE, "module": PLACE}


def seen(**changes):
    return Seen.model_validate({"file": "vllm/a.py", "place": PLACE, "sha256": SHA, "imports": BOTH} | changes)


def test_a_file_that_is_imported_and_is_the_releases_is_proven():
    found = judged([FILE], DIGESTS, [seen()])
    assert (found.probe, found.passed, found.detail) == ("files", True, "1 file is the one that Python imports: one")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"imports": BOTH | {"serve": "/w/vllm/a.py"}}, f"the engine imports /w/vllm/a.py, and not {PLACE}"),
        ({"imports": BOTH | {"module": None}}, "`python -m`.* imports nothing, and not"),
        ({"imports": {"serve": PLACE}}, "`python -m`.* imports nothing, and not"),
        ({"imports": {}}, f"the engine imports nothing, and not {PLACE}"),
        ({"sha256": "b" * 64}, f"{PLACE} is not the release's file: sha256 bbbbbbbbbbbb…, not aaaaaaaaaaaa…"),
        ({"sha256": None}, "cannot be read"),
        ({"stale": "/sp/vllm/__pycache__/a.pyc"}, "would load /sp/vllm/__pycache__/a.pyc, compiled from another"),
        ({"missing": ["MARK"]}, f"`MARK` of patch `one` does not stand in {PLACE}"),
        ({"sha256": "b" * 64, "missing": ["MARK"]}, r"\(and 1 more\)"),
    ],
)
def test_whatever_is_otherwise_fails_with_its_reason(changes, told):
    found = judged([FILE], DIGESTS, [seen(**changes)])
    assert found.passed is False
    assert re.search(told, found.detail), found.detail


def test_a_file_of_which_nothing_is_said_is_not_proven():
    assert judged([FILE], DIGESTS, []).passed is False


def test_a_file_that_a_script_edits_may_hold_anything_but_lack_no_marker():
    assert judged([EDITED], {}, [seen(sha256="c" * 64)]).passed is True
    assert judged([EDITED], {}, [seen(sha256="c" * 64, missing=["MARK"])]).passed is False


def test_what_a_script_without_a_marker_has_edited_is_told_as_not_provable_and_stops_nothing():
    bare = EDITED.model_copy(update={"markers": (), "patch": "bare", "file": "vllm/b.py"})
    found = judged([FILE, bare], DIGESTS, [seen(), seen(file="vllm/b.py", sha256="c" * 64)])
    assert found.passed is None
    assert found.detail == (
        "2 files are the ones that Python imports: one, bare, but whether patch `bare` has edited vllm/b.py is not "
        "provable: it names no marker"
    )


@pytest.mark.parametrize("changes", [{"sha256": None}, {"imports": {}}, {"stale": "/sp/vllm/__pycache__/a.pyc"}])
def test_a_script_without_a_marker_is_still_refused_a_file_that_python_does_not_import(changes):
    assert judged([EDITED.model_copy(update={"markers": ()})], {}, [seen(**changes)]).passed is False


@pytest.mark.parametrize("file", ["vllm/tables/B70-8.json", "vllm/not-a-module.py"])
def test_a_file_that_is_no_module_is_proven_by_what_it_holds(file):
    plain = FILE.model_copy(update={"file": file})
    assert judged([plain], DIGESTS, [seen(file=file, imports={})]).passed is True
    assert judged([plain], DIGESTS, [seen(file=file, imports={}, sha256="b" * 64)]).passed is False


@given(st.lists(st.from_regex(r"[a-z_][a-z0-9_]*", fullmatch=True), min_size=1))
def test_a_module_is_python_whose_folders_can_be_named_in_an_import(parts):
    path = "/".join(parts)
    assert is_module(f"{path}.py") is (parts != ["__init__"])
    assert not is_module(f"{path}.json")
    assert not is_module(f"{path}/not-one.py")


def test_one_of_several_that_fails_fails_all():
    other = FILE.model_copy(update={"file": "vllm/b.py", "patch": "two"})
    assert judged([FILE, other], DIGESTS, [seen(), seen(file="vllm/b.py")]).detail.endswith("imports: one, two")
    assert judged([FILE, other], DIGESTS, [seen(), seen(file="vllm/b.py", missing=["x"])]).passed is False


@given(st.lists(st.builds(Changed, patch=st.text(), file=st.text(), target=st.text(), markers=st.tuples(st.text()))))
def test_every_file_is_asked_for_with_its_markers(changed):
    assert [(each["file"], each["target"], each["markers"]) for each in question(changed)] == [
        (each.file, each.target, list(each.markers)) for each in changed
    ]
