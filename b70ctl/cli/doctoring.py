"""doctor: whether the box will do."""

from __future__ import annotations

from pathlib import Path

import typer

from b70ctl.cli.here import Here
from b70ctl.core.checks import Check, Finding, examine, together, urgent_first
from b70ctl.core.checkup.case import Models
from b70ctl.core.deployment import Deployment
from b70ctl.core.hostfacts import Runtime
from b70ctl.core.image import ImageFacts
from b70ctl.edge import hostasks, places, yamlfile
from b70ctl.edge.catalog import checked
from b70ctl.edge.hostrecord import read_record, record
from b70ctl.edge.imagefacts import all_kept
from b70ctl.errors import B70Error, Exit, UsageError


def doctor(here: Here, *, recording: Path | None, host_root: Path | None) -> None:
    """Ask everything, show the answers, exit 3 when something blocks; a record that is written is a success."""
    if recording and host_root:
        raise UsageError(
            "a record is not recorded again", hint="b70ctl doctor --record DIR, or: b70ctl doctor --host-root DIR"
        )
    facts = read_record(host_root) if host_root else hostasks.read_host(question(here))
    if recording:
        record(facts, recording)
        here.console.say(f"recorded in {recording}: text without host names, serial numbers or hardware addresses; "
                         "names of containers, images, the site and profiles stay: look at asked.json before you "
                         "send it")  # fmt: skip
    findings = urgent_first(examine(facts, models(), checks()))
    _show(here, findings)
    if recording is None and any(finding.blocks for finding in findings):
        raise typer.Exit(int(Exit.MACHINE))


def models() -> Models:
    """The shipped table of cards."""
    document = yamlfile.read(places.data("cards.yaml"))
    return checked(Models, document.data, [document], strict=False)


def checks() -> list[Check]:
    """The shipped table of checks."""
    document = yamlfile.read(places.data("checks.yaml"))
    return [checked(Check, item, [document], ("checks", number)) for number, item in enumerate(document.data["checks"])]


def question(here: Here) -> hostasks.Question:
    """What is asked on behalf of the site, or of the box alone where there is none."""
    if here.root is None:
        return hostasks.Question()
    site = here.catalog.site
    roles = {"site": here.root, "models": site.models, "cache": site.hf_cache}
    return hostasks.Question(
        dri=site.dri,
        site=site.name,
        bind=site.bind,
        port=site.port,
        places={role: places.expanded(place) for role, place in roles.items() if place},
        wanted=tuple(site.cards or ()),
        cardless=tuple(cardless(here)),
        images=tuple(runtime(facts) for facts in known_images(here)),
    )


def cardless(here: Here) -> list[str]:
    """The site's own profiles that need no card."""
    found = []
    for entry in here.catalog.profiles():
        if entry.origin != "site":
            continue
        try:
            if here.catalog.profile(entry.name).profile.cards == "none":
                found.append(entry.name)
        except B70Error as error:
            here.console.warn(error.what)
    return found


def runtime(facts: ImageFacts) -> Runtime:
    """The driver stack of an image."""
    return Runtime(ref=facts.ref, vllm=facts.vllm, kernels=facts.kernels, compute_runtime=facts.compute_runtime,
                   source=facts.source)  # fmt: skip


def known_images(here: Here) -> list[ImageFacts]:
    """Images that this site asked, and the one that serves, as far as it is known."""
    found = all_kept(here.store.folder)
    serving = serving_deployment(here)
    if serving and serving.image_ref not in {facts.ref for facts in found}:
        found += [facts for facts in here.catalog.images() if facts.ref == serving.image_ref]
    return found


def serving_deployment(here: Here) -> Deployment | None:
    """What serves."""
    name = here.store.state().serving
    kept = here.store.releases()
    return kept[name].deployment if name in kept else None


def _show(here: Here, findings: list[Finding]) -> None:
    if here.console.json:
        blocking = list(dict.fromkeys(each.check for each in findings if each.blocks))
        here.console.data({"blocking": blocking, "findings": [each.as_data() for each in findings]})
        return
    width = max(len(each.check) for each in findings)
    shown = together(findings)
    for each in shown:
        word = each.severity.upper() if each.state == "problem" else each.state
        subject = f"{each.subject}: " if each.subject else ""
        here.console.text(f"{word:<8} {each.check:<{width}}  {subject}{each.evidence}")
        if each.do and each.state != "ok":
            here.console.text(f"{'':<8} {'':<{width}}  -> {each.do}")
    here.console.text(_sum(shown))


def _sum(findings: list[Finding]) -> str:
    problems = sum(each.state == "problem" for each in findings)
    blocking = sum(each.blocks for each in findings)
    unknown = sum(each.state == "unknown" for each in findings)
    rest = len(findings) - problems - unknown
    return f"{problems} problems, {blocking} of them blocking; {unknown} not known; {rest} ok"
