"""What is doubtful about a profile, before anything is started."""

from __future__ import annotations

from dataclasses import dataclass

from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.core.rules import accepted, drafts, memory, speculation, surroundings
from b70ctl.core.rules import kernels as kernels_
from b70ctl.core.rules.case import Case, Rule, Severity
from b70ctl.core.rules.flagtable import FlagTable

__all__ = ["RULES", "Finding", "FlagTable", "lint"]

RULES: tuple[Rule, ...] = (
    *accepted.RULES, *kernels_.RULES, *speculation.RULES, *drafts.RULES, *memory.RULES, *surroundings.RULES,
)  # fmt: skip

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
    profile: Profile, *, facts: ImageFacts | None, flags: FlagTable, draft: Reach | None = None,
    kernels: Kernels | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Everything that the rules find, the worst first.

    Without `facts` the profile's own `image.vllm` is believed. `draft` is what the draft's config.json says of its
    positions, where it is at hand, and `kernels` what the release would carry.
    """
    case = Case(profile, facts, flags, draft or Reach(), kernels)
    found = (
        Finding(rule.name, remark.severity, remark.where, remark.message, remark.hint)
        for rule in RULES
        for remark in rule.check(case)
    )
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))
