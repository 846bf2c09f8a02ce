"""Lines arrive whole, wherever they are read from, and none is too long to be read."""

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.edge import logsource, process
from b70ctl.edge.logsource import LAST_LINES, LONGEST, of_container, of_file, of_kernel, of_stdin, whole_lines
from b70ctl.errors import MachineError, Refused, UsageError


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=9).map(str.encode), max_size=12))
def test_pieces_cut_anywhere_become_blocks_of_whole_lines(pieces):
    blocks = list(whole_lines(pieces))
    assert b"".join(blocks) == b"".join(pieces)
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert all(blocks)


def test_of_an_endless_line_the_beginning_is_kept_and_what_follows_is_read():
    pieces = [b"first\nbegin", *[b"x" * LONGEST] * 50, b"\nlast\n"]
    blocks = list(whole_lines(pieces))
    assert blocks[0] == b"first\n"
    lines = b"".join(blocks).split(b"\n")
    assert lines[1].startswith(b"beginx")
    assert lines[2:] == [b"last", b""]
    assert max(map(len, blocks)) < 4 * LONGEST


def test_a_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "log"
    content = b"".join(b"line %d\n" % number for number in range(50_000)) + b"no newline"
    path.write_bytes(content)
    assert b"".join(of_file(path)) == content


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(MachineError, match="cannot be read: No such file"):
        list(of_file(tmp_path / "absent"))


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (
        (tmp_path / "pipe", "a named pipe"),
        (Path("/dev/zero"), "a device"),
        (tmp_path, "a directory"),
        (tmp_path / ("x" * 5000), "name too long"),
    ):
        with pytest.raises(UsageError, match=kind) as refused:
            list(of_file(path))
        assert "diagnose -" in str(refused.value.hint)


def test_stdin_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo")))
    assert b"".join(of_stdin()) == b"one\ntwo"


class Daemon:
    """Stands in for Docker's: one container, and what was asked of it."""

    def __init__(self, status):
        self.status = status
        self.asked = []

    def inspect(self, name):
        return {"Id": "4f00", "State": {"Status": self.status}} if name == "engine" else None

    def follow(self, container):
        self.asked.append(("follow", container))
        return iter([b"one\nt", b"wo\n"])

    def logs(self, container, tail):
        self.asked.append(("logs", container, tail))
        return "one\ntwo\n"


def test_a_container_that_ended_is_read_piece_by_piece_to_its_end():
    daemon = Daemon("exited")
    blocks, over = of_container(daemon, "engine")
    assert (b"".join(blocks), over, daemon.asked) == (b"one\ntwo\n", True, [("follow", "4f00")])


@pytest.mark.parametrize("status", ["running", "restarting", "paused"])
def test_a_container_that_goes_on_is_read_as_far_as_it_is(status):
    daemon = Daemon(status)
    blocks, over = of_container(daemon, "engine")
    assert (b"".join(blocks), over, daemon.asked) == (b"one\ntwo\n", False, [("logs", "4f00", LAST_LINES)])


def test_a_container_that_is_not_there_is_told():
    with pytest.raises(Refused, match="there is no container other"):
        of_container(Daemon("running"), "other")


def kernel(monkeypatch, *answers):
    """Let each way to the kernel's log answer in turn."""
    left = list(answers)

    def run(argv, *, timeout):
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return process.Ran(tuple(argv), *answer)

    monkeypatch.setattr(logsource.process, "run", run)


def test_the_kernels_log_is_dmesgs(monkeypatch):
    kernel(monkeypatch, (0, "[ 1.0] a line\n", ""))
    assert b"".join(of_kernel()) == b"[ 1.0] a line\n"


@pytest.mark.parametrize("first", [(1, "", "dmesg: Operation not permitted\n"), (0, "", ""), MachineError("no dmesg")])
def test_where_dmesg_says_nothing_the_journal_is_asked(monkeypatch, first):
    kernel(monkeypatch, first, (0, "[ 1.0] a line\n", ""))
    assert b"".join(of_kernel()) == b"[ 1.0] a line\n"


def test_where_neither_is_allowed_both_refusals_are_told_with_what_to_type(monkeypatch):
    kernel(monkeypatch, (1, "", "dmesg: Operation not permitted\n"), MachineError("`journalctl` is not installed"))
    with pytest.raises(MachineError) as caught:
        of_kernel()
    assert "Operation not permitted" in caught.value.what
    assert "`journalctl` is not installed" in caught.value.what
    assert caught.value.hint == "sudo b70ctl diagnose --dmesg"
