"""What is asked of the engine, and how vLLM refuses it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .flags import Json


class Refusal(Exception):
    """An HTTP error with vLLM's body."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"error": {"message": message, "type": kind, "param": param, "code": status}}


@dataclass
class Request:
    """A checked request: what was asked, in which form the answer goes out."""

    body: Json
    chat: bool
    prompt: str
    pieces: list[str]
    limit: int

    @property
    def stream(self) -> bool:
        return bool(self.body.get("stream"))


def chat_prompt(body: Json) -> str:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "Field required: 'messages'")
    lines = []
    for message in messages:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content)
        lines.append(f"{content}\n")
    return "".join(lines)


def plain_prompt(body: Json) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(part, int) for part in prompt):
        return "x " * len(prompt)
    if isinstance(prompt, list) and prompt:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal(400, "Field required: 'prompt'")
    return prompt


def structure_of(body: Json) -> Json | None:
    """The JSON schema that the answer must satisfy; empty when any object will do, None for plain text."""
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        return dict((wanted.get("json_schema") or {}).get("schema") or {})
    if wanted.get("type") == "json_object":
        return {}
    guided = body.get("guided_json") or (body.get("structured_outputs") or {}).get("json")
    if isinstance(guided, str):
        guided = json.loads(guided)
    return dict(guided) if guided else None
