"""What a rule looks at, and what it may say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts, within
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.core.rules.flagtable import FlagTable

Severity = Literal["error", "warning", "note"]

# linear-attention layers among the others: Qwen3-Next and from Qwen3.5 on, Nemotron 3
_HYBRID = re.compile(r"qwen-?3[._-]?(?:[5-9]|next)(?![0-9b])|nemotron|ornith|tiel-coder", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Remark:
    """What one rule found."""

    severity: Severity
    where: str
    message: str
    hint: str | None = None


def error(where: str, message: str, hint: str | None = None) -> Remark:
    """The engine would not start, or would answer wrongly."""
    return Remark("error", where, message, hint)


def warning(where: str, message: str, hint: str | None = None) -> Remark:
    """It was seen to fail, or it does less than it says."""
    return Remark("warning", where, message, hint)


def note(where: str, message: str, hint: str | None = None) -> Remark:
    """Worth knowing."""
    return Remark("note", where, message, hint)


@dataclass(frozen=True, slots=True)
class Case:
    """A profile with all that is known about its image, its vLLM and its draft."""

    profile: Profile
    facts: ImageFacts | None
    flags: FlagTable
    draft: Reach
    kernels: Kernels | None = None
    """What the release would carry; None where it is not known, and where the profile asks for none."""
    brought: Mapping[str, str] = field(default_factory=dict)
    """The variables that come with the profile's patches."""
    gates: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Every variable that some patch comes with, and which patches those are."""

    @property
    def version(self) -> str:
        """The image's vLLM, or the one that the profile was written for."""
        return self.facts.vllm if self.facts else self.profile.image.vllm

    def vllm(self, ranges: str) -> bool:
        """Whether the version lies in a range."""
        return within(self.version, ranges)

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that the engine gets from the profile and from its patches, as text."""
        return {**self.own, **self.brought}

    @property
    def own(self) -> Mapping[str, str]:
        """The profile's own variables as text."""
        return {name: str(value) for name, value in self.profile.env.items()}

    @property
    def may_run_v2(self) -> bool:
        """Whether nothing forces the V1 model runner; which one serves is the version's and the model's affair."""
        return self.env.get("VLLM_USE_V2_MODEL_RUNNER") != "0"

    @property
    def method(self) -> str | None:
        """The speculative method."""
        return self.profile.speculative.method if self.profile.speculative else None

    @property
    def turboquant(self) -> bool:
        """Whether the KV cache is TurboQuant's."""
        return (self.profile.engine.kv_cache_dtype or "").startswith("turboquant_")

    @property
    def ours(self) -> bool:
        """Whether our kernels serve TurboQuant, and not the image's."""
        return self.profile.kernels == "b70"

    @property
    def model(self) -> str:
        """The model's directory or id."""
        return self.profile.model.path or str(self.profile.model.hub)

    @property
    def hybrid(self) -> bool:
        """Whether the model's name is one of a family with linear-attention layers."""
        return bool(_HYBRID.search(self.model))

    @property
    def gptq(self) -> bool:
        """Whether the weights are GPTQ, by setting or by name."""
        return "gptq" in (self.profile.engine.quantization or self.model).lower()

    def flag(self, name: str) -> Any:
        """A further flag's value, its `no-` form as False; None where it is not given."""
        given = self.profile.engine.flags
        if given.get(f"no-{name}") is True:
            return False
        return (True if given[name] is None else given[name]) if name in given else None

    @property
    def graph_mode(self) -> str | None:
        """The graph mode that the profile asks for; None where it is left to vLLM."""
        if self.profile.engine.enforce_eager:
            return "NONE"
        config = self.profile.engine.flags.get("compilation-config")
        mode = config.get("cudagraph_mode") if isinstance(config, dict) else None
        return str(mode).upper() if mode is not None else None

    @property
    def graphs(self) -> bool:
        """Whether graphs are captured on this card: asked for before 0.31, unless refused since."""
        if self.graph_mode == "NONE":
            return False
        return self.vllm(">=0.31") or self.env.get("VLLM_XPU_ENABLE_XPU_GRAPH") == "1"


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with its name and the reason that it exists."""

    name: str
    why: str
    check: Callable[[Case], Iterable[Remark]]
