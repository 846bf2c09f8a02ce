"""What vLLM's processes say of our kernels while they start: each must say that they are in use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from b70ctl.core.bootfaults import Record
from b70ctl.core.kernels import PACKAGE

_MOST = 256
"""Processes that are told apart; no box has as many."""
_LONGEST = 240
# nothing quoted stands before it: a name that somebody chose, in the line that tells vLLM's arguments, is no message
_SAID = re.compile(rf"^(?:[^'\"{{]*\s)?{PACKAGE} (\S{{1,60}}): (in use|refused|off)\b(.*)")
# our own line names its process: not every one of vLLM's has a name yet when it loads plugins
_PID = re.compile(r" \(pid (\d{1,9})\)\s*$", re.ASCII)
_FAILED = re.compile(rf"Failed to load plugin {PACKAGE}\b")
_TAG = re.compile(r"([\w.-]{1,60}) pid=(\d{1,9})", re.ASCII)
# from 0.31 on a prefix of one's own (VLLM_LOGGING_PREFIX) stands before the process, where it stood behind it
_PREFIXED = re.compile(rf"^.{{0,120}}?\({_TAG.pattern}\) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL) ", re.ASCII)
# a coordinator or a subprocess that only looks something up loads no plugin
_LOADS = re.compile(r"(?:API[Ss]erver|ApiServer|EngineCore|(?:Vllm)?Worker)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Said:
    """What one process said of the kernels."""

    name: str
    """Package and version."""
    word: str
    """`in use`, `refused`, `off`, or `not loaded`."""
    why: str = ""


@dataclass(slots=True)
class PluginLog:
    """Which of vLLM's processes spoke, and what they said of the kernels; a process is told by its id."""

    whole: bool = False
    """Whether the log was read up to where the server starts, before which everybody spoke."""
    _names: dict[str, str] = field(default_factory=dict)
    _said: dict[str, Said] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Look at one record."""
        tag = _TAG.fullmatch(record.tag) or _PREFIXED.match(record.text)
        if tag and (len(self._names) < _MOST or tag[2] in self._names):
            self._names[tag[2]] = tag[1]  # the latest name is the truest: `Worker` becomes `Worker_TP0`
        if said := _statement(record.text):
            own = _PID.search(record.text)
            self._hear(tag[2] if tag else own[1] if own else "", said)

    def _hear(self, pid: str, said: Said) -> None:
        """Keep what a process said; a bad word is never followed by a better one, nor lost for want of room."""
        if said.word != "in use":
            self._said[pid if len(self._said) < _MOST else ""] = said
        elif len(self._said) < _MOST:
            self._said.setdefault(pid, said)

    @property
    def name(self) -> str | None:
        """The package and version that is in use somewhere; None where none is."""
        return next((said.name for said in self._said.values() if said.word == "in use"), None)

    @property
    def processes(self) -> tuple[str, ...]:
        """Those in which the kernels are in use, by name."""
        using = {pid for pid, said in self._said.items() if said.word == "in use"}
        return tuple(name for pid, name in self._loading().items() if pid in using)

    def fault(self, wanted: str) -> str | None:
        """Why the kernels `wanted`, package and version, are not in use in every process; None where they are."""
        # what fails in one process often fails in each: one that has a name says more
        for pid, said in sorted(self._said.items(), key=lambda each: each[0] not in self._names):
            if wrong := _wrong(said, wanted):
                return f"{self._names.get(pid) or 'a process without a name'} {wrong}"
        if silent := [name for pid, name in self._loading().items() if pid not in self._said]:
            return f"{', '.join(silent)} did not say that {wanted} is in use"
        return None if self._said and self._loading() else f"no process said that {wanted} is in use"

    def _loading(self) -> dict[str, str]:
        return {pid: name for pid, name in self._names.items() if _LOADS.match(name)}


def _statement(text: str) -> Said | None:
    if found := _SAID.match(text):
        return Said(f"{PACKAGE} {found[1]}", found[2], _PID.sub("", found[3]).strip(" :,")[:_LONGEST])
    return Said(PACKAGE, "not loaded") if _FAILED.search(text) else None


def _wrong(said: Said, wanted: str) -> str | None:
    if said.word == "not loaded":
        return f"could not load the plugin {wanted}"
    if said.word != "in use":
        return f"says that {said.name} is {said.word}: {said.why}"
    return None if said.name == wanted else f"uses {said.name}, and not {wanted}, which the release carries"
