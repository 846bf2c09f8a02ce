"""What will be said, before it is cut and timed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from .flags import Json
from .structured import from_schema
from .words import tokens


@dataclass
class Reply:
    """What will be said, before it is cut and timed."""

    pieces: list[str]
    reasoning: list[str] = field(default_factory=list)
    tool: tuple[str, str] | None = None
    finish: str = "stop"


def tool_call(body: Json, prompt: str) -> tuple[str, str] | None:
    choice = body.get("tool_choice") or "auto"
    tools = [tool.get("function") or {} for tool in body.get("tools") or []]
    answered = (body.get("messages") or [{}])[-1].get("role") == "tool"
    if not tools or choice == "none" or (answered and choice == "auto"):
        return None
    named = choice["function"]["name"] if isinstance(choice, dict) else None
    tool = next((tool for tool in tools if tool.get("name") == named), tools[0])
    return str(tool.get("name")), json.dumps(from_schema(tool.get("parameters") or {"type": "object"}, prompt))


def degenerate(start: str, count: int) -> Reply:
    pieces = tokens(start)[:count]
    return Reply([*pieces, *["!"] * (count - len(pieces))], finish="length")
