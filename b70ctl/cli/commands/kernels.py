"""b70ctl kernels …"""

from __future__ import annotations

from typing import Annotated

import typer

from b70ctl.cli import options

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Prove, time and tune the attention kernels on the card at hand.",
)

Local = Annotated[bool, typer.Option("--here", help="Use this host's own Python and torch, not an image.")]
Presets = Annotated[str | None, typer.Option("--presets", metavar="NAME,…", help="Only these, e.g. k8v4,k3v4_nc.")]


@app.command()
def check(
    ctx: typer.Context,
    profile: options.MaybeProfile = None,
    full: Annotated[
        bool, typer.Option("--full", help="Every head size, page size, group and length: minutes.")
    ] = False,
    local: Local = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Prove the kernels on the card, in a container of PROFILE's image, and keep a report that can be shown to anybody.

    Without PROFILE it is the image that serves. The container has the card and no network, and is gone afterwards. The
    card must be free: `b70ctl drain` frees it, `b70ctl restore` brings the engine back. Exit status: 0 every check
    holds, 1 one does not, or the image cannot run them.

    Example: b70ctl kernels check qwen3-30b-tq
    """
    _run(ctx, "check", ["--full"] if full else [], profile, local=local, dry_run=dry_run, json=json)


@app.command()
def bench(
    ctx: typer.Context,
    profile: options.MaybeProfile = None,
    presets: Presets = None,
    local: Local = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Time the kernels beside FP16 attention and, where the image has them, vLLM's own kernels.

    The ratios are what counts: each figure of one run is taken alike, on one card.

    Example: b70ctl kernels bench --presets k8v4,k3v4_nc
    """
    told = ["--presets", presets] if presets is not None else []
    _run(ctx, "bench", told, profile, local=local, dry_run=dry_run, json=json)


@app.command()
def tune(
    ctx: typer.Context,
    profile: options.MaybeProfile = None,
    presets: Presets = None,
    head_sizes: Annotated[
        str | None, typer.Option("--head-sizes", metavar="N,…", help="Only these, e.g. 128; all take hours.")
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=64, help="Processes that compile at the same time.")
    ] = 1,
    local: Local = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Measure which tile sizes are fastest on this card, and write them into the site as tuning.json.

    Every candidate is proven before it is timed. Rows that an earlier run measured on this card are kept unless they
    are measured anew. The next release of a profile with `kernels: b70` carries the table.

    Example: b70ctl kernels tune --head-sizes 128 --workers 8
    """
    told = ["--presets", presets] if presets is not None else []
    told += ["--head-sizes", head_sizes] if head_sizes is not None else []
    told += ["--workers", str(workers)] if workers > 1 else []
    _run(ctx, "tune", told, profile, local=local, dry_run=dry_run, json=json)


def _run(
    ctx: typer.Context, program: str, told: list[str], profile: str | None, *, local: bool, dry_run: bool, json: bool
) -> None:  # fmt: skip
    from b70ctl.cli import kernels
    from b70ctl.cli.here import Here
    from b70ctl.core.kernels import Program

    kernels.run(Here(ctx, json=json), Program(program, tuple(told)), profile, local=local, dry_run=dry_run)
