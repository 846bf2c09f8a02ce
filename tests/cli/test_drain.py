"""What drain, verify and restore say where there is no daemon and nothing ever served."""

from __future__ import annotations

import json

import pytest

SINCE, RELEASE = "2026-01-01T00:00:00Z", "0001-p-abcdef"
STATE = {"serving": RELEASE, "stopped": True, "drained": {"at": SINCE, "release": RELEASE}, "withdrawn": SINCE}


@pytest.fixture
def drained(site):
    (site / ".b70ctl").mkdir()
    (site / ".b70ctl" / "state.json").write_text(json.dumps(STATE))
    return site


def test_status_says_since_when_the_site_is_drained(b70ctl, drained):
    said = b70ctl("--site", drained, "status")
    assert said.code == 0
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


@pytest.mark.parametrize("command", ["drain", "restore"])
def test_without_docker_nothing_is_drained_or_restored(b70ctl, drained, command):
    before = (drained / ".b70ctl" / "state.json").read_text()
    said = b70ctl("--site", drained, command, *(["--yes"] if command == "drain" else []))
    assert (said.code, "no Docker Engine answers" in said.error) == (3, True)
    assert (drained / ".b70ctl" / "state.json").read_text() == before


def test_nobody_can_be_asked_is_said_before_any_work(b70ctl, site):
    assert b70ctl("--site", site, "drain").code == 2


def test_help_tells_restore_and_rollback_apart(b70ctl):
    assert "rollback" in b70ctl("restore", "--help").out
    assert "restore" in b70ctl("rollback", "--help").out
