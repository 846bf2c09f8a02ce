"""history: what was, why it changed, and how it booted."""

from __future__ import annotations

from typing import Any

from b70ctl.cli.here import Here
from b70ctl.core.bootfacts import BootFacts, differences
from b70ctl.core.history import newest_proven
from b70ctl.core.imported import PROBE as FILES
from b70ctl.core.journal import Op
from b70ctl.core.release import Release, Verdict
from b70ctl.edge.store import Store
from b70ctl.errors import B70Error


def history(here: Here, limit: int, *, verbose: bool) -> None:
    """Show what served when, why it changed, and how it booted, oldest first."""
    ops = here.store.ops()[-limit:] if here.site_root is not None else []
    here.mention_unfinished()
    verdicts = {name: here.store.verdict(name) for name in here.store.releases()}
    if here.console.json:
        here.console.data([_op(op, verdicts) for op in ops])
        return
    if not ops:
        here.console.say("nothing was done at this site yet")
        return
    if verbose:
        here.console.text("\n".join(_told(op, verdicts) for op in ops))
        return
    rows = [[op.begin.at, op.plan.command, op.plan.wanted or op.plan.incumbent or "", _result(op), _note(op)]
            for op in ops]  # fmt: skip
    here.console.rows(["WHEN", "WHAT", "RELEASE", "RESULT", "NOTE"], rows)


def _told(op: Op, verdicts: dict[str, Verdict | None]) -> str:
    """One command with everything that is known of it."""
    name = op.plan.wanted or op.plan.incumbent or ""
    verdict = verdicts.get(name)
    lines = [f"{op.begin.at}  {op.begin.by}", f"  {op.plan.command} {name}: {_result(op)}"]
    lines += [f"  {change.what}: {change.before or 'none'} -> {change.after or 'none'}" for change in op.plan.changes]
    lines += [f"  failed: {failure}" for failure in op.failures]
    lines += [f"  tried {each}: {_tried(verdicts.get(each), op)}" for each in op.plan.tried]
    lines += [f"  {op.end.what}"] if op.end and op.end.what not in ("", *op.failures) else []
    lines += [f"  {line}" for line in _boot_line(_boot(op))]
    if verdict and verdict.op == op.number:
        lines += [f"  {line}" for line in _files_line(verdict)]
        lines += [f"  probe {each['probe']}: {each['detail']}" for each in verdict.findings if each["passed"] is False]
    return "\n".join(lines)


def _tried(verdict: Verdict | None, op: Op) -> str:
    """What became of a release in its window."""
    if verdict is None or verdict.op != op.number:
        return "no verdict"
    return verdict.state + (f": {verdict.why}" if verdict.state == "failed" else "")


def _result(op: Op) -> str:
    if op.end is None:
        return "unfinished"
    # what fails in a window is its command, and that has a table of its own
    return "incomplete" if op.end.late and not op.plan.tried else op.end.result or "?"


def _note(op: Op) -> str:
    if op.end and op.end.what:
        return op.end.what
    boot = _boot(op)
    facts = [
        f"up in {op.end.seconds:.0f} s" if op.end and op.end.seconds else "",
        f"KV {boot.kv_tokens:,} tokens" if boot.kv_tokens else "",
        f"{boot.max_concurrency}x" if boot.max_concurrency else "",
        boot.attention_backend or "",
    ]
    return ", ".join(fact for fact in facts if fact)


def _boot(op: Op) -> BootFacts:
    return BootFacts.from_dict((op.end.boot if op.end else None) or {})


def _op(op: Op, verdicts: dict[str, Verdict | None]) -> dict[str, Any]:
    verdict = verdicts.get(op.plan.wanted or "")
    return {
        "op": op.number,
        "at": op.begin.at,
        "by": op.begin.by,
        "command": op.plan.command,
        "release": op.plan.wanted,
        "before": op.plan.incumbent,
        "tried": list(op.plan.tried),
        "result": _result(op),
        "note": op.end.what if op.end else None,
        "failures": list(op.failures),
        "boot": (op.end.boot if op.end else None) or {},
        "seconds": op.end.seconds if op.end else None,
        "changes": [change.model_dump() for change in op.plan.changes],
        "verdict": verdict.model_dump(mode="json", exclude={"answers"}) if verdict else None,
    }


def boot_lines(store: Store, release: Release) -> list[str]:
    """What the boot told, and what of it changed since the last proven release of the same profile."""
    verdict = store.verdict(release.id)
    if verdict is None or not verdict.boot:
        return []
    boot = BootFacts.from_dict(verdict.boot)
    kept = store.releases()
    other = newest_proven(release.profile, kept, {name: store.verdict(name) for name in kept}, before=release.number)
    earlier = store.verdict(other.id) if other else None
    changed = differences(BootFacts.from_dict(earlier.boot), boot) if earlier else []
    return [
        *_boot_line(boot),
        *_files_line(verdict),
        *(f"since the last {release.profile}: {line}" for line in changed),
    ]


def files_proof(verdict: Verdict | None) -> dict[str, Any] | None:
    """Whether what the patches changed is what Python imports, and in words; `passed` is None where none can know."""
    found = next((each for each in verdict.findings if each["probe"] == FILES), None) if verdict else None
    return {"passed": found["passed"], "detail": found["detail"]} if found else None


def _files_line(verdict: Verdict) -> list[str]:
    """The proof of the files, but for one that failed, which is told with the other probes."""
    files = files_proof(verdict)
    return [str(files["detail"])] if files and files["passed"] is not False else []


def _boot_line(boot: BootFacts) -> list[str]:
    told = [
        f"KV cache {boot.kv_tokens:,} tokens" if boot.kv_tokens else "",
        f"{boot.max_concurrency}x at {boot.concurrency_length or 0:,} tokens" if boot.max_concurrency else "",
        f"{boot.attention_backend} backend" if boot.attention_backend else "",
        f"weights {boot.weights_gib} GiB" if boot.weights_gib else "",
    ]
    return [line for line in (", ".join(fact for fact in told if fact), boot.kernels_told) if line]


def unproven(here: Here, release: Release) -> str | None:
    """That the engine's kernels serve with a vLLM that they are not proven with, by the release's own table."""
    from b70ctl.core.plugin import ACCEPT, spoken
    from b70ctl.edge.plugin import in_release

    told, vllm = release.deployment.kernels, release.deployment.vllm
    if told is None or release.deployment.env.get(ACCEPT) != vllm:
        return None
    try:
        if in_release(here.store.release_folder(release.id)).accepts(vllm, None):
            return None
    except B70Error:
        pass  # a release that was damaged since is no proof either
    return f"{spoken(told)} with vLLM {vllm}, with which nobody proved it: `{ACCEPT}` took it on"
