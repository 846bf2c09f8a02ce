"""An answer put together from the pieces in which it arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from b70ctl.core.answer import Answer, ToolCall

_DONE = "[DONE]"


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each server-sent event, wherever the network cut the bytes; ends at the last one."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            data = value.strip().decode(errors="replace")
            if name == b"data" and data == _DONE:
                return
            if name == b"data" and data:
                yield data


@dataclass(slots=True)
class Gathered:
    """What has come of one answer so far."""

    began: float
    first_token: float | None = None
    last_token: float | None = None
    finish_reason: str | None = None
    chunks: int = 0
    usage: Mapping[str, Any] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    tools: dict[int, list[str]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the engine said why it stopped."""
        return self.finish_reason is not None

    def progress(self) -> str:
        """How much came, for a message about why no more did."""
        if self.last_token is None:
            return "before the first token"
        return f"after {self.chunks} chunks in {self.last_token - self.began:.1f} s"

    def take_whole(self, body: Mapping[str, Any]) -> None:
        """Take an answer that came in one piece."""
        self._take(body, "message")
        self.chunks = 0

    def take_chunk(self, chunk: Mapping[str, Any], now: float) -> None:
        """Take one event of a stream; only one that carries something counts as a token."""
        if self._take(chunk, "delta"):
            self.first_token = self.first_token or now
            self.last_token = now

    def answer(self, now: float) -> Answer:
        """The answer as it stands."""
        return Answer(
            text="".join(self.text),
            reasoning="".join(self.reasoning),
            tool_calls=tuple(ToolCall(name=name, arguments=said) for name, said in self.tools.values()),
            finish_reason=self.finish_reason,
            prompt_tokens=_whole(self.usage.get("prompt_tokens")),
            completion_tokens=_whole(self.usage.get("completion_tokens")),
            seconds=now - self.began,
            first_token_seconds=None if self.first_token is None else self.first_token - self.began,
            chunks=self.chunks,
        )

    def _take(self, body: Mapping[str, Any], where: str) -> bool:
        self.usage = _mapping(body.get("usage")) or self.usage
        choices = body.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
        said = _mapping(choice.get(where))
        # completions keep the text in the choice itself, and vLLM renamed the field for thoughts
        text = _text(said.get("content")) or _text(choice.get("text"))
        thought = _text(said.get("reasoning")) or _text(said.get("reasoning_content"))
        called = self._take_tools(said.get("tool_calls"))
        self.text.append(text)
        self.reasoning.append(thought)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason
        carried = bool(text or thought or called)
        self.chunks += carried
        return carried

    def _take_tools(self, calls: object) -> bool:
        for place, call in enumerate(calls if isinstance(calls, list) else ()):
            function = _mapping(_mapping(call).get("function"))
            at = _whole(_mapping(call).get("index"))
            parts = self.tools.setdefault(place if at is None else at, ["", ""])
            parts[0] += _text(function.get("name"))
            parts[1] += _text(function.get("arguments"))
        return bool(calls)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
