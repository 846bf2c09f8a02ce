"""A stand-in engine as a process of this machine, for tests that need no container."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from .image_files import ENGINE

WEATHER_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
PATIENCE = 30


def eventually(probe: Callable[[], object], what: str) -> None:
    """Poll until `probe` is true; the only place that sleeps."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if probe():
            return
        time.sleep(0.02)
    raise AssertionError(f"never happened within {PATIENCE} s: {what}")


def free_port() -> int:
    """A loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Process:
    """One stand-in engine and what it has said so far."""

    popen: subprocess.Popen[bytes]
    port: int
    out: Path

    @property
    def log(self) -> str:
        """Everything said so far."""
        return self.out.read_text()

    def url(self, path: str) -> str:
        """The address of a path of this engine."""
        return f"http://127.0.0.1:{self.port}{path}"

    def health(self) -> int:
        """The status of /health, or 0 when nobody listens."""
        try:
            return httpx.get(self.url("/health"), timeout=5).status_code
        except httpx.TransportError:
            return 0

    def ready(self) -> Process:
        """Wait until it is healthy; fails with the log when it ended instead."""
        eventually(lambda: self.health() == 200 or self.popen.poll() is not None, "a healthy engine")
        assert self.popen.poll() is None, self.log
        return self

    def ended(self) -> int:
        """Wait for the end; the exit status."""
        return self.popen.wait(PATIENCE)

    def chat(self, text: str, **body: object) -> httpx.Response:
        """Ask one thing."""
        messages = [{"role": "user", "content": text}]
        payload = {"model": "stand-in", "messages": messages, **body}
        return httpx.post(self.url("/v1/chat/completions"), json=payload, timeout=PATIENCE)

    def said(self, text: str, **body: object) -> str:
        """Ask one thing and take the text of the answer."""
        return str(self.chat(text, **body).json()["choices"][0]["message"]["content"])


Start = Callable[..., Process]


@contextmanager
def starter(directory: Path) -> Iterator[Start]:
    """Gives a function that starts engines: flags as arguments, knobs as keywords without their prefix."""
    made: list[Process] = []

    def begin(*flags: str, model: str = "stand-in", env: dict[str, str] | None = None, **knobs: object) -> Process:
        port, out = free_port(), directory / f"engine-{len(made)}.log"
        knobs = {"BOOT_SECONDS": 0.01, "TOKENS_PER_SECOND": 20_000, **knobs}
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("STANDIN_", "VLLM_"))}
        clean |= {f"STANDIN_{key}": str(value) for key, value in knobs.items()} | (env or {})
        argv = (sys.executable, str(ENGINE), "serve", model, "--host", "127.0.0.1", "--port", str(port), *flags)
        with out.open("wb") as sink:
            popen = subprocess.Popen(argv, env=clean, stdout=sink, stderr=sink)
        made.append(Process(popen, port, out))
        return made[-1]

    try:
        yield begin
    finally:
        for process in made:
            process.popen.kill()
            process.popen.wait()
