"""How lint findings are gathered and shown, for every command that looks at a profile."""

from __future__ import annotations

from b70ctl.cli.here import Here
from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts
from b70ctl.core.lint import Finding, FlagTable, lint
from b70ctl.core.patch import Patch
from b70ctl.core.plugin import Kernels
from b70ctl.edge.catalog import Written
from b70ctl.edge.preparing import Wanted, Workshop
from b70ctl.errors import B70Error, Refused


def findings(here: Here, workshop: Workshop, name: str, sets: tuple[str, ...]) -> tuple[Finding, ...]:
    """Everything that the rules say of a profile, with what is known of its image; no card is needed for that."""
    written = here.catalog.profile(name, sets)
    patches, facts = workshop.patched(written)
    return _judged(here, written, facts, patches, workshop.reach(written), workshop.kernels(written, facts))


def errors_of(here: Here, workshop: Workshop, wanted: Wanted) -> list[Finding]:
    """What the rules say cannot work; what is only doubtful is for `profiles lint`."""
    found = _judged(here, wanted.written, wanted.facts, wanted.patches, workshop.reach(wanted.written), wanted.kernels)
    return [finding for finding in found if finding.severity == "error"]


def _judged(
    here: Here, written: Written, facts: ImageFacts, patches: dict[str, Patch], draft: Reach, kernels: Kernels | None
) -> tuple[Finding, ...]:
    known = None if facts.source == "assumed" else facts
    found = lint(written.profile, facts=known, flags=FlagTable(here.catalog.flags()), draft=draft,
                 kernels=kernels, patches=patches)  # fmt: skip
    pinned = written.profile.image.ref in here.workshop(docker=False).lock.images
    return tuple(each for each in found if not (pinned and each.rule == "moving-image"))


def refusals(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules say cannot work, as errors that stop a switch."""
    errors = errors_of(here, here.workshop(docker=True), wanted)
    return [Refused(f"{each.where}: {each.message} [{each.rule}]", hint=each.hint) for each in errors]


def line(profile: str, finding: Finding) -> str:
    """One finding on one line."""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{profile}: {finding.severity}: {finding.where}: {finding.message}{hint} [{finding.rule}]"
