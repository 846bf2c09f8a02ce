"""Runs a command on a terminal of its own and draws what the terminal shows at the end, as SVG for the README.

python -m tests.rig.picture --begin 'switch demo-broken' --end 'exit 5' docs/demo.svg -- make demo
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


def drawn(screen: pyte.Screen, title: str, begin: str, end: str) -> str:
    """The lines from `begin` to `end` as SVG, without the web fonts that the drawing library would link to."""
    lines = [line(screen, row) for row in range(LINES)]
    first = next((row for row, text in enumerate(lines) if begin in text.plain), 0)
    last = next((row for row, text in enumerate(lines) if row > first and end and end in text.plain), LINES - 1)
    while last and not lines[last].plain.strip():
        last -= 1
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for text in lines[first : last + 1]:
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
    parser.add_argument("--begin", default="", help="the first line to draw contains this")
    parser.add_argument("--end", default="", help="the last line to draw contains this")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    screen, code = screen_of(argv)
    args.file.write_text(drawn(screen, args.title, args.begin, args.end), encoding="utf-8")
    sys.stdout.write(f"{args.file} shows `{' '.join(argv)}`, which ended with {code}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
