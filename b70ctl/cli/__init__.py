"""cli listens and speaks: it gathers, asks, shows and acts. Commands are imported when they are called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from b70ctl import __version__
from b70ctl.errors import B70Error, Exit, UsageError


class Entry(NamedTuple):
    """Where a command lives, and what `--help` says of it without importing it."""

    module: str
    panel: str
    help: str


_JSON = "b70ctl.json"
"""Where a call remembers that its words ask for JSON, before they are understood."""
SERVE, LOOK, WRITE = "Serve", "Look", "Write"

COMMANDS: dict[str, Entry] = {
    "switch": Entry("serve", SERVE, "Serve PROFILE instead of what serves now, proven, or go back."),
    "rollback": Entry("serve", SERVE, "Go back to an earlier release, or to a snapshot."),
    "stop": Entry("serve", SERVE, "Stop the engine until `start`."),
    "start": Entry("serve", SERVE, "Start the engine that was stopped, and prove it."),
    "restart": Entry("serve", SERVE, "Stop and start the engine, and prove it."),
    "drain": Entry("drain", SERVE, "Take the engine out of service, once its requests have ended, until `restore`."),
    "verify": Entry("drain", SERVE, "Ask whether the box is quiet."),
    "restore": Entry("drain", SERVE, "Bring back what served before `drain`, and prove it."),
    "window": Entry("window", SERVE, "Run a command against PROFILEs on a dark port, and put back what served."),
    "watch": Entry("watch", SERVE, "Follow the engine, and restart it on a fault as often as the site allows."),
    "recover": Entry("serve", SERVE, "Bring a command that was cut off to its end."),
    "snapshot": Entry("serve", SERVE, "Keep the serving release under a name."),
    "prune": Entry("serve", SERVE, "Forget old releases, their images' names and their caches."),
    "status": Entry("look", LOOK, "Show what serves, and whether it does."),
    "logs": Entry("look", LOOK, "Show the engine's log, or that of an earlier release."),
    "history": Entry("look", LOOK, "Show what served when, why it changed, and how it booted."),
    "plan": Entry("look", LOOK, "Show what a switch would change, step by step, and the way back."),
    "doctor": Entry("doctor", LOOK, "Check whether this box can serve, with evidence and what to do."),
    "inventory": Entry("inventory", LOOK, "List the software stack, host and image side by side."),
    "kernels": Entry("kernels", LOOK, "Prove, time and tune the attention kernels on the card at hand."),
    "diagnose": Entry("diagnose", LOOK, "Read a log and name what caused the trouble in it."),
    "init": Entry("write", WRITE, "Make a site: the directory that owns one engine."),
    "render": Entry("write", WRITE, "Write the Compose file of a profile; `--all --check` for CI."),
    "profiles": Entry("profiles", WRITE, "List, show, check and write profiles."),
    "images": Entry("images", WRITE, "Ask images what they hold, and pin them."),
    "patches": Entry("patches", WRITE, "List patches, check them against an image, and accept a base."),
}


class Lazy(TyperGroup):
    """Loads a command when it is called, and turns our errors into words and an exit status."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is Typer's
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature is Typer's
        """A command as `--help` and completion list it."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        return TyperCommand(cmd_name, help=entry.help, rich_help_panel=entry.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself, imported now."""
        ctx.meta[_JSON] = "--json" in args[: args.index("--") if "--" in args else None]
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(str(name)) if command is not None else None, rest

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error that a person can act on is said in their words."""
        try:
            return super().invoke(ctx)
        except B70Error as error:
            _say(ctx, error)
            raise typer.Exit(int(error.exit_code)) from None
        except KeyboardInterrupt:
            raise typer.Exit(int(Exit.INTERRUPTED)) from None
        except BrokenPipeError:
            # whoever read our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(int(Exit.FAILED)) from None
        except (typer.Exit, typer.Abort):
            raise
        except typer.TyperException as error:
            if not ctx.meta.get(_JSON):
                raise
            _say(ctx, UsageError(error.format_message(), hint=f"{_path_of(error, ctx)} --help"))
            raise typer.Exit(error.exit_code) from None
        except Exception as error:
            if os.environ.get("B70CTL_DEBUG"):
                raise
            again = "run it again with B70CTL_DEBUG=1, and report what it prints"
            _say(ctx, B70Error(f"unexpected {type(error).__name__}: {error}; this is a fault of b70ctl", hint=again))
            raise typer.Exit(int(Exit.FAILED)) from None


def load(name: str) -> Any:
    """A command by name, with its module imported."""
    module = importlib.import_module(f"b70ctl.cli.commands.{COMMANDS[name].module}")
    found = getattr(module, "app", None)
    if not isinstance(found, typer.Typer):
        found = typer.Typer(add_completion=False, rich_markup_mode=None)
        found.command(name)(getattr(module, name))
    command: Any = typer.main.get_command(found)
    command.name = name
    for each in (command, *getattr(command, "commands", {}).values()):
        each.collect_usage_pieces = _as_elsewhere(each.collect_usage_pieces)
    return command


def _as_elsewhere(pieces: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """A usage line in which NAME is needed and [NAME] is not, without Typer's braces around what is needed."""
    return lambda ctx: [piece.replace("{", "").replace("}", "") for piece in pieces(ctx)]


def _say(ctx: Any, error: B70Error) -> None:
    from b70ctl.cli.console import console

    # what is wrong with the words themselves is found before the command hears of its --json
    console().json = console().json or bool(ctx.meta.get(_JSON))
    console().error(error)


def _path_of(error: Any, ctx: Any) -> str:
    return str((getattr(error, "ctx", None) or ctx).command_path)


app = typer.Typer(
    cls=Lazy,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=bool(os.environ.get("B70CTL_DEBUG")),
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from b70ctl.cli.console import console

        console().text(f"b70ctl {__version__}")
        raise typer.Exit


@app.callback(
    help="Serve models with vLLM on Intel Arc Pro B70 cards: switch the live one, prove that it answers, go back when "
    "it does not.\n\nStart with `b70ctl init`, then `b70ctl profiles list` and `b70ctl switch PROFILE`."
)
def root(
    ctx: typer.Context,
    site: Annotated[
        Path | None,
        typer.Option("--site", metavar="DIR", help="The site; else found upwards from here.", file_okay=False),
    ] = None,
    version: Annotated[  # noqa: ARG001 - answered by its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What every command has in common."""
    ctx.obj = site
