"""What a sound model would say."""

from __future__ import annotations

import re

from .knowledge import arithmetic, fact, summed
from .structured import json_object
from .words import number_of, prose, spelled


def answer(text: str) -> str:
    """What a sound model would say to this text; the last question in it counts."""
    question = text[-2000:]
    for reply in (json_object, _counting, _needle, fact, summed, arithmetic, _echo):
        if (found := reply(question, text)) is not None:
            return found
    return prose(160 if re.search(r"story|essay|detail|long|explain|paragraph", question, re.IGNORECASE) else 24)


def _counting(question: str, _: str) -> str | None:
    if not re.search(r"\b(count|counting|numbers?|list)\b", question, re.IGNORECASE):
        return None
    for found in re.finditer(r"\b([\w-]+) (?:up )?(?:to|through) ([\w-]+)", question, re.IGNORECASE):
        first, last = number_of(found[1]), number_of(found[2])
        if first is None or last is None:
            continue
        in_words = re.search(r"digits|numerals", question, re.IGNORECASE) is None and (
            not found[1].isdigit() or re.search(r"\bwords?\b", question, re.IGNORECASE) is not None
        )
        step = 1 if last >= first else -1
        # a text to be completed may have begun to count already
        begun = re.search(r"([\w-]+),\s*$", question)
        reached = number_of(begun[1]) if begun else None
        numbers = range(first if reached is None else reached + step, last + step, step)
        separator = "\n" if re.search(r"(per|own|separate) line", question, re.IGNORECASE) else ", "
        return separator.join(spelled(n) if in_words and n <= 100 else str(n) for n in numbers)
    return None


_ASKED = re.compile(
    r"(?:what(?: is| was|'s)|tell me|repeat|state|give(?: me)?|return|recall|reply with(?: only)?) (?:the|my) "
    r"((?:\w+ ){0,2}?\w+)"
    r"(?= (?:in|from|above|mentioned|that|stated|given|hidden|i|and|only|exactly|you)\b|[?.,:!\n]|$)",
    re.IGNORECASE,
)
_SECRETS = (
    "code word",
    "codeword",
    "passphrase",
    "password",
    "magic number",
    "secret word",
    "secret number",
    "secret code",
)


def _needle(question: str, text: str) -> str | None:
    """A thing that the text states once and the question asks for."""
    nouns = [found[1] for found in _ASKED.finditer(question)]
    nouns += [noun for noun in _SECRETS if noun in question.lower()]
    for noun in reversed(nouns):
        stated = re.search(
            rf"\b{re.escape(noun)} (?:is|was)(?: now)?:?\s+[\"'`*]*([A-Za-z0-9][\w-]*)", text, re.IGNORECASE
        )
        if stated and stated[1].lower() not in ("a", "an", "the", "in", "stated", "hidden", "given", "somewhere"):
            return stated[1]
        if noun.lower() in _SECRETS:
            return f"I could not find a {noun} in the text."
    return None


def _echo(question: str, _: str) -> str | None:
    found = re.search(
        r"\b(?:reply|respond|answer|say|repeat|output)\b[^\"'`\n]{0,60}[\"'`]([^\"'`\n]{1,80})[\"'`]",
        question,
        re.IGNORECASE,
    )
    found = found or re.search(r"\bthe word:? ([A-Za-z]+)", question)
    return found[1].rstrip(".") if found else None
