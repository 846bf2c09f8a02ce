"""How an answer is judged: the marks of a broken engine first, then what was asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from b70ctl.core.answer import Answer
from b70ctl.core.degenerate import degenerate, excerpt

_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_SMALL = _NUMBER_WORDS.split()
_TENS = ("twenty", "thirty", "forty", "fifty")
_VALUES = {word: value for value, word in enumerate(_SMALL, start=1)} | {
    word: value for value, word in zip(range(20, 60, 10), _TENS, strict=True)
}
_COUNTED = re.compile(
    rf"\b(?:({'|'.join(_TENS)})(?:[-\s\u2010\u2011]({'|'.join(_SMALL[:9])}))?|({'|'.join(_SMALL)}))\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\b(\d{1,2})\b")
# between two numbers of a list stand commas, bullets and line breaks, hardly anything else
_BETWEEN = re.compile(r"(?:[^\w!\ufffd]|\d|and|then){1,16}", re.IGNORECASE)
_LAST_NUMBER = 30
_CUT_AFTER = 20
_AGREED = 64


class Ruling(NamedTuple):
    """Whether an answer passes, and what shows it."""

    passed: bool
    detail: str


Judge = Callable[[Answer], Ruling]


def broken(answer: Answer, *, english: bool = True, prose: bool = False) -> str | None:
    """The mark of a broken engine in any part of an answer, or None."""
    # a thought may be in any language
    if mark := degenerate(answer.reasoning):
        return f"reasoning: {mark}"
    if mark := degenerate(answer.text, english=english, prose=prose):
        return mark
    if answer.tool_calls or answer.evidence:
        return None
    return f"no text in {_tokens(answer.completion_tokens)} (finish_reason {answer.finish_reason})"


def anything(answer: Answer) -> Ruling:
    """Passes: what is asked for its own sake is judged by the marks of a broken engine alone."""
    return Ruling(True, f"{_tokens(answer.completion_tokens)}: {excerpt(answer.evidence or answer.text)}")


def says(expected: str) -> Judge:
    """Passes when the answer contains `expected`, in any case."""

    def judge(answer: Answer) -> Ruling:
        found = expected.casefold() in answer.evidence.casefold()
        return Ruling(found, f"{'says' if found else 'does not say'} {expected!r}: {excerpt(answer.evidence)}")

    return judge


def equals_number(expected: int) -> Judge:
    """Passes when `expected` stands in the answer as a number of its own."""
    pattern = re.compile(rf"(?<![\d.,-]){expected}(?![\d]|[.,]\d)", re.ASCII)

    def judge(answer: Answer) -> Ruling:
        found = bool(pattern.search(answer.evidence))
        return Ruling(found, f"{'says' if found else 'does not say'} {expected}: {excerpt(answer.evidence)}")

    return judge


def counts_from(start: int) -> Judge:
    """Passes when the numbers from `start` to thirty come one after another with nothing between them.

    An answer that the token limit cut passes when it came past twenty and counted to its end.
    """

    def judge(answer: Answer) -> Ruling:
        text = answer.evidence
        reached, end, is_last = _longest_count(text, start)
        cut = answer.finish_reason == "length" and reached >= _CUT_AFTER and is_last
        if reached >= _LAST_NUMBER or cut:
            return Ruling(True, f"counted to {reached}")
        if reached < start:
            return Ruling(False, f"did not count: {excerpt(text)}")
        return Ruling(False, f"counted to {reached}, then {text[end : end + 40]!r}")

    return judge


def _longest_count(text: str, start: int) -> tuple[int, int, bool]:
    """How far the best count in `text` came, where it ends, and whether no other number follows."""
    numbers = _numbers(text)
    best = (start - 1, 0, False)
    for first, (value, _, _) in enumerate(numbers):
        if value == start:
            last = _run(text, numbers, first)
            reached, _, end = numbers[last]
            best = max(best, (reached, end, last == len(numbers) - 1))
    return best


def _run(text: str, numbers: list[tuple[int, int, int]], first: int) -> int:
    at = first
    while at + 1 < len(numbers):
        (value, _, end), (following, begin, _) = numbers[at], numbers[at + 1]
        if following != value + 1 or not _BETWEEN.fullmatch(text[end:begin]):
            break
        at += 1
    return at


def _numbers(text: str) -> list[tuple[int, int, int]]:
    """The number words of a text as value, begin and end; its digits when there are no words."""
    words = [(_value(found), found.start(), found.end()) for found in _COUNTED.finditer(text)]
    return words or [(int(found[1]), found.start(), found.end()) for found in _DIGITS.finditer(text)]


def _value(found: re.Match[str]) -> int:
    return sum(_VALUES[word.lower()] for word in found.groups() if word)


def json_object(keys: tuple[str, ...]) -> Judge:
    """Passes when the answer is one JSON object with these keys."""

    def judge(answer: Answer) -> Ruling:
        value = _json(answer.evidence)
        if not isinstance(value, dict):
            return Ruling(False, f"not a JSON object: {excerpt(answer.evidence)}")
        missing = [key for key in keys if key not in value]
        if missing:
            return Ruling(False, f"the JSON object lacks {', '.join(missing)}: {excerpt(answer.evidence)}")
        return Ruling(True, f"JSON object with {', '.join(keys)}")

    return judge


def calls_tool(name: str, argument: str, expected: str) -> Judge:
    """Passes when the tool `name` is called with `expected` in its argument `argument`."""

    def judge(answer: Answer) -> Ruling:
        if not answer.tool_calls:
            return Ruling(False, f"no tool call (finish_reason {answer.finish_reason}): {excerpt(answer.evidence)}")
        call = answer.tool_calls[0]
        arguments = _json(call.arguments)
        given = arguments.get(argument) if isinstance(arguments, Mapping) else None
        right = call.name == name and isinstance(given, str) and expected.casefold() in given.casefold()
        return Ruling(right, f"called {call.name}({excerpt(call.arguments)}), finish_reason {answer.finish_reason}")

    return judge


def finds(needle: str, *, past: int | None) -> Judge:
    """Passes when the needle of a long prompt is found; says whether the prompt went past `past` tokens."""

    def judge(answer: Answer) -> Ruling:
        prompt = f"prompt of {_tokens(answer.prompt_tokens)}"
        if past is not None and answer.prompt_tokens is not None:
            side = "past" if answer.prompt_tokens > past else "within"
            prompt += f", {side} the draft's limit of {past:,}"
        found = needle.casefold() in answer.evidence.casefold()
        return Ruling(found, f"{prompt}: {'found' if found else 'lost'} {needle!r}: {excerpt(answer.evidence)}")

    return judge


def agrees_with(recorded: str) -> Judge:
    """Passes when the first 64 characters are those of a recorded greedy answer."""

    wanted = recorded.strip()[:_AGREED]

    def judge(answer: Answer) -> Ruling:
        said = answer.visible[:_AGREED]
        if said == wanted:
            return Ruling(True, f"same first {len(said)} characters")
        return Ruling(False, f"says {said!r} where the proven release said {wanted!r}")

    return judge


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _tokens(count: int | None) -> str:
    return "an unknown number of tokens" if count is None else f"{count:,} tokens"
