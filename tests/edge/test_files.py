"""A file is written whole or not at all, and what is no file is never put in a file's place."""

import errno
import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from b70ctl.edge.files import append, not_allowed, read_json, replace, sweep, unwritable
from b70ctl.errors import B70Error, MachineError


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def a_directory(path):
    path.mkdir()


def test_what_may_not_be_looked_at_is_told_from_what_is_not_there():
    before = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "open").write_text("x")
        (folder / "shut").write_text("x")
        (folder / "shut").chmod(0)
        (folder / "closed").mkdir(mode=0)
        try:
            os.seteuid(65534 if before == 0 else before)
            for denied in (folder / "shut", folder / "closed" / "x"):
                assert not_allowed(denied) == "Permission denied"
            for other in (folder / "open", folder / "none", folder / "open" / "x", folder):
                assert not_allowed(other) is None
        finally:
            os.seteuid(before)
            (folder / "closed").chmod(0o700)


@pytest.mark.parametrize(("make", "kind"), [(a_pipe, "named pipe"), (a_socket, "socket"), (a_directory, "directory")])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_refused_and_stays_what_it_is(tmp_path, make, kind, linked):
    path = tmp_path / "it"
    make(path)
    before = path.stat()
    if linked:
        (tmp_path / "link").symlink_to(path)
    with pytest.raises(MachineError, match=f"cannot be written: it is a {kind}, not a file"):
        replace(tmp_path / "link" if linked else path, "text")
    assert (path.stat().st_ino, path.stat().st_mode) == (before.st_ino, before.st_mode)
    assert {each.name for each in tmp_path.iterdir()} == {"it", *(["link"] if linked else [])}


def test_a_device_is_refused_also_to_root():
    with pytest.raises(MachineError, match="/dev/full cannot be written: it is a device"):
        replace(Path("/dev/full"), "text")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_who_names_stdout_is_told_to_leave_it_out(name):
    ours, theirs = os.pipe()
    kept = os.dup(1)
    os.dup2(theirs, 1)
    try:
        with pytest.raises(MachineError) as refused:
            replace(Path(name), "text")
    finally:
        os.dup2(kept, 1)
        for each in (ours, theirs, kept):
            os.close(each)
    assert "leave it out" in refused.value.hint


@pytest.mark.parametrize("there", [False, True])
def test_a_link_stays_and_what_it_points_to_is_written(tmp_path, there):
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_text("before")
    link.symlink_to(target)
    replace(link, "text", mode=0o600)
    assert link.is_symlink()
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("text", 0o600)
    assert [each.name for each in target.parent.iterdir()] == ["target"]


def test_a_link_to_itself_is_an_error_and_no_crash(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(MachineError, match="cannot be written"):
        replace(tmp_path / "loop", "text")


WRITE = """
import sys
from pathlib import Path
from b70ctl.edge.files import replace
input()
for number in range(200):
    replace(Path(sys.argv[1]), sys.argv[2] * 2000)
"""


@pytest.mark.process
def test_processes_that_write_one_file_at_once_do_not_take_it_from_each_other(tmp_path):
    path = tmp_path / "f"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(path), word], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for word in "abcd"
    ]
    for writer in writers:
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    assert [writer.communicate()[1] for writer in writers] == [b""] * 4
    assert path.read_text() in {word * 2000 for word in "abcd"}
    assert [each.name for each in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("name", ["n" * 255, "\u4e2d" * 85])
def test_a_name_as_long_as_there_is_is_written(tmp_path, name):
    replace(tmp_path / name, "text")
    assert [each.name for each in tmp_path.iterdir()] == [name]


ENDED = 99_999_999
"""No process has this number: Linux gives none above four million."""


def test_what_a_killed_process_was_writing_is_swept_and_what_a_living_one_is_stays(tmp_path):
    mine, theirs = f"f.{os.getpid()}-0123abcd.new", f"f.{ENDED}-0123abcd.new"
    for name in (mine, theirs):
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [mine]


@pytest.mark.parametrize("name", ["f", "f.new", "1-0123abcd.new", "f.{}-0123abcd", "f.{}-0123.new", "{}-0123abcd.new"])
def test_a_persons_own_file_is_not_swept(tmp_path, name):
    (tmp_path / name.format(ENDED)).touch()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_sweeping_what_is_not_there_makes_nothing(tmp_path):
    sweep(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("raised", [KeyboardInterrupt, UnicodeEncodeError])
def test_a_write_that_is_broken_off_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch, raised):
    replace(tmp_path / "f", "old")

    def interrupt(_):
        raise KeyboardInterrupt

    if raised is KeyboardInterrupt:
        monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(raised):
        replace(tmp_path / "f", "new" if raised is KeyboardInterrupt else "\ud800")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("f", "old")]


# -- what to type -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [replace, append])
def test_a_file_where_a_folder_should_be_is_no_full_disk(tmp_path, write):
    (tmp_path / "a file").write_text("")
    path = tmp_path / "a file" / "below" / "it"
    with pytest.raises(MachineError, match="Not a directory") as refused:
        write(path, "text")
    assert shlex.split(refused.value.hint) == ["namei", "-l", str(path)]


def test_a_full_disk_is_looked_at_where_there_is_a_folder(tmp_path):
    error = unwritable(tmp_path / "not" / "yet" / "there", OSError(errno.ENOSPC, "No space left on device"))
    assert error.hint == f"df -h {tmp_path}; df -i {tmp_path}"


def test_a_damaged_file_is_moved_by_a_command_that_can_be_typed(tmp_path):
    path = tmp_path / "it's damaged"
    path.write_text("{")
    with pytest.raises(B70Error) as refused:
        read_json(path)
    assert shlex.split(refused.value.hint) == ["mv", str(path), f"{path}.damaged"]
