"""Commands that change what serves, and what is kept."""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import options


def switch(
    ctx: typer.Context,
    profile: options.Profile,
    set_: options.Set = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    adopt: options.Adopt = None,
    port: options.Port = None,
    allow_status: options.AllowStatus = None,
    json: options.Json = False,
) -> None:
    """Serve PROFILE instead of what serves now, proven, or go back.

    The old engine is stopped and kept until the new one has answered its probes; when it does not, the old one is
    started again and proven by the same probes. Exit status: 0 serving, 5 failed and rolled back, 6 the way back
    failed too.

    Example: b70ctl switch qwen3-30b-eagle3 --set engine.max_model_len=131072
    """
    from b70ctl.cli import switching
    from b70ctl.cli.here import Here

    wish = switching.Wish(profile, tuple(set_ or ()), port, allow_status, adopt)
    switching.switch(Here(ctx, json=json), wish, yes=yes, dry_run=dry_run)


def rollback(
    ctx: typer.Context,
    name: options.KeptName = None,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Go back to the release before, or to a NAME.

    NAME is a snapshot, else a profile, else part of a name in history; of several releases of one profile it is the
    newest proven one that does not serve now. It ends a drain; `restore` is the way back to what served before one.

    Example: b70ctl rollback tq
    """
    from b70ctl.cli import switching
    from b70ctl.cli.here import Here

    switching.rollback(Here(ctx, json=json), name, yes=yes, dry_run=dry_run)


def stop(
    ctx: typer.Context, yes: options.Yes = False, dry_run: options.DryRun = False, json: options.Json = False
) -> None:
    """Stop the engine, and leave it stopped until `start`; running requests get vLLM's own grace.

    Example: b70ctl stop --yes
    """
    from b70ctl.cli import engine
    from b70ctl.cli.here import Here

    engine.stop(Here(ctx, json=json), yes=yes, dry_run=dry_run)


def start(
    ctx: typer.Context,
    yes: options.Yes = False,  # noqa: ARG001 - nothing is asked, and scripts say it to every command
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Start the engine that was stopped, follow its boot, and prove it.

    Example: b70ctl start
    """
    from b70ctl.cli import engine
    from b70ctl.cli.here import Here

    engine.start(Here(ctx, json=json), dry_run=dry_run)


def restart(
    ctx: typer.Context, yes: options.Yes = False, dry_run: options.DryRun = False, json: options.Json = False
) -> None:
    """Stop the engine and start it again, proven.

    Example: b70ctl restart --yes
    """
    from b70ctl.cli import engine
    from b70ctl.cli.here import Here

    engine.restart(Here(ctx, json=json), yes=yes, dry_run=dry_run)


def recover(ctx: typer.Context, json: options.Json = False) -> None:
    """Bring a command that was cut off (kill -9, power, a lost daemon) to its end.

    What was proven and only not recorded is finished; everything else is undone. Every changing command does this
    first; this one does nothing else.

    Example: b70ctl recover
    """
    from b70ctl.cli import engine
    from b70ctl.cli.here import Here

    engine.recover(Here(ctx, json=json))


def snapshot(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name; left out they are listed.")] = None,
    json: options.Json = False,
) -> None:
    """Keep the serving release under NAME, for `rollback NAME`; without a NAME list the snapshots.

    A named release is never pruned.

    Example: b70ctl snapshot known-good
    """
    from b70ctl.cli import keeping
    from b70ctl.cli.here import Here

    keeping.snapshot(Here(ctx, json=json), name)


def prune(
    ctx: typer.Context, yes: options.Yes = False, dry_run: options.DryRun = False, json: options.Json = False
) -> None:
    """Forget old releases, with their image tags and the caches that nothing else uses.

    Kept are the serving release, the one before it, and every release with a name that you gave. Of the others the
    newest `keep` (site.yaml, 5 unless said) of each kind stay: of those that were proven, of those that were not, with
    their logs, and of those made for windows.

    Example: b70ctl prune --dry-run
    """
    from b70ctl.cli import keeping
    from b70ctl.cli.here import Here

    keeping.prune(Here(ctx, json=json), yes=yes, dry_run=dry_run)
