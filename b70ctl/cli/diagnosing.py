"""diagnose: which log is meant, and how what it told is said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.here import Here
from b70ctl.core.bootlog import Stage
from b70ctl.core.diagnosis import Diagnosis, Finding, Reader, State
from b70ctl.edge import logsource
from b70ctl.edge.diagnoses import read_causes
from b70ctl.edge.store import FAILED_LOG, PROVEN_LOG, Store
from b70ctl.errors import B70Error, DaemonError, Exit, MachineError, Refused, UsageError

MOST_FINDINGS = 5
_WIDEST = 160


@dataclass(frozen=True, slots=True)
class Source:
    """A log that was chosen: its name for people, its lines, and what is known of it beforehand."""

    name: str
    blocks: Iterable[bytes]
    over: bool = True
    vllm: str | None = None


def diagnose(here: Here, target: str | None, *, container: str | None, kernel: bool) -> None:
    """Read one log and say what caused the trouble in it; exit status 1 when that is not known."""
    if sum(each is not None for each in (target, container, kernel or None)) > 1:
        raise UsageError("one log at a time: a target, --container or --dmesg")
    source = _source(here, target, container, kernel=kernel)
    found = _read(source, here.root)
    if here.console.json:
        here.console.data({"source": source.name} | _data(found))
    else:
        here.console.say(_about(source.name, found))
        here.console.text("\n".join(_said(found)))
    if not found.state.good:
        raise typer.Exit(int(Exit.FAILED))


def explain(store: Store, release: str) -> list[str]:
    """At most six lines on why a release failed, read from the log that was kept; none where none was kept."""
    path = store.release_folder(release) / FAILED_LOG
    if not path.is_file():
        return []
    try:
        found = _read(Source(release, logsource.of_file(path), vllm=_vllm(store, release)), store.folder.parent)
    except B70Error as error:
        # a diagnosis that cannot be made must not hide the failure that it was about
        return [f"no diagnosis: {error.what}"]
    more = f"  b70ctl diagnose {release}"
    if found.faults and found.state is State.EXPLAINED:
        first = found.faults[0]
        shown = [f"  line {line.number}: {_cut(line.text)}" for line in first.lines[:1]]
        others = [f"  also: {', '.join(each.cause.id for each in found.faults[1:3])}"] if found.faults[1:] else []
        said = f"diagnosis: {first.cause.title} ({first.confidence}) [{first.cause.id}]"
        return [said, *shown, f"  cause: {first.cause.cause}", f"  fix: {first.cause.fix}", *others, more]
    if found.first_error:
        line = found.first_error
        return ["diagnosis: no known cause; the first error is", f"  line {line.number}: {_cut(line.text)}", more]
    if str(found.stage) == "serving":
        return []  # it booted; what was wrong stands in its answers, not in its log
    return [f"diagnosis: no known cause; the log ends at `{found.stage}` and tells no error", more]


# --- which log -------------------------------------------------------------------------------------------------------


def _source(here: Here, target: str | None, container: str | None, *, kernel: bool) -> Source:
    if kernel:
        return Source("the kernel's log", logsource.of_kernel())
    if container is not None:
        blocks, over = logsource.of_container(here.daemon, container)
        return Source(f"container {container}", blocks, over)
    if target == "-":
        return Source("stdin", logsource.of_stdin())
    if target is not None and (Path(target).is_file() or "/" in target):
        return Source(target, logsource.of_file(Path(target)))
    return _release(here, target)


def _release(here: Here, target: str | None) -> Source:
    store = here.store
    here.mention_unfinished()
    name = _named(store, target) if target is not None else _meant(store, known=here.root is not None)
    vllm = _vllm(store, name)
    if name != store.state().serving and (kept := _kept(store, name)):
        return Source(f"release {name}", logsource.of_file(kept), vllm=vllm)
    try:
        living = here.observe().of(name)
    except (MachineError, DaemonError):
        living = None
    if living is not None:
        blocks, over = logsource.of_container(here.daemon, living.id)
        return Source(f"release {name}", blocks, over, vllm)
    if kept := _kept(store, name):
        return Source(f"release {name}", logsource.of_file(kept), vllm=vllm)
    raise Refused(f"release {name} has no container and no kept log", hint="b70ctl history")


def _named(store: Store, target: str) -> str:
    known = [name for name in store.releases() if name == target or name.startswith(f"{target}-")]
    if not known:
        raise UsageError(f"there is no release and no file `{target}`", hint="b70ctl history")
    return known[0]


def _meant(store: Store, *, known: bool) -> str:
    """The release that failed last, when that was the last thing that happened to any; else the serving one."""
    if not known:
        raise UsageError("there is no site here, so a log has to be named", hint="b70ctl diagnose FILE")
    verdicts = {name: verdict for name in store.releases() if (verdict := store.verdict(name)) is not None}
    latest = max((verdict.op for verdict in verdicts.values()), default=None)
    serving = store.state().serving
    failed = [name for name, verdict in verdicts.items() if verdict.state == "failed"]
    # a switch that failed proves the old release again in the same command: the failure is what is asked about
    newest = max(failed, key=lambda name: verdicts[name].op, default=None)
    if newest is not None and (serving is None or verdicts[newest].op == latest):
        return newest
    if serving is None:
        raise Refused("nothing has served or failed at this site yet", hint="b70ctl switch PROFILE")
    return serving


def _kept(store: Store, release: str) -> Path | None:
    paths = (store.release_folder(release) / name for name in (FAILED_LOG, PROVEN_LOG))
    return next((path for path in paths if path.is_file()), None)


def _vllm(store: Store, release: str) -> str | None:
    known = store.releases().get(release)
    return known.deployment.vllm if known is not None else None


def _read(source: Source, root: Path | None) -> Diagnosis:
    reader = Reader(read_causes(root), source.vllm)
    for block in source.blocks:
        reader.feed(block)
    return reader.finish(over=source.over)


# --- how it is said --------------------------------------------------------------------------------------------------


def _about(name: str, found: Diagnosis) -> str:
    vllm = f", vLLM {found.vllm}" if found.vllm else ""
    return f"{name}: {found.lines:,} {'line' if found.lines == 1 else 'lines'}{vllm}"


def _said(found: Diagnosis) -> Iterator[str]:
    for finding in found.findings[:MOST_FINDINGS]:
        yield from _finding(finding)
    if more := len(found.findings) - MOST_FINDINGS:
        yield from ([f"and {more} more; --json tells all"] if more > 0 else [])
    match found.state:
        case State.EXPLAINED if found.unexplained:
            yield f"the first error is another: line {found.unexplained.number}: {_cut(found.unexplained.text)}"
        case State.HEALTHY:
            yield "healthy: it came to serve, and nothing failed" if found.stage is Stage.SERVING else "nothing failed"
        case State.BOOTING:
            yield f"booting: at `{found.stage}`, and nothing failed so far"
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
    yield f"the last {len(found.tail)} lines:"
    yield from (f"  {line.number}: {_cut(line.text)}" for line in found.tail)


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
