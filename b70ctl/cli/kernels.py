"""kernels: the attention kernels proven, timed and tuned on the card at hand."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.here import Here, is_root, words
from b70ctl.cli.kernelrun import Run, about
from b70ctl.core.deployment import Deployment
from b70ctl.core.host import Card
from b70ctl.core.image import ImageFacts
from b70ctl.core.kernels import OUT, TABLE, Program, card_is_held, container, described, on_one_card
from b70ctl.core.kernelwords import in_one_line, refuse_unknown, surroundings
from b70ctl.core.preflight import CardHolder, faults, refusal
from b70ctl.core.release import Observed
from b70ctl.core.resolve import Request, resolve
from b70ctl.edge import hardware, kernels, places
from b70ctl.edge.files import now
from b70ctl.edge.filling import scratch
from b70ctl.edge.lock import leased
from b70ctl.edge.plugin import site_table
from b70ctl.edge.signals import Interrupts
from b70ctl.edge.store import SCRATCH
from b70ctl.errors import B70Error, MachineError, UsageError, to_type


def run(here: Here, program: Program, profile: str | None, *, local: bool, dry_run: bool) -> None:
    """Run a program of the kernels in the image of a profile, or in the Python of this host, and keep a report."""
    refuse_unknown(program)
    if local and profile:
        what = f"--here uses this host's own Python, and not the image of `{profile}`"
        raise UsageError(what, hint="leave one of them out")
    if dry_run:
        _show(here, program, profile, local=local)
    elif local:
        _run_here(here, program)
    else:
        _run_in_image(here, program, profile)


# --- in an image ------------------------------------------------------------------------------------------------------


def _run_in_image(here: Here, program: Program, profile: str | None) -> None:
    package, origin = kernels.find(here.site_root)
    if profile is None:
        _serving(here)  # whoever has to name a profile is told before anything is asked of Docker
    with here.changing() as change:
        deployment, facts = _deployment(here, profile, docker=True, probe=True)
        change.lease([deployment.cards])
        if found := _in_the_way(here, profile, deployment, change.world.observe()):
            raise refusal(found)
        with scratch(here.store.folder) as folder:
            wanted = _container(here, program, deployment, facts, folder=folder, package=package)
            name = f"{here.catalog.site.name}-kernels-{program.name}"
            told = described(deployment, facts) | about(package, origin) | {"table": _table(here, program)}
            job = Run(here, program, told, folder, change.interrupts, image=deployment.image)
            job.carry_out(lambda hear: kernels.in_container(here.daemon, name, wanted, change.interrupts, hear))


def _deployment(here: Here, profile: str | None, *, docker: bool, probe: bool) -> tuple[Deployment, ImageFacts]:
    """What a profile, or the release that serves, would run as, with one card; and what is known of its image."""
    workshop = here.workshop(docker=docker)
    if profile is None:
        deployment = _serving(here)
        return on_one_card(deployment), _facts(here, deployment, docker=docker, probe=probe)
    written = here.catalog.profile(profile)
    site, host = workshop.place.site, workshop.place.host
    if written.profile.cards != "none" and not host.usable and site.gids is None:
        # said before anything that would follow from it, as that the card's group is not known
        raise MachineError(f"no card was found below {site.dri}, and the kernels run on one", hint="b70ctl doctor")
    # the kernels meet the image as it is: no patch is applied, and none has to fit
    bare = replace(written, profile=written.profile.model_copy(update={"patches": []}))
    facts = workshop.facts(bare, {}, probe=probe)
    deployment = resolve(Request(name=profile, profile=bare.profile), workshop.place, facts, {})
    return on_one_card(deployment), facts


def _serving(here: Here) -> Deployment:
    name = here.store.state().serving if here.site_root else None
    release = here.store.releases().get(name or "")
    if release is None or release.kind == "adopted":
        why = f"{name} was made by hand" if release else "nothing has served at this site yet"
        raise UsageError(f"{why}, so a profile has to say which image is meant", hint="b70ctl profiles list")
    return release.deployment


def _facts(here: Here, deployment: Deployment, *, docker: bool, probe: bool) -> ImageFacts:
    from b70ctl.edge.imagefacts import kept_facts, probe_image

    about = here.daemon.image(deployment.image) if docker else None
    if about is not None:
        found = kept_facts(here.store.folder, about, deployment.image_ref)
        if found or probe:
            return found or probe_image(here.daemon, deployment.image, ())
    known = [facts for facts in here.catalog.images() if facts.ref == deployment.image_ref]
    return known[0] if known else ImageFacts(ref=deployment.image_ref, vllm=deployment.vllm, source="assumed")


def _in_the_way(here: Here, profile: str | None, deployment: Deployment, observed: Observed) -> list[B70Error]:
    """An image or a card that is not there, and whoever holds the card."""
    from b70ctl.edge.preflight import look

    # no model is loaded and no port is published
    bare = deployment.model_copy(update={"mounts": (), "requires": ()})
    seen = look(bare, here.workshop(docker=True).host, here.daemon, (), root=is_root())
    written = here.catalog.profile(profile).profile if profile else None  # it may say where an image comes from
    found = faults(bare, written, replace(seen, port_holder=None, holders=()))
    return [*found, *(card_is_held(holder, observed) for holder in seen.holders)]


def _container(
    here: Here, program: Program, deployment: Deployment, facts: ImageFacts, *, folder: Path, package: Path
) -> dict[str, Any]:
    argv = program.argv("python3", OUT, json=here.console.json)
    root = str(here.root.resolve()) if here.root else ""
    return container(deployment, facts, argv, package=str(package.resolve()), out=str(folder), root=root,
                     table=_table(here, program))  # fmt: skip


def _table(here: Here, program: Program) -> str | None:
    """The site's own tile sizes, with which all run but the program that finds them."""
    return None if program.writes else site_table(here.root.resolve() if here.root else None)


# --- here -------------------------------------------------------------------------------------------------------------


def _run_here(here: Here, program: Program) -> None:
    package, origin = kernels.find(here.root)
    interrupts = Interrupts(terminal=False, warn=here.console.shout)
    table = _table(here, program)
    cards = here.workshop(docker=False).host.usable[:1]
    with interrupts.watched(), contextlib.ExitStack() as stack:
        for card in cards:
            stack.enter_context(leased(places.leases(), [card.address], words(here.secret_values()), now()))
        if held := _held(here, cards):
            raise held[0]
        folder = stack.enter_context(kernels.aside(package))
        python = kernels.python()
        told = {"python": python, "cards": [card.address for card in cards], "table": table} | about(package, origin)
        argv = program.argv(python, str(folder), json=here.console.json)
        Run(here, program, told, folder, interrupts).carry_out(
            lambda hear: kernels.in_python(argv, folder, table, hear)
        )


def _held(here: Here, cards: Iterable[Card]) -> list[B70Error]:
    """Refusals of those cards that a process has open."""
    found = [(card, hardware.holders(Path(card.node))) for card in cards]
    return [card_is_held(CardHolder(card.address, "process {} ({})".format(*by[0])), _observed(here))
            for card, by in found if by]  # fmt: skip


def _observed(here: Here) -> Observed:
    try:
        return here.observe() if here.root else Observed()
    except B70Error:
        return Observed()


# --- a dry run --------------------------------------------------------------------------------------------------------


def _show(here: Here, program: Program, profile: str | None, *, local: bool) -> None:
    """What would run, and what stands in its way as far as it can be asked."""
    package, origin = kernels.find(here.root)
    rows = {"kernels": f"{package} ({origin})"}
    if table := _table(here, program):
        rows["table"] = table
    wanted: dict[str, Any] | None = None
    if local:
        found = _held(here, here.workshop(docker=False).host.usable[:1])
        rows |= _command_here(program, package, table)
    else:
        deployment, facts, found = _foreseen(here, profile)
        folder = here.store.folder / f"{SCRATCH}XXXXXXXX"  # a run makes one of its own, and removes it
        wanted = _container(here, program, deployment, facts, folder=folder, package=package)
        rows |= {
            "image": f"{deployment.image_ref} (vLLM {facts.vllm})",
            "card": deployment.cards[0] if deployment.cards else "the first",
            "command": in_one_line(wanted),
        }
    if program.writes:
        rows["writes"] = str((here.root or Path.cwd()) / TABLE)
    if here.console.json:
        told = [{"message": error.what, "hint": error.hint} for error in found]
        here.console.data(rows | ({"container": wanted} if wanted else {}) | {"faults": told})
    else:
        shown = [*rows.items(), *(surroundings(wanted) if wanted else ())]
        here.console.text("\n".join(f"{name:<8} {value}" for name, value in shown))
        for error in found:
            here.console.error(error)
    if local and not found:
        here.console.say("whether the torch of this Python has the card, the run itself finds out")
    if found:
        raise typer.Exit(int(found[0].exit_code))


def _command_here(program: Program, package: Path, table: str | None) -> dict[str, str]:
    """The Python that would run a program, and what does the same when it is typed."""
    python = kernels.python()
    env = kernels.variables(package.resolve().parent, table)
    argv = program.argv(python, tempfile.gettempdir())
    return {"python": python, "command": to_type("env", *(f"{name}={value}" for name, value in env.items()), *argv)}


def _foreseen(here: Here, profile: str | None) -> tuple[Deployment, ImageFacts, list[B70Error]]:
    try:
        docker = here.daemon is not None
    except MachineError as error:
        here.console.warn(f"{error.what}; what is told of the image is what is known without it")
        docker = False
    deployment, facts = _deployment(here, profile, docker=docker, probe=False)
    return deployment, facts, _in_the_way(here, profile, deployment, _observed(here)) if docker else []
