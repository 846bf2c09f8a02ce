"""What drain, verify and restore say where there is no daemon and nothing ever served."""

import json
import re

import pytest

from b70ctl.cli.console import Console
from b70ctl.core.journal import Event
from b70ctl.core.plan import plan_restore
from b70ctl.core.progress import Emptying, Lost
from b70ctl.core.serving import SHUTDOWN_TIMEOUT
from b70ctl.edge.store import Store

SINCE, RELEASE = "2026-01-01T00:00:00Z", "0001-p-abcdef"
STATE = {"serving": RELEASE, "stopped": True, "drained": {"at": SINCE, "release": RELEASE}, "withdrawn": SINCE}


@pytest.fixture
def drained(site):
    (site / ".b70ctl").mkdir()
    (site / ".b70ctl" / "state.json").write_text(json.dumps(STATE))
    return site


def test_status_says_since_when_the_site_is_drained(b70ctl, drained):
    said = b70ctl("--site", drained, "status").exits(0)
    assert f"drained    since {SINCE}; `b70ctl restore` brings {RELEASE} back" in said.out
    assert f"rotation   out since {SINCE}" in said.out
    assert "stopped" not in said.out


def test_verify_answers_what_it_can_where_docker_does_not(b70ctl, site):
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "drain: {load: 10000}\n")
    said = b70ctl("--site", site, "verify", "--json")
    answers = {each["question"]: each["answer"] for each in said.data["answers"]}
    assert (answers["no client is connected"], answers["nothing of this site runs"]) == ("unknown", "unknown")
    assert (answers["the load average is low"], said.data["quiet"], said.code) == ("yes", False, 0)
    assert b70ctl("--site", site, "verify", "--strict").code == 1


def test_status_says_that_the_incidents_cannot_be_told(b70ctl, drained):
    (drained / ".b70ctl" / "incidents").write_text("in the way")
    said = b70ctl("--site", drained, "status").exits(0)
    assert f"not known: {drained / '.b70ctl' / 'incidents'}: Not a directory" in said.out


@pytest.mark.parametrize("command", ["drain", "restore"])
def test_without_docker_nothing_is_drained_or_restored(b70ctl, drained, command):
    before = (drained / ".b70ctl" / "state.json").read_text()
    b70ctl("--site", drained, command, *(["--yes"] if command == "drain" else [])).refused(
        3, "no Docker Engine answers"
    )
    assert (drained / ".b70ctl" / "state.json").read_text() == before


def test_nobody_can_be_asked_is_said_before_any_work(b70ctl, site):
    assert b70ctl("--site", site, "drain").code == 2


def test_help_tells_restore_and_rollback_apart(b70ctl):
    assert "rollback" in b70ctl("restore", "--help").out
    assert "restore" in b70ctl("rollback", "--help").out


@pytest.mark.parametrize("words", ["restore --yes", "drain --yes --limit 0"])
def test_what_scripts_say_to_every_command_is_taken(b70ctl, site, words):
    assert b70ctl("--site", site, *words.split()).code == 3  # no Docker, and no usage error


def test_a_router_that_did_not_say_yes_is_not_said_to_have_taken_the_engine_out(b70ctl, site):
    (site / ".b70ctl").mkdir()
    state = {"serving": RELEASE, "withdrawn": SINCE}
    for unsure, word in ((True, "may be out"), (False, f"out since {SINCE}")):
        (site / ".b70ctl" / "state.json").write_text(json.dumps(state | {"unsure": unsure}))
        said = b70ctl("--site", site, "status")
        assert re.search(rf"^rotation +{word}", said.out, re.MULTILINE)
        assert "`b70ctl restore` asks" in said.out


def test_a_command_whose_last_steps_failed_is_not_called_done(b70ctl, site):
    store = Store(site / ".b70ctl")
    for late in (0, 1):
        store.begin(plan_restore(RELEASE), "b70ctl restore").write(
            Event.END, result="done", what="it said no", late=late
        )
    assert [op["result"] for op in b70ctl("--site", site, "history", "--json").data] == ["done", "incomplete"]
    assert store.served()[-1] == RELEASE, "it serves, and a rollback finds it"


def test_help_promises_no_more_than_the_limit_and_the_grace(b70ctl):
    said = b70ctl("drain", "--help").out
    assert "cut off" in said
    assert f"({SHUTDOWN_TIMEOUT} s)" in said


def test_waiting_is_told_with_counts_and_seconds_left_and_not_line_after_line(capsys):
    console = Console()
    for left in (9.6, 8.6, 7.6):
        console.tell(Emptying(RELEASE, 2, 1, left))
    assert capsys.readouterr().err == f"  {RELEASE}: 2 running, 1 waiting; 10 s left\n"


def test_a_loss_is_a_warning_and_an_event(capsys):
    Console().tell(Lost(RELEASE, 2))
    assert capsys.readouterr().err == f"warning: {RELEASE} has stopped: 2 requests were cut off\n"
    Console(json=True).tell(Lost(RELEASE, None))
    assert json.loads(capsys.readouterr().out) == {"event": "lost", "release": RELEASE, "requests": None}
