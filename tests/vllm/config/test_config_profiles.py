"""What b70ctl runs for the shipped profiles, before real vLLM's argument parser and config, for an Intel card."""

from __future__ import annotations

from typing import Any

import pytest

from tests.vllm.config.answers import CHANGING, SUFFIX, WRONG, answers, asked_how, cases
from tests.vllm.config.commands import Asked, claims, is_served, meant_for, read, shipped
from tests.vllm.versions import CONFIG

pytestmark = pytest.mark.process
MEANT = [
    (version, name) for name in shipped() if (version := meant_for(read(Asked(name)))) and is_served(read(Asked(name)))
]


def answer(version: str, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = answers(version, asked_how(asked))[asked.name]
    return found


@pytest.mark.feature("profile: the shipped ones for it are taken", "ok")
@pytest.mark.parametrize(("version", "name"), MEANT)
def test_a_profile_is_taken_by_the_release_that_it_is_for(version: str, name: str) -> None:
    found = answer(version, Asked(name))
    assert found["stage"] == "accepted", found
    wanted = read(Asked(name))
    assert found["kv_cache_dtype"] == (wanted.engine.kv_cache_dtype or "auto")
    assert found["method"] == (wanted.speculative and wanted.speculative.method)


@pytest.mark.feature("profile: the shipped ones for it are taken", "ok")
@pytest.mark.parametrize(("version", "name"), MEANT)
def test_a_raised_limit_of_the_draft_is_the_one_that_vllm_reads(version: str, name: str) -> None:
    speculative = read(Asked(name)).speculative
    wanted = speculative.draft.overrides.get("max_position_embeddings") if speculative and speculative.draft else None
    if wanted:
        assert answer(version, Asked(name))["draft_limit"] == wanted
    else:
        assert answer(version, Asked(name))["stage"] == "accepted"


@pytest.mark.feature("config: what it has to refuse", "ok")
@pytest.mark.parametrize("asked", WRONG, ids=lambda asked: asked.name)
@pytest.mark.parametrize("version", CONFIG)
def test_what_no_vllm_may_take_is_refused(version: str, asked: Asked) -> None:
    assert answer(version, asked)["stage"] in ("argparse", "config")


@pytest.mark.feature("config: suffix decoding without arctic-inference", "refused")
@pytest.mark.parametrize("version", CONFIG)
def test_suffix_decoding_is_refused_without_its_package_and_taken_with_it(version: str) -> None:
    without, beside = answers(version, "patched")[SUFFIX.name], answer(version, SUFFIX)
    assert "rctic" in without["why"]
    assert "rctic" not in beside.get("why", "")


@pytest.mark.feature("lint: says what its argument parser and config say", "ok")
@pytest.mark.parametrize("asked", cases(), ids=lambda asked: asked.name)
@pytest.mark.parametrize("version", CONFIG)
def test_lint_and_vllm_agree_on_what_is_taken(version: str, asked: Asked) -> None:
    found, (errors, doubts) = answer(version, asked), claims(asked, version)
    refused = found["stage"] != "accepted"
    if errors:
        assert refused, f"lint says {errors}, and vLLM {version} takes it"
    elif refused and not doubts:
        assert asked not in (*WRONG, *CHANGING), f"lint says nothing, and vLLM {version} says: {found['why']}"
