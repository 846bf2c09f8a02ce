"""b70ctl window."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from b70ctl.cli import options

COMMAND = "b70ctl.command"


class WithCommand(TyperCommand):
    """Takes what stands behind `--` for a command of the user's own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Our own words, without the command's."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The usage line, with the command in it."""
        return [*super().collect_usage_pieces(ctx), "-- COMMAND"]


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=WithCommand)
def window(
    ctx: typer.Context,
    profile: options.Tried,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="N", min=1, max=65535, help="The dark port, on loopback; clients come to another."
        ),
    ] = options.DARK_PORT,
    set_: options.Set = None,
    adopt: options.Adopt = None,
    allow_status: options.AllowStatus = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Go on when the box is not quiet.")] = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", "-k", help="After a failure go on with the next profile.")
    ] = False,
    yes: options.Yes = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Drain production, run COMMAND against each PROFILE on a dark port, and put back what served.

    Each profile is started alone, proven by the probes, and taken down before the next. COMMAND finds its engine in
    B70CTL_ENDPOINT and OPENAI_BASE_URL, and B70CTL_MODEL, B70CTL_PROFILE, B70CTL_RELEASE; OPENAI_API_KEY is set where
    the site has a key. Its stdout is stdout (stderr with --json), and nothing that it starts outlives it, but for
    what runs as another user, as by sudo: that is COMMAND's own to end.

    What served before serves again, proven, however the window ends: COMMAND fails, a profile does not boot, Ctrl-C;
    after `kill -9` the next command restores it, or `b70ctl recover`. The first failure ends the window, unless
    --keep-going. Exit status: 0 COMMAND ended with 0 each time, 1 it did not, 5 a profile was not proven (with
    --keep-going 1) or the box not quiet, 6 production was not proven again.

    Example: b70ctl window qwen3-30b-ngram qwen3-30b-eagle3 -- ./bench.sh --prompts 20
    """
    from b70ctl.cli import window as opening
    from b70ctl.cli.here import Here

    command = ctx.meta[COMMAND]
    wish = opening.Wish(
        tuple(profile), command, tuple(set_ or ()), port, allow_status, anyway, keep_going=keep_going, adopt=adopt
    )
    opening.window(Here(ctx, json=json), wish, yes=yes, dry_run=dry_run)
