"""What is remembered of the machine before a private daemon, and which packet filter rules are the daemon's."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rig import private_daemon
from tests.rig.network import BRIDGE, DOCKERS_RULE, Before
from tests.rig.private_daemon import State


@pytest.mark.parametrize(
    "rule",
    [
        "-N DOCKER-USER",
        "-A FORWARD -o docker0 -j DOCKER",
        "-A FORWARD -i br-0123456789ab ! -o br-0123456789ab -j ACCEPT",
        "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE",
    ],
)
def test_the_daemons_rules_are_recognised(rule: str) -> None:
    assert DOCKERS_RULE.search(rule)


@pytest.mark.parametrize("rule", ["-P FORWARD DROP", "-A FORWARD -i virbr0 -j ACCEPT", "-A INPUT -i br-lan -j ACCEPT"])
def test_other_peoples_rules_are_not_the_daemons(rule: str) -> None:
    assert not DOCKERS_RULE.search(rule)


@given(st.from_regex(r"[a-z]{1,6}[0-9]{0,3}", fullmatch=True).filter(lambda name: name != "docker0"))
def test_no_ordinary_interface_is_taken_for_a_bridge_of_the_daemons(name: str) -> None:
    assert BRIDGE.fullmatch(name) is None


@given(
    st.builds(
        State,
        st.integers(min_value=1),
        st.lists(st.text()).map(tuple),
        st.builds(Before, st.text(), st.text(), st.lists(st.text()).map(tuple), st.booleans()),
    )
)
def test_the_record_of_a_daemon_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, state: State
) -> None:
    path = tmp_path_factory.mktemp("state") / "state.json"
    path.write_text(json.dumps(asdict(state)))
    assert private_daemon.read(path) == state


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1, "argv": [], "network": {}}'])
def test_a_broken_record_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert private_daemon.read(tmp_path / "state.json") is None
