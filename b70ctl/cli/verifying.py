"""verify: whether the box is quiet, question by question."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from b70ctl.cli.doctoring import cardless
from b70ctl.cli.here import Here, is_root
from b70ctl.core.host import Card
from b70ctl.core.quiet import Box, Sign, signs
from b70ctl.core.release import Observed, Release
from b70ctl.errors import B70Error, Exit, Interrupted


def verify(here: Here, *, strict: bool) -> None:
    """Ask whether the box is quiet; exit 1 when it is not, with `strict` also when that cannot be known."""
    found = signs_of(here)
    here.mention_unfinished()
    if here.console.json:
        told = [{"question": sign.question, "answer": sign.answer, "evidence": sign.evidence} for sign in found]
        here.console.data({"quiet": all(sign.quiet for sign in found), "answers": told})
    else:
        width = max(len(sign.question) for sign in found)
        for sign in found:
            here.console.text(f"{sign.answer:<9}  {sign.question:<{width}}  {sign.evidence}")
    if any(sign.quiet is False or (strict and sign.quiet is None) for sign in found):
        raise typer.Exit(int(Exit.FAILED))


def signs_of(here: Here) -> tuple[Sign, ...]:
    """Every question about the box, with its answer now."""
    return signs(box_of(here))


def box_of(here: Here) -> Box:
    """What is on the box now."""
    from b70ctl.edge.quiet import look

    site, state, kept = here.catalog.site, here.store.state(), here.store.releases()
    release = kept.get(state.serving or "")
    port = release.deployment.address.port if release else site.port
    observed = _observed(here)
    return look(site, port, _cards(here, release.deployment.cards if release else ()),
               here.daemon if observed else None, observed, root=is_root(),
               companions=_companions(here) if observed else (), cardless=_cardless(here, release))  # fmt: skip


def _observed(here: Here) -> Observed | None:
    """None when Docker does not answer: the other questions can be asked all the same."""
    try:
        return here.observe() if here.site_root is not None else None
    except Interrupted:
        raise
    except B70Error as error:
        here.console.warn(error.what)
        return None


def _cards(here: Here, serving: Sequence[str]) -> list[Card]:
    wanted = serving or here.catalog.site.cards
    return [card for card in here.workshop(docker=False).host.usable if not wanted or card.address in wanted]


def _cardless(here: Here, release: Release | None) -> bool:
    """Whether what serves, or where nothing does every profile of the site, needs no card."""
    if release is not None:
        return not release.deployment.cards
    own = [entry.name for entry in here.catalog.profiles() if entry.origin == "site"]
    return bool(own) and set(own) == set(cardless(here))


def _companions(here: Here) -> list[str]:
    from b70ctl.edge.companions import companions_project

    site = here.catalog.site
    named = site.drain.companions
    if not named:
        return []
    every = here.daemon.of_project(companions_project(site))
    return [about["Name"].lstrip("/") for about in every
            if about["State"]["Running"]
            and (named == "all" or about["Config"]["Labels"].get("com.docker.compose.service") in named)]  # fmt: skip
