"""State that all requests share, and the decisions about each."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .answering import answer
from .asked import Refusal, Request, chat_prompt, plain_prompt, structure_of
from .flags import Flags, Json
from .knobs import faults, knob, since
from .metrics import SPEC_COUNTERS, Metrics
from .reply import Reply, degenerate, tool_call
from .structured import from_schema, json_object
from .words import number_of, prose, tokens


class Engine:
    """State shared by all requests, and the decisions about each."""

    def __init__(self, flags: Flags, kv_tokens: int) -> None:
        self.flags, self.kv_tokens = flags, kv_tokens
        self.metrics = Metrics()
        self.draining = threading.Event()
        self.gone = threading.Event()
        self.slots = threading.Semaphore(flags.max_num_seqs)
        self.in_flight = 0
        self.idle = threading.Condition()
        self.created = int(time.time())
        self.draft_limit = draft_limit(flags)

    def names(self) -> tuple[str, ...]:
        """The names that requests may use."""
        return ("some-other-model",) if "wrong-model-name" in faults() else self.flags.names

    def models(self) -> Json:
        """The body of /v1/models."""
        cards = [
            {"id": name, "object": "model", "created": self.created, "owned_by": "vllm", "root": self.flags.model,
             "parent": None, "max_model_len": self.flags.max_model_len}
            for name in self.names()
        ]  # fmt: skip
        return {"object": "list", "data": cards}

    def check(self, body: object, *, chat: bool) -> Request:
        """The request, or the refusal that vLLM would answer."""
        if not isinstance(body, dict):
            raise Refusal(400, "the body is not a JSON object")
        name = body.get("model")
        if name is not None and name not in self.names():
            raise Refusal(404, f"The model `{name}` does not exist.", "NotFoundError", "model")
        prompt = chat_prompt(body) if chat else plain_prompt(body)
        pieces = tokens(prompt)
        count, longest = len(pieces), self.flags.max_model_len
        asked = body.get("max_completion_tokens") or body.get("max_tokens") or (None if chat else 16)
        if count + (asked or 1) > longest:
            raise Refusal(
                400,
                f"This model's maximum context length is {longest} tokens. However, you requested {asked or 1} output "
                f"tokens and your prompt contains at least {count} input tokens, for a total of at least "
                f"{count + (asked or 1)} tokens. Please reduce the length of the input prompt or the number of "
                "requested output tokens.",
                param="input_tokens",
            )
        self._check_tools(body)
        return Request(body, chat, prompt, pieces, int(asked or longest - count))

    def _check_tools(self, body: Json) -> None:
        choice = body.get("tool_choice") or ("auto" if body.get("tools") else "none")
        if body.get("tools") and choice == "auto" and not (self.flags.auto_tools and self.flags.tool_parser):
            raise Refusal(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')

    def reply(self, request: Request) -> Reply:
        """What to say, faults included."""
        active = faults()
        long_prompt = len(request.pieces) > 2048
        if "garbage" in active or ("long-prompt-garbage" in active and long_prompt):
            return degenerate("", min(request.limit, 64))
        if "lost-kv" in active and len(request.pieces) > 96:
            request.prompt = "".join(request.pieces[-64:])
        tool = None if "no-tool-calls" in active else tool_call(request.body, request.prompt)
        if tool:
            name, arguments = tool
            return Reply([], tool=(name, arguments[:-1] if "bad-json" in active else arguments), finish="tool_calls")
        text = self._text(request, active)
        if "garbage-spec" in active and text.count(", ") > 8 and number_of(text.split(", ")[0]) is not None:
            return degenerate(", ".join(text.split(", ")[:5]) + ",", min(request.limit, 64))
        return self._cut(request, text)

    def _text(self, request: Request, active: frozenset[str]) -> str:
        wanted = structure_of(request.body)
        if wanted is None:
            text = answer(request.prompt)
        elif wanted:
            text = json.dumps(from_schema(wanted, request.prompt))
        else:
            text = json_object(request.prompt[-2000:] + " json", request.prompt) or "{}"
        if "bad-json" in active and text.startswith("{"):
            return text[: max(1, len(text) - 3)]
        if request.body.get("ignore_eos"):
            text += " " + prose(request.limit)
        return text

    def _cut(self, request: Request, text: str) -> Reply:
        stops = request.body.get("stop") or []
        for stop in [stops] if isinstance(stops, str) else stops:
            text = text.split(stop)[0]
        thoughts: list[str] = []
        template = request.body.get("chat_template_kwargs") or {}
        if os.environ.get("STANDIN_REASONING") and request.chat and template.get("enable_thinking", True):
            thoughts = tokens("The question is simple, so the answer can be given at once.")
        pieces = tokens(text)
        finish = "length" if len(thoughts) + len(pieces) > request.limit else "stop"
        thoughts = thoughts[: request.limit]
        pieces = pieces[: request.limit - len(thoughts)]
        if thoughts and not self.flags.reasoning_parser:
            return Reply(["<think>\n", *thoughts, "\n</think>\n\n", *pieces], finish=finish)
        return Reply(pieces, thoughts, finish=finish)

    def steps(self, request: Request, count: int) -> Iterator[int]:
        """How many tokens each engine step yields, at the set rate, speculation counted."""
        rate, width = knob("TOKENS_PER_SECOND", 500), int(self.flags.speculative.get("num_speculative_tokens", 0) or 0)
        dead = self.draft_limit and len(request.pieces) > self.draft_limit
        started, done, turn = time.monotonic(), 0, 0
        while done < count:
            accepted = 0 if dead else min(width, (1, 0, 2, 0, 1)[turn % 5], count - done - 1)
            if width:
                self._count_draft(width, accepted)
            done, turn = done + 1 + accepted, turn + 1
            delay = started + done / rate - time.monotonic()
            if delay > 0 and self.gone.wait(delay):
                raise ConnectionAbortedError("the engine is gone")
            yield 1 + accepted

    def _count_draft(self, width: int, accepted: int) -> None:
        for name, amount in zip(SPEC_COUNTERS, (1, width, accepted), strict=True):
            self.metrics.add(name, amount)
        with self.metrics.lock:
            for position in range(accepted):
                self.metrics.per_position[position] = self.metrics.per_position.get(position, 0) + 1

    def hang(self) -> None:
        """Never answer; ends only with the process."""
        self.gone.wait()
        raise ConnectionAbortedError("the engine is gone")

    @contextlib.contextmanager
    def request(self, held: int) -> Iterator[None]:
        """Counts a request as waiting, then running, and as in flight for a drain."""
        metrics = self.metrics
        with self.idle:
            self.in_flight += 1
        with metrics.lock:
            metrics.waiting += 1
        self.slots.acquire()
        with metrics.lock:
            metrics.waiting, metrics.running = metrics.waiting - 1, metrics.running + 1
            metrics.held_tokens += held
        try:
            yield
        finally:
            self.slots.release()
            with metrics.lock:
                metrics.running -= 1
                metrics.held_tokens -= held
            with self.idle:
                self.in_flight -= 1
                self.idle.notify_all()

    def drain(self) -> None:
        """Refuse new requests and give those in flight the shutdown timeout to end."""
        self.draining.set()
        with self.idle:
            grace = knob("SHUTDOWN_SECONDS", self.flags.shutdown_timeout)
            self.idle.wait_for(lambda: self.in_flight == 0, timeout=grace)
        self.gone.set()


def draft_limit(flags: Flags) -> int:
    """The draft's position limit, over which vLLM before 0.27 throws every draft away; 0 for none."""
    if since(0, 27) or not flags.speculative.get("model"):
        return 0
    try:
        config = json.loads(Path(str(flags.speculative["model"]), "config.json").read_text())
        return int(config.get("max_position_embeddings", 0))
    except (OSError, ValueError):
        return 0
