"""Words that may be secret, and what is shown in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "…"
SECRETIVE = r"(?:(?<![a-z])token(?![a-z])|(?:api|access)[-_.]?key|secret|passw|(?<![a-z])pass(?![a-z])|credential)"
NAME = re.compile(SECRETIVE, re.IGNORECASE)
# a flag or a variable with such a name, and what follows it after `=` or a blank, quoted or not
GIVEN = re.compile(
    rf"""(?P<name>(?:--?|\b)[\w.-]*{SECRETIVE}[\w.-]*)(?P<sep>=|\s+)(?P<value>"[^"]*"|'[^']*'|[^\s"']+)""",
    re.IGNORECASE,
)


def masked(words: Iterable[str]) -> tuple[str, ...]:
    """A command's words with the values of secret flags and variables hidden, inside longer words too."""
    found: list[str] = []
    hide = False
    for word in words:
        found.append(HIDDEN if hide and not word.startswith("-") else GIVEN.sub(rf"\g<name>\g<sep>{HIDDEN}", word))
        hide = word.startswith("-") and "=" not in word and NAME.search(word) is not None
    return tuple(found)
