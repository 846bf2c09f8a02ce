"""Reads a log once, from beginning to end, and names what caused the trouble in it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence

from b70ctl.core.bootlog import BootLog, Stage
from b70ctl.core.cause import Cause, less_sure
from b70ctl.core.findings import Diagnosis, Finding, State, ranked, surest
from b70ctl.core.firstfault import WORDS, FirstFault, Line, records, shown
from b70ctl.core.image import within
from b70ctl.core.suspect import ROLES, Atom, Suspect, atoms
from b70ctl.core.symptoms import Sieve, needles
from b70ctl.errors import UsageError

__all__ = ["Diagnosis", "Finding", "Reader", "State", "diagnose_text"]

TAIL = 20
_LONGEST_LINE = 16_384
_MOST_BOOT_LINES = 20_000
"""After which the stage of a boot is not followed any further: it never took that many."""
_BANNER = re.compile(r"(?:vLLM (?:API )?server |█ +|▄ +|▀ +)version v?(\d[\w.+]{2,60})")
_ENGINE = re.compile(r"V1 LLM engine \(v([^)\s]{1,60})\)")
_SERVING = re.compile(
    r"Application startup complete|Uvicorn running on|Avg prompt throughput: |POST /v1/[\w/]{1,40} HTTP/1\.[01]\" 200"
)
_KERNEL = re.compile(r"\[ *\d+\.\d{6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4}\] |[A-Z][a-z]{2} [ \d]\d "
                     r"[\d:]{8} \S{1,64} kernel: ", re.ASCII)  # fmt: skip
_SIGNS = ("version ", "LLM engine (v", "Application startup", "Uvicorn running")
# a request's own words may be anything
_QUOTED = re.compile(r"^(?:Received request |Request \S{1,80} details|Generated (?:response|streaming)|Added request )")


class Reader:
    """Takes a log in blocks of whole lines; its memory does not grow with the log.

    `kernel` says that it is the kernel's; one whose lines have the kernel's stamps is known without.
    """

    def __init__(self, causes: Sequence[Cause], vllm: str | None = None, *, kernel: bool = False) -> None:
        self._suspects = [Suspect(cause) for cause in causes]
        self._atoms: dict[str, list[tuple[Suspect, Atom, re.Pattern[str]]]] = {}
        for suspect in self._suspects:
            for atom in atoms(suspect.cause):
                entry = suspect, atom, re.compile(atom.pattern, re.ASCII)
                for needle in needles(atom.pattern):
                    self._atoms.setdefault(needle, []).append(entry)
        self._symptoms = Sieve([*self._atoms, *_SIGNS])
        self._everything = Sieve([*self._atoms, *_SIGNS, *WORDS])
        self._given = vllm
        self._told = vllm
        self._tail: deque[Line] = deque(maxlen=TAIL)
        self._count = 0
        self._boot = 0
        self._boot_lines = 0
        self._boot_log = BootLog()
        self._serving = False
        self._kernel = kernel
        self._fault = FirstFault()
        self._earlier: FirstFault | None = None

    def feed(self, block: bytes) -> None:
        """Take whole lines in, the last one with or without its newline."""
        lines = block.removesuffix(b"\n").split(b"\n")
        self._tail.extend(
            shown(self._count + place + 1, _text(lines[place]))
            for place in range(max(0, len(lines) - TAIL), len(lines))
        )
        while lines:
            taken = self._sift(lines)
            self._count += taken
            lines = lines[taken:]

    def finish(self, *, over: bool = True) -> Diagnosis:
        """What was found; `over` when nothing will be added to the log."""
        stuck = over and self._fault.line is None and not self._serving
        for suspect in self._suspects:
            suspect.finish(self._count, stuck=stuck)
        findings = ranked(surest(self._findings()))
        failed = self._fault if self._fault.line else self._earlier or self._fault
        return Diagnosis(
            state=self._state(findings, over=over),
            findings=tuple(findings),
            first_error=failed.line,
            tail=tuple(self._tail),
            lines=self._count,
            vllm=self._told,
            stage=Stage.SERVING if self._serving else self._boot_log.stage,
        )

    # -- line by line -------------------------------------------------------------------------------------------------

    def _sift(self, lines: Sequence[bytes]) -> int:
        """Take those that matter, up to the end or to a new boot, which is looked at more closely."""
        matching = (self._symptoms if self._fault.known else self._everything)(lines)
        waiting = deque(matching)
        boot, index = self._boot, 0
        while index < len(lines) and boot == self._boot:
            if not (self._fault.listening or self._follows_boot):
                while waiting and waiting[0] < index:
                    waiting.popleft()
                if not waiting:
                    return len(lines)
                index = waiting[0]
            self._take(self._count + index + 1, lines[index], matching.get(index, ()))
            index += 1
        return index

    @property
    def _follows_boot(self) -> bool:
        return not self._serving and self._boot_lines < _MOST_BOOT_LINES

    def _take(self, number: int, raw: bytes, found: Sequence[str]) -> None:
        text = _text(raw)
        line: Line | None = None
        if found or self._follows_boot:
            self._follow(text)
        entries = {id(entry): entry for needle in found for entry in self._atoms.get(needle, ())}
        for record in records(text):
            if not self._fault.known:
                line = line or shown(number, text)
                self._fault.look(line, record)
            if entries and not _QUOTED.search(record.text):
                matched = [entry for entry in entries.values() if entry[2].search(record.text)]
                line = line or shown(number, text)
                for suspect, atom, _ in sorted(matched, key=lambda entry: ROLES.index(entry[1].role)):
                    suspect.take(line, atom, self._boot)

    def _follow(self, text: str) -> None:
        """How far the boot is, and whether another begins."""
        if banner := _BANNER.search(text) or _ENGINE.search(text):
            self._told = self._given or banner[1]
            # a boot tells its version twice; only where something happened since does another begin
            if banner.re is _BANNER and (self._boot_log.stage.rank > Stage.STARTING.rank or self._fault.line):
                self._restart()
        if self._follows_boot:
            self._kernel = self._kernel or _KERNEL.match(text) is not None
            self._boot_lines += 1
            self._boot_log.feed(text)
        self._serving = self._serving or _SERVING.search(text) is not None

    def _restart(self) -> None:
        self._boot += 1
        self._boot_log = BootLog()
        self._serving = False
        self._earlier = self._fault if self._fault.line is not None else self._earlier
        self._fault = FirstFault()
        for suspect in self._suspects:
            suspect.restart()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _findings(self) -> list[Finding]:
        found = []
        for suspect in (suspect for suspect in self._suspects if suspect.count):
            cause = suspect.cause
            concerned = cause.versions is None or _within(self._told, cause.versions)
            if concerned is not False:
                confidence = cause.confidence if concerned else less_sure(cause.confidence)
                found.append(Finding(cause, confidence, suspect.count, tuple(suspect.lines), suspect.boot))
        return found

    def _state(self, findings: Sequence[Finding], *, over: bool) -> State:
        faults = [finding for finding in findings if finding.cause.kind == "fault"]
        if self._fault.fatal and not any(finding.boot == self._boot for finding in faults):
            return State.UNKNOWN
        if faults:
            return State.EXPLAINED
        if (self._earlier and self._earlier.fatal) or (self._fault.line and not self._serving):
            return State.UNKNOWN
        if self._serving or self._kernel:
            return State.HEALTHY
        if not over:
            return State.BOOTING
        return State.OTHER if self._count and self._boot_log.stage is Stage.CREATED else State.CUT


def diagnose_text(
    lines: Iterable[str], causes: Sequence[Cause], *, vllm: str | None = None, over: bool = True
) -> Diagnosis:
    """What a log says that is at hand line by line."""
    reader = Reader(causes, vllm)
    for line in lines:
        reader.feed(line.rstrip("\n").encode("utf-8", errors="replace"))
    return reader.finish(over=over)


def _text(raw: bytes) -> str:
    return raw[:_LONGEST_LINE].decode("utf-8", errors="replace")


def _within(version: str | None, versions: str) -> bool | None:
    try:
        return None if version is None else within(version, versions)
    except UsageError:
        return None
