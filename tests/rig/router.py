"""A small router with vllm-router's manners: each new request goes to the next worker, and workers come and go by HTTP.

It refuses to add one twice, and streams that it has begun go on when their worker is removed.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PATIENCE = 180


@dataclass
class Router:
    """Its workers, and what it was asked for."""

    workers: list[str]
    asked: list[str] = field(default_factory=list)
    turn: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""

    def rotate(self, action: str, worker: str) -> tuple[int, str]:
        """Add or remove a worker: status and words of the answer."""
        with self.lock:
            self.asked.append(action)
            if action == "/add_worker" and worker in self.workers:
                return 400, f"Worker {worker} already exists"
            self.workers = [each for each in self.workers if each != worker]
            self.workers += [worker] * (action == "/add_worker")
            return 200, "done"

    def next(self) -> str | None:
        """The worker whose turn it is."""
        with self.lock:
            self.turn += 1
            return self.workers[self.turn % len(self.workers)] if self.workers else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    router: Router


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        """A request for a worker, or for the router itself."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        if parts.path in ("/add_worker", "/remove_worker"):
            self._answer(*self.server.router.rotate(parts.path, parse_qs(parts.query)["url"][0]))
        elif (worker := self.server.router.next()) is None:
            self._answer(503, "no worker")
        else:
            self._forward(worker, body)

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def _forward(self, worker: str, body: bytes) -> None:
        connection = http.client.HTTPConnection(urlsplit(worker).netloc, timeout=PATIENCE)
        with contextlib.closing(connection):
            try:
                connection.request("POST", self.path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                self._answer(502, f"{worker}: {error}")
                return
            self._relay(answer)

    def _relay(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type") or "")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        # what ends early must not look as if it had ended
        self.close_connection = True
        with contextlib.suppress(OSError, http.client.HTTPException):
            while piece := answer.read1(65536):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def routing(*workers: str) -> Iterator[Router]:
    """A router in front of these workers, on a port of its own."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.router = Router(list(workers), url=f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.router
    finally:
        server.shutdown()
        server.server_close()
