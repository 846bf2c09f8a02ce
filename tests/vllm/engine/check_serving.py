"""A real vLLM is switched to, proven, measured and switched away from, with drafts that are really accepted.

In order: each check finds the engine that the one before it left.
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from packaging.version import Version

from b70ctl.core.bootfacts import BootFacts
from b70ctl.core.probes import NAMES
from tests.vllm.engine.conftest import COMMIT, HUB
from tests.vllm.engine.serving import DRAFT, TOKENS, Served, eagle3, models
from tests.vllm.lesson import DRAFT_LIMIT, LENGTH, count_again

LIFT = {"max_position_embeddings": LENGTH}
LOOKUP = {"method": "ngram", "num_speculative_tokens": TOKENS,
          "options": {"prompt_lookup_max": 4, "prompt_lookup_min": 2}}  # fmt: skip

SILENT = "draft: with the V1 runner a short EAGLE-3 draft is silent beyond its limit"
WHOLE = "draft: one long request silences drafting for its batch"
OVERRIDDEN = "draft: an override lifts its limit"


def boot(verdict: dict[str, Any]) -> BootFacts:
    return BootFacts.from_dict(verdict["boot"])


def makes_the_table_longer(served: Served) -> bool:
    """Whether vLLM says that it lifts the draft: its table it does, and the V1 model runner stops all the same."""
    return Version(served.found.version) >= Version("0.27")


def test_a_model_is_proven_by_every_probe(served: Served) -> None:
    served.write("plain")
    served.switch("plain")
    verdict = served.proven("plain")
    asked = [finding["probe"] for finding in verdict["findings"]]
    # the first prompt is a long one: a short one has killed workers; nothing is asked by or agreed with
    assert asked == [name for name in NAMES if name not in ("expect", "agreement")]
    facts = boot(verdict)
    assert facts.vllm_version == served.found.version
    assert facts.enforce_eager is True
    assert None not in (facts.kv_tokens, facts.max_concurrency, facts.init_seconds)
    assert facts.concurrency_length == LENGTH
    served.note("engine: switched to and proven by every probe", f"{len(asked)} probes, {verdict['seconds']:.0f} s")
    served.note("engine: boot facts are read off the log", f"{facts.kv_tokens:,} KV tokens")


def test_what_cannot_work_is_refused_and_the_engine_stays(served: Served) -> None:
    served.write("suffix", {"method": "suffix", "num_speculative_tokens": TOKENS})
    before = served.site.serving()
    assert "arctic-inference" in served.site.run("switch", "suffix", "--yes").exits(1).err
    assert served.site.serving() == before
    assert served.endpoint.healthy()
    served.note("draft: suffix without arctic-inference", outcome="refused")


def test_prompt_lookup_is_accepted_where_the_answer_stands_in_the_prompt(served: Served) -> None:
    served.write("ngram", LOOKUP)
    served.switch("ngram")
    served.proven("ngram")
    found = served.counted("ngram", count_again())
    assert found.right
    assert found.accepted is not None
    assert found.accepted > 1
    served.note("draft: ngram is accepted", f"{found.accepted:.2f} of {TOKENS} accepted")


def test_a_draft_ends_at_its_own_limit(served: Served) -> None:
    served.write("short", eagle3({"path": DRAFT}))
    told = served.site.run("profiles", "lint", "short")
    assert "draft-limit" in told.out, str(told)
    served.switch("short")
    facts = boot(served.proven("short"))
    below, beyond = served.below("short"), served.beyond("short")
    assert below.right
    assert beyond.right
    assert below.accepted is not None
    assert below.accepted > 0.5
    served.note("draft: EAGLE-3 is accepted below its limit", f"{below.accepted:.2f} of {TOKENS}")
    assert beyond.accepted == 0
    assert facts.draft_position_limit == (LENGTH if makes_the_table_longer(served) else None)
    served.note(SILENT, f"0 of {TOKENS} accepted past {DRAFT_LIMIT} tokens")


def test_one_long_request_silences_drafting_for_its_whole_batch(served: Served) -> None:
    with served.beside_a_long_one("short"):
        found = served.below("short")
    assert found.right
    assert found.accepted == 0
    served.note(WHOLE, f"0 of {TOKENS} accepted of a short one while a long one ran")


@pytest.mark.parametrize("kind", ["directory", "hub snapshot"])
def test_an_override_lifts_the_limit_and_leaves_the_file_as_it_is(served: Served, kind: str) -> None:
    name = f"lifted-{kind.split()[0]}"
    draft = {"path": DRAFT} if kind == "directory" else {"hub": HUB}
    served.write(name, eagle3({**draft, "overrides": LIFT}))
    before = files(served)
    served.switch(name)
    served.proven(name)
    below, beyond = served.below(name), served.beyond(name)
    assert below.right
    assert beyond.right
    assert below.accepted is not None
    assert below.accepted > 0.5
    assert beyond.accepted is not None
    assert beyond.accepted > 0.5
    assert files(served) == before
    note = f"{below.accepted:.2f} of {TOKENS} below {DRAFT_LIMIT} tokens, {beyond.accepted:.2f} beyond"
    served.note(f"{OVERRIDDEN}: a {kind}", note)


def files(served: Served) -> dict[str, str]:
    """The draft's files by their hash, in the directory and in the hub's cache."""
    folders = (models() / DRAFT, served.site.root / "hf" / "hub" / "models--tiny--draft")
    found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    assert any(COMMIT in str(path) for path in found)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def test_an_fp8_cache_holds_twice_as_much_and_answers_alike(served: Served) -> None:
    # the plugin is loaded beside it, and is not called: processors have an attention of their own
    served.write("fp8", kernels="b70", kv_cache_dtype="fp8")
    served.switch("fp8")
    facts = boot(served.proven("fp8"))
    plain = boot(served.site.verdict(served.site.release("plain")))
    assert facts.kv_tokens is not None
    assert plain.kv_tokens is not None
    assert facts.kv_tokens > 1.9 * plain.kv_tokens
    assert str(facts.kernels).startswith("b70_kernels")
    assert len(facts.kernels_in) > 1
    served.note("engine: the plugin is in use in every process", ", ".join(facts.kernels_in))
    served.note("engine: fp8 KV cache", f"{facts.kv_tokens:,} KV tokens, {plain.kv_tokens:,} with two bytes")


def test_the_way_back_is_proven_too(served: Served) -> None:
    served.site.run("rollback", "--yes", timeout=1500).exits(0)
    served.proven("lifted-hub")
    served.note("engine: rolled back to what served before, and proven again")
