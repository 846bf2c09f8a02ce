"""The systemd unit that runs a watch, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from b70ctl.errors import UsageError

MARK = "# written by `b70ctl watch --install`, which replaces it; what you change belongs into a drop-in"
STOP_SECONDS = 900
"""How long a restart that was begun may take to be undone before systemd kills the watch; `recover` repairs then."""
_RETRY_SECONDS = 30
# what systemd does not take in the path of a program, however it is quoted
_NOT_IN_PROGRAM = frozenset("\"'\\")


def unit_name(site: str) -> str:
    """The unit's name; two sites on one box have two names."""
    return f"b70ctl-watch-{site}.service"


def unit(site: str, argv: Sequence[str], env: Mapping[str, str], *, system: bool, user: str | None = None) -> str:
    """The unit's text: started with the machine, and again when it was killed, but not after it gave up.

    `user` is who runs a system unit. UsageError for words that systemd cannot carry.
    """
    if unfit := [char for char in argv[0] if char in _NOT_IN_PROGRAM or not char.isprintable()]:
        raise UsageError(f"the program lies at {argv[0]!r}, and systemd takes no {unfit[0]!r} there",
                         hint="install b70ctl in a directory with a plain name")  # fmt: skip
    after = ["Wants=docker.service", "After=docker.service"] if system else []
    return "\n".join([
        MARK,
        "[Unit]",
        f"Description=b70ctl watch of site {site}",
        *after,
        "",
        "[Service]",
        "Type=exec",
        # the colon: nothing in the line is taken for a variable
        f"ExecStart=:{' '.join(map(quoted, argv))}",
        *(f"Environment={quoted(f'{name}={value}')}" for name, value in sorted(env.items())),
        *([f"User={user}"] if user else []),
        "Restart=on-failure",
        f"RestartSec={_RETRY_SECONDS}",
        "# 1: no restart of the engine is left, or something was refused; 2: site.yaml; 7: it is watched already",
        "RestartPreventExitStatus=1 2 7",
        "# a restart of the engine that was begun is undone first; its children are ended by it",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_SECONDS}",
        "",
        "[Install]",
        f"WantedBy={'multi-user' if system else 'default'}.target",
        "",
    ])  # fmt: skip


def quoted(word: str) -> str:
    """A word that systemd reads as it stands, whatever it is made of; UsageError for what it cannot carry."""
    return '"' + "".join(map(_escaped, word)) + '"'


def _escaped(char: str) -> str:
    code = ord(char)
    # what Unicode calls no character is refused by systemd in every spelling
    if code == 0 or 0xD800 <= code <= 0xDFFF or 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE:
        raise UsageError(f"a path or variable has {char!r}, which systemd does not take", hint="rename the directory")
    if char == "%":
        return "%%"
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
