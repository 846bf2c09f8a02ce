"""status and logs: what is; they change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from b70ctl.cli.here import Here
from b70ctl.cli.past import boot_lines, files_proof, unproven
from b70ctl.core.history import before
from b70ctl.core.journal import unfinished
from b70ctl.core.metrics import at_work
from b70ctl.core.release import Observed, Release, State
from b70ctl.core.standing import down, paused
from b70ctl.core.window import is_open
from b70ctl.edge.incident import hindrance, known
from b70ctl.edge.store import FAILED_LOG, PROVEN_LOG, Store
from b70ctl.errors import B70Error, DaemonError, EngineError, Exit, MachineError, Refused


def status(here: Here, *, check: bool) -> None:
    """Show what serves, whether it does, and what an unfinished command asks for; nothing is touched.

    With `check` the exit status is 1 when what should serve does not answer, or is out of the router's rotation.
    """
    found, live = _status(here)
    # while a drain is at work it takes the engine out on purpose
    comes = found["rotation"] is None or found["busy"] is not None
    should = found["serving"] is not None and not (found["stopped"] or found["drained"])
    _show(here, found, live)
    if check and should and not (live.answers and comes):
        what, look = _fault(found, live)
        here.console.warn(f"{what}; {look}")
        raise typer.Exit(int(Exit.FAILED))


@dataclass(frozen=True, slots=True)
class Live:
    """How Docker and the engine itself say that the recorded release stands."""

    told: dict[str, Any]
    answers: bool = False
    down: tuple[str, str] | None = None
    """Why its container does not run, and what starts it; None where it does, or where nobody knows."""
    paused: tuple[str, str] | None = None
    """Why it is up and answers nobody, and what goes on with it; None where it is not paused."""


def _fault(found: dict[str, Any], live: Live) -> tuple[str, str]:
    """Why the engine does not serve as it should, and what to type."""
    if told := live.down or live.paused:
        return told
    if live.answers:
        return f"{found['serving']} answers, and is out of rotation", "b70ctl restore"
    if "engine" in live.told:
        return f"{found['serving']} {live.told['engine']}", "b70ctl logs"
    return f"the container of {found['serving']} is {live.told['container']}", "docker info"


def _show(here: Here, found: dict[str, Any], live: Live) -> None:
    if here.console.json:
        here.console.data(found)
        return
    if found.get("boot"):
        found["boot"] = "; ".join(boot_lines(here.store, here.store.release(found["serving"])))
    found.pop("files", None)  # a reader has it from the boot
    if live.down and not (found["stopped"] or found["drained"] or found["busy"]):
        what, start = live.down
        why = "" if found["container"] == "none" else "`b70ctl logs` tells why, "
        found["engine"] = f"{what}; {why}`{start}` starts it, `b70ctl switch PROFILE` another"
    named = {"serving": "not serving", "proven": "last proven"} if live.down else {}
    rows = [[named.get(key, key).replace("_", " "), _said(value)] for key, value in found.items()
            if value not in (None, "", [], {})]  # fmt: skip
    here.console.rows(None, rows)


def _status(here: Here) -> tuple[dict[str, Any], Live]:
    """What is shown, and how the engine stands."""
    from b70ctl.edge.lock import holder

    store, site = here.store, here.catalog.site
    state = store.state()
    busy = holder(store.lock_file)
    found: dict[str, Any] = {
        "site": str(here.site_root),
        "serving": state.serving,
        "stopped": "as its owner asked; `b70ctl start` starts it" if state.stopped and not state.drained else None,
        "drained": _drained(state),
        "rotation": _rotation(state),
        "busy": busy,
        "watch": holder(store.watch_lock_file),
        "incidents": _incidents(store),
        "window": is_open(unfinished(store.ops()), alive=busy is not None),
        "unfinished": here.unfinished(),
    }
    if damaged := store.book().damaged:
        found["journal"] = f"lines {', '.join(map(str, damaged))} of {store.journal_file} cannot be read"
    kept = store.releases()
    found |= _about(here, kept[state.serving]) if state.serving in kept else {}
    live = _live(here, kept.get(state.serving or ""))
    found |= live.told
    found["snapshots"] = {name: of for name, of in state.snapshots.items() if not name.startswith("before-")}
    found["companions"] = list(site.companions)
    return found, live


def _incidents(store: Store) -> str | None:
    """How many a watch captured, and which is the newest."""
    if why := hindrance(store.incidents):
        return f"not known: {why}"
    names = known(store.incidents)
    return f"{len(names)}, the newest {store.incidents / names[-1]}" if names else None


def _rotation(state: State) -> str | None:
    if state.withdrawn is None:
        return None
    if state.unsure:
        return f"may be out: the router was asked {state.withdrawn}, and did not say yes; `b70ctl restore` asks again"
    again = "" if state.drained else "; `b70ctl restore` asks the router to take it back"
    return f"out since {state.withdrawn}{again}"


def _drained(state: State) -> str | None:
    found = state.drained
    return f"since {found.at}; `b70ctl restore` brings {found.release} back" if found else None


def _about(here: Here, release: Release) -> dict[str, Any]:
    deployment = release.deployment
    verdict = here.store.verdict(release.id)
    return {
        "profile": " ".join([deployment.profile, *(f"--set {each}" for each in deployment.overrides)]),
        "image": f"{deployment.image_ref} (vLLM {deployment.vllm})",
        "models": list(deployment.served_names),
        "address": f"{deployment.address.url}/v1",
        "cards": list(deployment.cards),
        "proven": verdict.at if verdict and verdict.state == "proven" else None,
        "boot": verdict.boot if verdict else {},
        "files": files_proof(verdict),
        "warning": unproven(here, release),
    }


def _live(here: Here, release: Release | None) -> Live:
    try:
        observed = here.observe()
    except (MachineError, DaemonError) as error:
        return Live({"container": f"not known: {error.what}"})
    foreign = [item for item in observed.containers if item.foreign]
    said = "has this site's name, and was not made from this directory"
    found: dict[str, Any] = {
        "foreign": [f"{item.name} {said}{f' but from {item.root}' if item.root else ''}" for item in foreign]
    }
    found["dark"] = _dark(here, observed)
    container = observed.of(release.id) if release else None
    fallen = down(release.id, observed) if release else None
    if release is None or container is None:
        return Live(found | {"container": "none"}, down=fallen)
    found["container"] = f"{container.name}: {container.state}, restart policy {container.policy}"
    if halted := paused(release.id, observed):
        return Live(found | {"engine": f"answers nobody; `{halted[1]}` goes on with it"}, paused=halted)
    if container.state != "running":
        return Live(found, down=fallen)
    answers = _engine(here, release)
    return Live(found | {"engine": answers or "does not answer /health"}, answers=answers is not None)


def _dark(here: Here, observed: Observed) -> list[str]:
    """The engines of a window that run, and the cards that they hold."""
    dark = [release for release in here.store.releases().values() if release.dark and observed.runs(release.id)]
    cards = {each.id: ", ".join(each.deployment.cards) or "no card" for each in dark}
    return [f"{each.id} runs at {each.deployment.address.url}, and holds {cards[each.id]}" for each in dark]


def _engine(here: Here, release: Release) -> str | None:
    """What an engine that is healthy does; None for one that is not."""
    from b70ctl.edge.endpoint import Endpoint
    from b70ctl.edge.secretfiles import api_key

    try:
        key = api_key(release, here.store.release_folder(release.id), here.catalog.site, here.site_root)
    except B70Error:
        key = None  # what is asked here needs none
    endpoint = Endpoint(release.deployment.address.url, key, timeout=3)
    if not endpoint.healthy():
        return None
    try:
        figures = endpoint.metrics()
    except EngineError:
        return "healthy"
    told = at_work(figures)
    return f"healthy, {told}" if told else "healthy"


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_said(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def logs(here: Here, release: str | None, *, previous: bool, follow: bool, tail: int) -> None:
    """Show the engine's log; of a release that is gone or failed, the log that was kept."""
    store = here.store
    here.mention_unfinished()
    kept = store.releases()
    name = release or (before(store.state(), store.served(), kept) if previous else store.state().serving)
    if here.site_root is not None and name is None:
        raise Refused("nothing has served at this site yet", hint="b70ctl switch PROFILE")
    name = _whole(store.state().snapshots.get(str(name), str(name)), kept)
    container = here.observe().of(name)
    if container is not None and follow:
        for piece in here.daemon.follow(container.id, tail=tail):
            here.console.piece(piece)
        return
    if container is not None:
        here.console.text(here.daemon.logs(container.id, tail))
        return
    here.console.text("\n".join(_kept_log(store, name).splitlines()[-tail:]))


def _whole(name: str, kept: dict[str, Release]) -> str:
    matching = [known for known in kept if known == name or known.startswith(f"{name}-")]
    if not matching:
        raise Refused(f"there is no release {name}", hint="b70ctl history")
    return matching[0]


def _kept_log(store: Store, release: str) -> str:
    paths = [store.release_folder(release) / file for file in (FAILED_LOG, PROVEN_LOG)]
    kept = [path for path in paths if path.is_file()]
    if kept:
        newest = max(kept, key=lambda path: path.stat().st_mtime)
        return newest.read_text(encoding="utf-8", errors="replace")
    raise Refused(f"release {release} has no container and no kept log", hint="b70ctl history")
