"""A unit says the same words to systemd that were meant, whatever the site's path is made of."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.unit import MARK, quoted, unit, unit_name
from b70ctl.errors import UsageError
from tests.hostile import hostile

PLAIN = ("/opt/b70ctl/bin/b70ctl", "--site", "/srv/b70", "watch")
SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}


def words(line: str) -> list[str]:
    """A line of a unit as systemd.syntax(7) and systemd.unit(5) say that it is read: all words are in quotes."""
    assert re.fullmatch(r'"(?:[^"\\]|\\.)*"(?: "(?:[^"\\]|\\.)*")*', line), line
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    return [_specified(_unescaped(word)) for word in found]


def _unescaped(word: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU" and len(code) > 1:
            return chr(int(code[1:], 16))
        return SHORT.get(code, code)

    return re.sub(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)", one, word)


def _specified(word: str) -> str:
    assert "%" not in word.replace("%%", ""), word
    return word.replace("%%", "%")


def value(text: str, key: str) -> list[str]:
    return [line.removeprefix(f"{key}=") for line in text.splitlines() if line.startswith(f"{key}=")]


def characters(word: str) -> bool:
    """Whether Unicode calls all of it characters: systemd takes no other."""
    return not any(ord(char) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(char) <= 0xFDEF for char in word)


@given(hostile.filter(characters))
def test_every_word_arrives_as_it_was_meant(path):
    text = unit("b70", ("/usr/bin/b70ctl", "--site", f"/srv/{path}", "watch"), {"DOCKER_HOST": path}, system=False)
    [command] = value(text, "ExecStart")
    assert command.startswith(":")
    assert words(command[1:]) == ["/usr/bin/b70ctl", "--site", f"/srv/{path}", "watch"]
    [variable] = value(text, "Environment")
    assert words(variable) == [f"DOCKER_HOST={path}"]


@given(hostile.filter(characters))
def test_nothing_in_a_path_begins_a_line_of_its_own(path):
    text = unit("b70", (*PLAIN[:2], path, "watch"), {}, system=True, user="root")
    plain = unit("b70", PLAIN, {}, system=True, user="root")
    assert len(re.split(r"[\n\r\0]", text)) == len(re.split(r"[\n\r\0]", plain))


@pytest.mark.parametrize("path", ["/srv/\ufffe", "/srv/\ufdd0", "/srv/\0", "/srv/\udc80"])
def test_what_systemd_cannot_carry_is_refused(path):
    with pytest.raises(UsageError, match="systemd does not take"):
        quoted(path)


@pytest.mark.parametrize("program", ["/opt/it's/b70ctl", '/opt/"x"/b70ctl', "/opt/a\\b/b70ctl", "/opt/a\nb/b70ctl"])
def test_a_program_that_systemd_would_not_start_is_refused(program):
    with pytest.raises(UsageError, match="the program lies at"):
        unit("b70", (program, *PLAIN[1:]), {}, system=False)


def test_a_watch_that_gave_up_stays_down_and_one_that_was_killed_comes_back():
    text = unit("b70", PLAIN, {}, system=False)
    assert value(text, "Restart") == ["on-failure"]
    assert value(text, "RestartPreventExitStatus") == ["1 2 7"]
    assert value(text, "WantedBy") == ["default.target"]
    assert value(text, "User") == []
    assert text.startswith(MARK)


def test_a_unit_of_the_machine_runs_as_the_sites_owner_and_after_docker():
    text = unit("b70", PLAIN, {}, system=True, user="ada")
    assert (value(text, "User"), value(text, "After")) == (["ada"], ["docker.service"])
    assert value(text, "WantedBy") == ["multi-user.target"]


def test_two_sites_have_two_units():
    assert unit_name("left") != unit_name("right")


@given(st.sampled_from(["left", "b70", "a-b_c"]))
def test_a_units_name_is_one_that_systemd_takes(name):
    assert re.fullmatch(r"[A-Za-z0-9:_.\\-]+\.service", unit_name(name))
