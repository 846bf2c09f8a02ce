"""Runs a command on a terminal of its own and draws what the terminal shows at the end, as SVG for the README.

python -m tests.rig.picture docs/demo.svg --last 40 -- make demo
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import select
import sys
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

COLUMNS, LINES = 108, 2000
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*", re.DOTALL)


def screen_of(argv: list[str]) -> tuple[pyte.Screen, int]:
    """What a terminal shows when the command has ended, and its exit status."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child, master = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": "50"}
        os.execvp(argv[0], argv)
    while True:
        ready, _, _ = select.select([master], [], [], 300)
        try:
            data = os.read(master, 65536) if ready else b""
        except OSError:
            data = b""
        if not data:
            break
        stream.feed(data)
    return screen, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def drawn(screen: pyte.Screen, title: str, first: int, last: int | None) -> str:
    """The shown lines as SVG, without the web fonts that the drawing library would link to."""
    lines = [line(screen, row) for row in range(LINES)]
    while lines and not lines[-1].plain.strip():
        lines.pop()
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for text in lines[first : len(lines) if last is None else first + last]:
        console.print(text, soft_wrap=False, overflow="crop", no_wrap=True)
    return FONT_FACE.sub("", console.export_svg(title=title))


def line(screen: pyte.Screen, row: int) -> Text:
    """One line with its bold parts."""
    text = Text()
    for column in range(COLUMNS):
        char = screen.buffer[row][column]
        text.append(char.data, style="bold" if char.bold else "")
    text.rstrip()
    return text


def main() -> int:
    """Run, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--title", default="b70ctl")
    parser.add_argument("--first", type=int, default=0, help="lines to leave out at the top")
    parser.add_argument("--last", type=int, default=None, help="lines to draw")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    screen, code = screen_of(argv)
    args.file.write_text(drawn(screen, args.title, args.first, args.last), encoding="utf-8")
    sys.stdout.write(f"{args.file} shows `{' '.join(argv)}`, which ended with {code}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
