"""What a terminal can show, and how much of it; nothing here is printed."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

COMMAND = re.compile(r"(?:^|: )(?:b70ctl|docker|ls|mv|sudo) ")
NARROW = 30
"""Characters that a table's last column needs beside the others, or those of its longest word; where a terminal has
fewer, it goes below them."""


def can_ask() -> bool:
    """Whether somebody sits at both ends."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def can_rewrite() -> bool:
    """Whether a line on stderr can be written over."""
    return is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody sees it."""
    return stream is not None and not stream.closed and stream.isatty()


def bold(text: str, stream: TextIO | None) -> str:
    """Text in bold, where the stream shows it."""
    styled = is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[1m{text}\x1b[0m" if styled else text


def columns(stream: TextIO | None = None) -> int:
    """How wide a stream is; stdout where none is named. A terminal that does not know (serial, `expect`) says 0."""
    try:
        known = int(os.environ.get("COLUMNS") or os.get_terminal_size((stream or sys.stdout).fileno()).columns)
    except (OSError, ValueError):
        known = 0
    return known if known > 0 else 100


def flowing(text: str, width: int, beside: int = 0) -> str:
    """Text whose lines end between words, the first `beside` columns shorter; a word that is longer stays whole."""
    lines: list[str] = []
    for line in text.split("\n"):
        first = " " * beside if not lines else ""
        lines += textwrap.wrap(line, max(width, 20), initial_indent=first, break_long_words=False,
                               break_on_hyphens=False) or [""]  # fmt: skip
    return "\n".join([lines[0][beside:], *lines[1:]])


def laid_out(head: Sequence[str] | None, rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """A table's rows: columns as wide as their longest value; with a `width` the last is wrapped, or goes below."""
    table = [head, *rows] if head else rows
    *widths, last = [max(map(len, column)) for column in zip(*table, strict=True)]
    indent = sum(each + 2 for each in widths)
    needed = max([NARROW, *(len(word) for row in table for word in row[-1].split())])
    below = width is not None and width - indent < min(last, needed)
    found = []
    for row in table:
        line = "".join(cell.ljust(each + 2) for cell, each in zip(row, widths, strict=False))
        if below and row is not head:
            line, indent = f"{line.rstrip()}\n    ", 4
        text = row[-1] if width is None or row is head else flowing(row[-1], width - indent)
        found.append((line + text.replace("\n", "\n" + " " * indent)).rstrip())
    return found


def prose(text: str, stream: TextIO | None, beside: int = 0) -> str:
    """Text as a stream shows it: on a terminal its lines end between words."""
    # a command stays whole, to be copied: a line that ends within it would be two
    whole = COMMAND.search(text) or not is_terminal(stream)
    return text if whole else flowing(text, columns(stream), beside)


def labelled(label: str, text: str, stream: TextIO | None) -> str:
    """Text after a bold word."""
    return f"{bold(label, stream)} {prose(text, stream, beside=len(label) + 1)}"


def in_minutes(seconds: float) -> str:
    """A time for people."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{int(rest):02}s" if minutes else f"{rest:.1f}s"
