"""A draft's config is changed in a copy that the engine finds where it looks, and nowhere else."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.draft import LIMIT, Reach, described, lifted, overridden
from b70ctl.core.place import Place
from b70ctl.core.profile import Draft
from b70ctl.core.resolve import Request, resolve
from b70ctl.errors import Refused, UsageError
from tests.making import a_patch, a_profile, a_site, some_facts

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB = {"hub": "owner/head", "overrides": {LIMIT: 8192}}
FOLDER = "hub/models--owner--head/snapshots"


def with_draft(draft, *, commit=None, site=None, **profile):
    profile = a_profile(speculative={"method": "eagle3", "num_speculative_tokens": 3, "draft": draft}, **profile)
    place = Place(site=site or a_site(), root="/srv/site", draft_commit=commit)
    return resolve(Request(name="p", profile=profile), place, some_facts(), {})


def changed(deployment):
    return [(order.source, order.target) for order in deployment.files if order.kind == "draft-config"]


def spoken(deployment):
    words = deployment.argv
    return json.loads(words[words.index("--speculative-config") + 1])


def test_a_hub_drafts_config_is_changed_in_the_snapshot_that_its_cache_stands_at():
    found = with_draft(HUB, commit=COMMIT)
    assert changed(found) == [
        (f"/srv/hf/{FOLDER}/{COMMIT}/config.json", f"/root/.cache/huggingface/{FOLDER}/{COMMIT}/config.json")
    ]


def test_the_engine_is_told_the_very_snapshot_whose_config_was_changed():
    # else a cache that moves on would leave the changed file behind, and a rollback would not be exact
    assert spoken(with_draft(HUB, commit=COMMIT))["revision"] == COMMIT
    assert spoken(with_draft(HUB | {"revision": "main"}, commit=COMMIT))["revision"] == COMMIT


def test_a_commit_that_the_profile_names_needs_no_cache_to_look_it_up():
    found = with_draft(HUB | {"revision": COMMIT}, commit=None)
    assert spoken(found)["revision"] == COMMIT
    assert changed(found)[0][0].endswith(f"{COMMIT}/config.json")


def test_a_hub_draft_that_is_left_as_it_is_follows_its_own_revision():
    assert "revision" not in spoken(with_draft({"hub": "owner/head"}, commit=COMMIT))
    assert spoken(with_draft({"hub": "owner/head", "revision": "v2"}, commit=COMMIT))["revision"] == "v2"


@pytest.mark.parametrize(("revision", "wanted"), [(None, "`main`"), ("v2", "`v2`")])
def test_a_draft_that_is_not_in_the_cache_is_refused_with_how_to_get_it(revision, wanted):
    with pytest.raises(Refused, match="has no snapshot of") as refused:
        with_draft(HUB | ({"revision": revision} if revision else {}))
    assert wanted in refused.value.what
    assert str(refused.value.hint).startswith("HF_HOME=/srv/hf hf download owner/head")
    assert (revision is None) == ("--revision" not in str(refused.value.hint))


def test_a_hub_draft_needs_a_cache():
    with pytest.raises(UsageError, match="hf_cache"):
        with_draft(HUB, commit=COMMIT, site=a_site(hf_cache=None))


@pytest.mark.parametrize("name", ["HF_HOME", "HF_HUB_CACHE", "HOME"])
def test_an_engine_that_looks_elsewhere_would_not_find_the_changed_config(name):
    with pytest.raises(UsageError, match=rf"env\.{name}"):
        with_draft(HUB, commit=COMMIT, env={name: "/data"})
    assert with_draft({"path": "d", "overrides": {LIMIT: 1}}, env={name: "/data"}).files


def test_a_revision_is_a_hub_repositorys():
    with pytest.raises(ValidationError, match="revision"):
        with_draft({"path": "d", "revision": "main"})


def test_a_revision_has_one_place_in_a_profile():
    with pytest.raises(UsageError, match=r"speculative\.draft\.revision"):
        a = {"method": "eagle3", "num_speculative_tokens": 3, "draft": HUB | {"revision": COMMIT},
             "options": {"revision": "x"}}  # fmt: skip
        resolve(Request(name="p", profile=a_profile(speculative=a)), Place(site=a_site(), root="/"), some_facts(), {})


# -- the config -------------------------------------------------------------------------------------------------------

NESTED = {"a": 1, "transformer_layer_config": {LIMIT: 2048, "rope_scaling": {"factor": 1.0}}, "x.y": 5}


def test_a_nested_key_is_reached_by_dots():
    name = f"transformer_layer_config.{LIMIT}"
    before = copy.deepcopy(NESTED)
    made = overridden(NESTED, {name: 8192, "transformer_layer_config.rope_scaling.factor": 2.0})
    assert made["transformer_layer_config"] == {LIMIT: 8192, "rope_scaling": {"factor": 2.0}}
    assert before == NESTED


def test_a_key_with_a_dot_in_it_is_itself_first():
    assert overridden(NESTED, {"x.y": 6})["x.y"] == 6


@pytest.mark.parametrize("name", ["b", LIMIT, "a.b", "transformer_layer_config.b", "transformer_layer_config.a.b", "."])
def test_no_key_is_added(name):
    with pytest.raises(Refused, match="has no `"):
        overridden(NESTED, {name: 1})


def test_where_a_nested_key_was_looked_for_is_told():
    with pytest.raises(Refused, match=rf"has no `transformer_layer_config\.max`.*it has {LIMIT}, rope_scaling"):
        overridden(NESTED, {"transformer_layer_config.max": 1})


keys = st.sampled_from(["a", "b", "c.d", "d"])
configs = st.recursive(st.integers() | st.none(), lambda inner: st.dictionaries(keys, inner, max_size=4), max_leaves=12)


@given(st.dictionaries(keys, configs, min_size=1), st.lists(keys, min_size=1, max_size=3).map(".".join))
def test_an_override_changes_one_value_or_is_refused(config, name):
    before = copy.deepcopy(config)
    try:
        made = overridden(config, {name: "new"})
    except Refused:
        made = None
    assert config == before
    if made is not None:
        assert list(made) == list(config)
        assert json.dumps(made).count('"new"') == 1


@pytest.mark.parametrize(
    ("config", "reach"),
    [
        ({LIMIT: 2048}, Reach(2048)),
        ({LIMIT: 2048, "rope_scaling": {"rope_type": "yarn"}}, Reach(2048, frozenset({"yarn"}))),
        ({LIMIT: 2048, "rope_scaling": {"type": "linear"}}, Reach(2048, frozenset({"linear"}))),
        ({LIMIT: 2048, "rope_scaling": None}, Reach(2048)),
        (
            {LIMIT: 9, "rope_parameters": {"full": {"rope_type": "default"}, "sliding": {"rope_type": "longrope"}}},
            Reach(9, frozenset({"default", "longrope"})),
        ),
        ({"transformer_layer_config": {LIMIT: 4096}}, Reach(4096, key=f"transformer_layer_config.{LIMIT}")),
        ({"text_config": {LIMIT: 4096}}, Reach(4096, key=f"text_config.{LIMIT}")),
        ({LIMIT: "2048"}, Reach()),
        ({LIMIT: True, "text_config": []}, Reach()),
        ({}, Reach()),
    ],
)
def test_how_far_a_draft_reaches_is_read_off_its_config(config, reach):
    assert described(config) == reach


def test_the_key_that_holds_the_limit_is_the_one_that_lifts_it():
    for config in ({LIMIT: 1}, {"transformer_layer_config": {LIMIT: 1}}, {"text_config": {LIMIT: 1}}):
        key = described(config).key
        assert described(overridden(config, {key: 9})).limit == 9
        assert lifted({key: 9}) == 9


@pytest.mark.parametrize("overrides", [{}, {"hidden_size": 9}, {LIMIT: "many"}, {LIMIT: True}])
def test_other_overrides_lift_nothing(overrides):
    assert lifted(overrides) is None


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({"a": {"b": 1, "c": {"d": "x"}}, "e": True}, {"a.b": 1, "a.c.d": "x", "e": True}),
        ({"a.b": 1, "a": {"c": 2}}, {"a.b": 1, "a.c": 2}),
    ],
)
def test_overrides_may_be_nested_as_the_config_is(written, found):
    assert Draft(path="d", overrides=written).overrides == found


@pytest.mark.parametrize(
    ("written", "why"),
    [({"a.b": 1, "a": {"b": 2}}, "`a.b` is given twice, dotted and nested"), ({"a": {1: 2}}, "valid string"),
     ({"a": {"b": [1]}}, "valid number"), ({"a": {}}, "valid number"), ([1], "valid dictionary")],
)  # fmt: skip
def test_an_override_that_cannot_be_meant_is_refused(written, why):
    with pytest.raises(ValueError, match=why):
        Draft.model_validate({"path": "d", "overrides": written})


@pytest.mark.parametrize("name", ["HF_HOME", "HF_HUB_CACHE", "HOME"])
def test_a_patch_takes_the_engine_to_no_other_cache_either(name):
    profile = a_profile(
        speculative={"method": "eagle3", "num_speculative_tokens": 3, "draft": HUB}, patches=["quiet", "moving"]
    )
    patches = {"quiet": a_patch(env={"A": "1"}), "moving": a_patch(
        env={name: "/data"}, edits=[{"file": "vllm/b.py", "old": "a", "new": "b"}])}  # fmt: skip
    place = Place(site=a_site(), root="/srv/site", draft_commit=COMMIT)
    with pytest.raises(UsageError, match=f"`{name}`, which patch `moving` comes with") as told:
        resolve(Request(name="p", profile=profile), place, some_facts(), patches)
    assert told.value.hint == "drop `moving` from the profile's patches"


def test_of_very_many_keys_a_refusal_lists_few():
    with pytest.raises(Refused) as refused:
        overridden({f"key{number:05}": 0 for number in range(50_000)}, {"no": 1})
    assert refused.value.what.endswith("key00019 and 49,980 more")
    with pytest.raises(Refused, match=r"it has key0, key1$"):
        overridden({"key0": 0, "key1": 0}, {"no": 1})
