"""Docker's errors as ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import requests
from docker.errors import APIError, DockerException

from b70ctl.errors import DaemonAway, DaemonError


@contextlib.contextmanager
def speaking(what: str) -> Iterator[None]:
    """Docker's errors as ours."""
    try:
        yield
    except (APIError, DockerException, requests.exceptions.RequestException, OSError) as error:
        raise spoken(error, what) from error


def spoken(error: Exception, what: str) -> DaemonError:
    """One of them, with what was being done."""
    if isinstance(error, APIError):
        return DaemonError(f"{what}: Docker said: {error.explanation or error}")
    return DaemonAway(f"{what}: Docker's daemon does not answer: {reason(error)}", hint="docker info")


def in_progress(error: DaemonError) -> bool:
    """Whether Docker is at it already, and said so."""
    cause = error.__cause__
    return isinstance(cause, APIError) and cause.status_code == 409 and "in progress" in str(cause.explanation)


def reason(error: Exception) -> str:
    """Why nobody answers, in few words."""
    text = str(error)
    for known in ("Permission denied", "No such file or directory", "Connection refused", "timed out"):
        if known in text:
            return known.lower()
    return text.splitlines()[0][:200] if text else type(error).__name__
