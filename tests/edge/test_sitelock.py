"""What was pinned and accepted is kept, and what was written by hand is checked."""

import pytest

from b70ctl.edge.sitelock import FILE, Pin, SiteLock, read_lock, write_lock
from b70ctl.errors import UsageError
from tests.no_files import NO_FILES

ID = "sha256:" + "1" * 64
HASH = "a" * 64
LOCK = SiteLock(
    images={"a/b:1": Pin(identity=f"a/b@{ID}", vllm="0.21.1.dev17+g0a4756bb5", at="2026-01-01T00:00:00Z")},
    patches={"one": [HASH]},
)


def test_a_lock_is_read_back_as_it_was_written(tmp_path):
    write_lock(tmp_path, LOCK)
    assert read_lock(tmp_path) == LOCK
    assert (tmp_path / FILE).read_text().startswith("# Written by b70ctl")


def test_writing_it_again_changes_no_byte(tmp_path):
    write_lock(tmp_path, LOCK)
    before = (tmp_path / FILE).read_bytes()
    write_lock(tmp_path, read_lock(tmp_path))
    assert (tmp_path / FILE).read_bytes() == before


def test_where_there_is_none_nothing_is_pinned_or_accepted(tmp_path):
    assert read_lock(None) == read_lock(tmp_path) == SiteLock()


def test_an_empty_file_is_an_empty_lock(tmp_path):
    (tmp_path / FILE).write_text("")
    assert read_lock(tmp_path) == SiteLock()


def test_a_base_is_accepted_for_its_patch_alone():
    assert LOCK.accepted() == {"one": frozenset({HASH})}


@pytest.mark.parametrize("digest", ["1" * 64, "12345e67" + "8" * 56, "0" * 64])
def test_a_hash_that_looks_like_a_number_stays_text(tmp_path, digest):
    write_lock(tmp_path, SiteLock(patches={"one": [digest]}))
    assert read_lock(tmp_path).patches == {"one": [digest]}


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_lock_that_is_no_file_is_not_taken_for_one_that_pins_nothing(tmp_path, kind):
    NO_FILES[kind](tmp_path / FILE)
    with pytest.raises(UsageError, match=f"it is {kind}, not a file"):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["images: {a: latest}\n", "images: {a: {identity: 'a:1', vllm: '1', at: x}}\n", "patches: {one: [short]}\n",
     "patches: {'../x': []}\n", "pins: {}\n", "- a\n", "images: {a: {identity: x@sha256:12, vllm: '1', at: x}}\n"],
)  # fmt: skip
def test_a_lock_that_was_spoilt_is_told_with_its_file(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match=r"b70ctl\.lock\.yaml"):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    "spoilt",
    [SiteLock.model_construct(images={}, patches={"My Fix": [HASH]}),
     SiteLock.model_construct(images={}, patches={"../good": [HASH]}),
     SiteLock.model_construct(images={}, patches={"one": ["short"]}),
     SiteLock.model_construct(images={"": LOCK.images["a/b:1"]}, patches={})],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_written(tmp_path, spoilt):
    write_lock(tmp_path, LOCK)
    with pytest.raises(UsageError, match=r"b70ctl\.lock\.yaml"):
        write_lock(tmp_path, spoilt)
    assert read_lock(tmp_path) == LOCK


@pytest.mark.parametrize("aim", [FILE, "nowhere.yaml"], ids=["a loop", "nowhere"])
def test_a_lock_behind_a_lost_link_is_not_taken_for_one_that_pins_nothing(tmp_path, aim):
    (tmp_path / FILE).symlink_to(aim)
    with pytest.raises(UsageError, match="cannot be read") as told:
        read_lock(tmp_path)
    assert told.value.hint == f"ls -ld {tmp_path / FILE}"
