"""The only file that prints: data on stdout, talk on stderr; nothing depends on colour."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TextIO

from b70ctl.cli.terminal import bold, can_ask, can_rewrite, columns, in_minutes, is_terminal, labelled, laid_out, prose
from b70ctl.core.losses import held_words, lost_words
from b70ctl.core.plan import Plan, Verb
from b70ctl.core.printable import printable
from b70ctl.core.progress import Booting, Emptying, Event, Lost, Note, Probed, StepBegun, StepDone, StepFailed
from b70ctl.errors import B70Error, MachineError, UsageError

MARKS = {True: "ok", False: "FAILED", None: "unproven"}
HEARTBEAT = 15.0
"""Seconds between two lines that say that a boot goes on, where no line can be rewritten."""


@dataclass(slots=True)
class Console:
    """What a person, or a program, is told."""

    json: bool = False
    _status: Any = None
    _told: float = 0.0
    _stage: str = ""

    # -- data -------------------------------------------------------------------------------------------------------

    def data(self, value: Any) -> None:
        """One JSON value."""
        _write(sys.stdout, json.dumps(value, ensure_ascii=False))

    def text(self, text: str) -> None:
        """Text that was asked for."""
        _write(sys.stdout, text.rstrip("\n"))

    def piece(self, raw: bytes) -> None:
        """A part of somebody else's text, as it comes; a terminal obeys none of it."""
        _write(sys.stdout, raw.decode("utf-8", errors="replace"), end="")

    def rows(self, head: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
        """A table: columns as wide as their longest value; on a terminal the last is wrapped, or goes below its row."""
        lines = laid_out(head, rows, columns() if is_terminal(sys.stdout) else None)
        for number, line in enumerate(lines):
            _write(sys.stdout, bold(line, sys.stdout) if head and number == 0 else line)

    # -- talk -------------------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A line of talk."""
        self._quiet()
        if not self.json:
            _write(sys.stderr, prose(text, sys.stderr))

    def warn(self, text: str) -> None:
        """A line that must not be missed."""
        self._quiet()
        _write(sys.stderr, labelled("warning:", text, sys.stderr))

    def shout(self, text: str) -> None:
        """A line from inside a signal handler, which may have interrupted another line."""
        with contextlib.suppress(OSError):
            os.write(2, f"\n{text}\n".encode())

    def error(self, error: B70Error) -> None:
        """What happened, with its values, and what to type next."""
        self._quiet()
        if self.json:
            failed = {"code": int(error.exit_code), "message": error.what, "hint": error.hint}
            self.data({"event": "error", "error": failed})
            return
        _write(sys.stderr, labelled("error:", error.what, sys.stderr))
        if error.hint:
            _write(sys.stderr, labelled("hint:", error.hint, sys.stderr))

    def require_answer(self, *, yes: bool) -> None:
        """Say at once, before any work, that nobody can be asked."""
        if not yes and not can_ask():
            raise UsageError(
                "this changes what serves, and nobody can be asked here",
                hint="run it again with --yes, or with --dry-run to look",
            )

    def confirm(self, question: str, *, yes: bool) -> bool:
        """Ask a person; a program must have said --yes."""
        if yes:
            return True
        self._quiet()
        _write(sys.stderr, f"{question} [y/N] ", end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    # -- plans and progress -----------------------------------------------------------------------------------------

    def doubt(self, found: Sequence[B70Error]) -> None:
        """What may turn out otherwise than meant, and stops nothing; a program is told with the plan."""
        for each in () if self.json else found:
            self.warn(f"{each.what}{f' ({each.hint})' if each.hint else ''}")

    def plan(self, plan: Plan, warnings: Sequence[B70Error] = ()) -> None:
        """What would be done, why, and the way back, after what it is warned of."""
        if self.json:
            self.data({"event": "plan", "plan": plan.model_dump(mode="json"), "warnings": as_data(warnings)})
            return
        self.doubt(warnings)
        for line in plan.lines():
            self.say(f"  {line}" if line else "")

    def tell(self, event: Event) -> None:
        """One event of a running command."""
        if self.json:
            self.data({"event": _snake(type(event).__name__)} | _plain(event))
            return
        match event:
            case StepBegun(step) if step.verb is Verb.RUN:
                self.say(f"{step.verb:<10} {step.subject}  {step.because}")  # the terminal is the command's now
            case StepBegun(step, undo):
                self._progress(f"{'undo: ' if undo else ''}{step.verb} {step.subject}")
            case StepDone(step, seconds, undo):
                self.say(f"{'undo: ' if undo else ''}{step.verb:<10} {step.subject}  {in_minutes(seconds)}")
            case StepFailed(step, why, undo):
                self.say(
                    f"{'undo: ' if undo else ''}{step.verb:<10} {step.subject}  {bold('failed', sys.stderr)}: {why}"
                )
            case Booting(release, stage, seconds, part):
                self._boot(release, stage, part, seconds)
            case Probed(_, probe, passed, detail):
                self.say(f"  {probe:<12} {MARKS[passed]:<9} {detail}")
            case Note(text):
                self.say(text)
            case Emptying() | Lost():
                self._requests(event)

    @contextlib.contextmanager
    def live(self) -> Iterator[None]:
        """Let progress rewrite one line, where stderr is a terminal that can."""
        global _busy
        _busy = True
        try:
            if can_rewrite():
                from rich.console import Console as Rich

                rich = Rich(stderr=True, highlight=False, markup=False)
                self._status = rich.status("", spinner="line")
            yield
        finally:
            self._quiet()
            self._status = None
            _busy = False

    def _progress(self, text: str) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(printable(text)))
            with contextlib.suppress(OSError):
                self._status.start()

    def _boot(self, release: str, stage: str, part: tuple[int, int] | None, seconds: float) -> None:
        of = f" {part[0]}/{part[1]}" if part else ""
        self._pulse(stage, f"{release}: {stage}{of}  {in_minutes(seconds)}")

    def _requests(self, event: Emptying | Lost) -> None:
        if isinstance(event, Emptying):
            left = f"{max(0, event.left):.0f} s left"
            self._pulse("emptying", f"{event.release}: {held_words(event.running, event.waiting)}; {left}")
        else:
            self.warn(f"{event.release} has stopped: {lost_words(event.requests)}")

    def _pulse(self, stage: str, text: str) -> None:
        """Something that goes on: rewritten where a line can be, else told once in a while."""
        if self._status is not None:
            self._progress(text)
        elif stage != self._stage or time.monotonic() - self._told > HEARTBEAT:
            self._stage, self._told = stage, time.monotonic()
            self.say(f"  {text}")

    def _quiet(self) -> None:
        if self._status is not None:
            with contextlib.suppress(OSError):
                self._status.stop()


_busy = False
"""Whether something is being changed, which a reader that goes away must not stop."""


@cache
def console() -> Console:
    """The one console of this process."""
    return Console()


def _write(stream: TextIO | None, text: str, end: str = "\n") -> None:
    if stream is None or stream.closed:
        return  # whoever started us closed it
    try:
        encoding = stream.encoding or "utf-8"
        text = printable(text) if is_terminal(stream) else text
        print(text.encode(encoding, "replace").decode(encoding), end=end, file=stream)
        stream.flush()
    except OSError as error:
        _mute(stream)
        # talk that nobody hears does not matter, what is being done does; data that is lost is no success
        if stream is sys.stdout and not _busy:
            if isinstance(error, BrokenPipeError):
                raise
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise MachineError(f"stdout cannot be written: {error.strerror}", hint="df -h" if full else None) from error


def _mute(stream: TextIO) -> None:
    # what is left in the buffer would fail once more at the end, and be the exit status
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def as_data(errors: Sequence[B70Error]) -> list[dict[str, str | None]]:
    """Several errors for a program, none of which ends the command."""
    return [{"message": error.what, "hint": error.hint} for error in errors]


def _snake(name: str) -> str:
    return "".join(f"-{char.lower()}" if char.isupper() else char for char in name).lstrip("-")


def _plain(event: Event) -> dict[str, Any]:
    values = {name: getattr(event, name) for name in type(event).__dataclass_fields__}
    return {key: value.model_dump(mode="json") if hasattr(value, "model_dump") else value
            for key, value in values.items()}  # fmt: skip
