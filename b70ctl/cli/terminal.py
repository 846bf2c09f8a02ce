"""What a terminal can show, and how much of it; nothing here is printed."""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TextIO


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


def columns() -> int:
    """How wide stdout is."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return 100


def wrapped(text: str, width: int) -> list[str]:
    """Lines that end between words; a word that is longer, a command's hash say, stays whole."""
    if len(text) <= width:
        return [text]
    return textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]


def in_minutes(seconds: float) -> str:
    """A time for people."""
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{int(rest):02}s" if minutes else f"{rest:.1f}s"
