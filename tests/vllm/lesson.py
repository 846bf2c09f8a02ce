"""What the tiny models learn by heart: the probes' own questions, with answers that pass them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from b70ctl.core import questions
from b70ctl.core.probes import CHAT, ProbeTarget, probes_for

DRAFT_LIMIT = 512
"""Where the draft's own config ends; small, so that a prompt beyond it is quick."""
LENGTH = 2048
"""The longest request that the tiers serve with."""

_SMALL = (
    "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, "
    "seventeen, eighteen, nineteen, twenty"
)
_TWENTIES = ", ".join(f"twenty-{word}" for word in _SMALL.split(", ")[:9])
COUNTED = f"{_SMALL}, {_TWENTIES}, thirty"
COUNT = "Count from one to thirty in English words, separated by commas. Write nothing else."

SUMMARY = "People of the town carried, found and repaired many things near the harbour and on the hill."
PROSE = (
    "On an autumn evening the lighthouse keeper climbs the narrow stairs before the light fades, wipes the salt off"
    " the glass and trims the lamp. Then he writes the weather into his book, warms his hands around a cup of tea and"
    " listens to the wind that comes over the water. Once every hour he looks out for ships, and when the last of"
    " them has passed the rocks he reads by the small stove until morning."
)
TOOL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
ANSWERS = {
    "warm-up": SUMMARY,
    "capital": "Paris",
    "arithmetic": "14",
    "counting": COUNTED,
    "prose": PROSE,
    "json": '{"city": "Paris", "country": "France", "river": "Seine"}',
    "tool-call": TOOL,
    "long-prompt": questions.NEEDLE,
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """One question and what is answered."""

    question: str
    answer: str
    tools: list[dict[str, Any]] = field(default_factory=list)


def count_after(words: int) -> str:
    """A question that is answered with a long count, after a text of about so many words; 0 for none."""
    return f"{questions.report(words)}\n\n{COUNT}" if words else COUNT


def count_again() -> str:
    """The same question after the very words of its answer, which prompt lookup finds there."""
    return f"{COUNTED}.\n\n{COUNT}"


def lessons() -> list[Lesson]:
    """Everything that the model is taught; long texts in several lengths, so that their length does not matter."""
    found = {(lesson.question, lesson.answer): lesson for limit in (None, DRAFT_LIMIT, 1024) for lesson in _of(limit)}
    lengths = (50, 170, 420, 700)
    counts = [Lesson(count_after(words), COUNTED) for words in lengths]
    needles = [Lesson(questions.haystack(words), questions.NEEDLE) for words in lengths]
    reports = [Lesson(questions.report(words), SUMMARY) for words in lengths]
    counts.append(Lesson(count_again(), COUNTED))
    return [*found.values(), *counts, *needles, *reports]


def _of(limit: int | None) -> list[Lesson]:
    target = ProbeTarget(model="m", max_model_len=LENGTH, tools=True, speculative=limit is not None, draft_limit=limit)
    asked = [probe for probe in probes_for(target) if probe.path == CHAT]
    return [Lesson(probe.question, ANSWERS[probe.name], list(probe.body.get("tools", []))) for probe in asked]
