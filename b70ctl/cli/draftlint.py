"""What lint says of a draft: whether it is there, fits what is asked of it, and would be found in the container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from b70ctl.cli.here import Here
from b70ctl.core.draft import draft_of, in_cache, orders, overridden
from b70ctl.core.lint import Finding
from b70ctl.core.mounting import mounts, requires
from b70ctl.core.preflight import lost_link
from b70ctl.core.profile import Draft, Profile
from b70ctl.core.rules.case import Severity
from b70ctl.edge.catalog import Written
from b70ctl.edge.draft import config, refuse_lost
from b70ctl.edge.files import is_there, nearest, not_allowed
from b70ctl.edge.links import lost
from b70ctl.edge.preparing import Workshop
from b70ctl.edge.secretfiles import secret_files
from b70ctl.errors import B70Error, Refused, to_type

WHERE = "speculative.draft"


def of_draft(here: Here, workshop: Workshop, written: Written, lacks: Severity) -> Iterator[Finding]:
    """What a switch will refuse of a draft: one that is not there, and overrides that its config has no place for.

    Where the models, or the hub's cache, are not on this machine at all, as in CI, there is nothing to look at; but a
    hub's draft with overrides needs its commit, there too.
    """
    given, site = draft_of(written.profile), here.catalog.site
    around = (site.models if given.path else site.hf_cache) if given else None
    if given is None or around is None or here.root is None:
        return
    file = workshop.draft_config(written)
    if file is None and given.overrides:
        yield from _without_commit(workshop, written, lacks)
    elif not is_there(workshop.place.path(around)):
        return
    elif file and (denied := not_allowed(file)):
        # who switches may look, and who asks here may not
        yield Finding("draft", "warning", WHERE, f"{file} cannot be looked at: {denied}",
                      to_type("ls", "-l", file.parent))  # fmt: skip
    elif file is None or not is_there(file):
        if given.path or given.overrides or not written.profile.boot.download:
            yield _absent(workshop, written.profile, given, file, lacks)
    else:
        yield from _of_config(here, workshop, written, given, file)


def _without_commit(workshop: Workshop, written: Written, lacks: Severity) -> Iterator[Finding]:
    """In the words of `render`, which cannot say either where the changed config would lie."""
    try:
        orders(written.profile, workshop.place_of(written))
    except Refused as error:
        yield Finding("draft", lacks, f"{WHERE}.hub", error.what, error.hint)
    except B70Error:
        return  # told as what no box resolves


def _absent(workshop: Workshop, profile: Profile, given: Draft, file: Path | None, lacks: Severity) -> Finding:
    key, name = ("path", given.path) if given.path else ("hub", given.hub)
    where = next((need.where for need in profile.needs if str(name).endswith(need.what)), None)
    what = Path(file or in_cache(str(given.hub), given.revision, workshop.place))
    lies = file is None and is_there(what)
    said = f"{what} names no snapshot that lies in the cache" if lies else f"{what} does not exist"
    look = to_type("head", "-c", 200, what) if lies else to_type("ls", nearest(what.parent.parent))
    return Finding("draft", lacks, f"{WHERE}.{key}", said, where or look)


def _of_config(here: Here, workshop: Workshop, written: Written, given: Draft, file: Path) -> Iterator[Finding]:
    hidden = secret_files(here.catalog.site, here.root, looking=True) if given.overrides and here.root else {}
    try:
        read = config(file, hidden)
    except Refused as error:
        # nothing of it is written anew without overrides, but how far the draft reaches is not known either
        yield Finding("draft", "error" if given.overrides else "warning", WHERE, error.what, error.hint)
        return
    try:
        overridden(read, given.overrides)
    except Refused as error:
        yield Finding("draft", "error", f"{WHERE}.overrides", error.what, error.hint)
    try:
        _refuse_lost(workshop, written, file)
    except Refused as error:
        yield Finding("draft", "error", WHERE, error.what, error.hint)


def _refuse_lost(workshop: Workshop, written: Written, file: Path) -> None:
    """Raise for a config that the container would not find, with the words of a switch."""
    profile, place = written.profile, workshop.place_of(written)
    try:
        mounted, changed = mounts(profile, place, ()), orders(profile, place)
    except B70Error:
        return  # told as what no box resolves
    if str(file) not in requires(profile, place):
        for order in changed:
            refuse_lost(order, mounted)
    elif link := lost(file, mounted):
        raise lost_link(str(link), str(link.readlink()), mounted)
