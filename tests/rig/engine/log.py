"""Lines in vLLM's form, one whole write each."""

from __future__ import annotations

import os
import sys
import threading
import time

from .knobs import since

_print_lock = threading.Lock()


def emit(text: str, *, error: bool = False, end: str = "\n") -> None:
    """One write, whole, to the stream that vLLM uses for it."""
    stream = sys.stderr if error else sys.stdout
    with _print_lock:
        stream.write(text + end)
        stream.flush()


class Log:
    """Lines in vLLM's form for one of its processes."""

    def __init__(self, process: str, pid: int) -> None:
        self.name, self.pid = process, pid
        self.prefix = f"({process} pid={pid})"

    def info(self, place: str, text: str, level: str = "INFO") -> None:
        """`(Process pid=N) INFO 07-04 12:00:00 [file.py:1] text`."""
        emit(f"{self.prefix} {_record(place, text, level)}")

    def early(self, place: str, text: str, level: str = "INFO") -> None:
        """The same before the process has its name: without a prefix; a worker's from 0.31 on has Python's own name."""
        if self.name.startswith("EngineCore"):
            self.info(place, text, level)
        elif since(0, 31) and self.name != "APIServer":
            emit(f"(VllmWorker-{self.name[-1]} pid={self.pid}) {_record(place, text, level)}")
        else:
            emit(_record(place, text, level))

    def plain(self, text: str) -> None:
        """A line of the server library's, or of a traceback: prefixed, without level and place."""
        emit(f"{self.prefix} {text}", error=True)


def _record(place: str, text: str, level: str) -> str:
    return f"{level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}"


API = Log("APIServer", os.getpid())
CORE = Log("EngineCore", os.getpid() + 96)


def source_line(name: str) -> int:
    """The source line of a message in the played version, where it is known to move."""
    table = {
        "kv": ((19, 1319), (21, 1710), (23, 1744), (28, 1870), (30, 2396), (33, 1148)),
        "worker": ((19, 437), (21, 463), (33, 773)),
        "flash": ((19, 597), (21, 642), (33, 1123)),
        "xpu": ((19, 88), (21, 95), (33, 270)),
    }[name]
    return max((at for at in table if since(0, at[0])), default=table[0])[1]
