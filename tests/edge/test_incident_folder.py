"""An incident's folder is whole or not there, whatever its parts meet."""

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from b70ctl.core.incident import MOST_BYTES
from b70ctl.edge import incident
from b70ctl.edge.incident import hindrance, known, stacks, sweep, table, with_timeout, write_incident
from b70ctl.errors import DaemonAway, EngineError, Interrupted, MachineError

AT = "2026-11-29T22:12:04Z"


def raising(error: BaseException) -> Any:
    def part() -> str:
        raise error

    return part


def test_every_part_is_a_file_of_its_owners_alone(tmp_path: Path) -> None:
    folder = write_incident(tmp_path / "incidents", AT, "wedge", {"a.txt": lambda: "a\n", "b.json": lambda: "{}"}, 5)
    assert folder == tmp_path / "incidents" / "20261129T221204Z-wedge"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.txt": "a\n", "b.json": "{}"}
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.iterdir())}
    assert set(modes.values()) == {0o700, 0o600}


@pytest.mark.parametrize(
    ("error", "said"),
    [(EngineError("no answer"), "no answer"), (ValueError("odd"), "ValueError: odd"), (OSError(5, "bad"), "bad")],
)
def test_a_part_that_fails_says_so_and_keeps_no_other_from_being_written(
    tmp_path: Path, error: Exception, said: str
) -> None:
    folder = write_incident(tmp_path, AT, "gone", {"a.txt": raising(error), "b.txt": lambda: "b"}, 5)
    assert (folder / "a.txt").read_text().startswith("not captured: ")
    assert said in (folder / "a.txt").read_text()
    assert (folder / "b.txt").read_text() == "b"


@pytest.mark.parametrize("error", [Interrupted("asked"), KeyboardInterrupt()])
def test_a_capture_that_is_cut_off_leaves_no_incident_and_is_swept_up(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        write_incident(tmp_path, AT, "gone", {"a.txt": lambda: "a", "b.txt": raising(error)}, 5)
    assert known(tmp_path) == []
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_watch_left_is_removed_by_the_next_incident(tmp_path: Path) -> None:
    (tmp_path / ".partial-x").mkdir()
    write_incident(tmp_path, AT, "gone", {}, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["20261129T221204Z-gone"]


def test_only_the_newest_are_kept_and_never_goes_the_one_that_was_just_written(tmp_path: Path) -> None:
    for year in range(2026, 2032):
        write_incident(tmp_path, f"{year}-01-01T00:00:00Z", "gone", {}, 3)
    assert [name[:4] for name in known(tmp_path)] == ["2029", "2030", "2031"]
    # the clock was set back
    write_incident(tmp_path, "2001-01-01T00:00:00Z", "gone", {}, 1)
    assert [name[:4] for name in known(tmp_path)] == ["2001"]


def test_a_part_is_cut_to_its_end(tmp_path: Path) -> None:
    folder = write_incident(tmp_path, AT, "gone", {"a.txt": lambda: "a" * MOST_BYTES + "the end"}, 5)
    text = (folder / "a.txt").read_text()
    assert text.endswith("the end")
    assert len(text) < MOST_BYTES + 100


def test_a_folder_that_cannot_be_made_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be written"):
        write_incident(tmp_path / "file" / "incidents", AT, "gone", {}, 5)


def test_what_hangs_is_waited_for_no_longer_than_said() -> None:
    over = threading.Event()
    with pytest.raises(DaemonAway, match=r"no answer within 0\.05 s"):
        with_timeout(0.05, over.wait)
    over.set()
    assert with_timeout(5, lambda: 7) == 7
    with pytest.raises(ValueError, match="odd"):
        with_timeout(5, raising(ValueError("odd")))


def listed(*pids: str) -> dict[str, Any]:
    return {"Titles": ["PID", "STAT", "ARGS"], "Processes": [[pid, "Rl", "python serve"] for pid in pids]}


def test_processes_are_told_as_a_table() -> None:
    head, *rows = table(listed("12", "1234567")).splitlines()
    assert head.split() == ["PID", "STAT", "ARGS"]
    assert [row.split()[0] for row in rows] == ["12", "1234567"]


def test_stacks_say_why_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MachineError, match="py-spy is not installed"):
        stacks(listed("0"))


@pytest.mark.process
def test_stacks_are_those_of_each_process_that_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text('#!/bin/sh\n[ "$3" = 1 ] && { echo "not permitted" >&2; exit 1; }\necho "frames of $3"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = listed("self", "1", "0")
    text = stacks(found)
    assert "--- self: python serve\nframes of self\n" in text
    assert "--- 1: python serve\nnot captured: not permitted" in text
    assert "--- 0" not in text
    monkeypatch.setattr(incident, "STACK_SECONDS", 0.2)
    spy.write_text("#!/bin/sh\nexec sleep 60\n")
    assert "did not end within" in stacks(found)


@pytest.mark.parametrize("made", [Path.touch, os.mkfifo, lambda path: path.symlink_to(path)])
def test_a_folder_that_is_none_holds_no_incident_and_says_why(tmp_path: Path, made: Any) -> None:
    folder = tmp_path / "incidents"
    assert (known(folder), hindrance(folder)) == ([], None)
    made(folder)
    assert known(folder) == []
    assert str(folder) in str(hindrance(folder))
    sweep(folder)
    with pytest.raises(MachineError, match="cannot be written"):
        write_incident(folder, AT, "wedge", {}, 5)
