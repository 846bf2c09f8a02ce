"""A command that is to be typed is one that a shell takes: paths in it are quoted, whatever they are called."""

import ast
import re
import shlex
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import b70ctl
from b70ctl.errors import to_type

PACKAGE = Path(b70ctl.__file__).parent
COMMAND = re.compile(
    r"(sudo )?(cat|chmod|chown|cp|df|dos2unix|du|findmnt|head|iconv|ls|mkdir|mv|namei|rm|rmdir|tail|touch"
    r"|b70ctl (init|--site)) "
)


def unquoted(source):
    """Texts that begin as a command, or have one behind a `; `, and into which something is put as it is."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr) and any(isinstance(each, ast.FormattedValue) for each in node.values):
            text = "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
            if any(COMMAND.match(part) and "{}" in part for part in re.split(r"[;:,] (?:or: )?", text)):
                found.append(f"line {node.lineno}: {text}")
    return found


def test_no_command_is_put_together_from_bare_paths():
    found = {str(file.relative_to(PACKAGE)): unquoted(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_a_bare_path_would_be_found():
    assert unquoted('hint = f"ls -l {path}"')
    assert unquoted('hint = f"b70ctl prune, or: df -h {store}"')
    assert unquoted('hint = f"b70ctl --site {root} status"')
    assert not unquoted("hint = f\"{to_type('ls', path)}; without it\"")


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_shell_reads_the_words_that_were_meant(words):
    assert shlex.split(to_type(*words)) == words


def test_a_plain_path_is_left_as_it_is():
    assert to_type("ls", "-l", Path("/srv/models")) == "ls -l /srv/models"
