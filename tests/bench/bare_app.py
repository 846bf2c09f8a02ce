"""The least that a Typer app with two commands can be: what b70ctl's start-up is held against."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def one(name: str) -> None:
    """The first command."""
    typer.echo(name)


@app.command()
def two(name: str) -> None:
    """The second command."""
    typer.echo(name)


def main() -> None:
    """Run it."""
    app(prog_name="bare")
