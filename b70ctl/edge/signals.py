"""Ctrl-C, Ctrl-\\, SIGTERM and SIGHUP, turned into one exception at a moment when it can be answered."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, ClassVar

from b70ctl.errors import Interrupted

ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
ORDINARY = (signal.SIG_DFL, signal.default_int_handler)
"""What ends the process."""


UNATTENDED = "Ctrl-C again undoes what was begun and goes back to what served; nothing is lost by waiting"
ATTENDED = "the command was interrupted; once it ends, what served is put back. Ctrl-C again ends it"


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Whatever comes inside the block is answered at its end; a process that is started in it hears nothing before it
    unblocks these signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in ASKED:
            if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None):
                before[number] = handler
                signal.signal(number, lambda number, _: came.append(number))
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        for asked, handler in before.items():
            signal.signal(asked, handler)
        for heard in came:
            signal.raise_signal(heard)


@dataclass(slots=True)
class Interrupts:
    """What the person or the system asked for so far.

    On a terminal the first Ctrl-C only says what a second would do. The second, or the first without a terminal, or
    any of the others, raises Interrupted in the main thread, once; while the way back is walked, one more Ctrl-C
    raises it again, to leave the journal to the next command.
    """

    terminal: bool
    warn: Callable[[str], None]
    patient: bool = False
    """On the way back the first Ctrl-C only warns without a terminal too."""
    working: bool = False
    """Whether a plan was begun: before that there is nothing to undo, and one Ctrl-C is enough."""
    undoing: bool = False
    heard: ClassVar[signal.Signals | None] = None
    """The last one that came to this process."""
    _attending: bool = False
    _ended: bool = False
    _count: int = 0
    _shields: int = 0
    _pending: bool = False
    _raised: Interrupted | None = None
    _before: dict[int, object] = field(default_factory=dict)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Answer signals inside the block; afterwards they mean what they meant before, or nothing once it ended."""
        # what is ignored stays ignored: `nohup` means that the terminal may go
        heard = [number for number in ASKED if signal.getsignal(number) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._asked) for number in heard}
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again, as what it really is
            raise self.behind(error) from error.__cause__
        finally:
            for number, handler in self._before.items():
                # a command whose result stands is about to end with it, and not by a signal that comes too late
                over = self._ended and handler in ORDINARY
                signal.signal(number, signal.SIG_IGN if over else handler)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Finish the block first: a journal line is whole or was never begun."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._pending and not self._shields:
            self._pending = False
            raise Interrupted("interrupted")

    @contextlib.contextmanager
    def attended(self) -> Iterator[None]:
        """While a person's command runs, Ctrl-C is for that."""
        self._attending = True
        try:
            yield
        finally:
            self._attending = False

    def presses(self) -> int:
        """How often Ctrl-C was pressed since there is something to undo."""
        return self._count

    def begin(self) -> None:
        """From here on there is something to undo."""
        self.working, self.undoing, self._count, self._raised = True, False, 0, None
        self._ended = False

    def begin_undo(self) -> None:
        """From here on only another Ctrl-C stops the work."""
        self.working = self.undoing = True
        # who pressed twice to get here has been told enough: the third press stops the waiting
        self._count = 1 if self._count > 1 else 0
        self._pending, self._raised = False, None

    def answered(self) -> None:
        """What was asked for was heard, and there was nothing to undo."""
        self._pending, self._raised = False, None

    def end(self) -> None:
        """The command has come to its result, which no signal changes any more."""
        self._ended = True
        self._pending = False

    def behind(self, error: BaseException) -> BaseException:
        """The interruption that a library made an error of its own of; else the error itself."""
        return self._raised if self._raised and not isinstance(error, Interrupted) else error

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        Interrupts.heard = signal.Signals(number)
        if self._ended:
            return
        if number == signal.SIGINT:
            self._count += 1
        if self.undoing:
            if number != signal.SIGINT:
                return
            if self._count == 1 and (self.terminal or self.patient):
                self.warn("going back; Ctrl-C once more stops waiting and leaves the rest to `b70ctl recover`")
                return
        elif number == signal.SIGINT and self.working and self.terminal and self._count == 1:
            self.warn(ATTENDED if self._attending else UNATTENDED)
            return
        if self._shields:
            self._pending = True
            return
        # a library may swallow it: then it is raised again at the end of the step
        self._pending = True
        self._raised = Interrupted(
            f"interrupted by {signal.Signals(number).name}" + (" on the way back" if self.undoing else ""),
            hint="b70ctl recover" if self.undoing else None,
        )
        raise self._raised
