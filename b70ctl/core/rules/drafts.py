"""Rules about the draft of a speculative method: that there is one, and how far it reaches."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.draft import LIMIT, draft_of, lifted
from b70ctl.core.rules.case import Case, Remark, Rule, error, note, warning

SILENT = "one longer request stops drafting for the whole batch, and costs what drafting costs"
NEEDS_DRAFT = frozenset({"eagle", "eagle3", "draft_model", "dflash", "dspark"})
HAS_NO_DRAFT = frozenset({"ngram", "ngram_gpu", "suffix"})
CACHE_ONLY = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
"""Encodings of positions that vLLM 0.33 makes longer by itself: the limit of these only sizes a table."""


def draft_given(case: Case) -> Iterable[Remark]:
    """A method has a draft when it needs one, and none when it does not."""
    speculative = case.profile.speculative
    if speculative is None:
        return
    if speculative.method in NEEDS_DRAFT and speculative.draft is None:
        yield error("speculative.draft", f"`{speculative.method}` needs a draft model", "speculative.draft.path: …")
    if speculative.method in HAS_NO_DRAFT and speculative.draft is not None:
        yield warning("speculative.draft", f"`{speculative.method}` has no use for a draft model", "draft: null")


def draft_limit(case: Case) -> Iterable[Remark]:
    """The draft reaches as far as the model."""
    speculative = case.profile.speculative
    draft = draft_of(case.profile)
    if speculative is None or draft is None or speculative.method not in NEEDS_DRAFT:
        return
    # where the config is known, only the key that it has lifts anything
    known = case.draft.limit is not None
    given = lifted({key: value for key, value in draft.overrides.items() if not known or key == case.draft.key})
    wanted, limit = case.profile.engine.max_model_len, given or case.draft.limit
    where = f"speculative.draft.overrides.{case.draft.key}"
    if _lifts_itself(case, speculative.method):
        if given is not None:
            told = f"vLLM {case.version} lifts the draft's limit itself with its V2 model runner, the one that serves"
            yield note(where, f"{told} unless a setting needs V1; the override does no harm")
    elif limit is None:
        yield note(where, f"how far the draft reaches is not known: EAGLE-3 heads often say 2048, and {_beyond(case)}")
    elif wanted is None or limit < wanted:
        yield warning(
            where,
            f"the draft ends at {limit} tokens, the model at {wanted or 'its own limit'}: {_beyond(case)}",
            f"{case.draft.key}: {wanted}" if wanted else None,
        )


def draft_length(case: Case) -> Iterable[Remark]:
    """The draft is not held shorter than the model by an option."""
    speculative, wanted = case.profile.speculative, case.profile.engine.max_model_len
    given = speculative.options.get("max_model_len") if speculative else None
    if isinstance(given, int) and (wanted is None or given < wanted):
        yield warning(
            "speculative.options.max_model_len",
            f"the draft is held to {given} tokens, the model reaches {wanted or 'its own limit'}: {SILENT}",
            "max_model_len: null",
        )


def draft_moves(case: Case) -> Iterable[Remark]:
    """A hub draft is the same one tomorrow."""
    draft = draft_of(case.profile)
    if draft and draft.hub and draft.revision is None and not draft.overrides:
        yield note("speculative.draft.revision", f"{draft.hub} may change without a revision")


def draft_fetched(case: Case) -> Iterable[Remark]:
    """A config that is changed is not fetched anew while the engine boots."""
    draft = draft_of(case.profile)
    if draft and draft.hub and draft.overrides and case.profile.boot.download:
        yield note(
            "boot.download",
            f"{draft.hub} is overridden as it lies in the cache now: a later commit of it is not fetched",
        )


def _beyond(case: Case) -> str:
    """What becomes of a request that is longer than the draft."""
    if case.vllm(">=0.33") and _runs_v2(case):
        return f"vLLM {case.version} then serves the model no further than the draft"
    if case.vllm(">=0.22") and case.may_run_v2:
        then = "reads past the end of its tables" if not case.vllm(">=0.27") else "reaches as far as the model, or not"
        return f"{SILENT}; with the V2 model runner the draft {then}"
    return SILENT


def _lifts_itself(case: Case, method: str) -> bool:
    """Whether vLLM goes on with the draft past its limit.

    From 0.27 on it makes the draft's table as long as the model, but the V1 model runner still stops at the limit.
    """
    if not _runs_v2(case):
        return False
    if case.vllm(">=0.33"):
        return method != "draft_model" and case.draft.ropes <= CACHE_ONLY
    return method in ("eagle", "eagle3")


def _runs_v2(case: Case) -> bool:
    """Whether the V2 model runner serves; before 0.30 that depends on the model's architecture."""
    return case.vllm(">=0.30") and case.may_run_v2


RULES = (
    Rule("draft-given", "vLLM stops without it", draft_given),
    Rule("draft-limit", f"the V1 model runner zeroes all drafts of a batch past the draft's {LIMIT}", draft_limit),
    Rule("draft-length", "vLLM skips the draft beyond it; it is meant for tests of just that", draft_length),
    Rule("moving-draft", "a hub repository changes under its name", draft_moves),
    Rule("fetched-draft", "the changed config belongs to one commit", draft_fetched),
)
