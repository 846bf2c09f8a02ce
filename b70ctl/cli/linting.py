"""How lint findings are gathered and shown, for every command that looks at a profile."""

from __future__ import annotations

from b70ctl.cli.here import Here
from b70ctl.core.lint import Finding, FlagTable, lint
from b70ctl.edge.preparing import Wanted, Workshop


def findings(here: Here, wanted: Wanted) -> tuple[Finding, ...]:
    """Everything that the rules say of a profile, with what is known of its image."""
    facts = None if wanted.facts.source == "assumed" else wanted.facts
    table = FlagTable.from_dict(here.catalog.flags())
    return lint(wanted.written.profile, facts=facts, flags=table, draft_limit=wanted.deployment.draft_limit)


def show_findings(here: Here, workshop: Workshop, wanted: Wanted, *, quiet: bool = False) -> int:  # noqa: ARG001
    """Tell what was found; the number of errors."""
    found = findings(here, wanted)
    for finding in found:
        if finding.severity == "error" or not quiet:
            here.console.say(line(wanted.deployment.profile, finding))
    return sum(finding.severity == "error" for finding in found)


def line(profile: str, finding: Finding) -> str:
    """One finding on one line."""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{profile}: {finding.severity}: {finding.where}: {finding.message}{hint} [{finding.rule}]"
