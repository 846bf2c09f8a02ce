"""How lint findings are gathered and shown, for every command that looks at a profile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from b70ctl.cli.draftlint import of_draft
from b70ctl.cli.here import Here
from b70ctl.core.deployment import Order
from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts, same_version
from b70ctl.core.lint import Finding, FlagTable, lint
from b70ctl.core.mounting import carried, shows
from b70ctl.core.patch import Patch
from b70ctl.core.patchcheck import unknown_bases
from b70ctl.core.patchset import brought, quarrels
from b70ctl.core.plugin import Kernels
from b70ctl.core.printable import one_line
from b70ctl.core.profile import Profile
from b70ctl.core.resolve import contradictions
from b70ctl.core.rules.case import Severity
from b70ctl.edge.carrying import uncarried_below
from b70ctl.edge.catalog import Written
from b70ctl.edge.files import is_gone, nearest
from b70ctl.edge.filling import LEFT_OUT, unfit
from b70ctl.edge.imagefacts import all_kept, last_told
from b70ctl.edge.preparing import Wanted, Workshop
from b70ctl.edge.secretfiles import names_of, secret_files, secret_in, secret_places
from b70ctl.errors import B70Error, Refused, to_type


def findings(
    here: Here, workshop: Workshop, name: str, sets: tuple[str, ...], *, meant: bool = True, drafts: bool = True
) -> tuple[Finding, ...]:  # fmt: skip
    """Everything that the rules say of a profile, with what is known of its image; no card is needed for that.

    What is still to be fetched for a shipped profile is no error unless that profile is `meant`. Without `drafts` the
    draft's own files are not looked at, as by `errors_of`.
    """
    written = here.catalog.profile(name, sets)
    patches, facts = workshop.patched(written)
    found = _judged(here, written, facts, patches, workshop.reach(written), workshop.kernels(written, facts))
    lacks = _lacks(written, meant=meant)
    drafted = of_draft(here, workshop, written, lacks) if drafts else ()
    never = contradictions(written.profile, workshop.place_of(written), facts, patches)
    unresolved = (Finding("contradiction", "error", key, each.what, each.hint) for key, each in never)
    mounted = _of_mounts(here, workshop, written.profile)
    told = (*_of_patches(here, workshop, facts, patches, lacks), *_remembered(workshop, written, facts))
    return (*told, *drafted, *mounted, *unresolved, *found)


def _remembered(workshop: Workshop, written: Written, facts: ImageFacts) -> Iterator[Finding]:
    """That an image of the profile's name had another vLLM when it was last asked; its name may mean another since."""
    spec = written.profile.image
    told = last_told(workshop.folder, spec.ref) if facts.source == "assumed" else None
    if told and not same_version(spec.vllm, told.vllm):
        yield Finding("image-version", "warning", "image.vllm",
                      f"{spec.ref} had vLLM {told.vllm} when it was last asked, and the profile was written for "
                      f"{spec.vllm}", to_type("b70ctl", "images", "probe", spec.ref))  # fmt: skip


def errors_of(here: Here, workshop: Workshop, wanted: Wanted, *, meant: bool) -> list[Finding]:
    """The errors among them, of a profile that is resolved already, but for its draft.

    A draft is fetched like a model, and need not be where a Compose file is written.
    """
    lacks = _lacks(wanted.written, meant=meant)
    of_patches = _of_patches(here, workshop, wanted.facts, wanted.patches, lacks)
    others = [*of_patches, *_of_mounts(here, workshop, wanted.written.profile)]
    return [*_of_rules("error", here, workshop, wanted), *(each for each in others if each.severity == "error")]


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
    places, files = secret_places(here.catalog.site, root), secret_files(here.catalog.site, root, looking=True)
    found = {}
    for number, mount in enumerate(profile.mounts):
        path = root / mount.source
        named, mounted = os.path.normpath(path), names_of(path)
        shown = [f"{what}, which lies at {min(hidden)}" + ("" if shows({named}, {min(hidden)}) else ", by another name")
                 for what, hidden in places.items() if shows(mounted, hidden)]  # fmt: skip
        if not shown and (linked := secret_in(path, files)):
            shown = [f"{linked} by another name: it is a hard link to its file"]
        if not shown and mount.carried and (inside := uncarried_below(path, files, LEFT_OUT)):
            shown = [inside]
        if shown:
            found[number] = shown
    return found


def unrefused(here: Here, wanted: Wanted) -> list[Order]:
    """A release's files, but for mounts that are told already, as one that shows a secret or is not there."""
    profile, place = wanted.written.profile, here.workshop(docker=True).place
    told = {place.path(profile.mounts[number].source) for number in _secrets_shown(here, profile)}
    return [order for order in wanted.deployment.files
            if order.name != "mounts" or not (order.source in told or is_gone(order.source))]  # fmt: skip


def _of_mounts(here: Here, workshop: Workshop, profile: Profile) -> Iterator[Finding]:
    """Mounts that a switch will refuse: what the release carries of the site, and what is to be there as it is.

    An absolute path is the box's, and need not be on the machine that lints.
    """
    if here.root is None or not profile.mounts:
        return
    hidden, told = secret_files(here.catalog.site, here.root, looking=True), _secrets_shown(here, profile)
    numbers = [number for number, mount in enumerate(profile.mounts) if mount.carried]
    for number, order in zip(numbers, carried(profile, workshop.place), strict=True):
        for error in unfit([order], {}, hidden) if number not in told else ():
            yield Finding("mount", "error", f"mounts.{number}", error.what, error.hint)
    for number, mount in enumerate(profile.mounts):
        if number not in numbers and is_gone(path := workshop.place.path(mount.source)):
            yield Finding("mount", "warning", f"mounts.{number}",
                          f"{path} does not exist on this machine, and where it does not, a switch is refused",
                          to_type("ls", nearest(Path(path))))  # fmt: skip


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
    hidden = secret_files(here.catalog.site, here.root, looking=True) if here.root and needed else {}
    for order in needed if here.root else ():
        # what lies there broken, as a link to nowhere, is not to be fetched but mended
        severity = "error" if os.path.lexists(order.source) else lacks
        wrong = unfit([order], patches, hidden)
        found += (Finding("patch", severity, "patches", each.what, each.hint) for each in wrong)
    return found


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
    return f"{_line(profile, finding.severity, f'{finding.where}: {finding.message}', finding.hint)} [{finding.rule}]"


def fault(profile: str, error: B70Error) -> str:
    """On one line too, why a profile cannot be judged."""
    return _line(profile, "error", error.what, error.hint)


def _line(profile: str, severity: Severity, said: str, hint: str | None) -> str:
    return one_line(f"{profile}: {severity}: {said}{f' ({hint})' if hint else ''}")
