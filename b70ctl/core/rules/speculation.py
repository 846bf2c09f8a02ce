"""Rules about speculative decoding, and about TurboQuant together with it."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.rules.case import Case, Remark, Rule, error, note, warning

SYNCHRONOUS = frozenset({"ngram", "suffix"})
"""Methods for which vLLM turns asynchronous scheduling off by itself."""

NEEDS_DRAFT = frozenset({"eagle", "eagle3", "draft_model", "dflash", "dspark"})
PUBLISHED = ("intel/vllm", "vllm/vllm-openai-xpu", "intel/llm-scaler-vllm")
"""Repositories whose images are known to come without arctic-inference."""

PIECEWISE = "{cudagraph_mode: PIECEWISE}"


def turboquant_graphs(case: Case) -> Iterable[Remark]:
    """TurboQuant may not verify drafts inside a full graph."""
    full = case.graphs and case.vllm(">=0.22") and case.graph_mode != "PIECEWISE"
    if case.turboquant and case.method and full:
        yield error(
            "engine.enforce_eager",
            f"TurboQuant verifies drafts wrongly inside full graphs, which vLLM {case.version} captures here: "
            "the answers repeat themselves or are garbage",
            f"engine.enforce_eager: true, or engine.flags.compilation-config: {PIECEWISE}",
        )


def turboquant_async(case: Case) -> Iterable[Remark]:
    """TurboQuant may not be given optimistic lengths."""
    asynchronous = case.method not in SYNCHRONOUS and case.flag("async-scheduling") is not False
    if case.turboquant and case.method and asynchronous and case.vllm(">=0.21"):
        yield error(
            "engine.flags.async-scheduling",
            "with asynchronous scheduling TurboQuant reads upper bounds as lengths: after a rejected draft its rows "
            "attend to slots that are not theirs",
            "engine.flags.async-scheduling: false",
        )


def turboquant_workspace(case: Case) -> Iterable[Remark]:
    """TurboQuant's workspace may not have to grow after graphs are captured."""
    if case.turboquant and case.graphs and case.vllm(">=0.21,<0.24"):
        yield error(
            "env.VLLM_XPU_ENABLE_XPU_GRAPH",
            f"TurboQuant in vLLM {case.version} stops with an assertion at the first long continuation once graphs "
            "are captured",
            "leave graphs off: VLLM_XPU_ENABLE_XPU_GRAPH: null",
        )


def turboquant_rows(case: Case) -> Iterable[Remark]:
    """The 0.19 overlay serves one request at a time at full length."""
    engine = case.profile.engine
    many = engine.max_num_seqs is None or engine.max_num_seqs > 1
    if case.turboquant and case.vllm("<0.20") and many and (engine.max_model_len or 0) >= 262144:
        yield warning(
            "engine.max_num_seqs",
            "with 4 sequences at 262144 the first prompt ran out of memory on one card",
            "engine.max_num_seqs: 1",
        )


def suffix_package(case: Case) -> Iterable[Remark]:
    """Suffix decoding needs a package that no published image has."""
    if case.method != "suffix":
        return
    ref = case.profile.image.ref
    if ref.partition("@")[0].partition(":")[0] in PUBLISHED:
        yield error(
            "speculative.method",
            f"suffix decoding needs arctic-inference==0.1.1, which {ref} does not have: vLLM stops at the config",
            "an image of your own on top of it, or speculative.method: ngram",
        )
    else:
        yield note("speculative.method", f"suffix decoding needs arctic-inference==0.1.1 inside {ref}")


def suffix_rows(case: Case) -> Iterable[Remark]:
    """Suffix decoding deadlocks with many sequences."""
    rows = case.profile.engine.max_num_seqs
    if case.method == "suffix" and (rows is None or rows >= 16):
        said = "vLLM's own default is higher" if rows is None else f"{rows} are allowed"
        say = warning if rows is None else error
        yield say("engine.max_num_seqs", f"suffix decoding deadlocks on XPU from 16 sequences on; {said}",
                  "engine.max_num_seqs: 12")  # fmt: skip


def ngram_rows(case: Case) -> Iterable[Remark]:
    """Prompt lookup loses with more than a few sequences."""
    rows = case.profile.engine.max_num_seqs
    if case.method == "ngram" and (rows is None or rows > 4):
        yield warning(
            "engine.max_num_seqs",
            "prompt lookup turns asynchronous scheduling off: a gain up to 4 sequences, 45 % less than no "
            "speculation at 12",
            "engine.max_num_seqs: 4, or speculative.method: eagle3",
        )


def asked_async(case: Case) -> Iterable[Remark]:
    """Asynchronous scheduling may not be asked for where the method cannot have it."""
    if case.method in SYNCHRONOUS and case.flag("async-scheduling") is True:
        yield error(
            "engine.flags.async-scheduling",
            f"vLLM refuses asynchronous scheduling together with `{case.method}`",
            "async-scheduling: null",
        )


def draft_given(case: Case) -> Iterable[Remark]:
    """A method has a draft when it needs one, and none when it does not."""
    speculative = case.profile.speculative
    if speculative is None:
        return
    if speculative.method in NEEDS_DRAFT and speculative.draft is None:
        yield error("speculative.draft", f"`{speculative.method}` needs a draft model", "speculative.draft.path: …")
    if speculative.method in SYNCHRONOUS and speculative.draft is not None:
        yield warning("speculative.draft", f"`{speculative.method}` has no use for a draft model", "draft: null")


def draft_limit(case: Case) -> Iterable[Remark]:
    """The draft reaches as far as the model."""
    draft = case.profile.speculative.draft if case.profile.speculative else None
    if draft is None or case.method not in NEEDS_DRAFT:
        return
    lifted = draft.overrides.get("max_position_embeddings")
    limit = lifted if isinstance(lifted, int) else case.draft_limit
    wanted = case.profile.engine.max_model_len
    where = "speculative.draft.overrides.max_position_embeddings"
    if case.vllm(">=0.27"):
        if lifted is not None:
            yield note(where, f"vLLM {case.version} lifts the draft's limit itself", "max_position_embeddings: null")
    elif limit is None:
        yield note(where, "how far the draft reaches is not known: EAGLE-3 heads often say 2048, and one longer "
                   "request stops drafting for the whole batch")  # fmt: skip
    elif wanted is None or limit < wanted:
        yield warning(
            where,
            f"the draft ends at {limit} tokens, the model at {wanted or 'its own limit'}: one longer request stops "
            "drafting for the whole batch",
            f"max_position_embeddings: {wanted}" if wanted else None,
        )


def measured_depth(case: Case) -> Iterable[Remark]:
    """The number of draft tokens is this model's own."""
    method = case.method or ""
    if (method == "mtp" or method.endswith("_mtp")) and not case.profile.evidence:
        yield note(
            "speculative.num_speculative_tokens",
            "the best MTP depth differs by model, quantisation and use (1 to 5 were each best somewhere), and no "
            "figure here says that this one was measured",
        )


def capture_sizes(case: Case) -> Iterable[Remark]:
    """Graphs are captured for whole groups of draft tokens."""
    speculative, sizes = case.profile.speculative, case.profile.engine.flags.get("cudagraph-capture-sizes")
    if speculative is None or not isinstance(sizes, list):
        return
    group = speculative.num_speculative_tokens + 1
    odd = [size for size in sizes if isinstance(size, int) and size % group]
    if odd:
        yield warning(
            "engine.flags.cudagraph-capture-sizes",
            f"{odd[0]} is not a multiple of {group}, one token and its drafts: such graphs have answered `!!!!`",
            f"cudagraph-capture-sizes: {[group * count for count in (1, 2, 4)]}",
        )


RULES = (
    Rule("turboquant-graphs", "vllm issues 40831, 40880, 52475, 53180", turboquant_graphs),
    Rule("turboquant-async", "its lengths are upper bounds while drafts are unverified", turboquant_async),
    Rule("turboquant-workspace", "vllm issues 41565, 43357, 41726", turboquant_workspace),
    Rule("turboquant-rows", "the profiled peak grows with the number of sequences", turboquant_rows),
    Rule("suffix-package", "vLLM imports arctic-inference while it checks its config", suffix_package),
    Rule("suffix-rows", "seen in production in July 2026", suffix_rows),
    Rule("ngram-rows", "measured in July 2026: +24 % at C=1, -45 % at C=12", ngram_rows),
    Rule("asked-async", "a hard error in vLLM's config", asked_async),
    Rule("draft-given", "vLLM stops without it", draft_given),
    Rule("draft-limit", "before 0.27 vLLM zeroes all drafts of a batch past the draft's limit", draft_limit),
    Rule("measured-depth", "a depth copied from another model was often the slower one", measured_depth),
    Rule("capture-sizes", "verification runs on groups of one token and its drafts", capture_sizes),
)
