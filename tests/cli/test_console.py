"""What a terminal is told of somebody else's text, and what a program is."""

import io
import os
import sys

import pytest

from b70ctl.cli.console import Console
from b70ctl.cli.terminal import columns
from b70ctl.core.progress import Probed
from b70ctl.errors import UsageError

TITLE = "\x1b]0;gone\x07"


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything that a console says about a text."""
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    console = Console()
    console.text(TITLE)
    console.piece(TITLE.encode())
    console.rows(["NAME"], [[TITLE]])
    console.say(TITLE)
    console.warn(TITLE)
    console.error(UsageError(TITLE, hint=TITLE))
    return stream.getvalue()


@pytest.mark.parametrize("width", [10, 40, 60])
def test_a_table_loses_nothing_on_a_narrow_terminal_and_breaks_no_word(monkeypatch, width):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    reason = f"its anchor stands there once: b70ctl patches accept marlin:{'a1' * 32} --image a/b:1"
    Console().rows(["NAME", "REASON"], [["marlin", reason], ["x", "short"]])
    said = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert said.split() == ["NAME", "REASON", "marlin", *reason.split(), "x", "short"]
    assert all(line.startswith(("NAME", "marlin", "x", " " * 4)) for line in said.splitlines())
    assert all(len(line) <= max(width, 24) or len(line.split()) == 1 for line in said.splitlines())


def test_an_error_breaks_no_word_on_a_terminal_and_no_command(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "40")
    command = f"b70ctl patches accept marlin:{'a1' * 32} --image a/b:1"
    for hint in (command, "once you have read what changed, " * 4):
        Console().error(UsageError("the image has another file than the one it was made for\nand more", hint=hint))
    Console().say(f"next: {command}")
    Console().say("  a line that begins two columns in and is long")
    said = stream.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert said[-3:] == [f"next: {command}", "  a line that begins two columns in and", "is long"]
    said = said[:-3]
    assert said[:4] == [
        "error: the image has another file than",
        "the one it was made for",
        "and more",
        f"hint: {command}",
    ]
    assert all(len(line) <= 40 for line in said[4:])
    assert " ".join(said[7:]).count("once you have read what changed,") == 4


def test_a_table_is_a_line_a_row_where_nobody_looks(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", "20")
    Console().rows(["NAME", "REASON"], [["marlin", "word " * 30 + "end"]])
    assert len(stream.getvalue().splitlines()) == 2


def test_a_log_gives_no_orders_to_a_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    said = told(Terminal(), monkeypatch)
    assert "\x07" not in said
    assert "\x1b]" not in said
    assert said.count("^[]0;gone^G") == 7
    assert "\x1b[1merror:\x1b[0m" in said


def test_a_program_gets_the_log_as_it_is(monkeypatch):
    assert told(io.StringIO(), monkeypatch).count(TITLE) == 7


def test_data_that_is_looked_at_is_the_same_data(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    Console().data({"text": "\x9b2J\u202e"})
    assert sys.stdout.getvalue() == '{"text": "\\u009b2J\\u202e"}\n'


def test_what_could_not_be_known_is_told_neither_as_well_nor_as_not_asked(capsys):
    Console().tell(Probed("0001", "files", None, "not provable: a file"))
    assert capsys.readouterr().err.split(maxsplit=2) == ["files", "unproven", "not provable: a file\n"]


def test_a_terminal_that_does_not_know_its_width_is_no_narrow_one(monkeypatch):
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: os.terminal_size((0, 0)))
    assert columns(sys.__stdout__) == 100
