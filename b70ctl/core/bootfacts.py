"""What a boot told about the engine, and what of it changed since the boot before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

# slower by half is worth a line; a tenth is the weather
_SLOWER = 1.5
_SECONDS_THAT_MATTER = 5.0
_SHARE_THAT_MATTERS = 0.01
_LISTS = ("kernels_in", "notices")


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFacts:
    """What one boot log said; a fact that the log did not state is None."""

    vllm_version: str | None = None
    enforce_eager: bool | None = None
    weights_gib: float | None = None
    load_seconds: float | None = None
    attention_backend: str | None = None
    flash_attention_version: int | None = None
    moe_method: str | None = None
    kv_cache_dtype: str | None = None
    available_kv_gib: float | None = None
    kv_tokens: int | None = None
    max_concurrency: float | None = None
    concurrency_length: int | None = None
    compile_seconds: float | None = None
    profile_seconds: float | None = None
    capture_seconds: float | None = None
    capture_gib: float | None = None
    init_seconds: float | None = None
    async_scheduling: bool | None = None
    draft_position_limit: int | None = None
    kernels: str | None = None
    """Our own, package and version, where they are in use."""
    kernels_in: tuple[str, ...] = ()
    """The processes that said so."""
    notices: tuple[str, ...] = ()
    first_error: str | None = None

    @property
    def kernels_told(self) -> str:
        """Which kernels of ours are in use, and where; empty where none are."""
        return f"{self.kernels} in {', '.join(self.kernels_in) or 'its one process'}" if self.kernels else ""

    def to_dict(self) -> dict[str, Any]:
        """These facts as JSON can hold them, without the ones not stated."""
        kept = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        return kept | {name: list(kept[name]) for name in _LISTS if name in kept}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> BootFacts:
        """The facts of `to_dict`; keys that this version does not know are left out."""
        known = {field.name for field in fields(cls)}
        kept = {name: value for name, value in stored.items() if name in known}
        return cls(**kept | {name: tuple(stored.get(name, ())) for name in _LISTS})


def differences(before: BootFacts | None, after: BootFacts) -> list[str]:
    """A line for each fact that changed enough to matter; none without a boot to compare with."""
    if before is None:
        return []
    return [*_named(before, after), *_sizes(before, after), *_times(before, after), *_notices(before, after)]


def _named(before: BootFacts, after: BootFacts) -> Iterator[str]:
    for name, label in (
        ("vllm_version", "vLLM"),
        ("attention_backend", "attention backend"),
        ("kernels", "kernels"),
        ("flash_attention_version", "FlashAttention version"),
        ("moe_method", "MoE method"),
        ("kv_cache_dtype", "KV cache dtype"),
        ("enforce_eager", "eager"),
        ("async_scheduling", "asynchronous scheduling"),
        ("concurrency_length", "longest request"),
        ("draft_position_limit", "draft position limit"),
    ):
        old, new = getattr(before, name), getattr(after, name)
        if old != new and old is not None:
            yield f"{label} {_shown(old)} -> {_shown(new)}"
        elif old != new and name == "draft_position_limit":
            # its absence before is a fact: vLLM logs the line only when it lifts the limit
            yield f"{label} lifted to {_shown(new)}"


def _sizes(before: BootFacts, after: BootFacts) -> Iterator[str]:
    for name, label, unit in (
        ("kv_tokens", "KV pool", "tokens"),
        ("available_kv_gib", "KV memory", "GiB"),
        ("weights_gib", "weights", "GiB"),
        ("capture_gib", "graphs", "GiB"),
    ):
        old, new = getattr(before, name), getattr(after, name)
        if old and new is not None and abs(new - old) > old * _SHARE_THAT_MATTERS:
            yield f"{label} {_shown(old)} -> {_shown(new)} {unit} ({(new - old) / old:+.0%})".replace("%", " %")


def _times(before: BootFacts, after: BootFacts) -> Iterator[str]:
    for name, label in (
        ("load_seconds", "loading"),
        ("compile_seconds", "compiling"),
        ("profile_seconds", "profiling"),
        ("capture_seconds", "capturing"),
        ("init_seconds", "engine init"),
    ):
        old, new = getattr(before, name), getattr(after, name)
        if old is None or new is None or abs(new - old) < _SECONDS_THAT_MATTER:
            continue
        if new > old * _SLOWER or old > new * _SLOWER:
            yield f"{label} {old:.0f} s -> {new:.0f} s"


def _notices(before: BootFacts, after: BootFacts) -> Iterator[str]:
    return (f"new notice: {notice}" for notice in after.notices if notice not in before.notices)


def _shown(value: object) -> str:
    match value:
        case None:
            return "not stated"
        case bool():
            return "on" if value else "off"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.2f}"
    return str(value)
