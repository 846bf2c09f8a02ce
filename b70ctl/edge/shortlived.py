"""Containers that live for a moment: to ask an image, or to read a file out of it."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from b70ctl.core.compose import LABEL
from b70ctl.edge.speaking import speaking
from b70ctl.errors import DaemonError

if TYPE_CHECKING:
    from b70ctl.edge.daemon import Daemon


@contextlib.contextmanager
def short_lived(daemon: Daemon, what: str, image: str, **how: Any) -> Iterator[str]:
    """A container for as long as the block lasts, by its name; it is removed whatever happens.

    It says whose lock the command holds, so that the next one that holds it takes away what `kill -9` left.
    """
    # the name is ours, so that it is removed too when its making is cut off before Docker has said its id
    name = f"{LABEL}-probe-{secrets.token_hex(8)}"
    whose = {f"{LABEL}.root": str(daemon.site.resolve())} if daemon.site else {}
    try:
        with speaking(what):
            daemon.client.api.create_container(image, name=name, labels={f"{LABEL}.probe": "1", **whose}, **how)
            yield name
    except BaseException:
        with contextlib.suppress(DaemonError):  # what went wrong first is what is told
            daemon.remove(name)
        raise
    daemon.remove(name)
