"""vLLM's routes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .asked import Refusal, Request
from .bodies import Stream, Whole
from .flags import Json
from .knobs import faults, knob, version
from .log import API
from .reply import Reply
from .serving import Engine
from .words import tokens


class Server(ThreadingHTTPServer):
    """Bound early, as vLLM binds, and listening only once the engine is up."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
    engine: Engine


class Handler(BaseHTTPRequestHandler):
    """vLLM's routes."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, the base class names it so
        """Access log in the server library's form."""
        if self.server.engine.flags.access_log and len(args) > 1:
            status = {"200": "200 OK", "500": "500 Internal Server Error"}.get(str(args[1]), str(args[1]))
            API.plain(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{self.requestline}" {status}')

    def do_GET(self) -> None:
        """Health, version, models, metrics."""
        engine, path = self.server.engine, self.path.split("?")[0]
        if path in ("/health", "/ping"):
            self._send(503 if "never-healthy" in faults() else 200, b"", "text/plain")
        elif path == "/version":
            self._json(200, {"version": version()})
        elif path == "/metrics":
            self._send(200, engine.metrics.text(engine.flags, engine.kv_tokens).encode(), "text/plain; version=0.0.4")
        elif path == "/standin/process":
            self._json(200, {"argv": sys.argv, "env": dict(os.environ)})
        elif path == "/v1/models" and self._allowed():
            self._json(200, engine.models())
        elif path != "/v1/models":
            self._json(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        """Completions."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        if path.startswith("/v1/") and not self._allowed():
            return
        if path not in ("/v1/chat/completions", "/v1/completions", "/tokenize"):
            self._json(404, {"detail": "Not Found"})
            return
        try:
            self._complete(path, raw)
        except Refusal as refusal:
            self._json(refusal.status, refusal.body)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _complete(self, path: str, raw: bytes) -> None:
        engine = self.server.engine
        if engine.draining.is_set() or "http-500" in faults():
            raise Refusal(
                500,
                "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                "InternalServerError",
            )
        try:
            body = json.loads(raw)
        except ValueError as error:
            raise Refusal(400, f"JSON decode error: {error}") from error
        request = engine.check(body, chat=path != "/v1/completions" and "messages" in body)
        if path == "/tokenize":
            count = len(request.pieces)
            self._json(200, {"count": count, "max_model_len": engine.flags.max_model_len, "tokens": list(range(count))})
            return
        with engine.request(len(request.pieces)):
            self._generate(engine, request)

    def _generate(self, engine: Engine, request: Request) -> None:
        started = time.monotonic()
        if "hang" in faults():
            engine.hang()
        reply = engine.reply(request)
        metrics = engine.metrics
        metrics.add("prompt_tokens", len(request.pieces))
        metrics.add("prefix_cache_queries", len(request.pieces))
        metrics.add("prefix_cache_hits", metrics.hit(request.pieces))
        rate = knob("PREFILL_TOKENS_PER_SECOND", 0)
        wait = len(request.pieces) / rate if rate else 0.0
        if "slow-first-token" in faults():
            wait += knob("FIRST_TOKEN_SECONDS", 30)
        if wait and engine.gone.wait(wait):
            raise ConnectionAbortedError("the engine is gone")
        writer = Stream(self, request, reply) if request.stream else Whole(self, request, reply)
        self._decode(engine, request, reply, writer, started)

    def _decode(self, engine: Engine, request: Request, reply: Reply, writer: Stream | Whole, started: float) -> None:
        outgoing = deque([("reasoning", piece) for piece in reply.reasoning])
        outgoing += [("content", piece) for piece in reply.pieces]
        outgoing += [("tool", piece) for piece in tokens(reply.tool[1])] if reply.tool else []
        metrics, total, last = engine.metrics, len(outgoing), 0.0
        for step in engine.steps(request, total):
            writer.write([outgoing.popleft() for _ in range(step)])
            metrics.add("generation_tokens", step)
            now = time.monotonic()
            name = "inter_token_latency_seconds" if last else "time_to_first_token_seconds"
            metrics.observe(name, now - (last or started))
            last = now
            if "hang-after-first-token" in faults():
                engine.hang()
        writer.close(total)
        spent = time.monotonic() - started
        for name in ("e2e_request_latency_seconds", "request_decode_time_seconds"):
            metrics.observe(name, spent)
        metrics.observe("request_prefill_time_seconds", max(0.0, spent - total / knob("TOKENS_PER_SECOND", 500)))
        metrics.observe("request_time_per_output_token_seconds", spent / max(1, total))
        with metrics.lock:
            metrics.finished[reply.finish] = metrics.finished.get(reply.finish, 0) + 1

    def _allowed(self) -> bool:
        key = self.server.engine.flags.api_key
        if not key or self.headers.get("Authorization") == f"Bearer {key}":
            return True
        self.close_connection = True
        self._json(401, {"error": "Unauthorized"})
        return False

    def _json(self, status: int, body: Json) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
