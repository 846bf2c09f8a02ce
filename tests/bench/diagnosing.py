"""How long `diagnose` takes for a large log, and how much memory it has in use."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .memory import WATCHED
from .sampling import heading, tell

MEGABYTES = 200
WANTED_SECONDS, WANTED_MB = 10, 150
WORDS = re.findall(
    r"\w+",
    "the harbour master walks along quay looks at boats writes down what was said opens window because room has been "
    "too warm finds lamp still burning waits for others before they go up hill remembers how town looked",
)
CRASH = (
    "(EngineCore pid=133) ERROR 07-04 15:00:00 [core.py:1100] Traceback (most recent call last):\n"
    '(EngineCore pid=133) ERROR 07-04 15:00:00 [core.py:1100]   File "/opt/venv/vllm/v1/engine/core.py", line 1065\n'
    "(EngineCore pid=133) ERROR 07-04 15:00:00 [core.py:1100] RuntimeError: Overflow when unpacking long long\n"
)


def access(number: int) -> str:
    """What a busy server writes most."""
    if number % 5:
        port = 1024 + number * 7919 % 60000
        return f'(APIServer pid=1) INFO:     172.18.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    return (
        f"(APIServer pid=1) INFO 07-04 12:{number // 60 % 60:02}:{number % 60:02} [loggers.py:257] Engine 000: "
        f"Avg prompt throughput: {number % 4000}.4 tokens/s, Avg generation throughput: 51.2 tokens/s, Running: 1 reqs,"
        f" Waiting: 0 reqs, GPU KV cache usage: {number % 100}.3%, Prefix cache hit rate: 47.3%\n"
    )


def prompts(number: int) -> str:
    """No two lines alike: requests are logged with their words."""
    said = " ".join(WORDS[(number * step + number // step) % len(WORDS)] for step in range(3, 19))
    return (
        f"(APIServer pid=1) INFO 07-04 12:00:00 [logger.py:40] Received request chatcmpl-{number:x}: prompt: '{said}'\n"
    )


def failing(number: int) -> str:
    """A server whose every request fails, with a traceback each."""
    return CRASH if number % 3 else access(number)


def main() -> None:
    """Print seconds and megabytes for each kind of log."""
    heading(f"diagnose: a log of {MEGABYTES} MB, one process", "tests.bench.diagnosing")
    with tempfile.TemporaryDirectory() as scratch:
        for kind in (access, prompts, failing):
            log = Path(scratch) / "engine.log"
            _write(log, kind)
            seconds, busy, megabytes = _measured(log, Path(scratch))
            tell(f"  {kind.__name__:<8} {seconds:5.1f} s, {busy:4.1f} s of them at work, {megabytes:6.1f} MB")
    tell(f"  at most {WANTED_SECONDS} s and {WANTED_MB} MB wanted")


def _write(log: Path, kind: Callable[[int], str]) -> None:
    boot = Path(__file__).parent.parent / "core" / "bootlogs" / "vllm-0.21.1.dev17.log"
    with log.open("w", encoding="utf-8") as file:
        file.write(boot.read_text(encoding="utf-8"))
        for text in _pieces(kind):
            file.write(text)
        file.write(CRASH)


def _pieces(kind: Callable[[int], str]) -> Iterator[str]:
    """A hundred thousand different lines, again and again with other numbers, until there is enough."""
    number = size = 0
    while size < MEGABYTES * 1_000_000:
        text = "".join(kind(each) for each in range(number, number + 10_000))
        number += 10_000
        size += len(text)
        yield text


def _measured(log: Path, scratch: Path) -> tuple[float, float, float]:
    """Seconds on the clock, seconds of a core, megabytes."""
    marks = scratch / "marks"
    env = {"PATH": os.environ["PATH"], "HOME": str(scratch), "PYTHONPATH": str(Path.cwd())}
    argv = (sys.executable, "-c", WATCHED, str(marks), "diagnose", str(log))
    began, before = time.perf_counter(), os.times()
    ran = subprocess.run(argv, env=env, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    seconds, after = time.perf_counter() - began, os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    if b"[ptr-overflow]" not in ran.stdout:
        raise SystemExit(f"diagnose found something else: {ran.stdout.decode()}{ran.stderr.decode()}")
    return seconds, busy, int(marks.read_text().split()[0]) / 1024


if __name__ == "__main__":
    main()
