"""A command that is to be typed is one that a shell takes: paths in it are quoted, whatever they are called."""

import ast
import re
import shlex
from pathlib import Path

import pytest
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


TYPED = re.compile(
    r"(sudo )?(b70ctl|cat|cd|command|docker|df|export|hf|journalctl|ls|mv|openssl|pip|ps|python3|rm|ss|systemctl)\b"
)


ANOTHER = re.compile(r"; |, or(?: as root)?: ")
"""What stands between two commands of one hint."""


def hinted(source):
    """Every expression that is given as a hint, or has the name of one."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.keyword(arg="hint", value=value):
                yield value
            case ast.Assign(targets=[ast.Name(id="hint" | "HINT" | "_HINT")], value=value):
                yield value


def bare(source):
    """Hints that are flags without their command, which no shell takes; so is one that begins with what is put in."""
    return [f"line {node.lineno}: {text}" for node in hinted(source) for text in texts(node)
            if any(re.match(r"-|\{\} \{\}", part) for part in ANOTHER.split(text))]  # fmt: skip


def talking(source):
    """Hints that begin as a command and go on in words, so that they cannot be pasted; `, or: ` is another command."""
    found = []
    for node in hinted(source):
        for text in texts(node):
            parts = ANOTHER.split(text)
            if TYPED.match(text) and any(", " in part or not TYPED.match(part) for part in parts if part != "{}"):
                found.append(f"line {node.lineno}: {text}")
    return found


def put(node):
    """What stands for something that is put into a text: a command's first word, where it is one that is quoted."""
    quoted = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "to_type"
    return f"{node.args[0].value} {{}}" if quoted and isinstance(node.args[0], ast.Constant) else "{}"


def texts(node):
    """The texts that an expression may come to; what is put into one is `{}`."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr():
            yield "".join(each.value if isinstance(each, ast.Constant) else put(each.value) for each in node.values)
        case ast.IfExp():
            yield from (*texts(node.body), *texts(node.orelse))
        case ast.BinOp():
            yield from (left + right for left in texts(node.left) for right in texts(node.right))


def test_a_hint_that_begins_as_a_command_is_one_to_its_end():
    found = {str(file.relative_to(PACKAGE)): talking(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_no_hint_is_a_flag_without_its_command():
    found = {str(file.relative_to(PACKAGE)): bare(file.read_text()) for file in PACKAGE.rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize("hint", [
    '"--set engine.max_model_len=1"', 'f"--port {free}"', '"--yes, or --dry-run to look"', '"ls, or: --port N"',
    "f\"{flag} {','.join(known)}\"", '"b70ctl doctor" if x else "--here"',
])  # fmt: skip
def test_a_flag_without_its_command_would_be_found(hint):
    assert bare(f"f(hint={hint})")
    assert bare(f"hint = {hint}")
    assert bare(f"_HINT = {hint}")


@pytest.mark.parametrize("hint", ['"b70ctl render --all"', 'f"{path} --help"', '"leave out --here"', 'f"{hint}; ls"'])
def test_a_flag_with_its_command_and_one_in_a_sentence_are_left_alone(hint):
    assert not bare(f"f(hint={hint})")


@pytest.mark.parametrize("hint", [
    '"b70ctl start, which starts it"', 'f"docker rm {x}, if you know it"', 'f"ls -l {x}; without it none is used"',
    "f\"{to_type('ls', x)}, or not\"",
    '"b70ctl doctor" if x else "b70ctl patches, and look"',
])  # fmt: skip
def test_a_hint_that_goes_on_in_words_would_be_found(hint):
    assert talking(f"f(hint={hint})")
    assert talking(f"hint = {hint}")


@pytest.mark.parametrize("hint", [
    '"b70ctl start, or: b70ctl switch PROFILE"', 'f"docker rm --force {x}; b70ctl recover"', '"leave it out, or not"',
])  # fmt: skip
def test_a_hint_that_can_be_pasted_or_is_none_to_paste_is_left_alone(hint):
    assert not talking(f"f(hint={hint})")


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
