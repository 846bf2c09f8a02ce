"""Every command says what it does, with an example that it would understand."""

import re
import shlex

import pytest
import typer

from b70ctl import __version__
from b70ctl.cli import COMMANDS, app, load


def every_command():
    for name in COMMANDS:
        command = load(name)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield (name,), command
        else:
            yield from (((name, each), found) for each, found in inner.items())


ALL = dict(every_command())
each = pytest.mark.parametrize("words", ALL, ids=" ".join)


def example(words):
    [found] = re.findall(r"^\s*Example: (.+)$", ALL[words].help or "", re.MULTILINE)
    return shlex.split(found)


@each
def test_every_command_has_one_example_and_it_is_of_that_command(words):
    assert example(words)[: len(words) + 1] == ["b70ctl", *words]


@pytest.mark.parametrize("word", ["switch", "rollback", "stop", "start", "restart", "drain", "restore"])
def test_yes_may_be_said_to_whatever_changes_what_serves(word):
    assert "yes" in {each.name for each in ALL[(word,)].params}


@each
def test_every_example_is_understood(words):
    given = example(words)[len(words) + 1 :]
    ALL[words].make_context(" ".join(words), given, resilient_parsing=False)


@each
def test_help_is_shown_and_needs_neither_site_nor_daemon(words, b70ctl):
    said = b70ctl(*words, "--help").exits(0)
    assert "Example:" in said.out
    assert said.err == ""


@each
def test_the_usage_line_has_names_in_one_pair_of_brackets_or_none(words, b70ctl):
    [usage] = [line for line in b70ctl(*words, "--help").out.splitlines() if line.startswith("Usage: ")]
    assert usage.startswith(f"Usage: b70ctl {' '.join(words)} [OPTIONS]")
    assert not {"{", "}", "[[", "]]"} & {*usage, *(usage[at : at + 2] for at in range(len(usage)))}


@each
def test_what_an_option_takes_has_a_name(words, b70ctl):
    options = b70ctl(*words, "--help").out.partition("Options:")[2]
    assert re.findall(r"--\S+ <[a-z ]+>", options) == []


@each
def test_every_option_says_what_it_is_for(words):
    lacking = [each.name for each in ALL[words].params if each.name != "help" and not getattr(each, "help", None)]
    assert lacking == []


@each
def test_an_unknown_option_is_a_usage_error(words, b70ctl):
    assert b70ctl(*words, "--no-such-option").code == 2


def test_the_list_of_commands_is_whole_and_each_has_a_line(b70ctl):
    said = b70ctl("--help").exits(0)
    for name, entry in COMMANDS.items():
        assert re.search(rf"\b{name}\b", said.out)
        assert entry.help


def test_what_help_lists_is_what_the_command_says_of_itself():
    for name, entry in COMMANDS.items():
        words = set(re.findall(r"[a-z]{5,}", entry.help.lower()))
        told = set(re.findall(r"[a-z]{5,}", str(load(name).help).lower()))
        assert words & told, name


def test_a_command_that_does_not_exist_is_a_usage_error(b70ctl):
    said = b70ctl("swich").exits(2)
    assert "swich" in said.err


def test_without_a_command_help_is_shown(b70ctl):
    said = b70ctl()
    assert "switch" in said.out + said.err


def test_the_version_is_told(b70ctl):
    assert (b70ctl("--version").code, b70ctl("--version").out) == (0, f"b70ctl {__version__}\n")


def test_the_program_is_a_click_group_that_completion_can_walk():
    group = typer.main.get_command(app)
    assert group.list_commands(None) == list(COMMANDS)
