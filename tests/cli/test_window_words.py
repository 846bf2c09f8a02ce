"""What window and its neighbours say where there is no daemon: whose words are whose, and what is refused at once."""

from pathlib import Path

import pytest
import typer

from b70ctl.cli import app, load
from b70ctl.cli.commands.window import COMMAND
from b70ctl.core.journal import Event
from b70ctl.core.release import State
from b70ctl.core.window import plan_window
from b70ctl.edge.store import Store
from tests.making import a_release, resolved

PROD, TRIED = "0001-prod-abcdef", ("0002-b-abcdef", "0003-c-abcdef")


def parsed(*words):
    """The words of ours as they were understood, and the command."""
    context = load("window").make_context("window", list(words))
    return context.params, context.meta[COMMAND]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("a", "--", "bench"), ("bench",)),
        (("a", "--yes", "--", "bench", "--yes", "-n", "--help"), ("bench", "--yes", "-n", "--help")),
        (("a", "--", "sh", "-c", "x", "--", "y"), ("sh", "-c", "x", "--", "y")),
        (("a", "--"), ()),
        (("a",), ()),
    ],
)
def test_what_stands_behind_two_dashes_is_the_commands(words, command):
    params, found = parsed(*words)
    assert (params["profile"], found) == (["a"], command)
    assert params["yes"] is ("--yes" in words[:2])


def test_options_may_stand_between_profiles():
    params, _ = parsed("a", "--port", "9000", "b", "-k", "--anyway", "c", "--", "true")
    assert (params["profile"], params["port"]) == (["a", "b", "c"], 9000)
    assert params["keep_going"]
    assert params["anyway"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--", "true"), 2, "PROFILE"),
        (("mine", "--yes"), 2, "hint: b70ctl window mine -- COMMAND"),
        (("mine", "--port", "9000", "-y", "./b.sh"), 2, "hint: b70ctl window mine -- ./b.sh"),
        (("mine", "--yes", "--"), 2, "there is no command"),
        (("mine", "--yes", "--", "./no-such-program"), 3, "hint: ls -l ./no-such-program"),
        (("mine", "--yes", "--", "no-such-program"), 3, "hint: command -v no-such-program"),
        (("mine", "--", "true"), 2, "nobody can be asked"),
        (("mine", "--yes", "--port", "70000", "--", "true"), 2, "--port"),
        (("mine", "--yes", "--", "true"), 3, "no Docker Engine answers"),
        (("mine", "-n", "--", "true"), 3, "no Docker Engine answers"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(b70ctl, site, words, code, said):
    found = b70ctl("--site", site, "window", *words)
    assert found.code == code
    assert said in found.err
    assert not (site / ".b70ctl" / "journal.jsonl").exists()


def test_the_usage_line_has_the_command_in_it(b70ctl):
    assert "-- COMMAND" in b70ctl("window", "--help").out.splitlines()[0]


def test_profiles_are_completed(site, monkeypatch):
    monkeypatch.setenv("B70CTL_SITE", str(site))
    (argument,) = [each for each in load("window").params if each.name == "profile"]
    context = typer.main.get_command(app).make_context("b70ctl", ["profiles"])
    assert [item.value for item in argument.shell_complete(context, "min")] == ["mine"]


@pytest.fixture
def cut(site):
    """A site whose window was cut off while the command ran."""
    plan = plan_window(TRIED, PROD, does="`bench`", port=8001, limit=0)
    book = Store(site / ".b70ctl").begin(plan, "b70ctl window b c -- bench")
    at = [str(step) for step in plan.steps].index(next(str(s) for s in plan.steps if s.verb == "run"))
    for number in range(at + 1):
        book.write(Event.BEFORE, step=number)
    return site


def test_a_window_that_was_cut_off_is_told_by_status_and_by_history(b70ctl, cut):
    said = b70ctl("--site", cut, "status").exits(0)
    assert f"; {PROD} serves again after `b70ctl recover`" in said.out
    assert "was cut off" in said.out
    data = b70ctl("--site", cut, "history", "--json").data
    assert (data[0]["tried"], data[0]["result"]) == (list(TRIED), "unfinished")
    verbose = b70ctl("--site", cut, "history", "--verbose").out
    assert f"tried {TRIED[0]}: no verdict" in verbose


def test_a_script_that_nothing_would_run_is_refused_before_any_work(b70ctl, site):
    script = site / "bench.sh"
    for text, why in (("echo\n", "no `#!` line"), ("#!/no/such\n", "`/no/such`, which is not there")):
        script.write_text(text)
        script.chmod(0o755)
        b70ctl("--site", site, "window", "mine", "--yes", "--", script).refused(3, why)


def test_a_program_beside_its_caller_is_found_by_its_path_and_not_by_its_name_alone(b70ctl, site):
    Path("bench.sh").write_text("#!/bin/sh\n")
    Path("bench.sh").chmod(0o755)
    refused = b70ctl("--site", site, "window", "mine", "--yes", "--", "bench.sh")
    assert refused.refused(3, "`bench.sh` is not a program")
    found = b70ctl("--site", site, "window", "mine", "--yes", "--", "./bench.sh")
    assert found.refused(3, "no Docker Engine answers")


def test_help_tells_what_a_failed_profile_ends_with_and_what_may_outlive_a_window(b70ctl):
    said = " ".join(b70ctl("window", "--help").out.split())
    assert "(with --keep-going 1)" in said
    assert "sudo" in said


def renamed(site):
    """A site whose release is from when it had another name."""
    store = Store(site / ".b70ctl")
    release = a_release(1, "prod", resolved().model_copy(update={"site": "before"}))
    with store.writing(release):
        pass
    store.save_state(State(serving=release.id, next=2))
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "name: now\n")
    return site


@pytest.mark.parametrize(
    "words", ["recover", "stop -y", "drain -y", "switch mine -y", "window mine -y -- true", "restore"]
)
def test_a_site_that_was_renamed_while_it_served_is_refused_before_anything_is_touched(b70ctl, site, words):
    b70ctl("--site", renamed(site), *words.split()).refused(
        1, "called `now` now", "is of `before`", "put `name: before` back"
    )
