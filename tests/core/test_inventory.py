"""An inventory tells the stack of both sides, tells on nobody, and two of them are compared place by place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.cli.doctoring import models
from b70ctl.core.inventory import (
    LAYERS,
    PYTHON,
    Software,
    as_inventory,
    differences,
    inventory,
    layers,
    software_of_answers,
    software_of_facts,
)  # fmt: skip
from b70ctl.errors import UsageError
from tests.making import some_facts
from tests.rewrite_hosts import MADE, Box

MODELS = models()
IMAGE = Software({"libze1": "1.28"}, {"torch": "2.14", "triton-xpu": "3.8", "triton": "3.0"}, {"ccl": "2022.1"})
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def made(name="one-b70", image=None, private=()):
    facts = MADE[name]() if isinstance(name, str) else name.facts()
    return inventory(facts, MODELS, Software(), image, version="1.0", private=private)


def test_every_layer_of_the_stack_has_both_sides():
    found = made(image=("a/b:1", IMAGE, "asked"))
    assert set(found["layers"]) == {*LAYERS, *PYTHON}
    assert found["layers"]["compute-runtime"] == {"host": "26.35.39758.10-1", "image": None}
    assert found["layers"]["PyTorch"] == {"host": None, "image": "2.14"}
    assert found["image"] == {"ref": "a/b:1", "source": "asked"}


def test_kernel_firmware_and_cards_are_told():
    found = made()
    assert found["host"]["kernel"] == "7.1.8-generic"
    [card] = found["cards"]
    assert (card["id"], card["name"], card["driver"], card["GuC"]) == ("8086:e223", "Arc Pro B70", "xe", "70.72.1")
    assert card["BAR 2 GiB"] == 32


@pytest.mark.parametrize("name", MADE)
def test_an_inventory_is_json_and_is_read_back_as_one(name):
    found = made(name)
    assert as_inventory(json.loads(json.dumps(found)), "x") == found


def test_triton_for_xpu_goes_before_the_one_that_it_replaces():
    assert layers(IMAGE)["Triton"] == "3.8"


def test_oneapi_folders_count_where_no_python_package_does():
    assert layers(IMAGE)["oneCCL"] == "2022.1"
    assert layers(Software({}, {"oneccl": "2022.2"}, {"ccl": "2021"}))["oneCCL"] == "2022.2"


def test_names_serials_and_secrets_are_taken_out_of_every_text():
    box = Box("7.1.8-workhorse")
    box.put("/proc/cmdline", "xe.note=serial:ABC12345 hf_token=hf_secret")
    text = json.dumps(made(box, image=("workhorse:5000/a/b:1", IMAGE, "asked"), private=["workhorse"]))
    assert "ABC12345" not in text
    assert "hf_secret" not in text
    assert ":5000/a/b:1" in text
    assert "workhorse:5000" not in text


def test_what_the_catalog_knows_of_an_image_is_its_side():
    found = layers(software_of_facts(some_facts(torch="2.13", compute_runtime="26.18")))
    assert (found["vLLM"], found["PyTorch"], found["compute-runtime"], found["IGC"]) == (
        "0.21.0",
        "2.13",
        "26.18",
        None,
    )


@given(st.dictionaries(st.sampled_from(["python", "oneapi", "dpkg", "x"]), json_values))
def test_whatever_a_python_answers_is_layers(answers):
    assert set(layers(software_of_answers(answers))) == {*LAYERS, *PYTHON}


# -- differences -------------------------------------------------------------------------------------------------------


@given(json_values)
def test_equal_values_do_not_differ(value):
    assert differences(value, json.loads(json.dumps(value))) == []


@given(json_values, json_values)
def test_values_that_differ_do_so_both_ways(before, after):
    there = differences({"v": before}, {"v": after})
    back = differences({"v": after}, {"v": before})
    assert sorted(each.where for each in there) == sorted(each.where for each in back)


def test_a_difference_is_told_by_its_place():
    before = made()
    after = json.loads(json.dumps(before))
    after["layers"]["IGC"]["host"] = "2.0"
    after["cards"] = []
    found = differences(before, after)
    assert [each.where for each in found] == ["cards[0]", "layers.IGC.host"]
    assert (found[1].before, found[1].after) == ("2.41.5", "2.0")


def test_one_is_not_true():
    assert len(differences(1, True)) == 1


@pytest.mark.parametrize("value", [None, [], {}, {"inventory": 2}, "x", {"inventory": "1"}])
def test_what_is_no_inventory_is_refused(value):
    with pytest.raises(UsageError, match="not an inventory"):
        as_inventory(value, "mine.json")
