"""What the documents tell people to type exists, what they link to is there, what they show as YAML is accepted."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from b70ctl.cli import COMMANDS, app, load
from b70ctl.core.patch import Patch
from b70ctl.core.profile import Profile
from b70ctl.core.site import Site
from b70ctl.edge.catalog import Catalog
from b70ctl.errors import Exit
from tests import patches_table

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("profiles/*.md"), *ROOT.glob("patches/*.md")]
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
GUIDE = (ROOT / "docs/guide.md").read_text()

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def typed(text: str) -> Iterator[list[str]]:
    """Every b70ctl command line: in shell blocks, and between backticks."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    lines += re.findall(r"`(b70ctl [^`]*)`", text)
    for line in lines:
        if line.startswith("b70ctl "):
            yield shlex.split(line, comments=True)[1:]


def fault(words: list[str]) -> str | None:
    """Why a command line cannot be typed; positional words stand for anything."""
    command = typer.main.get_command(app)
    rest = words[: words.index("--")] if "--" in words else list(words)  # behind it the words are another command's
    if unknown := _unknown(rest[:1], command):
        return f"there is no option {unknown}"
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] == "--site" else rest[1:]
    if not rest:
        return None
    if rest[0] not in COMMANDS:
        return f"there is no command {rest[0]}"
    command, rest = load(rest[0]), rest[1:]
    if (children := getattr(command, "commands", None)) and rest:
        if rest[0] not in children:
            return f"there is no command {' '.join(words[:2])}"
        command, rest = children[rest[0]], rest[1:]
    unknown = _unknown(rest, command)
    return f"{' '.join(words)}: there is no option {unknown}" if unknown else None


def _unknown(words: list[str], command: typer.core.TyperCommand) -> str | None:
    options = [option for each in command.params for option in (*each.opts, *each.secondary_opts)]
    known = {*options, "--help"}
    return next((word for word in words if word.startswith("-") and word.split("=")[0] not in known), None)


@every_document
def test_every_command_that_is_shown_can_be_typed(path):
    assert [found for words in typed(path.read_text()) if (found := fault(words))] == []


@pytest.mark.parametrize("words", ["swich x", "profiles nothing", "switch x --fast", "--nothing", "--site x nothing"])
def test_a_command_that_does_not_exist_is_seen(words):
    assert fault(words.split())


@every_document
def test_every_make_target_that_is_shown_exists(path):
    text = path.read_text()
    shown = [line for block in blocks(text, "sh") for line in block.splitlines()]
    shown += re.findall(r"`([^`]*)`", text)
    named = {found[1] for line in shown if (found := re.match(r"(?:sudo )?make ([a-z-]+)\b", line))}
    assert named - TARGETS == set()


def test_every_make_target_is_one_line_with_a_word_of_help():
    rules = re.findall(r"^[a-z-]+:.*\n(?:\t.*\n)+", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(rules) == len(TARGETS)
    assert [rule for rule in rules if " ## " not in rule or rule.count("\t") != 1] == []


@every_document
def test_every_link_leads_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)", path.read_text())
    gone = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert gone == []


def test_the_guide_and_the_readme_are_reached_from_each_other():
    assert "docs/guide.md" in (ROOT / "README.md").read_text()


def _as_mapping(text: str) -> dict[str, object]:
    return dict(yaml.safe_load(text))


SNIPPETS = [_as_mapping(block) for block in blocks(GUIDE, "yaml")]


def test_every_yaml_of_the_guide_is_accepted_by_what_reads_it():
    read = 0
    for snippet in SNIPPETS:
        if "services" in snippet:
            continue
        if "extends" in snippet or "probes" in snippet:
            _check_profile(snippet)
        else:
            secrets = {"VLLM_API_KEY": {"env": "KEY"}}
            Site.model_validate({"secrets": secrets} | snippet)
        read += 1
    assert read >= 6


def _check_profile(snippet: dict[str, object]) -> None:
    parent = str(snippet.pop("extends", "qwen3-30b-eagle3"))
    base = Catalog(None, Site()).profile(parent).raw
    Profile.model_validate({**base, **snippet})


def test_every_exit_status_is_explained():
    explained = {int(number) for number in re.findall(r"^\| (\d+) \|", GUIDE, re.MULTILINE)}
    assert explained == {int(status) for status in Exit} - {int(Exit.DONE)}


def test_the_words_of_the_table_of_mappings_are_keys():
    known = set(Profile.model_fields) | set(Site.model_fields)
    table = GUIDE[GUIDE.index("| in your Compose file |") :].split("\n\n")[0]
    right = [row.split(" | ", 1)[1] for row in table.splitlines()[2:]]
    named = {word.split(".")[0].split(":")[0] for cell in right for word in re.findall(r"`([a-z_]+[.:][a-z_.]*)", cell)}
    assert named
    assert named - known - {"site"} == set()


def test_the_page_about_patches_lists_what_ships():
    assert patches_table.PAGE.read_text() == patches_table.page(), "python -m tests.patches_table"


def test_the_patches_of_the_page_are_patches():
    page = patches_table.PAGE.read_text()
    whole, overlays, scripts = (_as_mapping(block) for block in blocks(page, "yaml"))
    assert Patch.model_validate(whole).edits[0].old == "    return min(tokens, 2048)\n"
    assert set(whole) | {"overlays", "scripts", "after"} == set(Patch.model_fields)
    rest = {key: value for key, value in whole.items() if key not in ("bases", "edits", "markers")}
    assert Patch.model_validate(rest | overlays).overlays
    assert Patch.model_validate(rest | scripts).scripts
