"""How the rig's commands speak: data on stdout, talk on stderr, errors with a hint and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable

from b70ctl.errors import B70Error


def say(text: str) -> None:
    """Talk: what is being done."""
    sys.stderr.write(f"rig: {text}\n")


def give(text: str) -> None:
    """Data: what the caller asked for."""
    sys.stdout.write(f"{text}\n")


def exit_status(command: Callable[[], int]) -> int:
    """Run a command; an error that a person can act on becomes two lines and its exit status."""
    try:
        return command()
    except B70Error as error:
        sys.stderr.write(f"error: {error.what}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return int(error.exit_code)
