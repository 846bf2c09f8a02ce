"""Words that may be secret, and what is shown in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "…"
SECRETIVE = (
    r"(?:(?<![a-z])token(?![a-z])|(?:api|access)[-_.]?key|[-_.]key(?![a-z])"
    r"|secret|passw|(?<![a-z])pass(?![a-z])|credential)"
)
NAME = re.compile(SECRETIVE, re.IGNORECASE)
VARIABLE = re.compile(
    r"(?:^|_)(?:TOKEN(?!_(?:THRESHOLD|LIMIT|BUDGET)$)|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)|(?:^|_)KEY$"
)
"""A variable that may stand in no profile; a threshold of tokens is a number, and vLLM has three."""
FLAG = re.compile(
    r"(?:^|[-_.])(?:token|secret|pass(?:word|wd|phrase)?|(?<!allow-)credentials?|(?:api)?key)$", re.IGNORECASE
)
"""A flag that takes a secret: it ends with what it is. `--long-prefill-token-threshold` takes a number."""
# up to the last @ of the word: a password may hold one
CREDENTIALS = re.compile(r"""(?<=://)[^\s"'`<>]*@""")
# a flag or a variable with such a name, and what follows it after `=` or a blank, quoted or not
GIVEN = re.compile(
    rf"""(?P<name>(?:--?|\b)[\w.-]*{SECRETIVE}[\w.-]*)(?P<sep>=|:\s*|\s+)(?P<value>(?:"[^"]*"|'[^']*'|\S)+)""",
    re.IGNORECASE,
)
# a word that begins with such a name: all that follows is the value, whatever it is made of
WHOLE = re.compile(rf"""(?P<name>[^\s"']*?{SECRETIVE}[\w.-]*)=.*""", re.IGNORECASE | re.DOTALL)


def masked(words: Iterable[str], known: Iterable[str] = ()) -> tuple[str, ...]:
    """A command's words with the values of secret flags and variables hidden, inside longer words too.

    `known` are values that are secret wherever they stand.
    """
    values = [value for value in known if value]
    found: list[str] = []
    hide = False
    for word in words:
        if word.startswith("-"):
            # a flag may take several values, as vLLM's --api-key does
            hide = "=" not in word and NAME.search(word) is not None
        shown = HIDDEN if hide and not word.startswith("-") else _masked(word)
        for value in values:
            shown = shown.replace(value, HIDDEN)
        found.append(shown)
    return tuple(found)


def without(text: str, known: Iterable[str]) -> str:
    """A text in which the values that are known to be secret are hidden, the longest first."""
    for value in sorted(filter(None, known), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def is_secret(name: str) -> bool:
    """Whether what a flag or a variable of that name holds is shown to nobody."""
    return bool(VARIABLE.search(name) or FLAG.search(name))


def without_credentials(text: str) -> str:
    """A text in which no address says who asks, and with which password."""
    return CREDENTIALS.sub(f"{HIDDEN}@", text)


def as_address(word: str) -> str:
    """The same of a word that is meant as an address and may be none, with blanks in it or without a scheme."""
    scheme, slashes, rest = word.partition("://")
    if not slashes or "@" in scheme:
        scheme, slashes, rest = "", "", word
    _, at, where = rest.rpartition("@")
    return _masked(f"{scheme}{slashes}{HIDDEN if at else ''}{at}{where}")


def _masked(word: str) -> str:
    if whole := WHOLE.fullmatch(word):
        return f"{whole['name']}={HIDDEN}"
    return GIVEN.sub(rf"\g<name>\g<sep>{HIDDEN}", word)
