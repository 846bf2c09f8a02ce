"""How lint findings are gathered and shown, for every command that looks at a profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from b70ctl.cli.here import Here
from b70ctl.core.deployment import Order
from b70ctl.core.draft import Reach, draft_of, in_cache, overridden
from b70ctl.core.image import ImageFacts
from b70ctl.core.lint import Finding, FlagTable, lint
from b70ctl.core.mounting import shows
from b70ctl.core.patch import Patch
from b70ctl.core.patchcheck import unknown_bases
from b70ctl.core.patchset import orders, quarrels
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.core.rules.case import Severity
from b70ctl.edge.catalog import Written
from b70ctl.edge.draft import config
from b70ctl.edge.files import is_there
from b70ctl.edge.filling import unfit
from b70ctl.edge.imagefacts import all_kept
from b70ctl.edge.preparing import Wanted, Workshop
from b70ctl.edge.secretfiles import names_of, secret_places
from b70ctl.errors import B70Error, Refused, to_type


def findings(
    here: Here, workshop: Workshop, name: str, sets: tuple[str, ...], *, meant: bool = True
) -> tuple[Finding, ...]:  # fmt: skip
    """Everything that the rules say of a profile, with what is known of its image; no card is needed for that.

    What is still to be fetched for a shipped profile is no error unless that profile is `meant`.
    """
    written = here.catalog.profile(name, sets)
    lacks: Severity = "error" if meant or written.origin == "site" else "warning"
    patches, facts = workshop.patched(written)
    found = _judged(here, written, facts, patches, workshop.reach(written), workshop.kernels(written, facts))
    return (*_of_patches(here, workshop, facts, patches, lacks), *_of_draft(here, workshop, written, lacks), *found)


def errors_of(here: Here, workshop: Workshop, wanted: Wanted) -> list[Finding]:
    """What the rules say cannot work."""
    return _of("error", here, workshop, wanted)


def _of(severity: Severity, here: Here, workshop: Workshop, wanted: Wanted) -> list[Finding]:
    found = _judged(here, wanted.written, wanted.facts, wanted.patches, workshop.reach(wanted.written), wanted.kernels)
    return [finding for finding in found if finding.severity == severity]


def _judged(
    here: Here, written: Written, facts: ImageFacts, patches: dict[str, Patch], draft: Reach, kernels: Kernels | None
) -> tuple[Finding, ...]:
    known = None if facts.source == "assumed" else facts
    found = lint(written.profile, facts=known, flags=FlagTable(here.catalog.flags()), draft=draft,
                 kernels=kernels, patches=patches, gates=_gates(here) if written.profile.env else None)  # fmt: skip
    pinned = written.profile.image.ref in here.workshop(docker=False).lock.images
    rest = (each for each in found if not (pinned and each.rule == "moving-image"))
    return (*_mounted_secrets(here, written.profile), *rest)


def _mounted_secrets(here: Here, profile: Profile) -> Iterator[Finding]:
    """Mounts by which the engine, and whoever reads its release, would have the site's secrets under another name."""
    root = here.root
    places = secret_places(here.catalog.site, root) if root and profile.mounts else {}
    for number, mount in enumerate(profile.mounts):
        mounted = names_of(root / mount.source) if root else frozenset[str]()
        for what, hidden in places.items():
            if shows(mounted, hidden):
                named = os.path.normpath(Path(str(root)) / mount.source)
                other = "" if shows({named}, {min(hidden)}) else ", by another name"
                yield Finding("mounted-secret", "error", f"mounts.{number}",
                              f"{mount.source} shows {what}, which lies at {min(hidden)}{other}",
                              "mount a folder that holds just what the engine needs")  # fmt: skip


def _gates(here: Here) -> dict[str, list[str]]:
    """Every variable that a patch comes with, and whose it is; a patch that cannot be read brings none."""
    found: dict[str, list[str]] = {}
    for name in here.catalog.patches():
        with suppress(B70Error):
            for variable in here.catalog.patch(name).env:
                found.setdefault(variable, []).append(name)
    return found


def _of_patches(
    here: Here, workshop: Workshop, facts: ImageFacts, patches: dict[str, Patch], lacks: Severity
) -> list[Finding]:  # fmt: skip
    """What a switch will refuse of a profile's patches: two that must not meet, another base than theirs, a file that
    this site has not got or that is another than the patch names."""
    wrong: list[B70Error] = [*quarrels(patches)]
    needed: list[Order] = []
    accepted, known = workshop.lock.accepted(), _asked(workshop, facts)
    anywhere = facts.model_copy(update={"site_packages": facts.site_packages or "/"})
    for name, patch in patches.items():
        # a tag may have been moved: what is told holds for every image that had it
        told = [unknown_bases(name, patch, each, accepted) for each in known]
        wrong += told[0] if all(told) else []
        try:
            needed += orders([name], workshop.place, anywhere, patches)
        except Refused as error:
            wrong.append(error)
    found = [Finding("patch", "error", "patches", each.what, each.hint) for each in wrong]
    for order in needed if here.root else ():
        severity = "error" if is_there(order.source) else lacks
        found += (Finding("patch", severity, "patches", each.what, each.hint) for each in unfit([order], patches))
    return found


def own_files(here: Here, wanted: Wanted, *, shipped: bool) -> list[Finding]:
    """What a release would lack of the site's files that a profile's patches name; of a `shipped` one only if so asked.

    They belong to the site, and are there wherever it is checked out.
    """
    if here.root is None or not (shipped or wanted.written.origin == "site"):
        return []
    needed = [order for order in wanted.deployment.files if order.kind in ("copy", "overlay")]
    return [Finding("patch", "error", "patches", each.what, each.hint) for each in unfit(needed, wanted.patches)]


def _of_draft(here: Here, workshop: Workshop, written: Written, lacks: Severity) -> Iterator[Finding]:
    """What a switch will refuse of a draft: one that is not there, and overrides that its config has no place for.

    Where the models, or the hub's cache, are not on this machine at all, as in CI, there is nothing to look at.
    """
    given, site = draft_of(written.profile), here.catalog.site
    around = (site.models if given.path else site.hf_cache) if given else None
    if given is None or around is None or here.root is None or not is_there(workshop.place.path(around)):
        return
    file = workshop.draft_config(written)
    if file is None or not is_there(file):
        key, name = ("path", given.path) if given.path else ("hub", given.hub)
        if given.path or given.overrides or not written.profile.boot.download:
            where = next((need.where for need in written.profile.needs if str(name).endswith(need.what)), None)
            what = Path(file or in_cache(str(given.hub), given.revision, workshop.place))
            yield Finding("draft", lacks, f"speculative.draft.{key}", f"{what} does not exist",
                          where or to_type("ls", what.parent.parent))  # fmt: skip
        return
    try:
        overridden(config(file), given.overrides)
    except Refused as error:
        yield Finding("draft", "error", "speculative.draft.overrides", error.what, error.hint)


def _asked(workshop: Workshop, facts: ImageFacts) -> list[ImageFacts]:
    """What images of that name said when they were asked; else what is known without."""
    names = {facts.ref, facts.digest, facts.id} - {None}
    return [each for each in all_kept(workshop.folder) if names & {each.ref, each.digest, each.id}] or [facts]


def refusals(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules say cannot work, as errors that stop a switch."""
    return _told(errors_of(here, here.workshop(docker=True), wanted))


def doubts(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules warn of, once each: it stops nothing, and is told before anything is done."""
    found = _told(_of("warning", here, here.workshop(docker=True), wanted))
    return list({each.what: each for each in found}.values())


def _told(findings: Sequence[Finding]) -> list[B70Error]:
    return [Refused(f"{each.where}: {each.message} [{each.rule}]", hint=each.hint) for each in findings]


def line(profile: str, finding: Finding) -> str:
    """One finding on one line."""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{profile}: {finding.severity}: {finding.where}: {finding.message}{hint} [{finding.rule}]"
