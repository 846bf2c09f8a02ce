"""After the start: whether the files that patches change are the ones that the engine's Python imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from b70ctl.core.answer import Finding
from b70ctl.core.deployment import Changed, Value
from b70ctl.core.sizes import LONGEST_WORD
from b70ctl.errors import UsageError

PROBE = "files"
WAYS = {"serve": "the engine", "module": "`python -m`, which vLLM inspects models with,"}
"""How a module is looked for: by the engine itself, and by a process that it starts where it stands."""


class Seen(Value):
    """One file as a Python like the engine's sees it, in the engine's container."""

    file: str
    place: str
    """Where it lies, links followed."""
    sha256: str | None = None
    """None where it cannot be read."""
    imports: dict[str, str | None] = {}
    """Way → the file that an import would load; empty for a file that no import could name."""
    stale: str | None = None
    """Bytecode that Python would load instead, compiled from another text."""
    missing: tuple[str, ...] = ()
    """Markers that do not stand in it."""


def question(changed: Sequence[Changed]) -> list[dict[str, object]]:
    """What the container is asked."""
    return [{"file": each.file, "target": each.target, "markers": list(each.markers)} for each in changed]


def refuse_endless(changed: Sequence[Changed]) -> None:
    """Raise for more files and markers than one question holds: else a started engine would be the first to tell."""
    if (size := len(json.dumps(question(changed)))) > LONGEST_WORD:
        raise UsageError(
            f"files and markers of the profile's patches make a question of {size:,} bytes; more than "
            f"{LONGEST_WORD:,} are given to no program",
            hint="fewer or shorter `markers` in patch.yaml",
        )


def judged(changed: Sequence[Changed], digests: Mapping[str, str], seen: Sequence[Seen]) -> Finding:
    """The finding for a release's record; `digests` are the hashes of the release's own files, by their path in it.

    It is neither passed nor failed where a script names no marker: whether it has edited its file cannot be known.
    """
    answers = {each.file: each for each in seen}
    faults = [fault for each in changed for fault in _faults(each, digests, answers.get(each.file))]
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        return Finding(probe=PROBE, passed=False, detail=f"{faults[0]}{more}")
    names = ", ".join(dict.fromkeys(each.patch for each in changed))
    files = "1 file is the one" if len(changed) == 1 else f"{len(changed)} files are the ones"
    detail = f"{files} that Python imports: {names}"
    if unknown := [each for each in changed if not (each.to or each.markers)]:
        edits = ", and ".join(f"whether patch `{each.patch}` has edited {each.file}" for each in unknown)
        return Finding(probe=PROBE, passed=None, detail=f"{detail}, but {edits} is not provable: it names no marker")
    return Finding(probe=PROBE, passed=True, detail=detail)


def is_module(file: str) -> bool:
    """Whether an import can name the file, by its path below site-packages."""
    parts = file.removesuffix(".py").split("/")
    return file.endswith(".py") and parts != ["__init__"] and all(part.isidentifier() for part in parts)


def _faults(changed: Changed, digests: Mapping[str, str], seen: Seen | None) -> Iterator[str]:
    if seen is None or seen.sha256 is None:
        yield f"{changed.target} of patch `{changed.patch}` cannot be read in the engine's container"
        return
    for way, who in WAYS.items() if is_module(changed.file) else ():
        if (found := seen.imports.get(way)) != seen.place:
            yield f"{who} imports {found or 'nothing'}, and not {changed.target} of patch `{changed.patch}`"
    if changed.to and seen.sha256 != (wanted := digests.get(changed.to)):
        yield f"{changed.target} is not the release's file: sha256 {seen.sha256[:12]}…, not {str(wanted)[:12]}…"
    if seen.stale:
        yield f"Python would load {seen.stale}, compiled from another {changed.file}"
    for marker in seen.missing:
        yield f"`{marker}` of patch `{changed.patch}` does not stand in {changed.target}"
