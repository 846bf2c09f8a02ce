"""Commands that look, and touch nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import completing, options


def plan(
    ctx: typer.Context,
    profile: options.Profile,
    set_: options.Set = None,
    port: options.Port = None,
    adopt: options.Adopt = None,
    allow_status: options.AllowStatus = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 4 when something would change.")] = False,
    json: options.Json = False,
) -> None:
    """Show what a switch to PROFILE would change, step by step, with reasons and the way back; touch nothing.

    Example: b70ctl plan qwen3-30b-ngram --exit-code
    """
    from b70ctl.cli import switching
    from b70ctl.cli.here import Here

    wish = switching.Wish(profile, tuple(set_ or ()), port, allow_status, adopt)
    switching.plan(Here(ctx, json=json), wish, exit_code=exit_code)


def status(
    ctx: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when what should serve does not answer, or is out of rotation.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show what serves, whether it does, and what an unfinished command asks for.

    A site that was stopped or drained, or where nothing has served yet, has nothing that should. /health is asked, no
    model: whether its answers make sense is what `switch`, `start` and `restart` prove.

    Example: b70ctl status --check
    """
    from b70ctl.cli import looking
    from b70ctl.cli.here import Here

    looking.status(Here(ctx, json=json), check=check)


def logs(
    ctx: typer.Context,
    release: Annotated[
        str | None, typer.Argument(metavar="RELEASE", help="A release of history.", autocompletion=completing.releases)
    ] = None,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the release that served before.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it is written.")] = False,
    tail: Annotated[int, typer.Option("--tail", "-t", metavar="N", min=1, help="Last lines.")] = 200,
) -> None:
    """Show the engine's log; of a release that is gone or failed, the log that was kept.

    Example: b70ctl logs --previous
    """
    from b70ctl.cli import looking
    from b70ctl.cli.here import Here

    looking.logs(Here(ctx), release, previous=previous, follow=follow, tail=tail)


def history(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-l", metavar="N", min=1, help="Newest commands to show.")] = 20,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="The command, each change, the boot.")] = False,
    json: options.Json = False,
) -> None:
    """Show what served when, why it changed, and how it booted, oldest first.

    Example: b70ctl history --limit 5
    """
    from b70ctl.cli import past
    from b70ctl.cli.here import Here

    past.history(Here(ctx, json=json), limit, verbose=verbose)
