"""Tokens, numbers in words, and plausible prose."""

from __future__ import annotations

import re

_PIECE = re.compile(r"\s*[^\W_]{1,8}|\s*[^\s]|\s+")


def tokens(text: str) -> list[str]:
    """Deterministic pieces that join back to the text; about as many as a real tokenizer's."""
    return _PIECE.findall(text)


_UNITS: list[str] = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen",
)
_TENS: list[str] = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")


def spelled(number: int) -> str:
    """The English word for 0 to 100."""
    if number < 20:
        return _UNITS[number]
    if number == 100:
        return "one hundred"
    tens, unit = _TENS[number // 10 - 2], number % 10
    return f"{tens}-{_UNITS[unit]}" if unit else tens


_NUMBERS = {spelled(n).replace("one hundred", "hundred"): n for n in range(101)}


_OPENINGS = ("In the morning", "After a while", "By noon", "When the rain stops", "Late in the day")
_ACTORS = ("the harbour master", "a careful reader", "the older sister", "one of the sailors", "the new clerk", "a dog")
_DEEDS = (
    "walks along the quay and looks at the boats",
    "writes down what was said and who said it",
    "opens a window because the room has been too warm",
    "finds that the lamp is still burning",
    "waits for the others before they go up the hill",
    "remembers how the town was before the bridge",
    "puts the kettle on and thinks about the letter",
)


def prose(count: int) -> str:
    """Plausible text of at least this many tokens; two hundred sentences go by before one returns."""
    sentences: list[str] = []
    length = turn = 0
    while length < count:
        parts = (said[turn % len(said)] for said in (_OPENINGS, _ACTORS, _DEEDS))
        sentences.append("{}, {} {}.".format(*parts))
        length += len(tokens(sentences[-1]))
        turn += 1
    return " ".join(sentences)


def number_of(word: str) -> int | None:
    return int(word) if word.isdigit() else _NUMBERS.get(word.lower())
