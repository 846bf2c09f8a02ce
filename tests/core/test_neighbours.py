"""What stands beside the engine may not take its name, and is missed when it does not stay up."""

import pytest

from b70ctl.core.companions import ended_at_once, impostors

NETWORK = "b70ctl-b70"


def composed(services, **networks):
    return {"services": services, "networks": {"default": {"name": NETWORK, "external": True}, **networks}}


@pytest.mark.parametrize(
    ("service", "about"),
    [
        ("engine", {"networks": {"default": None}}),
        ("engine", {"networks": {"default": {}, "other": None}}),
        ("web", {"networks": {"default": {"aliases": ["web.local", "engine"]}}}),
        ("web", {"networks": {"default": None}, "container_name": "engine"}),
    ],
    ids=["service", "service on two", "alias", "container"],
)
def test_a_companion_that_answers_to_the_engines_name_is_found(service, about):
    assert impostors(composed({service: about, "other": {"networks": {"default": None}}}), NETWORK) == [service]


@pytest.mark.parametrize(
    ("service", "about"),
    [
        ("web", {"networks": {"default": None}}),
        ("engine", {"networks": {"own": None}}),
        ("engine", {"network_mode": "host"}),
        ("engine", {"networks": {}}),
        ("web", {"networks": {"own": {"aliases": ["engine"]}, "default": None}}),
        ("engine-2", {"networks": {"default": None}}),
    ],
    ids=["another name", "another network", "the host's network", "no network", "alias elsewhere", "longer name"],
)
def test_a_companion_that_the_engines_clients_do_not_meet_may_have_any_name(service, about):
    assert impostors(composed({service: about}, own={"name": "x_own"}), NETWORK) == []


def test_a_site_without_services_has_none_in_the_engines_place():
    assert impostors({}, NETWORK) == impostors({"services": None, "networks": None}, NETWORK) == []


def container(name, status, code=0, restarts=0):
    return {"Id": f"id-{name}", "Name": f"/{name}", "RestartCount": restarts,
            "State": {"Status": status, "ExitCode": code}}  # fmt: skip


def test_a_companion_that_ends_at_once_is_told_with_its_exit_and_the_command_for_its_log():
    [told] = ended_at_once([container("web", "exited", 3), container("db", "running")], set())
    assert told == "companion web ended at once with exit 3; docker logs web"


@pytest.mark.parametrize("about", [container("web", "restarting", 1), container("web", "running", 1, restarts=2)])
def test_a_companion_that_docker_starts_over_and_over_is_told(about):
    [told] = ended_at_once([about], set())
    assert "exit 1, again and again" in told


@pytest.mark.parametrize("about", [container("job", "exited"), container("web", "running"), container("x", "created")])
def test_a_companion_that_did_its_work_or_runs_is_none_of_them(about):
    assert ended_at_once([about], set()) == []


def test_what_ran_before_is_not_looked_at():
    assert ended_at_once([container("web", "running", 1, restarts=2)], {"id-web"}) == []
