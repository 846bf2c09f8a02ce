"""At TAB a shell is offered what a command would take, and nothing else is said."""

import os
import subprocess
import sys

import pytest
import typer

from b70ctl.cli import app, completing, load
from b70ctl.edge.store import Store
from tests.cli.test_help import ALL
from tests.making import a_release

OFFERED = {
    ("switch",): {"profile", "adopt"}, ("plan",): {"profile", "adopt"}, ("rollback",): {"name"}, ("logs",): {"release"},
    ("diagnose",): {"target", "container"}, ("render",): {"profile"}, ("profiles", "new"): {"extends"},
    ("profiles", "show"): {"profile"}, ("profiles", "lint"): {"profile"}, ("images", "probe"): {"image"},
    ("images", "pin"): {"image"}, ("patches", "accept"): {"base", "image"},
    ("patches", "show"): {"name"}, ("patches", "check"): {"image"},
    ("kernels", "check"): {"profile"}, ("kernels", "bench"): {"profile"}, ("kernels", "tune"): {"profile"},
}  # fmt: skip


@pytest.fixture
def offers(site):
    """What is offered at the site for the beginning of a word."""

    def ask(what, begun=""):
        context = typer.Context(typer.main.get_command(app))
        context.params["site"] = site
        return what(context, begun)

    return ask


@pytest.mark.parametrize("words", OFFERED, ids=" ".join)
def test_what_names_something_is_offered(words):
    assert load(words[0])
    told = {each.name for each in ALL[words].params if getattr(each, "_custom_shell_complete", None)}
    assert told == OFFERED[words]


def test_profiles_of_the_site_and_shipped_ones_are_offered_by_their_beginning(offers):
    assert offers(completing.profiles, "mi") == ["mine"]
    assert {"mine", "gemma4"} <= set(offers(completing.profiles))
    assert not any(name.startswith("_") for name in offers(completing.profiles))


def test_a_patch_is_offered_up_to_where_its_hash_begins(offers, site):
    (site / "patches" / "own").mkdir(parents=True)
    (site / "patches" / "own" / "patch.yaml").write_text("")
    assert offers(completing.patches, "ow") == ["own:"]
    assert "marlin-moe-xpu:" in offers(completing.patches)


def test_releases_are_offered_and_half_written_ones_are_not(offers, site):
    store = Store(site / ".b70ctl")
    with store.writing(a_release(1)):
        pass
    (store.folder / "releases" / ".partial-0002-p-abcdef").mkdir()
    assert offers(completing.releases) == [a_release(1).id]
    assert offers(completing.kept) == ["p"]


def test_a_log_is_a_release_or_a_file_from_here(offers, tmp_path, monkeypatch):
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "logs" / "engine.log").write_text("")
    (tmp_path / "logs" / ".hidden").write_text("")
    monkeypatch.chdir(tmp_path)
    assert offers(completing.logs, "lo") == ["logs/"]
    assert offers(completing.logs, "logs/") == ["logs/deep/", "logs/engine.log"]
    assert offers(completing.logs, f"{tmp_path}/logs/e") == [f"{tmp_path}/logs/engine.log"]


@pytest.mark.process
def test_containers_and_images_are_what_docker_lists(offers, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = ps ] && echo vllm-old && exit\necho "a/b:1\n<none>:<none>\na/c:2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert offers(completing.containers) == ["vllm-old"]
    assert offers(completing.images, "a/") == ["a/b:1", "a/c:2"]


@pytest.mark.parametrize("what", [completing.kept, completing.releases, completing.containers, completing.logs])
def test_what_cannot_be_found_out_is_an_empty_offer(offers, monkeypatch, tmp_path, capsys, what):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert offers(what, "no-such-folder/x") == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.process
def test_the_shell_is_answered_for_the_site_that_was_named(site):
    env = {"_B70CTL_COMPLETE": "complete_bash", "COMP_WORDS": f"b70ctl --site {site} switch mi", "COMP_CWORD": "4"}
    ran = subprocess.run([sys.executable, "-m", "b70ctl"], env=env | {"PATH": ""}, capture_output=True, text=True,
                         check=False)  # fmt: skip
    assert ran.stdout.split() == ["mine"]
    assert ran.stderr == ""
