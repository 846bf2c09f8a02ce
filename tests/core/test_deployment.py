"""Equal deployments are equal to the byte, and every difference is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.changes import SHOWN, changes
from b70ctl.core.deployment import BY_HAND, Address, Deployment, Mount, Order
from b70ctl.core.draft import LIMIT
from b70ctl.core.serving import entrypoint
from tests.making import ADDRESS, a_profile, resolved, some_facts

CONFIG, SCRIPT = "files/draft/config.json", "files/p/x.sh"
BASE = resolved(a_profile(engine={"max_model_len": 8192}, env={"A": "1", "B": "2"}))


def test_a_deployment_is_written_and_read_back_equal():
    assert Deployment.model_validate_json(BASE.model_dump_json()) == BASE
    assert Deployment.model_validate(json.loads(BASE.canonical())).digest == BASE.digest


@given(st.permutations(["A", "B", "C"]))
def test_the_order_in_which_variables_were_written_changes_nothing(names):
    assert (
        resolved(a_profile(env=dict.fromkeys(names, "1"))).canonical()
        == resolved(a_profile(env={"A": "1", "B": "1", "C": "1"})).canonical()
    )


@pytest.mark.parametrize(
    ("bind", "url"),
    [("127.0.0.1", "http://127.0.0.1:8000"), ("0.0.0.0", "http://127.0.0.1:8000"), ("::", "http://[::1]:8000"),
     ("::1", "http://[::1]:8000"), ("fd00::1", "http://[fd00::1]:8000")],
)  # fmt: skip
def test_an_engine_on_every_address_is_asked_on_loopback(bind, url):
    assert Address(bind=bind, port=8000).url == url


def test_docker_waits_longer_than_the_engine():
    assert BASE.stop_grace > BASE.shutdown_timeout


def test_the_same_again_is_no_change():
    assert changes(BASE, BASE) == ()


def test_where_nothing_was_before_it_is_told_what_there_will_be():
    told = {each.what: (each.before, each.after) for each in changes(None, BASE)}
    assert told == {
        "image": (None, "example/vllm:1"), "vLLM": (None, "0.21.0"), "models": (None, "m"),
        "cards": (None, ADDRESS), "address": (None, "http://127.0.0.1:8000/v1"),
    }  # fmt: skip


@pytest.mark.parametrize("back", [False, True])
def test_what_is_not_known_of_a_container_made_by_hand_is_no_difference(back):
    unknown = {"vllm": "unknown", "env": {}, "cards": (), "groups": (), "template": BY_HAND}
    other = BASE.model_copy(update=unknown | {"ipc": "host"})
    pair = (BASE, other) if back else (other, BASE)
    assert [each.what for each in changes(*pair)] == ["ipc"]


def test_mounts_in_another_order_are_the_same_and_others_are_told_as_docker_writes_them():
    one, two = Mount(source="/a", target="/x", read_only=True), Mount(source="/b", target="/y", read_only=False)
    before, turned = (BASE.model_copy(update={"mounts": mounts}) for mounts in ((one, two), (two, one)))
    assert changes(before, turned) == ()
    [change] = changes(before, BASE.model_copy(update={"mounts": (one,)}))
    assert (change.before, change.after) == ("/a:/x:ro /b:/y", "/a:/x:ro")


def test_a_changed_flag_is_told_by_its_name():
    after = resolved(a_profile(engine={"max_model_len": 4096}, env={"A": "1", "B": "2"}))
    assert [(each.what, each.before, each.after) for each in changes(BASE, after)] == [
        ("command --max-model-len", "8192", "4096")
    ]


def test_a_variable_that_came_or_went_is_told():
    after = resolved(a_profile(engine={"max_model_len": 8192}, env={"B": "2", "C": "3"}))
    told = {each.what: (each.before, each.after) for each in changes(BASE, after)}
    assert told == {"environment A": ("1", None), "environment C": (None, "3")}


@pytest.mark.parametrize("field", SHOWN)
def test_no_shown_field_changes_in_silence(field):
    other = {str: "another", type(None): "another", tuple: ("another",), dict: {"another": "x"}}
    value = getattr(BASE, field)
    new = other.get(type(value)) or value.model_copy(update={next(iter(type(value).model_fields)): None})
    assert changes(BASE, BASE.model_copy(update={field: new}))


@pytest.mark.parametrize(
    ("old", "new"), [({}, "QQ2"), ({"VLLM_API_KEY": "QQ1"}, "QQ2"), ({"VLLM_API_KEY": "QQ1"}, None)]
)
def test_of_a_variable_that_looks_like_a_secret_only_that_it_changed_is_told(old, new):
    env = {"VLLM_API_KEY": new} if new else {}
    before, after = (BASE.model_copy(update={"env": each | {"A": value}}) for each, value in ((old, "1"), (env, "2")))
    told = {each.what: (each.before, each.after) for each in changes(before, after)}
    assert told == {
        "environment VLLM_API_KEY": ("…" if old else None, "…" if new else None),
        "environment A": ("1", "2"),
    }


def test_of_an_address_that_changed_nobody_is_told_who_asks():
    before, after = (
        BASE.model_copy(update={"env": {"HTTPS_PROXY": f"http://me:QQ{each}@proxy:{each}"}}) for each in "12"
    )
    [told] = changes(before, after)
    assert (told.before, told.after) == ("http://…@proxy:1", "http://…@proxy:2")


def test_of_a_flag_that_takes_a_secret_only_that_it_changed_is_told():
    after = BASE.model_copy(update={"argv": (*BASE.argv, "--api-key", "QQ1", "QQ2", "--seed", "1")})
    told = {each.what: (each.before, each.after) for each in changes(BASE, after)}
    assert told == {"command --api-key": (None, "…"), "command --seed": (None, "1")}


def with_files(limit=None, patch=None, **contents):
    """The base with a draft's override, and with a patch, and what each brings."""
    draft = [Order(kind="draft-config", to=CONFIG, target="/d", name="d", overrides={LIMIT: limit})] if limit else []
    own = [Order(kind="copy", to="files/p/x.sh", target="/x", name="p")] if patch else []
    patches = {"p": patch} if patch else {}
    return BASE.model_copy(
        update={"files": (*draft, *own), "patches": patches, "draft_limit": 2048, "contents": contents}
    )


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (with_files(), with_files(8192, **{CONFIG: "a"}), (f"draft {LIMIT}", "2048", "8192")),
        (with_files(4096, **{CONFIG: "a"}), with_files(8192, **{CONFIG: "a"}), (f"draft {LIMIT}", "4096", "8192")),
        (with_files(4096, **{CONFIG: "a"}), with_files(), (f"draft {LIMIT}", "4096", "2048")),
        (with_files(9, **{CONFIG: "a"}), with_files(9, **{CONFIG: "b"}), (f"carried {CONFIG}", "a", "b")),
        (with_files(), with_files(patch="1", **{SCRIPT: "a"}), ("patches p", None, "1")),
        (with_files(patch="1", **{SCRIPT: "a"}), with_files(patch="1", **{SCRIPT: "b"}),
         (f"carried {SCRIPT}", "a", "b")),
    ],
)  # fmt: skip
def test_what_a_release_carries_is_told_once_and_by_the_key_that_was_set(before, after, told):
    assert [(each.what, each.before, each.after) for each in changes(before, after)] == [told]


def with_draft(model, limit=None):
    """The base with a draft of its own, and what is lifted of that."""
    config = json.dumps({"method": "eagle3"} | ({"model": model} if model else {}))
    argv = (*BASE.argv, "--speculative-config", config)
    return with_files(limit).model_copy(update={"argv": argv})


LIFTED = f"/models/head with {LIMIT} 8192"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (BASE, with_draft("/models/head", 8192), (None, LIFTED)),
        (with_draft("/models/head", 8192), with_draft(None), (LIFTED, None)),
        (with_draft("/models/head", 8192), with_draft("owner/other"), (LIFTED, "owner/other")),
    ],
)
def test_another_draft_is_told_whole_and_not_by_the_keys_of_either(before, after, told):
    found = [each for each in changes(before, after) if each.what.startswith("draft")]
    assert [(each.what, each.before, each.after) for each in found] == [("draft", *told)]


@pytest.mark.parametrize("kernels", ["b70_kernels 0.1.0, files 0123456789ab", None])
def test_a_first_deployment_is_told_with_the_kernels_that_it_carries(kernels):
    found = changes(None, BASE.model_copy(update={"kernels": kernels}))
    assert [each.after for each in found if each.what == "kernels"] == ([kernels] if kernels else [])


def test_an_override_of_a_key_that_nobody_knows_is_beside_the_drafts_own():
    files = (Order(kind="draft-config", to=CONFIG, target="/d", name="d", overrides={"a.b": True}),)
    [told] = changes(BASE, BASE.model_copy(update={"files": files}))
    assert (told.what, told.before, told.after) == ("draft a.b", "its own", "True")


def test_an_identity_is_shortened_where_people_read_it():
    after = BASE.model_copy(update={"image": "a@sha256:" + "f" * 64})
    assert changes(BASE, after)[0].after == "a@sha256:" + "f" * 12 + "…"


def test_a_change_is_one_line():
    after = BASE.model_copy(update={"entrypoint": ("/bin/bash", "-c", "set -e\nexec", "--")})
    assert "\n" not in str(changes(BASE, after)[0].after)


@pytest.mark.parametrize("back", [False, True])
def test_start_scripts_are_told_by_their_names_and_not_by_what_runs_them(back):
    scripted = BASE.model_copy(update={"entrypoint": entrypoint(some_facts(), ("/s/a.py",))})
    [change] = changes(*((scripted, BASE) if back else (BASE, scripted)))
    told = ("none", "/s/a.py before the command")
    assert (change.what, change.before, change.after) == ("entrypoint", *(told[::-1] if back else told))
