"""Asks a started engine what a release must answer before it may serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from b70ctl.core.probes import Finding, ProbeTarget, passed, probes_for, recorded, unasked
from b70ctl.core.progress import Probed
from b70ctl.core.release import Release
from b70ctl.edge.endpoint import Endpoint
from b70ctl.errors import EngineError

SMALLEST_CONTEXT = 2048
"""Assumed where neither the profile nor the engine states a length."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found, and the answers worth keeping."""

    findings: tuple[Finding, ...]
    answers: dict[str, str]

    @property
    def holds(self) -> bool:
        """Whether everything that was asked was answered as it must be."""
        return passed(self.findings)

    @property
    def why(self) -> str:
        """The findings that failed, for one line."""
        failed = [f"{item.probe}: {item.detail}" for item in self.findings if item.passed is False]
        return "; ".join(failed) or "nothing was asked"

    def as_dicts(self) -> tuple[dict[str, object], ...]:
        """The findings for the release's record."""
        return tuple(asdict(item) for item in self.findings)


def target_of(release: Release, endpoint: Endpoint, agree_with: Mapping[str, str] | None) -> ProbeTarget:
    """What is known of an engine that must be proven."""
    deployment = release.deployment
    name = deployment.served_names[0]
    length = deployment.max_model_len or endpoint.max_model_len(name) or SMALLEST_CONTEXT
    return ProbeTarget(
        model=name,
        max_model_len=length,
        chat=deployment.chat,
        tools=deployment.tools,
        reasoning=deployment.reasoning,
        speculative=deployment.speculative is not None,
        draft_limit=deployment.draft_limit,
        skip=frozenset(deployment.probes.skip),
        expect=deployment.probes.expect,
        agree_with=agree_with,
    )


def prove(release: Release, endpoint: Endpoint, agree_with: Mapping[str, str] | None,
          tell: Callable[[Probed], None]) -> Proof:  # fmt: skip
    """Ask every probe in order; the first that gets no answer at all ends the asking, for the rest would only wait."""
    target = target_of(release, endpoint, agree_with)
    findings: list[Finding] = []
    answered = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        tell(Probed(release.id, finding.probe, finding.passed, finding.detail))

    for probe in probes_for(target):
        try:
            answer = endpoint.ask(probe.body, path=probe.path, timeout=release.deployment.probes.timeout)
        except EngineError as error:
            note(probe.failed(error.what))
            break
        answered.append((probe, answer))
        note(probe.find(answer))
        if findings[-1].passed is False and probe.name == "warm-up":
            break
    for finding in unasked(target):
        reason = release.deployment.probes.skip.get(finding.probe)
        note(
            Finding(
                probe=finding.probe, passed=None, detail=f"{finding.detail}: {reason}" if reason else finding.detail
            )
        )
    return Proof(tuple(findings), recorded(answered))
