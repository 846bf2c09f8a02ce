"""What is doubtful about a profile, before anything is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts
from b70ctl.core.patch import Patch
from b70ctl.core.patchset import variables
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.core.rules import accepted, drafts, memory, mounts, speculation, surroundings
from b70ctl.core.rules import kernels as kernels_
from b70ctl.core.rules.case import Case, Remark, Rule, Severity
from b70ctl.core.rules.flagtable import FlagTable

__all__ = ["RULES", "Finding", "FlagTable", "lint"]

RULES: tuple[Rule, ...] = (
    *accepted.RULES, *kernels_.RULES, *speculation.RULES, *drafts.RULES, *memory.RULES, *surroundings.RULES,
    *mounts.RULES,
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
    kernels: Kernels | None = None, patches: Mapping[str, Patch] | None = None,
    gates: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Finding, ...]:  # fmt: skip
    """Everything that the rules find, the worst first.

    Without `facts` the profile's own `image.vllm` is believed. `draft` is what the draft's config.json says of its
    positions, where it is at hand, and `kernels` what the release would carry. What a variable of one of the `patches`
    does is judged as if the profile had it; UsageError where the two say different things of one. `gates` are the
    variables of every patch that there is, and whose they are.
    """
    given = {name: patches[name] for name in profile.patches if name in patches} if patches else {}
    case = Case(profile, facts, flags, draft or Reach(), kernels, variables(list(given), given, profile.env),
                gates or {})  # fmt: skip
    found = (_finding(rule, remark, given) for rule in RULES for remark in rule.check(case))
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.severity]))


def _finding(rule: Rule, remark: Remark, patches: Mapping[str, Patch]) -> Finding:
    """What a rule found; of a patch's variable it is the patch that is in the way, whose file is not the profile's."""
    variable = remark.where.removeprefix("env.")
    whose = [name for name, patch in patches.items() if variable in patch.env] if variable != remark.where else []
    if not whose:
        return Finding(rule.name, remark.severity, remark.where, remark.message, remark.hint)
    message = f"patch `{whose[0]}` comes with {variable}: {remark.message}"
    return Finding(rule.name, remark.severity, "patches", message, f"drop `{whose[0]}` from the profile's patches")
