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
from b70ctl.core.patchset import brought, quarrels
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.core.rules.case import Severity
from b70ctl.edge.catalog import Written
from b70ctl.edge.draft import config
from b70ctl.edge.files import is_there, not_allowed
from b70ctl.edge.filling import unfit
from b70ctl.edge.imagefacts import all_kept
from b70ctl.edge.preparing import Wanted, Workshop
from b70ctl.edge.secretfiles import names_of, secret_files, secret_in, secret_places
from b70ctl.errors import B70Error, Refused, to_type


def findings(
    here: Here, workshop: Workshop, name: str, sets: tuple[str, ...], *, meant: bool = True
) -> tuple[Finding, ...]:  # fmt: skip
    """Everything that the rules say of a profile, with what is known of its image; no card is needed for that.

    What is still to be fetched for a shipped profile is no error unless that profile is `meant`.
    """
    written = here.catalog.profile(name, sets)
    patches, facts = workshop.patched(written)
    found = _judged(here, written, facts, patches, workshop.reach(written), workshop.kernels(written, facts))
    lacks = _lacks(written, meant=meant)
    return (*_of_patches(here, workshop, facts, patches, lacks), *_of_draft(here, workshop, written, lacks), *found)


def errors_of(here: Here, workshop: Workshop, wanted: Wanted, *, meant: bool) -> list[Finding]:
    """The errors among them, of a profile that is resolved already, but for its draft.

    A draft is fetched like a model, and need not be where a Compose file is written.
    """
    lacks = _lacks(wanted.written, meant=meant)
    of_patches = _of_patches(here, workshop, wanted.facts, wanted.patches, lacks)
    return [*_of_rules("error", here, workshop, wanted), *(each for each in of_patches if each.severity == "error")]


def _lacks(written: Written, *, meant: bool) -> Severity:
    return "error" if meant or written.origin == "site" else "warning"


def _of_rules(severity: Severity, here: Here, workshop: Workshop, wanted: Wanted) -> list[Finding]:
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
    for number, shown in _secrets_shown(here, profile).items():
        yield Finding("mounted-secret", "error", f"mounts.{number}",
                      f"{profile.mounts[number].source} shows {', and '.join(shown)}",
                      "mount a folder that holds just what the engine needs")  # fmt: skip


def _secrets_shown(here: Here, profile: Profile) -> dict[int, list[str]]:
    """Which secrets each mount would show, by its number; none for one that shows nothing."""
    if (root := here.root) is None or not profile.mounts:
        return {}
    places, files = secret_places(here.catalog.site, root), secret_files(here.catalog.site, root)
    found = {}
    for number, mount in enumerate(profile.mounts):
        path = root / mount.source
        named, mounted = os.path.normpath(path), names_of(path)
        shown = [f"{what}, which lies at {min(hidden)}" + ("" if shows({named}, {min(hidden)}) else ", by another name")
                 for what, hidden in places.items() if shows(mounted, hidden)]  # fmt: skip
        if not shown and (linked := secret_in(path, files)):
            shown = [f"{linked} by another name: it is a hard link to its file"]
        if shown:
            found[number] = shown
    return found


def unrefused(here: Here, wanted: Wanted) -> list[Order]:
    """A release's files, but for the mounts that the rules refuse for a secret: once is enough."""
    profile, place = wanted.written.profile, here.workshop(docker=True).place
    told = {place.path(profile.mounts[number].source) for number in _secrets_shown(here, profile)}
    return [order for order in wanted.deployment.files if order.name != "mounts" or order.source not in told]


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
    for name, patch in patches.items():
        # a tag may have been moved: what is told holds for every image that had it
        told = [unknown_bases(name, patch, each, accepted) for each in known]
        wrong += told[0] if all(told) else []
        try:
            needed += brought(name, patch, workshop.place)
        except Refused as error:
            wrong.append(error)
    found = [Finding("patch", "error", "patches", each.what, each.hint) for each in wrong]
    hidden = secret_files(here.catalog.site, here.root) if here.root and needed else {}
    for order in needed if here.root else ():
        # what lies there broken, as a link to nowhere, is not to be fetched but mended
        severity = "error" if os.path.lexists(order.source) else lacks
        wrong = unfit([order], patches, hidden)
        found += (Finding("patch", severity, "patches", each.what, each.hint) for each in wrong)
    return found


def _of_draft(here: Here, workshop: Workshop, written: Written, lacks: Severity) -> Iterator[Finding]:
    """What a switch will refuse of a draft: one that is not there, and overrides that its config has no place for.

    Where the models, or the hub's cache, are not on this machine at all, as in CI, there is nothing to look at.
    """
    given, site = draft_of(written.profile), here.catalog.site
    around = (site.models if given.path else site.hf_cache) if given else None
    if given is None or around is None or here.root is None or not is_there(workshop.place.path(around)):
        return
    file = workshop.draft_config(written)
    if file and (denied := not_allowed(file)):
        # who switches may look, and who asks here may not
        yield Finding("draft", "warning", "speculative.draft", f"{file} cannot be looked at: {denied}",
                      to_type("ls", "-l", file.parent))  # fmt: skip
        return
    if file is None or not is_there(file):
        key, name = ("path", given.path) if given.path else ("hub", given.hub)
        if given.path or given.overrides or not written.profile.boot.download:
            where = next((need.where for need in written.profile.needs if str(name).endswith(need.what)), None)
            what = Path(file or in_cache(str(given.hub), given.revision, workshop.place))
            yield Finding("draft", lacks, f"speculative.draft.{key}", f"{what} does not exist",
                          where or to_type("ls", what.parent.parent))  # fmt: skip
        return
    try:
        read = config(file)
    except Refused as error:
        # nothing of it is written anew without overrides, but how far the draft reaches is not known either
        yield Finding("draft", "error" if given.overrides else "warning", "speculative.draft", error.what, error.hint)
        return
    try:
        overridden(read, given.overrides)
    except Refused as error:
        yield Finding("draft", "error", "speculative.draft.overrides", error.what, error.hint)


def _asked(workshop: Workshop, facts: ImageFacts) -> list[ImageFacts]:
    """What images of that name said when they were asked; else what is known without."""
    names = {facts.ref, facts.digest, facts.id} - {None}
    return [each for each in all_kept(workshop.folder) if names & {each.ref, each.digest, each.id}] or [facts]


def refusals(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules say cannot work, as errors that stop a switch."""
    return _told(_of_rules("error", here, here.workshop(docker=True), wanted))


def doubts(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules warn of, once each: it stops nothing, and is told before anything is done."""
    found = _told(_of_rules("warning", here, here.workshop(docker=True), wanted))
    return list({each.what: each for each in found}.values())


def _told(findings: Sequence[Finding]) -> list[B70Error]:
    return [Refused(f"{each.where}: {each.message} [{each.rule}]", hint=each.hint) for each in findings]


def line(profile: str, finding: Finding) -> str:
    """One finding on one line."""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{profile}: {finding.severity}: {finding.where}: {finding.message}{hint} [{finding.rule}]"
