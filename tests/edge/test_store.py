"""Every file of a site's memory is whole or not there, whenever it was cut off."""

import errno
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.deployment import Order
from b70ctl.core.journal import Event
from b70ctl.core.plan import plan_snapshot, plan_switch
from b70ctl.core.release import State
from b70ctl.edge.files import append, moment, now, read_json, replace
from b70ctl.edge.store import Store
from b70ctl.errors import B70Error, MachineError, Refused
from tests.making import a_release, a_verdict
from tests.no_files import NO_FILES

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".b70ctl")


def written(store, number=1):
    release = a_release(number)
    with store.writing(release) as folder:
        (folder / "compose.yaml").write_text("name: x\n")
    return release


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- one file ---------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_with_its_mode(tmp_path):
    path = tmp_path / "deep" / "f"
    replace(path, "one")
    replace(path, "two", mode=0o600)
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert everything(path.parent) == ["f"]


def test_a_secret_is_never_readable_by_others_not_even_for_a_moment(tmp_path):
    (tmp_path / "f.new").write_text("left behind, readable")
    modes = []
    previous = os.umask(0)
    try:
        replace(tmp_path / "f", "secret", mode=0o600)
        modes.append(stat.S_IMODE((tmp_path / "f").stat().st_mode))
    finally:
        os.umask(previous)
    assert modes == [0o600]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, call):
    path = tmp_path / "f"
    replace(path, "old")

    def fail(*_, **__):
        raise FULL

    monkeypatch.setattr(os, call, fail)
    if call == "replace":
        monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(MachineError, match="No space left"):
        replace(path, "new")
    assert path.read_text() == "old"
    assert everything(tmp_path) == ["f"]


def test_a_replacement_below_a_file_is_a_machine_error(tmp_path):
    (tmp_path / "f").write_text("a file")
    with pytest.raises(MachineError, match="cannot be written"):
        replace(tmp_path / "f" / "g", "x")


def test_what_a_killed_command_left_does_not_stop_the_next(tmp_path):
    (tmp_path / "f.new").write_text("half")
    replace(tmp_path / "f", "whole")
    assert (tmp_path / "f").read_text() == "whole"


@given(st.text(alphabet=st.characters(exclude_characters="\r", exclude_categories=["Cs"])))
def test_text_is_read_back_as_it_was_written(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any"
    replace(path, text)
    assert path.read_bytes().decode() == text


def test_what_a_crash_left_of_a_last_line_is_cut_off_before_the_next(tmp_path):
    path = tmp_path / "f"
    append(path, "one")
    with path.open("a") as file:
        file.write("torn")
    append(path, "two")
    append(path, "three")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_a_line_that_cannot_be_written_is_a_machine_error(tmp_path):
    with pytest.raises(MachineError):
        append(tmp_path, "a folder is no file")


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("file", ["state.json", "journal.jsonl", "salt"])
def test_what_is_no_file_is_refused_with_what_it_is_and_not_waited_for(store, file, kind):
    store.folder.mkdir()
    NO_FILES[kind](store.folder / file)
    read = {"state.json": store.state, "journal.jsonl": store.book, "salt": store.salt}[file]
    with pytest.raises(MachineError, match=f"{file} cannot be read: it is {kind}, not a file"):
        read()


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_line_is_not_added_to_what_is_no_file(tmp_path, kind):
    NO_FILES[kind](tmp_path / "f")
    with pytest.raises(MachineError, match=f"f cannot be written: it is {kind}, not a file"):
        append(tmp_path / "f", "a line")


@pytest.mark.parametrize("text", ["{", "[1]", "5", '"text"', "\ufffd", "[" * 100_000])
def test_a_damaged_json_file_is_told_with_a_way_out(tmp_path, text):
    (tmp_path / "f").write_text(text)
    with pytest.raises(B70Error, match="is damaged") as error:
        read_json(tmp_path / "f")
    assert "mv" in str(error.value.hint)
    assert read_json(tmp_path / "nothing") is None


# -- releases ---------------------------------------------------------------------------------------------------------


def test_reading_makes_nothing_not_even_the_folder(store):
    assert store.state() == State()
    assert store.releases() == {}
    assert store.ops() == store.served() == []
    assert store.verdict("x") is None
    store.sweep()
    assert not store.folder.exists()


def test_a_release_is_there_when_it_is_whole(store):
    release = written(store)
    assert store.releases() == {release.id: release}
    assert store.release(release.id) == release
    assert everything(store.release_folder(release.id)) == ["compose.yaml", "deployment.json", "release.json"]


@pytest.mark.parametrize("error", [FULL, Refused("no"), KeyboardInterrupt(), ValueError("x")])
def test_a_release_that_cannot_be_written_leaves_nothing(store, error):
    expected = MachineError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), store.writing(a_release(1)) as folder:
        (folder / "compose.yaml").write_text("half")
        raise error
    assert everything(store.folder) == ["releases"]


def test_a_half_written_release_is_no_release_and_is_swept(store):
    release = written(store)
    partial = store.folder / "releases" / ".partial-0002-p-abcdef"
    partial.mkdir()
    (partial / "release.json").write_text("{")
    halves = [store.folder, store.folder / "images", store.release_folder(release.id)]
    (store.folder / "images").mkdir()
    for folder in halves:
        (folder / "state.json.99999999-0123abcd.new").write_text("half")
    (store.folder / ".check-abc").mkdir()
    (store.folder / ".check-abc" / "secrets.env").write_text("VLLM_API_KEY=hidden\n")
    assert list(store.releases()) == [release.id]
    store.sweep()
    assert everything(store.folder)[:3] == ["images", "releases", f"releases/{release.id}"]
    assert not [name for name in everything(store.folder) if "partial" in name or "check" in name or "new" in name]


def test_releases_are_listed_by_age_and_not_by_name(store):
    for number in (10, 2, 1):
        written(store, number)
    assert [release.number for release in store.releases().values()] == [1, 2, 10]


def test_a_release_is_never_written_over(store):
    release = written(store)
    with pytest.raises(MachineError), store.writing(release) as folder:
        (folder / "compose.yaml").write_text("another")
    assert (store.release_folder(release.id) / "compose.yaml").read_text() == "name: x\n"


def test_a_forgotten_release_is_gone_and_forgetting_again_changes_nothing(store):
    release = written(store)
    store.forget(release.id)
    store.forget(release.id)
    assert store.releases() == {}
    with pytest.raises(Refused, match="is not in"):
        store.release(release.id)


def test_a_damaged_release_is_told_when_it_is_asked_for_and_is_in_nobodys_way(store):
    release, other = written(store), written(store, 2)
    (store.release_folder(release.id) / "release.json").write_text("{")
    assert list(store.releases()) == [other.id]
    with pytest.raises(B70Error, match="is damaged"):
        store.release(release.id)


def no_json(number=None, **changes):
    """A release whose record would not be read again as it is."""
    release = a_release(2)
    files = (Order(kind="draft-config", to="f", target="/f", name="d", overrides={"a": number}),) if number else ()
    return release.model_copy(update={"deployment": release.deployment.model_copy(update={"files": files} | changes)})


@pytest.mark.parametrize("release", [no_json(float("inf")), no_json(float("nan")), no_json(summary="\ud800")])
def test_a_release_that_could_not_be_read_again_is_not_written(store, release):
    with pytest.raises(Refused, match="could not be read again") as refused, store.writing(release):
        pass
    assert release.id in refused.value.what
    assert everything(store.folder) == ["releases"]


@pytest.mark.parametrize("damage", ["{", "[" * 100_000, None])
def test_a_folder_that_is_called_like_a_release_and_is_none_is_known(store, damage):
    release, other = written(store), written(store, 2)
    record = store.release_folder(release.id) / "release.json"
    record.unlink() if damage is None else record.write_text(damage)
    for name in ("mine", f"{release.id}.bak", ".partial-0003-p-abcdef"):
        (store.folder / "releases" / name).mkdir()
    assert store.unread() == [release.id]
    assert list(store.releases()) == [other.id]


def test_a_verdict_is_kept_and_replaced(store):
    release = written(store)
    store.save_verdict(release.id, a_verdict("failed"))
    store.save_verdict(release.id, a_verdict("proven", op=2))
    assert store.verdict(release.id) == a_verdict("proven", op=2)


def test_a_damaged_state_is_told_with_a_way_out(store):
    replace(store.folder / "state.json", "{")
    with pytest.raises(B70Error, match=r"state.json is damaged") as error:
        store.state()
    assert "mv" in str(error.value.hint)


# -- journal ----------------------------------------------------------------------------------------------------------


def test_commands_are_numbered_and_those_that_served_are_listed(store):
    for wanted, result in (("a", "done"), ("b", "rolled-back"), ("c", "finished"), ("d", "interrupted")):
        store.begin(plan_switch(wanted, None, because="x", new=True), "b70ctl").write(Event.END, result=result)
    store.begin(plan_snapshot("a", "n"), "b70ctl").write(Event.END, result="done")
    assert [op.number for op in store.ops()] == [1, 2, 3, 4, 5]
    assert store.served() == ["a", "c"]


def test_a_journal_that_a_disk_spoilt_is_read_around_the_spoilt_line(store):
    store.begin(plan_snapshot("a", "n"), "b70ctl").write(Event.END, result="done")
    with store.journal_file.open("ab") as file:
        file.write(b"\xff\xfe\x00 spoilt\n")
    store.begin(plan_snapshot("b", "n"), "b70ctl")
    assert store.book().damaged == (3,)
    assert [op.number for op in store.ops()] == [1, 2]


@given(st.integers(0, 400))
def test_a_journal_cut_at_any_byte_takes_the_next_line(tmp_path_factory, end):
    store = Store(tmp_path_factory.mktemp("store"))
    store.begin(plan_snapshot("a", "n"), "b70ctl").write(Event.END, result="done")
    store.journal_file.write_bytes(store.journal_file.read_bytes()[:end])
    store.begin(plan_snapshot("b", "n"), "b70ctl")
    assert store.ops()[-1].plan.steps[0].subject == "b"


def test_a_time_of_the_journal_is_seconds_and_what_is_none_is_nothing():
    assert moment("1970-01-02T00:00:00Z") == 86400
    assert moment("yesterday") is None
    assert moment(now()) is not None
