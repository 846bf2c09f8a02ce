"""A known cause of trouble, as data: what a log says of it, why it happens, and what to type."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from b70ctl.core.patch import Range
from b70ctl.core.strict import Name, Strict, Text
from b70ctl.core.symptoms import needles

Confidence = Literal["certain", "likely", "possible"]
SUREST: tuple[Confidence, ...] = ("certain", "likely", "possible")


def _pattern(text: str) -> str:
    try:
        compiled = re.compile(text, re.ASCII)
    except re.error as error:
        raise ValueError(f"`{text}` is not a regular expression: {error}") from None
    if compiled.search(""):
        raise ValueError(f"`{text}` matches an empty line, and so every line")
    needles(text)
    return text


Pattern = Annotated[Text, AfterValidator(_pattern)]
"""A regular expression, searched in a line without its stamps and tags; in every alternative some words stand plain."""


class Cause(Strict):
    """One cause; it is found where a pattern matches and every condition holds."""

    id: Name
    title: Annotated[str, StringConstraints(pattern=r"^[^\n]{1,90}$")]
    """One line, without a full stop."""
    kind: Literal["fault", "warning"] = "fault"
    """`fault` ends the engine, its start or a request; `warning` is something that goes on and goes badly."""
    patterns: list[Pattern] = Field(min_length=1)
    """Any of them is the symptom."""
    also: list[Pattern] = []
    """Each of them must stand near the symptom, before or after."""
    unless: list[Pattern] = []
    """None of them may stand near the symptom."""
    within: Annotated[int, Field(ge=0, le=500)] = 40
    """How many lines are near."""
    after: list[Pattern] = []
    """Each of them must stand somewhere before, in the same boot."""
    not_after: list[Pattern] = []
    """None of them may stand before, in the same boot."""
    at_end: bool = False
    """The symptom is that nothing follows: it counts among the last lines of a log that is over and tells no fault;
    there, `unless` is what may not follow at all."""
    versions: Range | None = None
    """The vLLM versions that have it; where the log does not tell its version the cause is one step less sure."""
    cause: Text
    """Why it happens."""
    fix: Text
    """What to do, with what to type."""
    source: Text
    """Who found it out."""
    confidence: Confidence
    """How surely this symptom means this cause."""
    examples: list[Text] = Field(min_length=1)
    """Lines in the form of real ones, written by us; each is found to be this cause before all others."""
    not_examples: list[Text] = Field(default=[], alias="not")
    """Lines that look alike, and are not this."""

    @model_validator(mode="after")
    def _consistent(self) -> Cause:
        if self.at_end and self.also:
            raise ValueError("with `at_end` use `after` instead of `also`: nothing follows the end")
        return self

    def shown(self) -> dict[str, Any]:
        """What a program is told of it."""
        return self.model_dump(include={"id", "title", "kind", "cause", "fix", "source"})


def less_sure(confidence: Confidence) -> Confidence:
    """One step down."""
    return SUREST[min(SUREST.index(confidence) + 1, len(SUREST) - 1)]
