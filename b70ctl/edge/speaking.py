"""Docker's errors as ours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import requests
from docker.errors import APIError, DockerException
from docker.utils import parse_host

from b70ctl.core.secrecy import as_address, without_credentials
from b70ctl.errors import DaemonAway, DaemonError, MachineError


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
        return DaemonError(f"{what}: Docker said: {without_credentials(str(error.explanation or error))}")
    return DaemonAway(f"{what}: Docker's daemon does not answer: {reason(error)}", hint="docker info")


def refuse_no_address(host: str) -> None:
    """Raise for a DOCKER_HOST that Docker's library would refuse: its own words repeat it, and a password with it."""
    try:
        parse_host(host)
    except (DockerException, ValueError):
        # ValueError: what no URL is, as with port 99999
        raise MachineError(f"no Docker Engine answers: DOCKER_HOST is no address of one: {as_address(host)[:200]}",
                           hint="unset DOCKER_HOST, or: export DOCKER_HOST=unix:///var/run/docker.sock",
                           ) from None  # fmt: skip


def in_progress(error: DaemonError) -> bool:
    """Whether Docker is at it already, and said so."""
    cause = error.__cause__
    return isinstance(cause, APIError) and cause.status_code == 409 and "in progress" in str(cause.explanation)


def reason(error: Exception) -> str:
    """Why nobody answers, in few words."""
    text = without_credentials(str(error))
    for known in ("Permission denied", "No such file or directory", "Connection refused", "timed out"):
        if known in text:
            return known.lower()
    return text.splitlines()[0][:200] if text else type(error).__name__
