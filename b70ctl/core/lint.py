"""What is doubtful about a profile, before anything is started."""

from __future__ import annotations

from dataclasses import dataclass

from b70ctl.core.image import ImageFacts
from b70ctl.core.profile import Profile
from b70ctl.core.rules import accepted, memory, speculation, surroundings
from b70ctl.core.rules.case import Case, Rule, Severity
from b70ctl.core.rules.flagtable import FlagTable

__all__ = ["RULES", "Finding", "FlagTable", "lint"]

RULES: tuple[Rule, ...] = (*accepted.RULES, *speculation.RULES, *memory.RULES, *surroundings.RULES)

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found."""

    rule: str
    severity: Severity
    where: str
    """The dotted key that it is about."""
    message: str
    hint: str | None


def lint(
    profile: Profile, *, facts: ImageFacts | None, flags: FlagTable, draft_limit: int | None = None
) -> tuple[Finding, ...]:
    """Everything that the rules find, the worst first.

    Without `facts` the profile's own `image.vllm` is believed. `draft_limit` is `max_position_embeddings` of the
    draft's config.json, where it is at hand.
    """
    case = Case(profile, facts, flags, draft_limit)
    found = (
        Finding(rule.name, remark.severity, remark.where, remark.message, remark.hint)
        for rule in RULES
        for remark in rule.check(case)
    )
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))
