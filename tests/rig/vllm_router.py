"""vllm-router itself, in an environment of its own: it and what it needs are no part of b70ctl's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from b70ctl.errors import MachineError

from .engine_process import eventually, free_port
from .places import cache_dir
from .talk import say

VERSION = "0.1.17"


def ensure_router() -> Path:
    """The program; installs it into the rig's cache where it is missing (130 MB), and says so."""
    folder = cache_dir() / f"vllm-router-{VERSION}"
    program = folder / "bin" / "vllm-router"
    if not program.exists():
        say(f"installing vllm-router {VERSION} in {folder}; `make clean` removes it")
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", f"vllm-router=={VERSION}")
    return program


def _run(*argv: str) -> None:
    ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        raise MachineError(f"`{' '.join(argv)}` ended with exit {ran.returncode}: {' '.join(said) or 'nothing said'}")


@contextlib.contextmanager
def routing(program: Path, worker: str, log: Path) -> Iterator[str]:
    """The address of a vllm-router in front of one worker."""
    port = free_port()
    argv = (str(program), "--host", "127.0.0.1", "--port", str(port), "--worker-urls", worker, "--policy",
            "round_robin", "--prometheus-port", str(free_port()))  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as sink:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        eventually(lambda: process.poll() is not None or _healthy(url), "a router that answers")
        if process.poll() is not None:
            raise MachineError(f"vllm-router ended with exit {process.returncode}: {log.read_text()[-400:]}")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def add_worker(url: str, worker: str) -> None:
    """Give the router one more worker."""
    question = urllib.parse.urlencode({"url": worker})
    request = urllib.request.Request(f"{url}/add_worker?{question}", method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
