"""Rules about speculative decoding, and about TurboQuant together with it."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.rules.case import Case, Remark, Rule, error, note, warning

SYNCHRONOUS = frozenset({"ngram", "suffix", "medusa", "mlp_speculator", "custom_class"})
"""Methods for which vLLM turns asynchronous scheduling off by itself."""
ARCTIC = "arctic-inference==0.1.1"

PUBLISHED = ("intel/vllm", "vllm/vllm-openai-xpu", "intel/llm-scaler-vllm")
"""Repositories whose images are known to come without arctic-inference."""

PIECEWISE = "{cudagraph_mode: PIECEWISE}"


def turboquant_graphs(case: Case) -> Iterable[Remark]:
    """TurboQuant may not verify drafts inside a full graph, unless its backend was made for that."""
    full = case.graphs and case.vllm(">=0.22") and case.graph_mode != "PIECEWISE"
    if not (case.turboquant and case.method and full):
        return
    if not case.ours:
        yield error(
            "engine.enforce_eager",
            f"TurboQuant verifies drafts wrongly inside full graphs, which vLLM {case.version} captures here: "
            "the answers repeat themselves or are garbage",
            f"engine.enforce_eager: true, or engine.flags.compilation-config: {PIECEWISE}",
        )
    elif case.kernels and not case.kernels.full_graphs:
        yield warning(
            "engine.enforce_eager",
            f"{case.kernels.name} does not say that its backend verifies drafts inside full graphs, which vLLM "
            f"{case.version} captures here",
            f"engine.flags.compilation-config: {PIECEWISE}",
        )


def turboquant_async(case: Case) -> Iterable[Remark]:
    """TurboQuant may not be given optimistic lengths; our kernels read the exact ones on the card."""
    asynchronous = not _synchronous(case) and case.flag("async-scheduling") is not False
    if case.turboquant and case.method and asynchronous and case.vllm(">=0.21") and not case.ours:
        yield error(
            "engine.flags.async-scheduling",
            "with asynchronous scheduling TurboQuant reads upper bounds as lengths: after a rejected draft its rows "
            "attend to slots that are not theirs",
            "engine.flags.async-scheduling: false; or kernels: b70, which reads exact lengths on the card",
        )


def turboquant_workspace(case: Case) -> Iterable[Remark]:
    """TurboQuant's workspace may not have to grow after graphs are captured; our kernels' does not."""
    if case.turboquant and case.graphs and case.vllm(">=0.21,<0.24") and not case.ours:
        yield error(
            "env.VLLM_XPU_ENABLE_XPU_GRAPH",
            f"TurboQuant in vLLM {case.version} stops with an assertion at the first long continuation once graphs "
            "are captured",
            "leave graphs off: VLLM_XPU_ENABLE_XPU_GRAPH: null; or kernels: b70, whose workspace does not grow",
        )


def turboquant_rows(case: Case) -> Iterable[Remark]:
    """The 0.19 overlay serves one request at a time at full length; what our kernels do there nobody measured."""
    engine = case.profile.engine
    many = engine.max_num_seqs is None or engine.max_num_seqs > 1
    if case.turboquant and case.vllm("<0.20") and many and (engine.max_model_len or 0) >= 262144:
        ours = "; that was with the overlays, and with our kernels nobody tried" if case.ours else ""
        yield warning(
            "engine.max_num_seqs",
            f"with 4 sequences at 262144 the first prompt ran out of memory on one card{ours}",
            "engine.max_num_seqs: 1",
        )


def suffix_package(case: Case) -> Iterable[Remark]:
    """Suffix decoding needs a package that no published image has."""
    if case.method != "suffix":
        return
    ref = case.profile.image.ref
    asked = case.facts.arctic_inference if case.facts else None
    if asked == "absent" or (asked is None and ref.partition("@")[0].partition(":")[0] in PUBLISHED):
        yield error(
            "speculative.method",
            f"suffix decoding needs {ARCTIC}, which {ref} does not have: vLLM stops at the config",
            f"build an image of your own, FROM {ref} and RUN pip install {ARCTIC}; or speculative.method: ngram",
        )
    elif asked is None:
        yield note("speculative.method", f"suffix decoding needs {ARCTIC} inside {ref}", f"b70ctl images probe {ref}")


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
    if case.method == "ngram" and _synchronous(case) and (rows is None or rows > 4):
        yield warning(
            "engine.max_num_seqs",
            "prompt lookup turns asynchronous scheduling off: a gain up to 4 sequences, 45 % less than no "
            "speculation at 12",
            "engine.max_num_seqs: 4, or speculative.method: eagle3",
        )


def asked_async(case: Case) -> Iterable[Remark]:
    """Asynchronous scheduling may not be asked for where the method cannot have it."""
    if case.profile.speculative is None or case.flag("async-scheduling") is not True:
        return
    unpadded = case.profile.speculative.options.get("disable_padded_drafter_batch") is True
    if _synchronous(case) or (unpadded and not _second_runner(case)):
        what = f"`{case.method}`" if _synchronous(case) else "`disable_padded_drafter_batch`"
        yield error(
            "engine.flags.async-scheduling",
            f"vLLM refuses asynchronous scheduling together with {what}",
            "async-scheduling: null",
        )


def _synchronous(case: Case) -> bool:
    """Whether vLLM schedules step by step for this method."""
    return case.method in SYNCHRONOUS and not (case.method == "ngram" and _second_runner(case))


def _second_runner(case: Case) -> bool:
    """Whether the V2 model runner serves, and looks a prompt up while it schedules ahead, as it does from 0.33 on."""
    return case.vllm(">=0.33") and case.may_run_v2


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
    Rule("measured-depth", "a depth copied from another model was often the slower one", measured_depth),
    Rule("capture-sizes", "verification runs on groups of one token and its drafts", capture_sizes),
)
