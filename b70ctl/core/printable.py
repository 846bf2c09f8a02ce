"""Somebody else's text on a terminal: it is shown, and nothing in it is obeyed."""

from __future__ import annotations

import re

_STYLE = r"\x1b\[(?:(?!0?8;)[0-9]{0,2};){0,3}(?!0?8m)[0-9]{0,2}m"
"""Colours and bold, which logs have; not what hides a text."""
_ORDERS = re.compile(
    rf"({_STYLE}|\r\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """Text of whatever origin as a terminal may have it: `^[` for an escape, `\\u202e` for what turns a line around.

    A log, a name or an answer may hold `ESC ] 0 ;`, which would set the terminal's title, and worse. Colours stay.
    """
    return _ORDERS.sub(lambda found: found[1] or _named(ord(found[0])), text)


def one_line(text: str) -> str:
    """Text that stays on its line wherever it is read: what would end it, or is no letter, by its escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _named(code: int) -> str:
    return f"^{chr(code + 0x40)}" if code < 0x20 else f"\\u{code:04x}"
