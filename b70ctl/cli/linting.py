"""How lint findings are gathered and shown, for every command that looks at a profile."""

from __future__ import annotations

from b70ctl.cli.here import Here
from b70ctl.core.lint import Finding, FlagTable, lint
from b70ctl.edge.preparing import Wanted
from b70ctl.errors import B70Error, Refused


def findings(here: Here, wanted: Wanted) -> tuple[Finding, ...]:
    """Everything that the rules say of a profile, with what is known of its image."""
    facts = None if wanted.facts.source == "assumed" else wanted.facts
    table = FlagTable(here.catalog.flags())
    return lint(wanted.written.profile, facts=facts, flags=table, draft_limit=wanted.deployment.draft_limit)


def show_errors(here: Here, wanted: Wanted) -> int:
    """Tell what cannot work, and count it; what is only doubtful is for `profiles lint`."""
    errors = [finding for finding in findings(here, wanted) if finding.severity == "error"]
    for finding in errors:
        here.console.say(line(wanted.deployment.profile, finding))
    return len(errors)


def refusals(here: Here, wanted: Wanted) -> list[B70Error]:
    """What the rules say cannot work, as errors that stop a switch."""
    errors = [each for each in findings(here, wanted) if each.severity == "error"]
    return [Refused(f"{each.where}: {each.message} [{each.rule}]", hint=each.hint) for each in errors]


def line(profile: str, finding: Finding) -> str:
    """One finding on one line."""
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{profile}: {finding.severity}: {finding.where}: {finding.message}{hint} [{finding.rule}]"
