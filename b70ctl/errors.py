"""What can go wrong, one class per remedy; each carries its exit code and the next command to type."""

from __future__ import annotations

import shlex
from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit status means; scripts may rely on it."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MACHINE = 3
    DIFFERENT = 4
    ROLLED_BACK = 5
    UNPROVEN = 6
    LOCKED = 7
    INTERRUPTED = 130


class B70Error(Exception):
    """Something that a person can act on: what happened, with its values, and a hint to type."""

    exit_code: Exit = Exit.FAILED

    def __init__(self, what: str, *, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class UsageError(B70Error):
    """The command, a profile or a site file says something that cannot be meant."""

    exit_code = Exit.USAGE


class BadValue(ValueError):
    """A value of a YAML file that cannot be meant; who reads the file says where it stands, and passes the hint on."""

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


class NotAsked(UsageError):
    """What only the image itself can tell is needed, and nothing is known of what it said."""


class Refused(B70Error):
    """The request is understood and would do harm, so nothing was started."""


class CutOff(Refused):
    """Another command was cut off, and is not this one's to bring to its end."""


class MachineError(B70Error):
    """The machine lacks something: a daemon, Compose, a card, disk space."""

    exit_code = Exit.MACHINE


class DaemonError(B70Error):
    """Docker's daemon refused a request."""


class DaemonAway(DaemonError):
    """Docker's daemon does not answer, so what it would say is not known."""


class EngineError(B70Error):
    """The engine stopped, stalled, or answered in a way that cannot be served."""


class Unpatched(EngineError):
    """A patch has not left what it leaves; what the patch is says more of that than the engine's log."""


class CommandFailed(B70Error):
    """The command of a window did not end with 0; the engine is well."""


class EngineSilent(EngineError):
    """The engine took a request and gave no whole answer in time.

    `chunks` of it had come, the last one `quiet` seconds before.
    """

    def __init__(self, what: str, *, hint: str | None = None, chunks: int = 0, quiet: float = 0.0) -> None:
        super().__init__(what, hint=hint)
        self.chunks = chunks
        self.quiet = quiet


class GaveUp(B70Error):
    """The engine has a fault, and the watch may not restart it any more."""


class RouterError(B70Error):
    """The site's router hook did not do what it was asked for."""


class RolledBack(B70Error):
    """The new release failed and the one before serves again, proven."""

    exit_code = Exit.ROLLED_BACK


class Unproven(B70Error):
    """The way back failed, or what it restored did not pass its probes."""

    exit_code = Exit.UNPROVEN


class Locked(B70Error):
    """Another command holds the site or a card."""

    exit_code = Exit.LOCKED


class Interrupted(B70Error, KeyboardInterrupt):
    """A person or the system asked to stop.

    As a KeyboardInterrupt it is let through by an event loop, which keeps every other exception of a callback.
    """

    exit_code = Exit.INTERRUPTED


def to_type(*words: object) -> str:
    """A command for a hint, with each word quoted as a shell wants it: a path may have blanks and worse."""
    return shlex.join(map(str, words))
