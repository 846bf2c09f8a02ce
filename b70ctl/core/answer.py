"""What came back for a request, and what a probe found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A function that the model asks for, its arguments as the text that came."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one request; a count that the server did not state is None."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0
    first_token_seconds: float | None = None
    chunks: int = 0

    @property
    def visible(self) -> str:
        """The text without a thought that no reasoning parser took out of it."""
        return _THOUGHT.sub("", self.text).strip()

    @property
    def evidence(self) -> str:
        """Where the answer must be: in the text, or in a thought that the token limit cut off."""
        return self.visible or (self.reasoning if self.finish_reason == "length" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a probe found; `passed` is None when it was not asked, or nothing could be known."""

    probe: str
    passed: bool | None
    detail: str


def passed(findings: Iterable[Finding]) -> bool:
    """Whether everything asked was answered well; asking nothing proves nothing."""
    asked = [finding.passed for finding in findings if finding.passed is not None]
    return bool(asked) and all(asked)
