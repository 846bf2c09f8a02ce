"""The bodies of an answer: in one piece, or as server-sent events."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING

from .asked import Request
from .flags import Json
from .knobs import since
from .reply import Reply
from .serving import Engine

if TYPE_CHECKING:
    from .routes import Handler


class Whole:
    """An answer in one body, once everything is there."""

    def __init__(self, handler: Handler, request: Request, reply: Reply) -> None:
        self.handler, self.request, self.reply = handler, request, reply

    def write(self, pieces: list[tuple[str, str]]) -> None:
        """Nothing goes out before the end."""

    def close(self, total: int) -> None:
        """Send the body."""
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": self.reply.finish, "stop_reason": None}
        text = "".join(self.reply.pieces)
        if self.request.chat:
            choice["message"] = self._message(text)
        else:
            choice["text"] = text
        body = {**envelope(self.request, self.handler.server.engine), "choices": [choice]}
        self.handler._json(200, {**body, "usage": usage(self.request, total)})

    def _message(self, text: str) -> Json:
        thought = "".join(self.reply.reasoning) or None
        message: Json = {"role": "assistant", "content": text or None, "reasoning": thought, "tool_calls": []}
        if not since(0, 24):
            message["reasoning_content"] = thought
        if self.reply.tool:
            name, arguments = self.reply.tool
            message["tool_calls"] = [call(name, arguments)]
        return message


class Stream:
    """An answer as server-sent events."""

    def __init__(self, handler: Handler, request: Request, reply: Reply) -> None:
        self.handler, self.request, self.reply = handler, request, reply
        self.head = envelope(request, handler.server.engine, chunk=True)
        options = request.body.get("stream_options") or {}
        self.tell_usage, self.opened = bool(options.get("include_usage")), False

    def write(self, pieces: list[tuple[str, str]]) -> None:
        """Send what one engine step gave, as one event for each kind of text."""
        if not self.opened:
            self._open()
        for kind in ("reasoning", "content", "tool"):
            text = "".join(piece for of, piece in pieces if of == kind)
            if text:
                self._choice(self._delta(kind, text), None)

    def close(self, total: int) -> None:
        """Finish reason, usage where asked for, and the end mark."""
        if not self.opened:
            self._open()
        self._choice({"content": ""} if self.request.chat else {}, self.reply.finish)
        if self.tell_usage:
            self._event(json.dumps({**self.head, "choices": [], "usage": usage(self.request, total)}))
        self._event("[DONE]")
        self.handler.wfile.write(b"0\r\n\r\n")

    def _open(self) -> None:
        self.opened = True
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        if self.request.chat:
            self._choice({"role": "assistant", "content": ""}, None)
        if self.reply.tool:
            self._choice({"tool_calls": [{"index": 0, **call(self.reply.tool[0], "")}]}, None)

    def _delta(self, kind: str, text: str) -> Json:
        if kind == "tool":
            return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        if kind == "reasoning":
            return {"reasoning": text, **({} if since(0, 24) else {"reasoning_content": text})}
        return {"content": text}

    def _choice(self, delta: Json, finish: str | None) -> None:
        said: Json = {"delta": delta} if self.request.chat else {"text": delta.get("content", "")}
        self._event(
            json.dumps({**self.head, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": finish}]})
        )

    def _event(self, data: str) -> None:
        event = f"data: {data}\n\n".encode()
        self.handler.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.handler.wfile.flush()


def envelope(request: Request, engine: Engine, *, chunk: bool = False) -> Json:
    """What every body of an answer begins with."""
    name = request.body.get("model") or engine.names()[0]
    kind = ("chat.completion" if request.chat else "text_completion") + (".chunk" if chunk and request.chat else "")
    prefix = "chatcmpl" if request.chat else "cmpl"
    return {"id": f"{prefix}-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": name}


def usage(request: Request, total: int) -> Json:
    """Token counts of both sides."""
    count = len(request.pieces)
    return {
        "prompt_tokens": count,
        "total_tokens": count + total,
        "completion_tokens": total,
        "prompt_tokens_details": None,
    }


def call(name: str, arguments: str) -> Json:
    """One tool call."""
    return {
        "id": f"chatcmpl-tool-{uuid.uuid4().hex[:16]}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
