"""Why a file cannot be written decides what is hinted: a full disk is one reason of many."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.unwritable import look_at


@pytest.mark.parametrize(
    ("code", "typed"),
    [
        ("ENOSPC", "df -h /site; df -i /site"),
        ("EDQUOT", "quota -s"),
        ("EROFS", "findmnt -T /site"),
        ("EACCES", "namei -l /site/a/b"),
        ("EPERM", "namei -l /site/a/b"),
        ("ENOTDIR", "namei -l /site/a/b"),
        ("ELOOP", "namei -l /site/a/b"),
        ("EFBIG", "ulimit -f"),
        ("EMFILE", "ulimit -n"),
        ("EIO", "findmnt -T /site; sudo dmesg | tail"),
        ("ENAMETOOLONG", "a shorter name"),
        (None, "namei -l /site/a/b"),
    ],
)
def test_the_hint_fits_what_the_system_said(code, typed):
    assert look_at(code, "/site/a/b", "/site") == typed


@given(st.sampled_from(sorted(errno.errorcode.values())))
def test_room_on_the_disk_is_looked_at_only_where_there_is_none(code):
    assert ("df " in look_at(code, "/site/a", "/site")) is (code == "ENOSPC")


@pytest.mark.parametrize("code", ["ENOSPC", "EROFS", "EACCES", "EIO"])
def test_a_path_with_blanks_is_one_word_of_the_command(code):
    assert "'/my site" in look_at(code, "/my site/a", "/my site")
