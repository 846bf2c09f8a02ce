"""One command at a time, and no lock outlives who held it."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from b70ctl.edge.lock import holder, is_taken, leased, locked
from b70ctl.errors import Exit, Locked, MachineError
from tests.eventually import eventually
from tests.making import ADDRESS, SECOND
from tests.no_files import NO_FILES

SINCE = "2026-01-01T00:00:00Z"
HOLD = """
import sys
from pathlib import Path
from b70ctl.edge.lock import locked
with locked(Path(sys.argv[1]), "site x", "b70ctl switch other", "2026-01-01T00:00:00Z"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_holder(path):
    """Another process that holds a lock until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"held\n"
        try:
            yield child
        finally:
            child.kill()


def take(path):
    return locked(path, "site x", "b70ctl switch mine", SINCE)


def is_free(path):
    try:
        with take(path):
            return True
    except Locked:
        return False


def test_a_second_holder_is_told_who_the_first_is(tmp_path):
    path = tmp_path / "deep" / "lock"
    with take(path), pytest.raises(Locked, match="site x is held by") as refused, take(path):
        pass
    assert f"`b70ctl switch mine` (pid {os.getpid()}, since {SINCE})" in refused.value.what
    assert refused.value.exit_code is Exit.LOCKED


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"command": 1}'])
def test_a_holder_that_says_nothing_of_use_is_another_command(tmp_path, text):
    path = tmp_path / "lock"
    with take(path):
        path.write_text(text)
        with pytest.raises(Locked, match="is held by another command"), take(path):
            pass


@pytest.mark.process
def test_a_lock_is_free_when_its_holder_was_killed(tmp_path):
    path = tmp_path / "lock"
    with other_holder(path) as child:
        with pytest.raises(Locked, match=f"`b70ctl switch other` .pid {child.pid}"), take(path):
            pass
        child.kill()
        child.wait()
        assert is_free(path)


@pytest.mark.process
def test_a_lock_stays_taken_as_long_as_somebody_has_inherited_it(tmp_path):
    path = tmp_path / "lock"
    with take(path) as descriptor:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[descriptor])
    with child:
        assert not is_free(path)
        child.kill()
    eventually(lambda: is_free(path))


@pytest.mark.process
def test_a_lock_is_not_inherited_by_accident(tmp_path):
    path = tmp_path / "lock"
    with take(path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with child:
        eventually(lambda: is_free(path))  # the child's copy is closed within its exec, not before ours goes on
        assert child.poll() is None
        child.kill()


def test_an_error_inside_frees_the_lock(tmp_path):
    with pytest.raises(ValueError, match="x"), take(tmp_path / "lock"):
        raise ValueError("x")
    assert is_free(tmp_path / "lock")


@pytest.mark.process
def test_a_reader_is_told_who_holds_it_and_is_in_nobodys_way(tmp_path):
    path = tmp_path / "lock"
    assert holder(path) is None
    assert not path.exists()
    with other_holder(path):
        assert "b70ctl switch other" in str(holder(path))
        assert "b70ctl switch other" in str(holder(path))
    assert holder(path) is None
    with take(path):
        assert "b70ctl switch mine" in str(holder(path))


TABLE = """\
1: OFDLCK ADVISORY  READ -1 00:06:7 0 EOF
2: FLOCK  ADVISORY  WRITE 20500 fe:01:5325460 0 EOF
2: -> FLOCK  ADVISORY  WRITE 20501 fe:01:5325461 0 EOF
3: FLOCK  ADVISORY  WRITE 20507 00:2d:77 0 EOF
4: POSIX  ADVISORY  WRITE 20507 fe:01:88 0 EOF
"""


@pytest.mark.parametrize(
    ("device", "inode", "taken"),
    [
        ((0xFE, 1), 5325460, True),
        ((0xFE, 2), 5325460, False),  # another partition
        ((0, 1), 5325460, False),
        ((0xFE, 1), 77, False),  # a file in memory has this number
        ((0, 0x2D), 77, True),
        ((0, 0x99), 77, True),  # a subvolume of btrfs has another device here than in the table
        ((0xFE, 1), 5325461, False),  # it waits
        ((0xFE, 1), 88, False),
        ((0, 6), 7, False),
        ((0, 0x2D), 7, False),  # part of a number is another number
    ],
)
def test_a_lock_is_told_by_its_file_and_by_the_device_where_that_is_one(device, inode, taken):
    assert is_taken(TABLE, os.makedev(*device), inode) is taken


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"pid": 1}', "null", "\ufffd" * 9])
def test_a_lock_with_nonsense_in_it_still_locks(tmp_path, text):
    path = tmp_path / "lock"
    with take(path):
        path.write_text(text)
        with pytest.raises(Locked, match="held by another command"), take(path):
            pass


def test_a_holder_that_was_named_by_a_longer_command_is_not_seen_in_a_shorter_one(tmp_path):
    path = tmp_path / "lock"
    with locked(path, "x", "b70ctl " + "long " * 50, SINCE):
        pass
    with locked(path, "x", "b70ctl", SINCE):
        assert json.loads(path.read_text())["command"] == "b70ctl"


def test_a_lock_that_cannot_be_made_is_a_machine_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="cannot be opened"), take(tmp_path / "file" / "lock"):
        pass


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MachineError), take(tmp_path / "lock"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "precious"


@pytest.mark.parametrize("kind", ["a named pipe", "a directory", "a socket"])
def test_a_lock_that_is_no_file_is_refused_with_what_it_is(tmp_path, kind):
    NO_FILES[kind](tmp_path / "lock")
    with pytest.raises(MachineError, match=f"it is {kind}, not a file"), take(tmp_path / "lock"):
        pass
    assert holder(tmp_path / "lock") is None


def lease(folder, *cards):
    return leased(folder, cards, "b70ctl switch", SINCE)


def test_two_sites_cannot_have_one_card(tmp_path):
    with lease(tmp_path, ADDRESS) as held:
        assert len(held) == 1
        with pytest.raises(Locked, match=f"card {ADDRESS}"), lease(tmp_path, SECOND, ADDRESS):
            pass
        with lease(tmp_path, SECOND):
            pass
    with lease(tmp_path, SECOND, ADDRESS, ADDRESS) as held:
        assert len(held) == 2


def test_no_card_needs_no_folder(tmp_path):
    with lease(tmp_path / "leases") as held:
        assert held == ()
    assert not (tmp_path / "leases").exists()


def test_another_user_can_lease_too(tmp_path):
    previous = os.umask(0o077)
    try:
        with lease(tmp_path / "leases", ADDRESS):
            pass
    finally:
        os.umask(previous)
    assert (tmp_path / "leases").stat().st_mode & 0o7777 == 0o1777
    assert (tmp_path / "leases" / f"card-{ADDRESS}.lock").stat().st_mode & 0o777 == 0o666
