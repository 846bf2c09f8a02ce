"""Whether the start scripts of a release have come to their end in its container."""

from __future__ import annotations

from b70ctl.core.release import Container, Release
from b70ctl.core.serving import DONE, mark
from b70ctl.edge.container import names_in
from b70ctl.edge.daemon import Daemon


def cut_short(release: Release, container: Container, daemon: Daemon) -> bool:
    """Whether a container that does not run would run a script again that has edited it, in part or whole.

    Nobody knows what such a script has left, so a container of that kind is made anew. One that was made before marks
    were left in containers is another of them.
    """
    scripts = [order for order in release.deployment.files if order.kind == "copy"]
    wanted = {mark(order.target, release.contents.get(order.to, "")) for order in scripts}
    if not wanted or container.state in ("running", "paused"):
        return False
    archive = daemon.archive(container.id, DONE)
    return not wanted <= (names_in(archive) if archive else frozenset())
