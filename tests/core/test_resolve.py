"""Every choice is settled from what the profile, the site, the box and the image say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.host import Host
from b70ctl.core.place import Place
from b70ctl.core.resolve import Request, contradictions, refuse_status, resolve
from b70ctl.core.serving import HF_CACHE, MODELS, SCRIPTS
from b70ctl.core.site import Site
from b70ctl.errors import MachineError, Refused, UsageError
from tests.making import (
    ADDRESS,
    SECOND,
    SITE_PACKAGES,
    a_card,
    a_host,
    a_patch,
    a_profile,
    a_site,
    resolved,
    some_facts,
)

IGPU = "0000:00:02.0"
THIRD = "0000:83:00.0"
DRAFT = {"method": "eagle3", "num_speculative_tokens": 5, "draft": {"path": "d"}}
HUB = {"path": None, "hub": "a/b"}


def mask(deployment):
    return deployment.env.get("ZE_AFFINITY_MASK")


# -- cards ------------------------------------------------------------------------------------------------------------


def test_without_a_card_nothing_of_a_card_is_asked_for():
    found = resolved(a_profile(cards="none"), a_site(gids=None, cards=None), a_host(ADDRESS))
    assert (found.cards, found.card_count, found.devices, found.groups, mask(found)) == ((), 0, (), (), None)


def test_the_mask_counts_the_integrated_graphics_that_level_zero_counts():
    found = resolved(site=a_site(cards=None), host=a_host(IGPU, ADDRESS))
    assert (found.cards, mask(found)) == ((ADDRESS,), "1")


def test_a_card_of_another_maker_is_not_counted():
    host = Host((a_card("0000:01:00.0", vendor="0x10de"), a_card(ADDRESS)))
    assert mask(resolved(site=a_site(cards=None), host=host)) == "0"


def test_a_site_that_names_its_card_gets_that_one():
    found = resolved(site=a_site(cards=[SECOND]), host=a_host(ADDRESS, SECOND))
    assert (found.cards, mask(found)) == ((SECOND,), "1")


def test_cards_are_used_in_pci_order_however_the_site_lists_them():
    profile = a_profile(engine={"tensor_parallel_size": 2})
    one = resolved(profile, a_site(cards=[SECOND, ADDRESS]), a_host(ADDRESS, SECOND))
    two = resolved(profile, a_site(cards=[ADDRESS, SECOND]), a_host(ADDRESS, SECOND))
    assert one == two
    assert (one.cards, mask(one)) == ((ADDRESS, SECOND), "0,1")


@given(st.sets(st.sampled_from([ADDRESS, SECOND, THIRD]), min_size=1), st.integers(1, 3))
def test_every_mask_points_at_the_cards_that_are_leased(allowed, wanted):
    host = a_host(IGPU, ADDRESS, SECOND, THIRD)
    profile = a_profile(engine={"tensor_parallel_size": wanted})
    if len(allowed) < wanted:
        with pytest.raises(MachineError, match="needs"):
            resolved(profile, a_site(cards=sorted(allowed)), host)
        return
    found = resolved(profile, a_site(cards=sorted(allowed)), host)
    indices = [int(each) for each in mask(found).split(",")]
    assert tuple(host.level_zero[index].address for index in indices) == found.cards
    assert set(found.cards) <= allowed


def test_cards_may_be_more_than_the_tensor_parallel_size_says():
    assert resolved(a_profile(cards=2), a_site(cards=None), a_host(ADDRESS, SECOND)).card_count == 2


def test_a_card_that_the_box_does_not_have_is_an_error_with_those_that_it_has():
    with pytest.raises(MachineError, match=ADDRESS) as missing:
        resolved(site=a_site(cards=[SECOND]), host=a_host(ADDRESS))
    assert SECOND in missing.value.what


def test_one_card_cannot_be_used_twice():
    with pytest.raises(ValidationError, match="twice"):
        a_site(cards=[ADDRESS, ADDRESS])


def test_groups_are_numbers_off_the_nodes_unless_the_site_names_them():
    host = Host((a_card(ADDRESS, gid=105), a_card(SECOND, gid=44)))
    assert resolved(site=a_site(gids=None), host=host).groups == (44, 105)
    assert resolved(site=a_site(gids=[7]), host=host).groups == (7,)


def test_a_group_that_nobody_knows_is_an_error_that_says_what_to_write():
    with pytest.raises(MachineError) as missing:
        resolved(site=a_site(gids=None))
    assert "gids: [992]" in missing.value.what
    assert missing.value.hint == "b70ctl doctor"


# -- mounts -----------------------------------------------------------------------------------------------------------


def mounts(*arguments, **more):
    return {mount.target: mount for mount in resolved(*arguments, **more).mounts}


def test_models_are_mounted_read_only():
    assert mounts() == {MODELS: mounts()[MODELS]}
    assert (mounts()[MODELS].source, mounts()[MODELS].read_only) == ("/srv/models", True)


def test_a_relative_models_directory_starts_at_the_site():
    assert mounts(site=a_site(models="models"))[MODELS].source == "/srv/site/models"


def test_a_hub_model_needs_a_hub_cache():
    with pytest.raises(UsageError, match="hf_cache"):
        resolved(a_profile(model=HUB), a_site(hf_cache=None))


@pytest.mark.parametrize("download", [True, False])
def test_the_hub_cache_is_written_to_only_for_a_download(download):
    found = mounts(a_profile(model=HUB, boot={"download": download}))
    assert list(found) == [HF_CACHE]
    assert found[HF_CACHE].read_only is not download


@pytest.mark.parametrize("profile", [a_profile(), a_profile(model=HUB, speculative=DRAFT)])
def test_a_model_directory_needs_a_models_directory(profile):
    with pytest.raises(UsageError, match="`models`"):
        resolved(profile, a_site(models=None))


def test_a_draft_from_the_hub_mounts_the_hub_and_never_the_site():
    spoken = DRAFT | {"draft": {"hub": "c/d"}}
    found = mounts(a_profile(model=HUB, speculative=spoken), a_site(models=None))
    assert list(found) == [HF_CACHE]
    assert set(mounts(a_profile(speculative=spoken))) == {MODELS, HF_CACHE}


def test_a_draft_from_the_hub_needs_a_hub_cache_too():
    with pytest.raises(UsageError, match="hf_cache"):
        resolved(a_profile(speculative=DRAFT | {"draft": {"hub": "c/d"}}), a_site(hf_cache=None))


def test_a_mount_of_ones_own_starts_at_the_site():
    found = mounts(a_profile(mounts=[{"source": "x/../y", "target": "/y", "read_only": False}]))
    assert (found["/y"].source, found["/y"].read_only) == ("/srv/site/y", False)


@pytest.mark.parametrize("targets", [["/a", "/a"], ["/a", "/a/"], ["/models", "/b"], ["/var/cache/b70ctl"]])
def test_two_mounts_on_one_target_are_refused(targets):
    with pytest.raises(UsageError, match="two mounts"):
        resolved(a_profile(mounts=[{"source": "/s", "target": target} for target in targets]))


def test_a_mount_over_a_patched_file_is_refused_before_docker_does():
    profile = a_profile(patches=["one"], mounts=[{"source": "/s", "target": f"{SITE_PACKAGES}/vllm/a.py"}])
    with pytest.raises(UsageError, match="two mounts"):
        resolved(profile, patches={"one": a_patch()})


def test_what_must_lie_on_the_host_is_named():
    assert resolved(a_profile(speculative=DRAFT)).requires == (
        "/srv/models/some-model/config.json", "/srv/models/d/config.json",
    )  # fmt: skip
    # off the net the hub's library looks a name up in `refs`, and a commit in `snapshots`
    assert resolved(a_profile(model=HUB)).requires == ("/srv/hf/hub/models--a--b/refs/main",)
    pinned = HUB | {"revision": "c" * 40}
    assert resolved(a_profile(model=pinned)).requires == (f"/srv/hf/hub/models--a--b/snapshots/{'c' * 40}",)
    assert resolved(a_profile(model=HUB, boot={"download": True})).requires == ()


@pytest.mark.parametrize("path", ["../secrets", "/etc"])
def test_neither_model_nor_draft_leaves_the_models_directory(path):
    overriding = DRAFT | {"draft": {"path": path, "overrides": {"x": 1}}}
    for changes in ({"model": {"path": path}}, {"speculative": overriding}):
        with pytest.raises(ValidationError, match="below the site's"):
            a_profile(changes)


@pytest.mark.parametrize("path", ["./some-model", "x/../some-model", "some-model/"])
def test_a_model_that_is_spelt_otherwise_is_the_same_deployment(path):
    assert resolved(a_profile(model={"path": path})) == resolved(a_profile(model={"path": "some-model"}))


def test_a_mount_whose_target_is_spelt_otherwise_is_the_same_deployment():
    one, other = (resolved(a_profile(mounts=[{"source": "/s", "target": target}])) for target in ("/a/b", "//a/./b/"))
    assert one == other


def test_a_patch_that_is_listed_twice_is_applied_once_in_its_first_place():
    more = {"two": a_patch(edits=[{"file": "vllm/b.py", "old": "o", "new": "n"}]), "one": a_patch()}
    twice = a_profile({"patches": ["one"]} | {"+patches": ["two", "one", "two"]})
    assert twice.patches == ["one", "two"]
    assert resolved(twice, patches=more) == resolved(a_profile(patches=["one", "two"]), patches=more)


# -- what no box could resolve ----------------------------------------------------------------------------------------

NOWHERE = Place(site=Site(), root="/srv/site")
OVERRIDING = DRAFT | {"draft": {"hub": "c/d", "overrides": {"x": 1}}}
NEVER = {
    "two mounts": ("mounts", {"mounts": [{"source": "/s", "target": "/a"}, {"source": "m", "target": "/x/../a"}]}),
    "the models": ("mounts", {"mounts": [{"source": "/s", "target": "/models"}]}),
    "a patched file": ("mounts", {"patches": ["one"],
                                  "mounts": [{"source": "m", "target": f"{SITE_PACKAGES}/vllm/a.py"}]}),
    "a hub id": ("model", {"model": {"path": None, "hub": "no id"}}),
    "a draft's hub id": ("speculative", {"speculative": DRAFT | {"draft": {"hub": "no id", "overrides": {"x": 1}}}}),
    "a name": ("engine", {"model": {"served_names": ["-m"]}}),
    "an option": ("speculative", {"speculative": DRAFT | {"options": {"method": "mtp"}}}),
    "a long word": ("engine", {"engine": {"flags": {"chat-template": "x" * 2**17}}}),
    "a long variable": ("env", {"env": {"X": "x" * 2**17}}),
    "another cache": ("speculative.draft", {"env": {"HF_HOME": "/x"}, "speculative": OVERRIDING}),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER)
def test_what_no_box_resolves_is_told_without_one_in_the_same_words(case):
    key, changes = NEVER[case]
    profile, patches = a_profile(changes), {"one": a_patch()}
    [(where, told)] = contradictions(profile, NOWHERE, some_facts(), patches)
    everything = Place(site=a_site(), root="/srv/site", draft_commit="0" * 40)
    with pytest.raises(UsageError) as refused:
        resolve(Request(name="p", profile=profile), everything, some_facts(), patches)
    assert (where, told.what, told.hint) == (key, refused.value.what, refused.value.hint)


@pytest.mark.parametrize("changes", [
    {}, {"model": HUB}, {"speculative": OVERRIDING}, {"cards": 16}, {"patches": ["one"]}, {"env": {"X": ""}},
    {"mounts": [{"source": "m", "target": "/a"}, {"source": "m", "target": "/a/b"}]},
])  # fmt: skip
def test_what_another_box_could_resolve_is_no_contradiction(changes):
    for facts in (some_facts(), some_facts(site_packages=None)):
        assert contradictions(a_profile(changes), NOWHERE, facts, {"one": a_patch()}) == []


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_patched_file_is_mounted_over_the_images_own():
    [order] = resolved(a_profile(patches=["one"]), patches={"one": a_patch()}).files
    assert (order.kind, order.to, order.target) == ("patched", "files/one/vllm/a.py", f"{SITE_PACKAGES}/vllm/a.py")


def test_a_patch_for_an_image_of_unknown_layout_is_refused_with_the_command_that_asks_it():
    with pytest.raises(UsageError) as refused:
        resolved(a_profile(patches=["one"]), facts=some_facts(site_packages=None), patches={"one": a_patch()})
    assert refused.value.hint == "b70ctl images probe example/vllm:1"


def test_two_patches_of_one_file_are_refused():
    with pytest.raises(Refused, match="`one` and `two` both change"):
        resolved(a_profile(patches=["one", "two"]), patches={"one": a_patch(), "two": a_patch()})


def scripts(*files):
    return a_patch(edits=None, scripts=[{"file": file, "where": "there"} for file in files])


def test_start_scripts_run_in_the_order_in_which_the_profile_names_them():
    found = resolved(a_profile(patches=["z", "a"]), patches={"a": scripts("a.py"), "z": scripts("z.py", "y.py")})
    assert [order.target for order in found.files] == sorted(order.target for order in found.files)
    assert [order.source.rsplit("/", 1)[1] for order in found.files] == ["z.py", "y.py", "a.py"]
    assert all(order.target.startswith(f"{SCRIPTS}/") for order in found.files)
    assert [order.target in found.entrypoint[2] for order in found.files] == [True] * 3


def test_no_two_files_of_a_release_have_one_name():
    found = resolved(a_profile(patches=["a"]), patches={"a": scripts("x/s.py", "y/s.py")})
    assert len({order.to for order in found.files}) == 2


def test_a_drafts_config_is_mounted_over_the_models_mount():
    found = resolved(
        a_profile(speculative=DRAFT | {"draft": {"path": "d", "overrides": {"max_position_embeddings": 9}}})
    )
    [order] = found.files
    assert (order.kind, order.source) == ("draft-config", "/srv/models/d/config.json")
    assert (order.target, order.overrides) == (f"{MODELS}/d/config.json", {"max_position_embeddings": 9})
    assert found.draft_limit == 2048


def test_a_patchs_variables_come_with_it_and_never_without():
    patches = {"one": a_patch(env={"GATE": "1"})}
    assert resolved(a_profile(patches=["one"]), patches=patches).env["GATE"] == "1"
    assert "GATE" not in resolved(a_profile(), patches=patches).env


def test_a_changed_patch_is_a_changed_deployment():
    one = resolved(a_profile(patches=["one"]), patches={"one": a_patch()})
    two = resolved(a_profile(patches=["one"]), patches={"one": a_patch(why="another reason")})
    assert one.digest != two.digest


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_compiled_kernels_are_shared_only_by_equal_images_flags_and_variables():
    volumes = [
        resolved(a_profile(summary="another")).cache_volume,
        resolved(a_profile(engine={"max_model_len": 5})).cache_volume,
        resolved(a_profile(env={"A": "1"})).cache_volume,
        resolved(facts=some_facts(digest="a@sha256:" + "1" * 64)).cache_volume,
    ]
    assert volumes[0] == resolved().cache_volume
    assert len(set(volumes)) == 4


def test_a_set_for_many_cards_lies_below_the_profiles_own_variables():
    profile = a_profile(collectives="host-staged", engine={"tensor_parallel_size": 2}, env={"CCL_LOG_LEVEL": "info"})
    found = resolved(profile, a_site(cards=None), a_host(ADDRESS, SECOND))
    assert found.env["CCL_LOG_LEVEL"] == "info"
    assert any(name.startswith("CCL_") and name != "CCL_LOG_LEVEL" for name in found.env)


def test_a_port_that_was_asked_for_goes_before_the_sites():
    assert resolved(port=9000).address.port == 9000
    assert resolved(site=a_site(port=8100)).address.port == 8100


def test_only_the_names_of_secrets_are_in_a_deployment():
    found = resolved(site=a_site(secrets={"VLLM_API_KEY": {"env": "MY_KEY"}}))
    assert found.secrets == ("VLLM_API_KEY",)
    assert "MY_KEY" not in found.canonical()


def test_a_rejected_profile_is_refused_with_its_reason_unless_asked_for_by_its_status():
    profile = a_profile(status="rejected", status_reason="it answers nonsense")
    with pytest.raises(Refused, match="it answers nonsense"):
        refuse_status(Request(name="p", profile=profile))
    with pytest.raises(Refused):
        refuse_status(Request(name="p", profile=profile, allow_status="research"))
    refuse_status(Request(name="p", profile=profile, allow_status="rejected"))


@pytest.mark.parametrize("ref", ["not a ref", "a:b:c", ""])
def test_an_image_that_docker_could_not_name_is_refused(ref):
    with pytest.raises((UsageError, ValidationError)):
        resolved(a_profile(image={"ref": ref}))
