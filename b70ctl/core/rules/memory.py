"""Rules about memory, batches and the kinds of model that this card is particular about."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.rules.case import Case, Remark, Rule, error, note, warning

MOST_SHARE = 0.97
SAFE_SHARE = 0.95
BIG_STEP = 32768
MAMBA_BLOCK = 1600


def memory_share(case: Case) -> Iterable[Remark]:
    """Some of the card is left to others."""
    share = case.profile.engine.gpu_memory_utilization
    if share is None or share <= SAFE_SHARE:
        return
    where, hint = "engine.gpu_memory_utilization", f"engine.gpu_memory_utilization: {SAFE_SHARE}"
    if share > MOST_SHARE:
        yield error(where, f"{share} leaves nothing for what is not planned: nobody served above {MOST_SHARE}", hint)
    else:
        yield warning(where, f"{share}: above {SAFE_SHARE} several boxes crashed under concurrent prefill", hint)


def step_size(case: Case) -> Iterable[Remark]:
    """A step holds at least one token of each sequence, and not so many that activations eat the KV cache."""
    engine = case.profile.engine
    step = engine.max_num_batched_tokens
    where = "engine.max_num_batched_tokens"
    if step is None:
        return
    if engine.max_num_seqs is not None and step < engine.max_num_seqs:
        yield error(where, f"{step} tokens in a step are fewer than {engine.max_num_seqs} sequences", None)
    if case.flag("enable-chunked-prefill") is False and step < (engine.max_model_len or 0):
        yield error(
            where,
            f"without chunked prefill a step of {step} tokens cannot take a prompt of {engine.max_model_len}",
            f"{where}: {engine.max_model_len}, or drop engine.flags.enable-chunked-prefill",
        )
    if step > BIG_STEP:
        yield note(where, f"a step of {step} tokens is profiled at start: its activations come out of the KV pool")


def aligned_step(case: Case) -> Iterable[Remark]:
    """A hybrid with prefix caching needs steps of at least one block of its state."""
    engine = case.profile.engine
    step = engine.max_num_batched_tokens
    if case.hybrid and engine.enable_prefix_caching and step is not None and step < MAMBA_BLOCK:
        yield error(
            "engine.max_num_batched_tokens",
            f"a hybrid's state is cached in blocks of about {MAMBA_BLOCK} tokens, and {step} is less than one",
            "engine.max_num_batched_tokens: 2048",
        )


def gptq_dtype(case: Case) -> Iterable[Remark]:
    """GPTQ runs in half precision before 0.22."""
    dtype = case.profile.engine.dtype
    if not case.gptq or case.vllm(">=0.22"):
        return
    if dtype == "bfloat16":
        yield error("engine.dtype", f"GPTQ in vLLM {case.version} refuses bfloat16", "engine.dtype: float16")
    elif dtype in (None, "auto"):
        yield warning(
            "engine.dtype",
            f"GPTQ in vLLM {case.version} takes float16 only, and a checkpoint may say bfloat16",
            "engine.dtype: float16",
        )


def hybrid_prefix_caching(case: Case) -> Iterable[Remark]:
    """A hybrid does not cache prefixes in 0.21."""
    if case.hybrid and case.profile.engine.enable_prefix_caching and case.vllm(">=0.21,<0.22"):
        yield error(
            "engine.enable_prefix_caching",
            f"in vLLM {case.version} prefix caching puts a hybrid's state into align mode, which crashed here",
            "engine.enable_prefix_caching: false",
        )


def hybrid_compile(case: Case) -> Iterable[Remark]:
    """A hybrid is not compiled in 0.21."""
    if case.hybrid and not case.profile.engine.enforce_eager and case.vllm(">=0.21,<0.22"):
        yield warning(
            "engine.enforce_eager",
            f"in vLLM {case.version} torch.compile hung for more than 20 minutes on linear-attention layers",
            "engine.enforce_eager: true",
        )


def hybrid_turboquant(case: Case) -> Iterable[Remark]:
    """TurboQuant takes hybrids from 0.21 on."""
    if case.hybrid and case.turboquant and case.vllm("<0.21"):
        yield error(
            "engine.kv_cache_dtype",
            f"TurboQuant in vLLM {case.version} does not take models with linear-attention layers",
            "engine.kv_cache_dtype: fp8",
        )


def sleep_mode(case: Case) -> Iterable[Remark]:
    """Sleep mode costs graphs from 0.31 on."""
    if case.flag("enable-sleep-mode") and case.vllm(">=0.31"):
        yield warning(
            "engine.flags.enable-sleep-mode",
            f"vLLM {case.version} captures no graphs on XPU with sleep mode on, so decoding is slower",
            "enable-sleep-mode: null",
        )


RULES = (
    Rule("memory-share", "0.96 and 0.97 were tried and given up on other boxes", memory_share),
    Rule("step-size", "vLLM checks the one, and out of memory is the other", step_size),
    Rule("aligned-step", "vLLM refuses it at start", aligned_step),
    Rule("gptq-dtype", "the kernels of that time are for half precision", gptq_dtype),
    Rule("hybrid-prefix-caching", "TypeError: object of type 'NoneType' has no len()", hybrid_prefix_caching),
    Rule("hybrid-compile", "seen with Qwen3.5 in July 2026", hybrid_compile),
    Rule("hybrid-turboquant", "NotImplementedError while vLLM reads its arguments", hybrid_turboquant),
    Rule("sleep-mode", "platforms/xpu.py of 0.31 turns graphs off", sleep_mode),
)
