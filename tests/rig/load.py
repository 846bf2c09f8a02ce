"""Streams that are kept in flight, requests that keep arriving, and what became of each."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from .engine_process import eventually

PATIENCE = 180
MOST_AT_ONCE = 400


def stream(url: str, model: str, tokens: int) -> str:
    """Ask for so many tokens and read to the end; what went wrong, or nothing when all of them came."""
    body = {"model": model, "stream": True, "max_tokens": tokens, "ignore_eos": True,
            "messages": [{"role": "user", "content": "Count from 1 to 1000."}]}  # fmt: skip
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})  # fmt: skip
    lines: list[bytes] = []
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            lines.extend(line.strip() for line in answer if line.strip())
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__} after {len(lines)} events: {error}"
    if lines[-1:] != [b"data: [DONE]"] or len(lines) <= tokens:
        return f"cut after {len(lines)} events"
    return ""


def figure(url: str, name: str) -> float:
    """The sum of one figure of an engine's metrics page."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as page:
        rows = [line.split() for line in page.read().decode().splitlines()]
    return sum(float(row[1]) for row in rows if row and row[0].split("{")[0] == name)


def running(url: str) -> float:
    """How many requests an engine says that it has."""
    return figure(url, "vllm:num_requests_running")


@contextlib.contextmanager
def in_flight(url: str, engine: str, model: str, count: int, tokens: int) -> Iterator[list[Future[str]]]:
    """So many streams through `url`, all of them at work in `engine` when the block begins."""
    with ThreadPoolExecutor(count) as pool:
        found = [pool.submit(stream, url, model, tokens) for _ in range(count)]
        eventually(lambda: running(engine) == count, f"{count} streams in flight")
        yield found


class Arrivals:
    """Requests that arrive one after the other, whatever becomes of those before."""

    def __init__(self, url: str, model: str, tokens: int, every: float) -> None:
        self.found: list[Future[str]] = []
        self._asked = url, model, tokens
        self._every = every
        self._over = threading.Event()

    @property
    def whole(self) -> int:
        """How many have come back whole by now."""
        return sum(each.done() and not each.result() for each in list(self.found))

    @property
    def faults(self) -> list[str]:
        """What went wrong with those that did not; waits for all."""
        return [fault for each in self.found if (fault := each.result())]

    def _arrive(self, pool: ThreadPoolExecutor) -> None:
        while not self._over.wait(self._every):
            self.found.append(pool.submit(stream, *self._asked))

    @classmethod
    @contextlib.contextmanager
    def keep(cls, url: str, model: str, *, tokens: int = 20, every: float = 0.1) -> Iterator[Arrivals]:
        """They arrive for the length of a block, and have all been answered after it."""
        arrivals = cls(url, model, tokens, every)
        with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
            clock = threading.Thread(target=arrivals._arrive, args=(pool,), daemon=True)
            clock.start()
            try:
                yield arrivals
            finally:
                arrivals._over.set()
                clock.join()
