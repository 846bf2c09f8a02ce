"""The router in front of the engine: runs the site's own program, or sends one HTTP request."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Collection
from pathlib import Path

from b70ctl.core.rotation import Call, Command
from b70ctl.core.secrecy import without
from b70ctl.edge.process import consult
from b70ctl.errors import EngineError, MachineError, RouterError

SECONDS = 180
"""A vllm-router that is asked to add a worker answers once the worker is healthy."""
HINT = "look at `router` in site.yaml"
QUOTED = 300


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: a POST that was sent elsewhere would arrive there as a GET, and its 200 be no yes."""

    def redirect_request(self, *_: object) -> None:
        """Makes an answer of 300 and more the error that it is."""


def ask_router(request: Command | Call, root: Path, known: Collection[str] = ()) -> None:
    """Ask, and wait for a yes; RouterError says what came instead, without the `known` secrets."""
    if isinstance(request, Command):
        _run(request, root, known)
    else:
        _send(request, known)


def _run(command: Command, root: Path, known: Collection[str]) -> None:
    name = command.argv[0]
    try:
        ran = consult(command.argv, timeout=SECONDS, cwd=root, env=os.environ | command.env)
    except (MachineError, EngineError) as error:
        raise RouterError(f"the router hook: {error.what}", hint=HINT) from None
    if ran.code != 0:
        # a secret is hidden first: of one that was cut through, half would be shown
        said = " ".join(without(ran.stderr or ran.stdout, known).split())[-QUOTED:]
        raise RouterError(f"the router hook `{name}` ended with exit {ran.code} at "
                          f"{command.env['ACTION']}{_quoted(said)}", hint=HINT)  # fmt: skip


def _quoted(said: str) -> str:
    return f": {said}" if said else ", and nothing more"


def _send(call: Call, known: Collection[str]) -> None:
    what = without(f"{call.method} {call.url}", known)
    data = None if call.body is None else call.body.encode()
    headers = {} if data is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(call.url, data, headers, method=call.method)  # noqa: S310 - site.yaml takes http(s)
    # no proxy from the environment: the router is a neighbour
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        said = " ".join(without(error.read().decode(errors="replace"), known).split())[:QUOTED]
        if call.already and call.already in said:
            return
        raise RouterError(f"the router said HTTP {error.code} to {what}{_quoted(said)}", hint=HINT) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise RouterError(f"the router did not answer {what}: {why}", hint=HINT) from None
