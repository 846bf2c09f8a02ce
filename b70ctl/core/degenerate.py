"""What no answer may look like, whatever was asked: the marks of a broken engine."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_TAIL = 200
# a rule under a heading or a table's second line is drawn with these, and may be long
_RULING = frozenset("-=_*~#|:+. \t")
_REPEATED = re.compile(r"([^\n].{0,7}?)\1{7,}", re.DOTALL)
_BLANK_LINES = re.compile(r"(?:[ \t\r]*\n){10,}")
_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
# a run this long is no accident anywhere in an answer
_LONGEST_RUN = 100
_FEWEST_ODD_LETTERS = 6
_MOST_ODD_SHARE = 0.15
_FEWEST_WORDS_OF_PROSE = 30
_LEAST_COMMON_SHARE = 0.12
_FEWEST_WORDS_TO_VARY = 60
_LEAST_VARIETY = 0.12
_LONGEST_LOOP = 24
_COMMON_ENGLISH = (
    "a about after all also an and any are as at be been before but by can could did do does each even every few"
    " for from had has have he her his how i if in into is it its just like made make many may more most much my"
    " no not of off often on one only or other our out over so some such than that the their them then there"
    " these they this those through to too under until up us very was we were what when where which while who"
    " will with within without would you your"
)
_COMMON = frozenset(_COMMON_ENGLISH.split())


def degenerate(text: str, *, english: bool = False, prose: bool = False) -> str | None:
    """Why `text` cannot be a working engine's answer, with the evidence; None when it can.

    `english` says that nothing but English letters was to be expected, `prose` that running text was.
    """
    return (
        _one_character(text)
        or _repeated_unit(text)
        or _newline_flood(text)
        or _broken_characters(text)
        or _word_loop(_words(text))
        or (_odd_letters(text) if english else None)
        or (_no_common_words(_words(text)) if english and prose else None)
    )


def excerpt(text: str, length: int = 60) -> str:
    """The end of a text as evidence, on one line."""
    shown = text if len(text) <= length else "…" + text[-length:]
    return repr(shown)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _one_character(text: str) -> str | None:
    marks = "".join(text.split())
    enough = 16 if marks[:1].isdigit() else 4
    if len(marks) >= enough and len(set(marks)) == 1:
        return f"one character repeated {len(marks)} times: {excerpt(text)}"
    return None


def _repeated_unit(text: str) -> str | None:
    for run in _REPEATED.finditer(text):
        in_tail = min(run.end(), len(text)) - max(run.start(), len(text) - _TAIL)
        share = in_tail / min(_TAIL, len(text))
        ruling = run[0].isspace() or _RULING.issuperset(run[0])
        if share > (0.8 if ruling else 0.5) or (not ruling and len(run[0]) >= _LONGEST_RUN):
            return f"{run[1]!r} repeated {len(run[0]) // len(run[1])} times: {excerpt(text)}"
    return None


def _newline_flood(text: str) -> str | None:
    if flood := _BLANK_LINES.search(text):
        return f"{flood[0].count(chr(10))} line breaks in a row after {excerpt(text[: flood.start()])}"
    return None


def _broken_characters(text: str) -> str | None:
    broken = [character for character in text if _is_broken(character)]
    # one may be an emoji that the token limit cut in two
    if len(broken) > max(2, len(text) // 50) or (broken and len(broken) * 3 >= len(text)):
        return f"{len(broken)} of {len(text)} characters are broken, such as {broken[0]!r}: {excerpt(text)}"
    return None


def _is_broken(character: str) -> bool:
    if character == "\ufffd":
        return True
    return unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") and character not in "\n\r\t"


def _odd_letters(text: str) -> str | None:
    letters = [character for character in text if character.isalpha()]
    odd = [letter for letter in letters if not letter.isascii()]
    if len(odd) >= _FEWEST_ODD_LETTERS and len(odd) > len(letters) * _MOST_ODD_SHARE:
        share = len(odd) / len(letters)
        return f"{share:.0%} of the letters are not English: {excerpt(text)}".replace("%", " %", 1)
    return None


def _no_common_words(words: Sequence[str]) -> str | None:
    if len(words) < _FEWEST_WORDS_OF_PROSE:
        return None
    common = sum(word in _COMMON for word in words)
    if common < len(words) * _LEAST_COMMON_SHARE:
        return f"only {common} of {len(words)} words are common English ones: {excerpt(' '.join(words))}"
    return None


def _word_loop(words: Sequence[str]) -> str | None:
    for size in range(1, _LONGEST_LOOP + 1):
        times = _repeats_at_end(words, size)
        needed = 8 if size == 1 else 6 if size < 5 else 4
        if times >= needed and times * size * 2 > min(len(words), _FEWEST_WORDS_TO_VARY):
            return f"the words {' '.join(words[-size:])!r} repeated {times} times"
    if len(words) >= _FEWEST_WORDS_TO_VARY and len(set(words)) < len(words) * _LEAST_VARIETY:
        return f"only {len(set(words))} different words among {len(words)}: {excerpt(' '.join(words))}"
    return None


def _repeats_at_end(words: Sequence[str], size: int) -> int:
    # a loop that is cut in the middle of a round still ends in a whole, rotated round
    unit, times, end = words[-size:], 0, len(words)
    while end >= size and list(words[end - size : end]) == list(unit):
        times, end = times + 1, end - size
    return times
