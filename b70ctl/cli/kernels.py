"""kernels: the attention kernels proven, timed and tuned on the card at hand."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.here import Here, is_root, words
from b70ctl.cli.kernelrun import Run, about
from b70ctl.core.deployment import Deployment
from b70ctl.core.image import ImageFacts
from b70ctl.core.kernels import OUT, Program, card_is_held, container, described, on_one_card
from b70ctl.core.kernelwords import refuse_unknown
from b70ctl.core.preflight import CardHolder, faults, refusal
from b70ctl.core.release import Observed
from b70ctl.core.resolve import Request, resolve
from b70ctl.edge import hardware, kernels, places
from b70ctl.edge.files import now
from b70ctl.edge.filling import scratch
from b70ctl.edge.lock import leased
from b70ctl.edge.plugin import site_table
from b70ctl.edge.signals import Interrupts
from b70ctl.errors import B70Error, MachineError, UsageError


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
        deployment, facts = _deployment(here, program, profile, docker=True, probe=True)
        change.lease([deployment.cards])
        if found := _in_the_way(here, deployment, change.world.observe()):
            raise refusal(found)
        with scratch(here.store.folder) as folder:
            wanted = _container(here, program, deployment, facts, folder=folder, package=package)
            name = f"{here.catalog.site.name}-kernels-{program.name}"
            told = described(deployment, facts) | about(package, origin) | {"table": _table(here, program)}
            job = Run(here, program, told, folder, change.interrupts, image=deployment.image)
            job.carry_out(lambda hear: kernels.in_container(here.daemon, name, wanted, change.interrupts, hear))


def _deployment(
    here: Here, program: Program, profile: str | None, *, docker: bool, probe: bool
) -> tuple[Deployment, ImageFacts]:  # fmt: skip
    """What a profile, or the release that serves, would run as, with one card; and what is known of its image."""
    workshop = here.workshop(docker=docker)
    if profile is None:
        deployment = _serving(here)
        return on_one_card(deployment, program.name), _facts(here, deployment, docker=docker, probe=probe)
    written = here.catalog.profile(profile)
    # the kernels meet the image as it is: no patch is applied, and none has to fit
    bare = replace(written, profile=written.profile.model_copy(update={"patches": []}))
    facts = workshop.facts(bare, {}, probe=probe)
    deployment = resolve(Request(name=profile, profile=bare.profile), workshop.place, facts, {})
    return on_one_card(deployment, program.name), facts


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


def _in_the_way(here: Here, deployment: Deployment, observed: Observed) -> list[B70Error]:
    """An image or a card that is not there, and whoever holds the card."""
    from b70ctl.edge.preflight import look

    # no model is loaded and no port is published
    bare = deployment.model_copy(update={"mounts": (), "requires": ()})
    seen = look(bare, here.workshop(docker=True).host, here.daemon, (), root=is_root())
    found = faults(bare, None, replace(seen, port_holder=None, holders=()))
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
            if found := hardware.holders(Path(card.node)):
                who = "process {} ({})".format(*found[0])
                raise card_is_held(CardHolder(card.address, who), _observed(here))
        folder = stack.enter_context(kernels.aside(package))
        python = kernels.python()
        told = {"python": python, "cards": [card.address for card in cards], "table": table} | about(package, origin)
        argv = program.argv(python, str(folder), json=here.console.json)
        Run(here, program, told, folder, interrupts).carry_out(
            lambda hear: kernels.in_python(argv, folder, table, hear)
        )


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
    found: list[B70Error] = []
    if local:
        rows |= {"python": kernels.python(), "command": " ".join(program.argv("python3", "OUT"))}
    else:
        deployment, facts, found = _foreseen(here, program, profile)
        wanted = _container(here, program, deployment, facts, folder=here.store.folder, package=package)
        rows |= {
            "image": f"{deployment.image_ref} (vLLM {facts.vllm})",
            "card": deployment.cards[0] if deployment.cards else "the first",
            "command": " ".join([*wanted["Entrypoint"], *wanted["Cmd"]]),
        }
    if here.console.json:
        told = [{"message": error.what, "hint": error.hint} for error in found]
        here.console.data(rows | ({} if local else {"container": wanted}) | {"faults": told})
    else:
        here.console.text("\n".join(f"{name:<8} {value}" for name, value in rows.items()))
        for error in found:
            here.console.error(error)
    if found:
        raise typer.Exit(int(found[0].exit_code))


def _foreseen(
    here: Here, program: Program, profile: str | None
) -> tuple[Deployment, ImageFacts, list[B70Error]]:  # fmt: skip
    try:
        docker = here.daemon is not None
    except MachineError as error:
        here.console.warn(f"{error.what}; what is told of the image is what is known without it")
        docker = False
    deployment, facts = _deployment(here, program, profile, docker=docker, probe=False)
    return deployment, facts, _in_the_way(here, deployment, _observed(here)) if docker else []
