"""A real log lies here without when and where it was taken."""

from pathlib import Path

import pytest

from tests.clean_log import STAMP, cleaned

TESTS = Path(__file__).parent
REAL = sorted([*(TESTS / "core" / "bootlogs").glob("*-cpu*.log"), *(TESTS / "diagnoses").glob("*-cpu*.log")])
PLACES = ("/home/", "/Users/", "/venvs/", "@")


def test_times_keep_their_distances_and_begin_at_midnight():
    log = "INFO 07-04 23:59:30 [a.py:1] x\n[W0704 23:59:31.5 b.cpp:2] y\nW0705 00:00:01.250 3 c.py:4] z\n"
    assert cleaned(log, {}) == (
        "INFO 01-01 00:00:00 [a.py:1] x\n[W0101 00:00:01.5 b.cpp:2] y\nW0101 00:00:31.250 3 c.py:4] z\n"
    )


def test_nothing_else_of_a_line_changes():
    line = "\x1b[0m(APIServer pid=1) 10.1.2.3:4000 took 12:30:01 for 2407-04, 50%|##\r100%|####\n"
    assert cleaned(line, {}) == line
    assert cleaned(line, {"10.1.2.3": "127.0.0.1"}) == line.replace("10.1.2.3", "127.0.0.1")


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_real_log_tells_neither_when_nor_where(path):
    text = path.read_bytes().decode()
    assert {(found["month"], found["day"]) for found in STAMP.finditer(text)} == {("01", "01")}
    assert [place for place in PLACES if place in text] == []
