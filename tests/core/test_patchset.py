"""Patches of one profile either fit together or are refused, and what they change is written down."""

import pytest

from b70ctl.core.patchset import brought
from b70ctl.core.place import Place
from b70ctl.errors import Refused, UsageError
from tests.making import SITE_PACKAGES, a_patch, a_profile, a_site, resolved, some_facts

FILE = "vllm/a.py"
PLACE = Place(site=a_site(), root="/srv/site")


def script(name, *touches, **more):
    return a_patch(edits=None, scripts=[{"file": f"{name}.py", "where": "there", "touches": list(touches)}], **more)


def overlay(**more):
    return a_patch(edits=None, overlays=[{"file": FILE, "source": "mine.py", "base": "a" * 64} | more])


def with_patches(patches, **more):
    return resolved(a_profile(patches=[*patches]), patches=patches, **more)


CHANGING = {"edits": a_patch(), "script": script("s", FILE), "overlay": overlay()}


@pytest.mark.parametrize(("kind", "source"), [("edits", None), ("script", "s.py"), ("overlay", "mine.py")])
def test_what_a_site_brings_for_a_patch_is_known_whatever_the_image(kind, source):
    found = [(order.source, order.sha256) for order in brought("x", CHANGING[kind], PLACE)]
    assert found == ([(f"/srv/site/patches/x/{source}", None)] if source else [])


@pytest.mark.parametrize("first", CHANGING)
@pytest.mark.parametrize("second", CHANGING)
def test_two_patches_on_one_file_are_refused_whatever_their_kinds(first, second):
    with pytest.raises(Refused, match=f"`one` and `two` both change {FILE}"):
        with_patches({"one": CHANGING[first], "two": CHANGING[second]})


def test_patches_of_two_files_are_fine():
    other = a_patch(edits=[{"file": "vllm/b.py", "old": "a", "new": "b"}])
    assert len(with_patches({"one": a_patch(), "two": other}).files) == 2


def test_scripts_that_say_so_may_share_a_file_in_their_order_and_in_no_other():
    patches = {"one": script("one", FILE), "two": script("two", FILE, after=["one"])}
    assert [order.name for order in with_patches(patches).files] == ["one", "two"]
    with pytest.raises(Refused, match="comes after") as refused:
        with_patches({"two": patches["two"], "one": patches["one"]})
    assert refused.value.hint == "in the profile's patches: one, two"


@pytest.mark.parametrize("other", ["edits", "overlay"])
@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_a_script_cannot_come_after_what_brings_the_whole_file(other, order):
    patches = {"one": CHANGING[other], "two": script("two", FILE, after=["one"])}
    with pytest.raises(Refused, match=f"both change {FILE}"):
        with_patches({name: patches[name] for name in order})


def test_what_comes_after_a_patch_may_also_stand_alone():
    assert with_patches({"two": script("two", FILE, after=["one"])}).files


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_an_exclusion_holds_whoever_names_it(order):
    patches = {"one": script("one", excludes={"two": "another family"}), "two": script("two")}
    with pytest.raises(Refused, match="exclude each other: another family"):
        with_patches({name: patches[name] for name in order})


def test_an_overlay_is_carried_from_the_sites_patch_folder_and_mounted_over_the_images_file():
    [order] = with_patches({"one": overlay(sha256="b" * 64)}).files
    assert (order.kind, order.source, order.sha256) == ("overlay", "/srv/site/patches/one/mine.py", "b" * 64)
    assert order.target == f"{SITE_PACKAGES}/{FILE}"
    assert order.to == f"files/one/{FILE}"


def test_every_changed_file_is_to_be_proven_with_the_markers_that_are_its_own():
    markers = [{"file": FILE, "text": "ONE"}]
    found = with_patches({"one": a_patch(markers=markers), "two": script("two", "vllm/b.py")}).changed
    assert [(each.patch, each.target, each.to, each.markers) for each in found] == [
        ("one", f"{SITE_PACKAGES}/{FILE}", f"files/one/{FILE}", ("ONE",)),
        ("two", f"{SITE_PACKAGES}/vllm/b.py", None, ()),
    ]


def test_a_script_needs_no_known_layout_to_be_rendered():
    deployment = with_patches({"two": script("two", FILE)}, facts=some_facts(site_packages=None))
    assert deployment.changed == ()
    assert [order.kind for order in deployment.files] == ["copy"]


def test_what_is_to_be_proven_is_no_part_of_what_runs():
    deployment = with_patches({"one": a_patch()})
    assert deployment.model_copy(update={"changed": ()}).digest == deployment.digest


def test_a_gate_that_the_profile_sets_otherwise_is_refused_and_the_same_value_is_not():
    patches = {"one": a_patch(env={"GATE": "1"})}
    for value in ("1", 1):
        profile = a_profile(patches=["one"], env={"GATE": value})
        assert resolved(profile, patches=patches).env["GATE"] == "1"
    with pytest.raises(UsageError, match=r"`env\.GATE` is 0, and patch `one` comes with 1"):
        resolved(a_profile(patches=["one"], env={"GATE": "0"}), patches=patches)


@pytest.mark.parametrize("name", ["draft", "mounts", "plugin", "tuning.json"])
def test_a_patch_does_not_lie_where_a_release_keeps_something_else(name):
    with pytest.raises(Refused, match=f"patch `{name}` has the name of what b70ctl itself") as refused:
        with_patches({name: a_patch()})
    assert refused.value.hint.startswith(f"mv patches/{name} ")


def test_what_is_asked_of_the_started_engine_about_patches_has_an_end():
    markers = [{"file": "vllm/a.py", "text": f"{number}" + "x" * 900} for number in range(200)]
    with pytest.raises(UsageError, match=r"a question of 1\d\d,\d{3} bytes"):
        resolved(a_profile(patches=["one"]), patches={"one": a_patch(markers=markers)})
    assert resolved(a_profile(patches=["one"]), patches={"one": a_patch(markers=markers[:100])}).changed
