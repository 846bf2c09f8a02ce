"""diagnose: which log is meant, and how what it told is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.here import Here
from b70ctl.cli.sources import Source, chosen, vllm_of
from b70ctl.core.bootlog import Stage
from b70ctl.core.diagnosis import Diagnosis, Finding, Reader, State
from b70ctl.core.plan import Plan, discarded
from b70ctl.edge import logsource
from b70ctl.edge.diagnoses import read_causes
from b70ctl.edge.store import FAILED_LOG, Store
from b70ctl.errors import B70Error, Exit, UsageError

MOST_FINDINGS = 5
_WIDEST = 160


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a release failed: at most six lines, and what to do where the cause is known."""

    lines: tuple[str, ...] = ()
    fix: str | None = None


def diagnose(here: Here, target: str | None, *, container: str | None, kernel: bool) -> None:
    """Read one log and say what caused the trouble in it; exit status 1 when that is not known.

    A release that was not proven is never called well, whatever its log says.
    """
    if sum(each is not None for each in (target, container, kernel or None)) > 1:
        raise UsageError("one log at a time: a target, --container or --dmesg")
    source = chosen(here, target, container, kernel=kernel)
    found = _read(source, here.root)
    if here.console.json:
        here.console.data({"source": source.name} | _verdict_data(source) | _data(found))
    else:
        here.console.say(_about(source.name, found))
        here.console.text("\n".join([*_verdict_said(source), *said(found, refused=source.refused is not None)]))
    if not found.state.good or (source.refused and found.state is not State.EXPLAINED):
        raise typer.Exit(int(Exit.FAILED))


def tell_causes(here: Here, plan: Plan | None, said: Mapping[str, str]) -> str | None:
    """Tell what the logs of the engines that failed say of the cause; gives back what to do, where that is known.

    `said` are the logs of those that keep their container. The way back is taken last, so its remedy is the one to
    begin with.
    """
    fix = None
    gone = discarded(plan) if plan else set()
    tried = (plan.tried or (str(plan.wanted),)) if plan else ()
    for release in (each for each in tried if each in gone and each in here.store.releases()):
        found = explain(here.store, release)
        fix = fix or found.fix
        _say(here, found)
    for release, log in said.items():
        found = explain(here.store, release, log)
        fix = found.fix or fix
        _say(here, found)
    return fix


def _say(here: Here, found: Explanation) -> None:
    for line in found.lines:
        here.console.say(line)


def explain(store: Store, release: str, log: str | None = None) -> Explanation:
    """Why a release failed, read from its `log`, else from the one that was kept; nothing where none was kept."""
    path = store.release_folder(release) / FAILED_LOG
    if log is None and not path.is_file():
        return Explanation()
    blocks = logsource.of_file(path) if log is None else logsource.whole_lines([log.encode(errors="replace")])
    try:
        found = _read(Source(release, blocks, vllm=vllm_of(store, release)), store.folder.parent)
    except B70Error as error:
        # a diagnosis that cannot be made must not hide the failure that it was about
        return Explanation((f"no diagnosis: {error.what}",))
    more = f"  b70ctl diagnose {release}"
    if first := found.telling:
        shown = [f"  line {line.number}: {_cut(line.text)}" for line in first.lines[:1]]
        others = [f"  also: {', '.join(each.cause.id for each in found.faults[1:3])}"] if found.faults[1:] else []
        said = f"diagnosis: {first.cause.title} ({first.confidence}) [{first.cause.id}]"
        lines = (said, *shown, f"  cause: {first.cause.cause}", f"  fix: {first.cause.fix}", *others, more)
        return Explanation(lines, first.cause.fix)
    if found.first_error:
        line = found.first_error
        where = f"  line {line.number}: {_cut(line.text)}"
        return Explanation(("diagnosis: no known cause; the first error is", where, more))
    if found.stage is Stage.SERVING:
        return Explanation()  # it booted; what was wrong stands in its answers, not in its log
    ends = f"ends at `{found.stage}` and tells no error" if found.lines else "is empty"
    return Explanation((f"diagnosis: no known cause; the log {ends}", more))


def _read(source: Source, root: Path | None) -> Diagnosis:
    reader = Reader(read_causes(root), source.vllm, kernel=source.kernel)
    for block in source.blocks:
        reader.feed(block)
    return reader.finish(over=source.over)


# --- how it is said --------------------------------------------------------------------------------------------------


def _about(name: str, found: Diagnosis) -> str:
    vllm = f", vLLM {found.vllm}" if found.vllm else ""
    return f"{name}: {found.lines:,} {'line' if found.lines == 1 else 'lines'}{vllm}"


def _verdict_said(source: Source) -> Iterator[str]:
    """What the command found that started the release: it asked what no log tells."""
    if source.refused:
        yield source.refused
    verdict = source.verdict
    for each in verdict.findings if verdict and source.refused else ():
        if each["passed"] is False:
            yield f"  probe {each['probe']}: {each['detail']}"
    yield from ([""] if source.refused else [])


def said(found: Diagnosis, *, refused: bool = False) -> Iterator[str]:
    """What a diagnosis says, line by line; `refused` when its release was not proven, which was told before."""
    for finding in found.findings[:MOST_FINDINGS]:
        yield from _finding(finding)
    if more := len(found.findings) - MOST_FINDINGS:
        yield from ([f"and {more} more; --json tells all"] if more > 0 else [])
    yield from _state_said(found, refused=refused)


def _state_said(found: Diagnosis, *, refused: bool) -> Iterator[str]:
    match found.state:
        case State.EXPLAINED if found.unexplained:
            yield f"the first error is another: line {found.unexplained.number}: {_cut(found.unexplained.text)}"
        case State.HEALTHY if refused:
            yield "the log itself tells no fault; what was wrong stands above"
        case State.HEALTHY:
            yield "healthy: it came to serve, and nothing failed" if found.stage is Stage.SERVING else "nothing failed"
        case State.BOOTING:
            yield f"booting: at `{found.stage}`, and nothing failed so far"
        case State.CUT if not found.lines:
            yield "unknown: the log is empty, so it ended before vLLM said a word"
        case State.OTHER:
            yield "unknown: this does not look like vLLM's log: no line of it is vLLM's, nor the kernel's"
            yield from _last(found)
        case State.CUT:
            yield f"unknown: the log ends at `{found.stage}`, before the engine served, and tells no error"
            yield from _last(found)
        case State.UNKNOWN:
            yield from _unknown(found)


def _finding(finding: Finding) -> Iterator[str]:
    cause = finding.cause
    times = f", {finding.count} times" if finding.count > 1 else ""
    yield f"{cause.title}  ({finding.confidence}{times}) [{cause.id}]"
    yield from (f"  line {line.number}: {_cut(line.text)}" for line in finding.lines)
    yield f"  cause:  {cause.cause}"
    yield f"  fix:    {cause.fix}"
    yield f"  source: {cause.source}"
    yield ""


def _unknown(found: Diagnosis) -> Iterator[str]:
    yield "unknown: the log shows a failure that no known cause explains"
    if found.first_error:
        yield f"first error, line {found.first_error.number}: {found.first_error.text}"
    yield from _last(found)


def _last(found: Diagnosis) -> Iterator[str]:
    yield f"the last {len(found.tail)} lines:" if len(found.tail) > 1 else "its one line:"
    yield from (f"  {line.number}: {_cut(line.text)}" for line in found.tail)


def _verdict_data(source: Source) -> dict[str, Any]:
    verdict = source.verdict
    return {"verdict": {"state": verdict.state, "why": verdict.why}} if verdict else {}


def _data(found: Diagnosis) -> dict[str, Any]:
    unknown = {} if found.state.good else {"tail": [line.shown() for line in found.tail]}
    return {
        "state": found.state.value,
        "lines": found.lines,
        "vllm": found.vllm,
        "stage": found.stage.value,
        "findings": [_finding_data(finding) for finding in found.findings],
        "first_error": found.first_error.shown() if found.first_error else None,
    } | unknown


def _finding_data(finding: Finding) -> dict[str, Any]:
    told = {"confidence": finding.confidence, "count": finding.count}
    return finding.cause.shown() | told | {"lines": [line.shown() for line in finding.lines]}


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"
