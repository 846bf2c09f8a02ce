"""Requests that an engine still has when it is to stop, and those that it cut off."""

from __future__ import annotations

FRESH = 3.0
"""Seconds for which an engine's figures say how many requests it has."""


def lost(requests: int | None, *, age: float, seconds: float, grace: float | None) -> int | None:
    """How many requests an engine cut off that took `seconds` to stop; None where that is not known.

    `requests` is how many it had when it was last asked, `age` seconds before its `grace` or itself ended. An engine
    that stops takes no new ones, and ends before its grace does only when it has none left.
    """
    if requests == 0 or (grace is not None and seconds < grace):
        return 0
    return requests if age <= FRESH else None


def lost_words(requests: int | None) -> str | None:
    """What is said of requests that were cut off; None where none was."""
    if requests is None:
        return "whether requests were cut off is not known"
    return f"{requests} {'request was' if requests == 1 else 'requests were'} cut off" if requests else None


def held_words(running: int | None, waiting: int | None) -> str:
    """What is said of the requests that an engine has."""
    if running is None or waiting is None:
        return "it does not say how many requests it has"
    return f"{running} running, {waiting} waiting"
