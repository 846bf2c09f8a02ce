"""The first fault in a log: the exception that began it, not those that followed."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LONGEST_FAULT = 400
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) ", re.ASCII)
_TAG = re.compile(r"^\(([^()\n]{1,60}? pid=\d{1,9})\) ?", re.ASCII)
_HEAD = re.compile(
    r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? \[[^\]\n]{1,120}:\d+\] ?", re.ASCII
)
_SURVIVED = ("DEBUG", "INFO", "WARNING")
_STARTED = "Traceback (most recent call last)"
# an exception that only reports that another process died of something else
_ECHO = re.compile(
    r"See root cause above|Engine core initialization failed|EngineDeadError|^KeyboardInterrupt|^SystemExit"
)
# told to stop, an engine's processes lose one another, and say so
_STOPPING = re.compile(
    r"^\[shutdown\] .{1,40}(?:shutdown triggered$|trigger received signal=SIG)|^Shutting down FastAPI HTTP server"
    r"|^Shutdown initiated \(timeout="
)
_SPOKEN = re.compile(
    r"\berror: (?:argument|unrecognized|the following|ambiguous)|^exec: |^exec /|^(?:/bin/)?(?:ba)?sh: (?:line )?\d+: "
    # a function of `bash -c`, as what runs start scripts is
    r"|^environment: line \d+: |^b70ctl: start script \S+ ended with "
    r"|^terminate called|^\s*what\(\):|Segmentation fault|Illegal instruction|^Fatal Python error"
    r"|^FATAL: |UR_RESULT_ERROR_|^Killed$|oneCCL: .*(?:fail|EXCEPTION)"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One line without its decoration: who said it, how loud, and what."""

    tag: str
    level: str
    text: str

    @classmethod
    def of(cls, line: str, tag: str = "") -> Record:
        """Read a line of any vLLM from 0.19 on; `tag` is who speaks when the line does not say."""
        text = _STAMP.sub("", _ANSI.sub("", line)).rstrip("\n")
        if said_by := _TAG.match(text):
            tag, text = said_by[1], text[said_by.end() :]
        if head := _HEAD.match(text):
            return cls(tag, head[1], text[head.end() :])
        return cls(tag, "", text)


class Faults:
    """Keeps the first fault; processes that fail side by side are told apart by their tags."""

    def __init__(self) -> None:
        self._cause: str | None = None
        self._echo: str | None = None
        # tag -> level of the traceback that it is printing
        self._open: dict[str, str] = {}
        self._detail_of: tuple[str, str] | None = None
        self._stopping = False

    @property
    def first(self) -> str | None:
        """The cause, or the first thing that looks like a consequence of one."""
        return self._cause or self._echo

    def take(self, record: Record) -> None:
        """Look at one record; never raises."""
        text = record.text.rstrip()
        self._stopping = self._stopping or (record.level == "INFO" and _STOPPING.search(text) is not None)
        if self._detail_of == (record.tag, record.level):
            self._add_detail(text)
        elif _STARTED in text:
            self._open[record.tag] = record.level
        elif self._open.get(record.tag) == record.level:
            self._trace(record, text)
        else:
            self._open.pop(record.tag, None)
            self._listen(record, text.strip())

    def _trace(self, record: Record, text: str) -> None:
        if not text or text[0].isspace():
            return
        del self._open[record.tag]
        # a traceback that is logged as a warning was survived
        if record.level not in _SURVIVED:
            self._blame(record, text)

    def _listen(self, record: Record, text: str) -> None:
        if text and record.level in ("ERROR", "CRITICAL"):
            self._repeat(text)
        elif not record.level and _SPOKEN.search(text):
            self._blame(record, text)

    def _blame(self, record: Record, text: str) -> None:
        if _ECHO.search(text):
            self._repeat(text)
        elif self._cause is None:
            self._cause = text[:_LONGEST_FAULT]
            # pydantic says what is wrong on the lines after the exception's own
            self._detail_of = (record.tag, record.level) if "validation error" in text else None

    def _repeat(self, text: str) -> None:
        if not self._stopping:
            self._echo = self._echo or text[:_LONGEST_FAULT]

    def _add_detail(self, text: str) -> None:
        self._cause = f"{self._cause}: {text.strip()}".rstrip(": ")[:_LONGEST_FAULT]
        if not text or text[0].isspace():
            self._detail_of = None
