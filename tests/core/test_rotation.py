"""A router hook says one thing in one form, and asks for exactly that."""

import pytest
from pydantic import ValidationError

from b70ctl.core.rotation import Action, Call, Command, Router, asked
from b70ctl.core.site import Site

ENGINE = "http://127.0.0.1:8000"
HTTP = {"remove": {"method": "DELETE", "url": "http://r/w/1"}, "add": {"url": "http://r/w", "body": '{"url": "{url}"}'}}


def router(**said):
    return Router.model_validate(said)


@pytest.mark.parametrize("action", list(Action))
def test_a_command_has_the_action_and_the_url_in_its_words_and_in_its_environment(action):
    found = asked(router(command=["./hook", "{action}", "--to={url}"]), action, ENGINE)
    assert found == Command(("./hook", str(action), f"--to={ENGINE}"), {"ACTION": str(action), "URL": ENGINE})


def test_each_http_call_is_sent_as_it_was_written_with_the_url_filled_in():
    hook = router(http=HTTP, worker="http://10.0.0.2:8000")
    assert asked(hook, Action.REMOVE, ENGINE) == Call("DELETE", "http://r/w/1")
    assert asked(hook, Action.ADD, ENGINE) == Call("POST", "http://r/w", '{"url": "http://10.0.0.2:8000"}')


@pytest.mark.parametrize("base", ["http://r:3000", "http://r:3000/"])
def test_a_vllm_router_is_asked_for_its_worker(base):
    hook = router(vllm_router=base)
    assert asked(hook, Action.REMOVE, ENGINE).url == f"http://r:3000/remove_worker?url={ENGINE}"
    assert asked(hook, Action.ADD, ENGINE).url == f"http://r:3000/add_worker?url={ENGINE}"


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"worker": ENGINE},
        {"command": []},
        {"command": ["x"], "vllm_router": ENGINE},
        {"http": {"remove": HTTP["remove"]}},
        {"http": HTTP | {"add": {"url": "file:///etc/passwd"}}},
        {"http": HTTP | {"add": {"url": "http://r", "method": "TRACE"}}},
        {"vllm_router": "r:3000"},
        {"vllm_router": ENGINE, "worker": "http://x/?a=1&b"},
        {"comand": ["x"]},
    ],
)
def test_a_hook_that_cannot_be_meant_is_refused(said):
    with pytest.raises(ValidationError):
        router(**said)


@pytest.mark.parametrize(
    "said",
    [
        {"feeders": ["box-2"]},
        {"feeders": ["192.168.1.0/24"]},
        {"drain": {"limit": -1}},
        {"drain": {"companions": "some"}, "companions": ["c.yaml"]},
        {"drain": {"companions": ["web"]}},
        {"drain": {"load": 0}},
        {"drain": {"limits": 3}},
    ],
)
def test_a_drain_that_cannot_be_meant_is_refused(said):
    with pytest.raises(ValidationError):
        Site.model_validate(said)


def test_a_feeder_is_written_as_the_kernel_writes_it():
    assert Site.model_validate({"feeders": ["FD00:0::1", "10.0.0.1"]}).feeders == ["fd00::1", "10.0.0.1"]
