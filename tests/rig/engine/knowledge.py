"""What a sound model knows, and what it can reckon."""

from __future__ import annotations

import re
from collections.abc import Callable

from .words import number_of

_MONTHS = "January, February, March, April, May, June, July, August, September, October, November, December"
_FACTS = (
    (r"capital\b.*\bfrance", "Paris"), (r"capital\b.*\bgermany", "Berlin"), (r"capital\b.*\bitaly", "Rome"),
    (r"capital\b.*\bspain", "Madrid"), (r"capital\b.*\bjapan", "Tokyo"),
    (r"capital\b.*\b(uk|england|kingdom)", "London"),
    (r"colou?r\b.*\bsky", "Blue"), (r"opposite of hot", "Cold"), (r"opposite of up\b", "Down"),
    (r"(largest|biggest) planet", "Jupiter"), (r"red planet", "Mars"), (r"chemical (symbol|formula)\b.*\bwater", "H2O"),
    (r"chemical symbol\b.*\bgold", "Au"), (r"days\b.*\bin a week", "7"), (r"months\b.*\bin a year", "12"),
    (r"days of the week", "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"),
    (r"months of the year", _MONTHS),
    (r"alphabet", "A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X, Y, Z"),
    (r"first ten prime", "2, 3, 5, 7, 11, 13, 17, 19, 23, 29"),
    (r"haiku", "Quiet morning light\nrests upon the river stones\nand the day begins"),
)  # fmt: skip


def fact(question: str, _: str) -> str | None:
    for pattern, reply in _FACTS:
        if re.search(pattern, question, re.IGNORECASE):
            return reply
    return None


def arithmetic(question: str, _: str) -> str | None:
    signs: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "plus": lambda a, b: a + b, "-": lambda a, b: a - b, "minus": lambda a, b: a - b,
        "*": lambda a, b: a * b, "x": lambda a, b: a * b, "\u00d7": lambda a, b: a * b, "times": lambda a, b: a * b,
    }  # fmt: skip
    found = re.search(r"\b(\w+)(?:\s*(\+|\*|x|\u00d7|plus|minus|times|multiplied by)\s*|\s(-)\s)(\w+)\b", question)
    if not found:
        return None
    first, last = number_of(found[1]), number_of(found[4])
    if first is None or last is None:
        return None
    return str(signs.get(found[2] or found[3], signs["*"])(first, last))


def summed(question: str, _: str) -> str | None:
    """The value of the last `sum(i*i for i in range(n))` or `sum(i for i in range(n))`."""
    found = re.findall(r"sum\(i(\*i)? for i in range\((\d+)\)\)", question)
    if not found:
        return None
    squared, count = found[-1]
    return str(sum(i * i if squared else i for i in range(int(count))))
