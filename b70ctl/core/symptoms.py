"""Finds the few lines of a large log that can matter, without looking at each line twice.

Every pattern contains words that stand plain in it: its needles. A line without any needle matches no pattern. Logs
repeat themselves but for their numbers, so a line is first reduced to its shape, and a shape that had no needle is
known from then on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

SHORTEST_NEEDLE = 3
_DIGITS = b"0123456789"
_MOST_KEPT = 12_000_000
"""Bytes of memory for what was seen; when they are used up it is forgotten."""
_COST = 150

_OPENINGS = ("(?:", "(?=", "(?!", "(?<=", "(?<!")

Choice = tuple[str, ...]
"""Texts of which one must be there."""


def needles(pattern: str) -> Choice:
    """Plain texts, one of which stands in whatever matches; ValueError where an alternative has none."""
    choice, end = _alternatives(pattern, 0)
    if end != len(pattern):
        raise ValueError(f"`{pattern}` closes a group that was not opened")
    # judged as they are looked for: digits do not count
    if not choice or any(len(_shape(text.encode())) < SHORTEST_NEEDLE for text in choice):
        raise ValueError(
            f"`{pattern}` needs, in every alternative, {SHORTEST_NEEDLE} plain characters in a row that are no digits,"
            " so that it can be looked for quickly"
        )
    return choice


def _alternatives(pattern: str, at: int) -> tuple[Choice, int]:
    """The best choice for what stands from `at` to the end of its group."""
    found: list[Choice] = []
    while True:
        candidates, at = _branch(pattern, at)
        found.append(max(candidates, key=_worth, default=()))
        if at >= len(pattern) or pattern[at] == ")":
            break
        at += 1
    whole = () if not all(found) else tuple(dict.fromkeys(text for choice in found for text in choice))
    return whole, at


def _worth(choice: Choice) -> tuple[int, int]:
    return min((len(_shape(text.encode())) for text in choice), default=0), -len(choice)


def _branch(pattern: str, at: int) -> tuple[list[Choice], int]:
    """Every choice that one alternative offers, and where it ends."""
    candidates: list[Choice] = []
    run = ""
    while at < len(pattern) and pattern[at] not in "|)":
        plain, group, at = _piece(pattern, at)
        times, at = _times(pattern, at)
        if plain and times == "once":
            run += plain
            continue
        if plain and times == "more":
            run += plain
        candidates += [(run,)] if run else []
        candidates += [group] if group and times != "maybe" else []
        run = ""
    candidates += [(run,)] if run else []
    return candidates, at


def _piece(pattern: str, at: int) -> tuple[str, Choice, int]:
    """What stands at `at`: a plain character, or a group's choice, or neither; and where it ends."""
    char = pattern[at]
    if char == "\\":
        escaped = pattern[at + 1]
        if escaped in "xuUN":
            raise ValueError(f"`{pattern}`: write the character itself instead of \\{escaped}")
        return ("" if escaped.isalnum() else escaped), (), at + 2
    if char == "[":
        return "", (), _class_end(pattern, at)
    if char == "(":
        return _group(pattern, at)
    return ("" if char in ".^$" else char), (), at + 1


def _group(pattern: str, at: int) -> tuple[str, Choice, int]:
    opening = next((each for each in _OPENINGS if pattern.startswith(each, at)), "(")
    if opening == "(" and pattern.startswith("(?", at):
        raise ValueError(f"`{pattern}`: of groups with `(?` only (?:…), (?=…), (?!…), (?<=…) and (?<!…) are understood")
    choice, end = _alternatives(pattern, at + len(opening))
    return "", choice if opening in ("(", "(?:") else (), end + 1


def _class_end(pattern: str, at: int) -> int:
    at += 2 if pattern.startswith("[^", at) else 1
    at += pattern.startswith("]", at)
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _times(pattern: str, at: int) -> tuple[str, int]:
    """How often the piece before `at` stands there: `once`, `more` than that, or `maybe` not at all."""
    if at >= len(pattern) or pattern[at] not in "?*+{":
        return "once", at
    sign = pattern[at]
    end = pattern.index("}", at) + 1 if sign == "{" else at + 1
    lazy = pattern.startswith(("?", "+"), end)
    least = pattern[at + 1 : end - 1].split(",")[0] if sign == "{" else ""
    often = "more" if sign == "+" or (least.isdigit() and int(least) > 0) else "maybe"
    return often, end + lazy


def _shape(line: bytes) -> bytes:
    return line.translate(None, _DIGITS)


class Sieve:
    """Which lines of a block contain which needles; remembers shapes and words that had none."""

    def __init__(self, texts: Iterable[str]) -> None:
        # by the longest word of a needle: a line with the needle has a word with that in it
        self._needles: dict[bytes, list[tuple[bytes, str]]] = {}
        for text in texts:
            shape = _shape(text.encode())
            self._needles.setdefault(max(shape.split(), key=len, default=shape), []).append((shape, text))
        self._seen: dict[bytes, list[str]] = {}
        self._dull: set[bytes] = set()
        self._telling: dict[bytes, list[tuple[bytes, str]]] = {}
        self._kept = 0

    def __call__(self, lines: Sequence[bytes]) -> dict[int, list[str]]:
        """The index of every line that may match, with the needles that it may have, in order of index."""
        if self._kept > _MOST_KEPT:
            self._kept = 0
            for memory in (self._seen, self._dull, self._telling):
                memory.clear()
        shapes = [line.translate(None, _DIGITS) for line in lines]
        seen = self._seen
        fresh = [shape for shape in shapes if shape not in seen]
        if fresh:
            self._look(list(dict.fromkeys(fresh)))
        return {index: texts for index, shape in enumerate(shapes) if (texts := seen[shape])}

    def _look(self, shapes: Sequence[bytes]) -> None:
        words = [shape.split() for shape in shapes]
        self._learn(set().union(*words) - self._dull - self._telling.keys())
        self._kept += sum(map(len, shapes)) + _COST * len(shapes)
        for shape, its in zip(shapes, words, strict=True):
            self._seen[shape] = [] if self._dull.issuperset(its) else self._among(shape, its)

    def _among(self, shape: bytes, words: Sequence[bytes]) -> list[str]:
        asked = (pair for word in words for pair in self._telling.get(word, ()))
        return [text for needle, text in dict.fromkeys(asked) if needle in shape]

    def _learn(self, words: set[bytes]) -> None:
        """Look at words that were not seen before, all at once."""
        self._kept += sum(map(len, words)) + _COST * len(words)
        order = list(words)
        text = b"\n".join(order)
        ends = list(accumulate(len(word) + 1 for word in order))
        telling: dict[bytes, list[tuple[bytes, str]]] = {}
        for part, pairs in self._needles.items():
            for at in _everywhere(text, part, ends):
                telling.setdefault(order[at], []).extend(pairs)
        self._telling |= telling
        self._dull.update(words - telling.keys())


def _everywhere(text: bytes, part: bytes, ends: Sequence[int]) -> Iterator[int]:
    """The lines of `text` that contain `part`, each once; `ends` says where lines end."""
    at = text.find(part)
    while at >= 0:
        line = bisect_right(ends, at)
        yield line
        at = text.find(part, ends[line])
