"""Rules about what a vLLM release accepts at all."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.profile import Engine
from b70ctl.core.rules.case import Case, Remark, Rule, error, warning
from b70ctl.core.rules.flagtable import Verdict
from b70ctl.core.strict import FlagValue

OVERLAYS = (
    "/vllm/config/cache.py",
    "/vllm/v1/attention/backends/registry.py",
    "/vllm/v1/attention/backends/turboquant_attn.py",
)
"""Files without which vLLM 0.19 cannot even name TurboQuant."""

OWNED = {
    "host": "the site's `bind`", "port": "the site's `port`", "model": "`model.path` or `model.hub`",
    "served-model-name": "`model.served_names`", "revision": "`model.revision`",
    "speculative-config": "`speculative`", "shutdown-timeout": "b70ctl, together with the stop grace",
    "enable-auto-tool-choice": "`engine.tool_call_parser`", "spec-method": "`speculative.method`",
    "spec-model": "`speculative.draft`", "spec-tokens": "`speculative.num_speculative_tokens`",
} | {name.replace("_", "-"): f"`engine.{name}`" for name in Engine.model_fields if name != "flags"}  # fmt: skip
"""Flags that are set elsewhere, and where."""

EXPLAINED = frozenset({"calculate-kv-scales"})
"""Flags that a rule of their own speaks about."""

SECRET = {"api-key": "VLLM_API_KEY", "hf-token": "HF_TOKEN"}


def _refused(verdict: Verdict, where: str, hint: str | None = None) -> Iterable[Remark]:
    if verdict.answer != "yes":
        yield (error if verdict.answer == "no" else warning)(where, verdict.because, hint)


def unknown_flag(case: Case) -> Iterable[Remark]:
    """Every further flag exists in that release."""
    for name, value in case.profile.engine.flags.items():
        if name.removeprefix("no-") in OWNED or name in SECRET or name in EXPLAINED:
            continue
        word = f"no-{name}" if value is False else name
        yield from _refused(case.flags.flag(word, case.version), f"engine.flags.{name}")


def flag_value(case: Case) -> Iterable[Remark]:
    """A flag that takes a value has one, and a bare flag has none."""
    for name, value in case.profile.engine.flags.items():
        elsewhere = name.removeprefix("no-") in OWNED or name in SECRET or "." in name
        if not elsewhere and case.flags.flag(name, case.version).answer != "no":
            yield from _shape(case, name, value)


def _shape(case: Case, name: str, value: FlagValue) -> Iterable[Remark]:
    where = f"engine.flags.{name}"
    bare = value is None or isinstance(value, bool)
    if case.flags.is_bare(name, case.version):
        if not bare:
            yield error(where, f"`--{name}` takes no value, {value!r} was given", f"{name}: true")
    elif bare:
        yield error(where, f"`--{name}` takes a value", None)
    elif isinstance(value, str):
        yield from _refused(case.flags.choice(name, value, case.version), where)


def owned_flag(case: Case) -> Iterable[Remark]:
    """A flag with a key of its own is set by that key."""
    for name in case.profile.engine.flags:
        bare = name.removeprefix("no-")
        if bare in OWNED:
            yield error(f"engine.flags.{name}", f"`--{name}` is set by {OWNED[bare]}", "remove it from engine.flags")


def secret_flag(case: Case) -> Iterable[Remark]:
    """No secret stands on a command line, which every user of the box can read."""
    for name in case.profile.engine.flags.keys() & SECRET.keys():
        yield error(
            f"engine.flags.{name}",
            f"`--{name}` would show the secret to every user of the box",
            f"in site.yaml: secrets: {{{SECRET[name]}: {{file: …}}}}",
        )


def kv_cache_dtype(case: Case) -> Iterable[Remark]:
    """The KV cache type exists in that release, or its overlay is mounted."""
    dtype = case.profile.engine.kv_cache_dtype
    if dtype is None:
        return
    if case.turboquant and case.vllm("<0.20"):
        # 0.19 is taught what 0.20 brings, or has its overlay
        if case.flags.choice("kv-cache-dtype", dtype, "0.20.2").answer == "no":
            yield error("engine.kv_cache_dtype", f"TurboQuant has no cache `{dtype}`",
                        "engine.kv_cache_dtype: turboquant_k8v4")  # fmt: skip
        return
    verdict = case.flags.choice("kv-cache-dtype", dtype, case.version)
    yield from _refused(verdict, "engine.kv_cache_dtype", "engine.kv_cache_dtype: fp8")


def turboquant_overlay(case: Case) -> Iterable[Remark]:
    """TurboQuant needs our kernels or its files mounted before 0.20, and must not have the files otherwise."""
    targets = [mount.target for mount in case.profile.mounts]
    if case.turboquant and case.vllm("<0.20") and not case.ours:
        missing = [file for file in OVERLAYS if not any(target.endswith(file) for target in targets)]
        if missing:
            yield error(
                "engine.kv_cache_dtype",
                f"vLLM {case.version} does not know TurboQuant; not mounted: {', '.join(missing)}",
                "kernels: b70, which teaches it; or an image with vLLM 0.20 or later, which has it",
            )
    if case.ours or case.vllm(">=0.20"):
        why = "which `kernels: b70` teaches TurboQuant" if case.vllm("<0.20") else "which brings TurboQuant itself"
        for number, target in enumerate(targets):
            if "turboquant" in target or target.endswith(OVERLAYS):
                yield error(
                    f"mounts.{number}",
                    f"{target} would hide a file of vLLM {case.version}, {why}",
                    "remove the mount",
                )


def turboquant_hybrid(case: Case) -> Iterable[Remark]:
    """TurboQuant serves models with linear-attention layers from 0.21 on."""
    if case.turboquant and case.hybrid and case.vllm("<0.21"):
        yield error(
            "engine.kv_cache_dtype",
            f"vLLM {case.version} refuses TurboQuant for models with linear-attention layers among the others",
            "engine.kv_cache_dtype: fp8, or an image with vLLM 0.21 or later",
        )


def quantization(case: Case) -> Iterable[Remark]:
    """The quantization method exists in that release."""
    method = case.profile.engine.quantization
    if method is not None:
        verdict = case.flags.choice("quantization", method, case.version)
        yield from _refused(verdict, "engine.quantization")


def parsers(case: Case) -> Iterable[Remark]:
    """Tool and reasoning parsers are in that release, unless a plugin brings them."""
    for key, plugin in (("tool_call_parser", "tool-parser-plugin"), ("reasoning_parser", "reasoning-parser-plugin")):
        name = getattr(case.profile.engine, key)
        if name is None or case.flag(plugin):
            continue
        verdict = case.flags.choice(key.replace("_", "-"), name, case.version)
        yield from _refused(verdict, f"engine.{key}")


def speculative_words(case: Case) -> Iterable[Remark]:
    """The speculative method and its keys exist in that release."""
    speculative = case.profile.speculative
    if speculative is None:
        return
    yield from _refused(case.flags.method(speculative.method, case.version), "speculative.method")
    for key in speculative.options:
        yield from _refused(case.flags.speculative_key(key, case.version), f"speculative.options.{key}")


def kv_scales(case: Case) -> Iterable[Remark]:
    """Scales are no longer calculated while serving."""
    if case.flag("calculate-kv-scales") and case.vllm(">=0.28"):
        yield error(
            "engine.flags.calculate-kv-scales",
            f"vLLM {case.version} has no `--calculate-kv-scales`: it went with 0.28",
            "remove it; scales come with the checkpoint, or are 1",
        )


RULES = (
    Rule("unknown-flag", "vLLM stops at a flag that it does not know", unknown_flag),
    Rule("flag-value", "a bare flag with a value, or the other way round, swallows the next word", flag_value),
    Rule("owned-flag", "a flag given twice means whichever comes last", owned_flag),
    Rule("secret-flag", "`ps` shows every command line", secret_flag),
    Rule("kv-cache-dtype", "releases differ in the KV cache types that they have", kv_cache_dtype),
    Rule("turboquant-overlay", "TurboQuant came with 0.20; overlays are for 0.19 alone", turboquant_overlay),
    Rule("turboquant-hybrid", "vLLM 0.20 stops at the config, and 0.19 is taught no more", turboquant_hybrid),
    Rule("quantization", "releases differ in the quantization methods that they have", quantization),
    Rule("parser", "an unknown parser is found only when the server starts", parsers),
    Rule("speculative-words", "an unknown key of the speculative config stops the start", speculative_words),
    Rule("kv-scales", "`--calculate-kv-scales` was removed", kv_scales),
)
