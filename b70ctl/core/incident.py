"""What an incident folder shows: names, limits, and nothing that is secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from b70ctl.core.secrecy import HIDDEN, NAME, masked

MOST_BYTES = 2 * 2**20
"""Of one part; of a longer one the end is kept."""
LOG_LINES = 5000
KERNEL_LINES = 500
_SHORTEST = 6


def incident_name(at: str, kind: str, taken: Iterable[str]) -> str:
    """A folder's name that sorts by time; another one for a second incident of the same second."""
    stem = f"{at.replace('-', '').replace(':', '')}-{kind}"
    known = set(taken)
    return next(name for number in range(1, len(known) + 2)
                if (name := stem if number == 1 else f"{stem}-{number}") not in known)  # fmt: skip


def surplus(names: Iterable[str], keep: int) -> list[str]:
    """The incidents that go when only the newest `keep` stay."""
    found = sorted(names)
    return found[: max(0, len(found) - keep)]


def hidden(text: str, known: Iterable[str]) -> str:
    """A text without the values that are known to be secret, wherever they stand."""
    # the longest first: one may be a part of another
    for value in sorted(set(known), key=len, reverse=True):
        if value:
            text = text.replace(value, HIDDEN)
    return text


def shown(value: Any, known: Iterable[str]) -> Any:
    """A JSON value without secrets: known ones, values of flags and variables with such names, and keys."""
    known = tuple(known)
    if isinstance(value, str):
        return hidden(value, known)
    if isinstance(value, Mapping):
        return {key: HIDDEN if isinstance(each, str) and each and NAME.search(key) else shown(each, known)
                for key, each in value.items()}  # fmt: skip
    if isinstance(value, list):
        if all(isinstance(each, str) for each in value):
            return list(masked(value, known))
        return [shown(each, known) for each in value]
    return value


def secrets_of(about: Mapping[str, Any]) -> list[str]:
    """The values of a container's variables whose names say that they are secret."""
    given = (word.partition("=") for word in (about.get("Config") or {}).get("Env") or ())
    return [value for name, _, value in given if NAME.search(name) and len(value) >= _SHORTEST]


def tail(text: str, lines: int) -> str:
    """The last lines of a text."""
    return "\n".join(text.rstrip("\n").split("\n")[-lines:]) + "\n"


def limited(raw: bytes, most: int = MOST_BYTES) -> bytes:
    """The end of what is too long, with a first line that says so."""
    if len(raw) <= most:
        return raw
    return f"({len(raw) - most} bytes before this are left out)\n".encode() + raw[-most:]
