"""Which log diagnose is asked about: a release's, a file, stdin, a container's, the kernel's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from b70ctl.cli.here import Here
from b70ctl.core.release import Verdict
from b70ctl.edge import logsource
from b70ctl.edge.store import FAILED_LOG, PROVEN_LOG, Store
from b70ctl.errors import DaemonError, MachineError, Refused, UsageError


@dataclass(frozen=True, slots=True)
class Source:
    """A log that was chosen: its name for people, its lines, and what is known of it beforehand."""

    name: str
    blocks: Iterable[bytes]
    over: bool = True
    vllm: str | None = None
    verdict: Verdict | None = None
    """What became of the release whose log it is."""
    kernel: bool = False

    @property
    def refused(self) -> str | None:
        """Why the release was not proven; None where it was, or is none."""
        if self.verdict is None or self.verdict.state == "proven":
            return None
        return f"{self.verdict.state}: {self.verdict.why}" if self.verdict.why else self.verdict.state


def chosen(here: Here, target: str | None, container: str | None, *, kernel: bool) -> Source:
    """The log that is meant; UsageError where none is."""
    if kernel:
        return Source("the kernel's log", logsource.of_kernel(), kernel=True)
    if container is not None:
        blocks, over = logsource.of_container(here.daemon, container)
        return Source(f"container {container}", blocks, over)
    if target == "-":
        return Source("stdin", logsource.of_stdin())
    if target is not None and (logsource.is_file(target) or "/" in target):
        return Source(target, logsource.of_file(Path(target)))
    return _release(here, target)


def _release(here: Here, target: str | None) -> Source:
    store = here.store
    here.mention_unfinished()
    name = _named(store, target) if target is not None else _meant(store, known=here.root is not None)
    vllm, verdict = vllm_of(store, name), store.verdict(name)
    if name != store.state().serving and (kept := _kept(store, name)):
        return Source(f"release {name}", logsource.of_file(kept), vllm=vllm, verdict=verdict)
    try:
        living = here.observe().of(name)
    except (MachineError, DaemonError):
        living = None
    if living is not None:
        blocks, over = logsource.of_container(here.daemon, living.id)
        return Source(f"release {name}", blocks, over, vllm, verdict)
    if kept := _kept(store, name):
        return Source(f"release {name}", logsource.of_file(kept), vllm=vllm, verdict=verdict)
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


def vllm_of(store: Store, release: str) -> str | None:
    """The version that a release was made for."""
    known = store.releases().get(release)
    return known.deployment.vllm if known is not None else None
