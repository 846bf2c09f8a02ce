"""What a person wrote about one model on this card: the profile, checked, with nothing decided yet."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from b70ctl.core.mountspec import MountSpec
from b70ctl.core.sizes import in_reason, model_folder
from b70ctl.core.strict import (
    Dotted,
    EnvName,
    EnvValue,
    FlagName,
    FlagValue,
    Name,
    PathText,
    Seconds,
    Strict,
    Text,
    refuse_two_places,
)


class Status(StrEnum):
    """How far a profile may be trusted."""

    PRODUCTION = "production"
    RESEARCH = "research"
    REJECTED = "rejected"


class Evidence(Strict):
    """A measured figure with the conditions that make it a figure."""

    what: Text
    """What was measured, for example `decode, C=1`."""
    value: Text
    """The figure with its unit, for example `20.9 tok/s`."""
    conditions: Text
    """What it was measured with: client, prompts, cold or warm, n; `not stated` where the source is silent."""
    source: Text
    """Who measured it: a document or a link."""


class Need(Strict):
    """Something that the profile needs and nobody publishes."""

    what: Text
    """The image, file or script, by the name under which the profile uses it."""
    where: Text
    """Where to get it, or how to build it."""


class ImageSpec(Strict):
    """The container image that serves."""

    ref: Text
    """A reference with a tag or, better, a digest: `repository@sha256:…`; a local image id works too."""
    vllm: Text
    """The vLLM version that this profile was written for, for example `0.21.1.dev17`."""


class ModelSpec(Strict):
    """The weights."""

    path: Annotated[PathText, AfterValidator(model_folder)] | None = None
    """A directory below the site's `models`."""
    hub: PathText | None = None
    """A Hugging Face id; used from the site's `hf_cache`."""
    revision: PathText | None = None
    """The commit of the hub repository; a profile without one follows a moving target."""
    chat: bool = True
    """`false` for a model without a chat template, which is then proven through completions."""
    served_names: list[Text] = Field(min_length=1)
    """The names that clients may ask for; the first is the one that probes use."""

    @model_validator(mode="after")
    def _one_place(self) -> ModelSpec:
        refuse_two_places(self.path, self.hub)
        return self


class Engine(Strict):
    """vLLM's own settings; a key left out is left to vLLM."""

    dtype: Literal["auto", "float16", "bfloat16", "float32"] | None = None
    """Type of weights and activations."""
    quantization: Text | None = None
    """Set only when vLLM must not read it from the checkpoint."""
    kv_cache_dtype: Text | None = None
    """For example `auto`, `fp8`, `turboquant_k3v4_nc`."""
    max_model_len: Annotated[int, Field(ge=1)] | None = None
    """Longest request, prompt and answer together, in tokens."""
    max_num_seqs: Annotated[int, Field(ge=1)] | None = None
    """Most requests in one step."""
    max_num_batched_tokens: Annotated[int, Field(ge=1)] | None = None
    """Most tokens in one step: the size of a prefill chunk."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    """Share of the card's memory that vLLM may plan with."""
    tensor_parallel_size: Annotated[int, Field(ge=1, le=16)] = 1
    """Cards that one engine is split over."""
    enforce_eager: bool | None = None
    """No compilation and no graphs."""
    enable_prefix_caching: bool | None = None
    """Reuse the KV cache of equal prompt beginnings."""
    trust_remote_code: bool | None = None
    """Run Python code that the checkpoint brings."""
    language_model_only: bool | None = None
    """Leave the vision tower of a multimodal checkpoint out."""
    tool_call_parser: Text | None = None
    """Also turns automatic tool choice on."""
    reasoning_parser: Text | None = None
    """Splits a thinking model's trace from its answer."""
    flags: dict[FlagName, FlagValue] = Field(default_factory=dict)
    """Any further vLLM flag, without its dashes; `true` gives the bare flag, `false` its `no-` form."""


class Draft(Strict):
    """The draft model of a speculative method."""

    path: Annotated[PathText, AfterValidator(model_folder)] | None = None
    """A directory below the site's `models`."""
    hub: PathText | None = None
    """A Hugging Face id; used from the site's `hf_cache`."""
    revision: PathText | None = None
    """The commit of the hub repository, or a branch or tag that the cache knows; left out it is `main`."""
    overrides: Dotted = Field(default_factory=dict)
    """Keys of the draft's config.json to change, `a.b` or `a: {b: …}` for a nested one; the user's file stays as it is,
    a changed copy is mounted over it."""

    @model_validator(mode="after")
    def _one_place(self) -> Draft:
        refuse_two_places(self.path, self.hub)
        if self.revision is not None and self.hub is None:
            raise ValueError("`revision` is that of a hub repository, and the draft is given by `path`; take one that "
                             "is inherited away with `revision: null`")  # fmt: skip
        return self


class Speculative(Strict):
    """Speculative decoding."""

    method: Text
    """`ngram`, `suffix`, `eagle3`, `mtp`, …"""
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)]
    """Tokens proposed in one step."""
    draft: Draft | None = None
    """The draft model, for methods that have one."""
    options: dict[FlagName | EnvName, FlagValue] = Field(default_factory=dict)
    """Further keys of vLLM's speculative config."""


class Resources(Strict):
    """What the container may use beyond the card."""

    shm_size: Annotated[str, StringConstraints(pattern=r"^[0-9]+[kmg]$"), AfterValidator(in_reason)] = "8g"
    """Shared memory, for example `16g`."""
    ipc: Literal["private", "host"] = "private"
    """`host` only where a collective needs it."""
    ulimits: dict[Literal["memlock", "nofile", "nproc", "stack"], Annotated[int, Field(ge=-1)]] = Field(
        default_factory=dict
    )
    """Soft and hard limit alike; -1 is unlimited."""
    cap_add: list[Literal["SYS_PTRACE", "SYS_NICE", "IPC_LOCK", "PERFMON"]] = Field(default_factory=list)
    """Capabilities; a privileged container cannot be asked for."""


class Boot(Strict):
    """How long a start may take."""

    budget: Seconds = 1200
    """Seconds from start to serving."""
    stall: Seconds = 300
    """Seconds without a line in the log after which a boot counts as stuck."""
    download: bool = False
    """Let the engine fetch from the hub while it boots."""


class ProbeSettings(Strict):
    """How a started engine is proven."""

    skip: dict[Name, Text] = Field(default_factory=dict)
    """Probes not to ask, each with the reason."""
    expect: dict[Text, Text] = Field(default_factory=dict)
    """Further questions, each with words that the answer must contain."""
    agree_with: Name | None = None
    """A profile whose proven answers the new engine must repeat, for example the same model without speculation."""
    timeout: Seconds = 300
    """Seconds that one answer may take."""
    silence: Seconds = 60
    """Seconds between two pieces of a streamed answer."""


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


class Profile(Strict):
    """One model on this card, as a person wrote it, parents merged in."""

    summary: Text
    """One line for lists."""
    status: Annotated[Status, Field(strict=False)]
    """`rejected` is refused unless it is asked for by name of its status."""
    status_reason: Text | None = None
    """Why a profile is not for production."""
    evidence: list[Evidence] = Field(default_factory=list)
    """What was measured with it."""
    not_stated: list[Text] = Field(default_factory=list)
    """Values that the profile's sources are silent about, and what stands here instead."""
    needs: list[Need] = Field(default_factory=list)
    """What nobody publishes; without it the profile is unavailable."""
    image: ImageSpec
    model: ModelSpec
    engine: Engine = Field(default_factory=Engine)
    speculative: Speculative | None = None
    env: dict[EnvName, EnvValue] = Field(default_factory=dict)
    """The engine's environment; an empty value is refused, since empty is not unset."""
    cards: Annotated[int, Field(ge=1, le=16)] | Literal["none"] | None = None
    """Cards to use; left out it is the tensor parallel size; `none` runs without a card."""
    collectives: Name | None = None
    """A named set of variables for more than one card; sets are never mixed."""
    patches: Annotated[list[Name], AfterValidator(_once)] = Field(default_factory=list)
    """Changes to the image's own files, by name; one that is listed twice, as by a parent too, is applied once."""
    kernels: Literal["image", "b70"] = "image"
    """Whose TurboQuant attention serves: what the image brings, or ours, which the release carries as a plugin."""
    mounts: list[MountSpec] = Field(default_factory=list)
    resources: Resources = Field(default_factory=Resources)
    boot: Boot = Field(default_factory=Boot)
    probes: ProbeSettings = Field(default_factory=ProbeSettings)
    template: Name = "vllm"
    """The Compose template, by name."""

    @model_validator(mode="after")
    def _reason(self) -> Profile:
        if self.status is not Status.PRODUCTION and not self.status_reason:
            raise ValueError(f"a profile with status `{self.status}` says why in `status_reason`")
        return self
