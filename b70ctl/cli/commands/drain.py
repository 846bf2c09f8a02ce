"""Commands that take the site out of service and back, and the one that asks whether the box is quiet."""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import options


def drain(
    ctx: typer.Context,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=0, max=86400, help="Wait N seconds for requests, not `drain.limit`."),
    ] = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Take the engine out of service: out of rotation, empty, stopped, and kept so until `restore`.

    The router hook of site.yaml is asked first; then requests have until `drain.limit` to end, and what is in flight
    after that the engine's own grace (30 s). What has not ended by then is cut off, and it is told how much that was.
    Companions under `drain.companions` stop too. A drain that fails or is interrupted puts the engine back, proven, and
    back into rotation. Over a reboot the site stays drained.

    Example: b70ctl drain --yes
    """
    from b70ctl.cli import draining
    from b70ctl.cli.here import Here

    draining.drain(Here(ctx, json=json), yes=yes, dry_run=dry_run, limit=limit)


def restore(
    ctx: typer.Context,
    yes: options.Yes = False,  # noqa: ARG001 - nothing is asked, and scripts say it to every command
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Bring back what served before `drain`, proven, and back into the router's rotation.

    `restore` is the way back from a drain, to the same release; the way to another release is `rollback` or `switch`,
    which end a drain too. When the engine cannot be proven the site stays drained.

    Example: b70ctl restore
    """
    from b70ctl.cli import draining
    from b70ctl.cli.here import Here

    draining.restore(Here(ctx, json=json), dry_run=dry_run)


def verify(
    ctx: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 when an answer is unknown, too.")] = False,
    json: options.Json = False,
) -> None:
    """Ask whether the box is quiet, as before a measurement; touch nothing.

    Clients, feeders, load average, what of this site runs, who holds the card, and its memory; each is answered yes,
    no or unknown, with its evidence, before a drain as after it. Exit status: 0 no answer is no, 1 one is.

    Example: b70ctl verify --strict
    """
    from b70ctl.cli import verifying
    from b70ctl.cli.here import Here

    verifying.verify(Here(ctx, json=json), strict=strict)
