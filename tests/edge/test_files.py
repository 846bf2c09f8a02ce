"""A file is written whole or not at all, and what is no file is never put in a file's place."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from b70ctl.edge.files import replace
from b70ctl.errors import MachineError


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def a_directory(path):
    path.mkdir()


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
