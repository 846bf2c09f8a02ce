"""What each step does: one step, one effect; doing it again changes nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping

from b70ctl.core import compose
from b70ctl.core.history import newest_proven
from b70ctl.core.plan import Step, Verb
from b70ctl.core.progress import Note, Probed
from b70ctl.core.release import Release, Verdict
from b70ctl.edge import draining, filling, window
from b70ctl.edge.boot import follow
from b70ctl.edge.companions import start_companions
from b70ctl.edge.files import now
from b70ctl.edge.forgetting import forget
from b70ctl.edge.imported import prove_files
from b70ctl.edge.proving import prove
from b70ctl.edge.startscripts import cut_short
from b70ctl.edge.store import FAILED_LOG, PROVEN_LOG
from b70ctl.edge.world import World, image_tag
from b70ctl.errors import B70Error, DaemonError, EngineError, MachineError, Refused

LOG_LINES = 5000
"""Lines of an engine's log that stay with its release."""


def take(step: Step, world: World) -> None:
    """Do one step."""
    STEPS[step.verb](step, world)


def _write(step: Step, world: World) -> None:
    prepared = world.prepared.get(step.subject)
    if prepared is None:
        raise Refused("the release was not prepared, so it cannot be written")
    with world.store.writing(prepared.release) as folder:
        filling.fill(folder, prepared.files, prepared.text, prepared.secrets)
    world.update_state(next=prepared.release.number + 1)
    world.daemon.tag(prepared.image_id, *image_tag(world.site, prepared.release.id))


def _adopt(_: Step, world: World) -> None:
    adopted = world.adopted
    if adopted is None:
        raise Refused("no container was named to adopt")
    if adopted.id not in world.store.releases():
        with world.store.writing(adopted):
            pass
    world.update_state(next=adopted.number + 1)


def _name(step: Step, world: World) -> None:
    snapshots = world.store.state().snapshots | {str(step.name): step.subject}
    world.update_state(snapshots=snapshots)


def _stop(step: Step, world: World) -> None:
    container = world.container(step.subject)
    if container is None:
        return
    # first the policy: a daemon that restarts now must not bring it back beside the new one
    world.daemon.set_policy(container.id, "no")
    if container.state in ("running", "restarting", "paused"):
        release = world.release(step.subject)
        with draining.witnessed(release, world):
            world.daemon.stop(container.id, release.deployment.stop_grace)


def _start(step: Step, world: World) -> None:
    release = world.release(step.subject)
    world.begun[release.id] = time.monotonic()
    container = world.container(release.id)
    if container is not None and release.id in world.leaving:
        # it was told to stop: vLLM answers /health until its last request is done, and then it is gone
        with draining.witnessed(release, world):
            world.daemon.stop(container.id, release.deployment.stop_grace)
        world.leaving.discard(release.id)
        container = world.container(release.id)
    if container is not None and cut_short(release, container, world.daemon):
        # a fresh one is made of the same release; a full disk keeps the log, not the way back
        with contextlib.suppress(DaemonError, MachineError):
            world.store.keep_log(release.id, PROVEN_LOG, world.daemon.logs(container.id, LOG_LINES))
        world.daemon.remove(container.id)
        container = None
    if container is not None:
        if container.state != "running":
            world.daemon.start(container.id)
        return
    if release.kind == "adopted":
        raise EngineError(f"the adopted container {release.profile} was removed, so it cannot be started again")
    project = compose.project(world.site.name, release.id)
    if foreign := [about["Name"].lstrip("/") for about in world.daemon.of_project(project)]:
        raise Refused(f"container {foreign[0]} says that it is of {project}, and b70ctl did not make it: "
                      "remove it, if you know what it is", hint=f"docker rm {foreign[0]}")  # fmt: skip
    world.daemon.ensure_network(release.deployment.network, world.site.name)
    world.daemon.ensure_volume(release.deployment.cache_volume, world.site.name)
    world.compose().up(world.store.release_folder(release.id))


def _await(step: Step, world: World) -> None:
    release = world.release(step.subject)
    container = world.container(release.id)
    if container is None:
        raise EngineError("the engine's container is gone")
    boot = world.boots[release.id] = follow(world.daemon, release, container.id, world.endpoint(release), world.tell)
    if release.deployment.kernels is not None:
        # the boot would not have ended otherwise
        world.tell(Probed(release.id, "kernels", passed=True, detail=boot.kernels_told))


def _probe(step: Step, world: World) -> None:
    release = world.release(step.subject)
    before = world.store.verdict(release.id)
    files = prove_files(release, world)
    proof = prove(release, world.endpoint(release), _agreement(release, world), world.tell)
    found = world.findings[release.id] = (*files, *proof.as_dicts())
    if not proof.holds:
        raise EngineError(f"the engine was not proven: {proof.why}")
    boot = world.boots.get(release.id)
    begun = world.begun.get(release.id)
    learnt = boot.to_dict() if boot and boot.kv_tokens else before.boot if before else {}
    world.store.save_verdict(
        release.id,
        Verdict(state="proven", at=now(), op=world.op, findings=found, answers=proof.answers, boot=learnt,
                seconds=round(time.monotonic() - begun, 1) if begun else 0),
    )  # fmt: skip


def _agreement(release: Release, world: World) -> Mapping[str, str] | None:
    wanted = release.deployment.probes.agree_with
    if wanted is None:
        return None
    kept = {name: other for name, other in world.store.releases().items() if name != release.id}
    other = newest_proven(wanted, kept, {name: world.store.verdict(name) for name in kept})
    verdict = world.store.verdict(other.id) if other else None
    if verdict:
        return verdict.answers
    world.tell(Note(f"no proven release of `{wanted}` to agree with, so agreement is not asked"))
    return None


def _serve(step: Step, world: World) -> None:
    release = world.release(step.subject)
    container = world.container(release.id)
    if container is None:
        raise EngineError("the engine's container is gone")
    world.daemon.set_policy(container.id, release.policy or "unless-stopped")
    # without a router in site.yaml nobody is left to be asked to take the engine back in
    withdrawn = world.store.state().withdrawn if world.site.router else None
    world.update_state(serving=release.id, stopped=False, drained=None, withdrawn=withdrawn,
                       unsure=bool(withdrawn) and world.store.state().unsure)  # fmt: skip


def _remove(step: Step, world: World) -> None:
    container = world.container(step.subject)
    if container is not None and world.release(step.subject).kind != "adopted":
        try:
            world.store.keep_log(step.subject, PROVEN_LOG, world.daemon.logs(container.id, LOG_LINES))
        finally:
            world.daemon.remove(container.id)
    window.leave(step.subject, world)


def _discard(step: Step, world: World) -> None:
    try:
        release = world.release(step.subject)
    except B70Error:
        world.store.sweep()
        return
    container = world.container(step.subject)
    why = world.failures.get(step.subject, "interrupted")
    log = None
    if container is not None:
        # first the container, then the record: a full disk must not leave it on the port and the card
        with contextlib.suppress(DaemonError):
            log = world.daemon.logs(container.id, LOG_LINES)
        if release.kind == "adopted":
            world.daemon.stop(container.id, release.deployment.stop_grace)
        else:
            world.daemon.remove(container.id)
    window.leave(step.subject, world)
    if log is not None:
        world.store.keep_log(step.subject, FAILED_LOG, log)
    before = world.store.verdict(step.subject)
    if why.startswith("interrupted") and before is not None and _stands(before, release, world):
        return
    state = "interrupted" if why.startswith("interrupted") else "failed"
    boot = world.boots.get(step.subject)
    world.store.save_verdict(
        step.subject,
        Verdict(state=state, at=now(), op=world.op, why=why, findings=world.findings.get(step.subject, ()),
                boot=boot.to_dict() if boot else {}),
    )  # fmt: skip


def _stands(verdict: Verdict, release: Release, world: World) -> bool:
    """Whether an interruption says nothing against a verdict: it is of an earlier command, or is itself a fault."""
    if verdict.state == "proven":
        # what was interrupted in a window is the command, not the proof
        return verdict.op != world.op or release.dark
    return verdict.state == "failed" and verdict.op == world.op


def _idle(_: Step, world: World) -> None:
    world.update_state(stopped=True)


STEPS: dict[Verb, Callable[[Step, World], None]] = {
    Verb.WRITE: _write,
    Verb.ADOPT: _adopt,
    Verb.NAME: _name,
    Verb.STOP: _stop,
    Verb.START: _start,
    Verb.AWAIT: _await,
    Verb.PROBE: _probe,
    Verb.SERVE: _serve,
    Verb.COMPANIONS: start_companions,
    Verb.REMOVE: _remove,
    Verb.DISCARD: _discard,
    Verb.IDLE: _idle,
    Verb.FORGET: forget,
    Verb.WITHDRAW: draining.withdraw,
    Verb.SETTLE: draining.settle,
    Verb.HALT: draining.halt,
    Verb.DRAINED: draining.drained,
    Verb.ADMIT: draining.admit,
    Verb.VERIFY: window.verify,
    Verb.RUN: window.run,
}
