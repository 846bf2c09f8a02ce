"""Where in a log the first fault stands, and whether lines must still be looked at to know it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from b70ctl.core.bootfaults import Faults, Record

_LONGEST_TRACEBACK = 2000
_LONGEST_SHOWN = 400
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DECORATION = re.compile(
    r"^(?:[a-z0-9][\w.-]{0,60} +\| |\[ *\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} [\d :]{12,20}\] "
    r"|[A-Z][a-z]{2} +\d+ [\d:]{8} \S{1,64} kernel: (?:\[ *\d+\.\d+\] )?|\[rank\d+\]: ?)",
    re.ASCII,
)
# stopping an engine leaves these behind
_STOPPED = re.compile(r"^(?:asyncio\.exceptions\.)?CancelledError|^KeyboardInterrupt|^SystemExit")
_KERNEL = re.compile(r"^(?:xe|i915|pci|pcieport) [0-9a-f:.]{7,12}: .*(?:\*ERROR\*|probe with driver .* failed)")
WORDS = (
    "Traceback (most", "ERROR", "CRITICAL", "rror: ", "xception", "exec: ", "exec /", "sh: ", "environment: line ",
    "start script ", "what():", "terminate ", "Segmentation", "Illegal instr", "Fatal Python", "FATAL", "UR_RESULT_",
    "Killed", "oneCCL: ", "probe with driver", "shutdown triggered", "trigger received signal", "Shutting down FastAPI",
    "Shutdown initiated",
)  # fmt: skip
"""What a fault's line has in it, and that of a stop, after which some are none."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log, as it stands there but for colours."""

    number: int
    text: str

    def shown(self) -> dict[str, str | int]:
        """For programs."""
        return {"line": self.number, "text": self.text}


def shown(number: int, raw: str) -> Line:
    """A line as it is shown: without colours, of a rewritten one the last state, and not endless."""
    text = _ANSI.sub("", raw).rstrip("\r\n").split("\r")[-1].rstrip()
    return Line(number, text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def records(raw: str) -> list[Record]:
    """What a line says, bare; a progress bar rewrites its line, and each rewriting counts."""
    found: list[Record] = []
    plain = _ANSI.sub("", raw) if "\x1b" in raw else raw
    for part in plain.rstrip("\r\n").split("\r"):
        record = Record.of(_DECORATION.sub("", part), found[-1].tag if found else "")
        text = _DECORATION.sub("", record.text)
        found.append(record if text is record.text else Record(record.tag, record.level, text))
    return found


class FirstFault(Faults):
    """The first fault of one boot, with its line."""

    def __init__(self) -> None:
        super().__init__()
        self.line: Line | None = None
        self._listened = 0

    @property
    def known(self) -> bool:
        """Whether the cause is known, so that no later line can change it."""
        return self._cause is not None and self._detail_of is None

    @property
    def fatal(self) -> bool:
        """Whether something was raised and not caught; an error that was only logged is not."""
        return self._cause is not None

    @property
    def listening(self) -> bool:
        """Whether a traceback is being told, so that the next lines count whatever they say."""
        return not self.known and bool(self._open or self._detail_of) and self._listened < _LONGEST_TRACEBACK

    def look(self, line: Line, record: Record) -> None:
        """Take one record, and remember its line if it is what began."""
        before = self._cause, self._echo
        self._listened = 0 if "Traceback (most" in record.text else self._listened + 1
        if not record.level and _KERNEL.search(record.text):
            self._blame(record, record.text)
        self.take(record)
        # an echo is what is shown until the cause is found; details that follow a cause belong to its line
        if self.line is None or (before[0] is None and self._cause is not None):
            self.line = line if (self._cause, self._echo) != before else self.line

    def _blame(self, record: Record, text: str) -> None:
        if not _STOPPED.search(text):
            super()._blame(record, text)
