"""As much of vLLM 0.19 as it is taught through, in place of the real one; its configs are pydantic's, as vLLM's are."""

import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import fake_vllm
import pytest
from pydantic.dataclasses import dataclass as checked

CacheDType = Literal["auto", "fp8"]
USERS = ("vllm.config.cache", "vllm.v1.attention.selector")
"""Modules that have the literal under its name."""


@dataclass(frozen=True)
class Legacy:
    """One that stands in sys.modules, and what there is to change of it."""

    vllm: fake_vllm.Fake
    cache_config: Any
    outer: Any
    arguments: type
    platform: type
    widths: dict[str, object]

    def state(self) -> list[object]:
        """Everything that could be changed, by identity where things are replaced as a whole."""
        classes = [self.cache_config, self.outer, self.arguments, self.platform]
        field = next(each for each in dataclasses.fields(self.cache_config) if each.name == "cache_dtype")
        literals = [sys.modules[name].CacheDType for name in USERS]
        replaced = [{name: id(value) for name, value in vars(each).items()} for each in classes]
        own = dict(self.cache_config.__annotations__)
        return [dict(self.vllm.registered), dict(self.widths), field.type, own, literals, replaced]


def install(monkeypatch: pytest.MonkeyPatch) -> Legacy:
    """Put one in place for a test."""
    vllm = fake_vllm.install(monkeypatch, "0.19.0", members=("CUSTOM",))
    cache_config = _config("CacheConfig", cache_dtype=(CacheDType, "auto"))
    outer = _config("VllmConfig", cache_config=(cache_config, cache_config()))

    class EngineArgs:
        def create_engine_config(self) -> Any:
            return outer()

    class Platform(fake_vllm.Platform):
        @classmethod
        def get_attn_backend_cls(cls, selected_backend: Any, attn_selector_config: Any) -> str:
            return "vllm's own"

    widths: dict[str, object] = {"fp8": "uint8"}
    place(monkeypatch, "vllm.platforms", current_platform=Platform("xpu"))
    place(monkeypatch, "vllm.config", VllmConfig=outer)
    place(monkeypatch, "vllm.config.cache", CacheConfig=cache_config, CacheDType=CacheDType)
    place(monkeypatch, "vllm.v1.attention.selector", CacheDType=CacheDType)
    place(monkeypatch, "vllm.utils")
    place(monkeypatch, "vllm.utils.torch_utils", STR_DTYPE_TO_TORCH_DTYPE=widths)
    place(monkeypatch, "vllm.engine")
    computed = functools.lru_cache(lambda kind: {})
    place(monkeypatch, "vllm.engine.arg_utils", EngineArgs=EngineArgs, _compute_kwargs=computed)
    return Legacy(vllm, cache_config, outer, EngineArgs, Platform, widths)


def _config(name: str, **fields: tuple[object, object]) -> Any:
    own = {"__annotations__": {field: kind for field, (kind, _) in fields.items()}, "__module__": __name__}
    return checked(type(name, (), own | {field: _default(value) for field, (_, value) in fields.items()}))


def _default(value: Any) -> Any:
    return value if isinstance(value, str) else dataclasses.field(default_factory=lambda: value)


def place(monkeypatch: pytest.MonkeyPatch, name: str, **names: object) -> None:
    """A module with these names."""
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)


def raising(*_: object, **__: object) -> Any:
    """A step that does not fit."""
    raise LookupError("it does not fit")


def no_schema(legacy: Legacy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The outer config is none of pydantic's: the second schema cannot be built again."""
    monkeypatch.setattr(sys.modules["vllm.config"], "VllmConfig", types.SimpleNamespace)


def no_forgetting(legacy: Legacy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was computed of the arguments cannot be forgotten."""
    computed = types.SimpleNamespace(cache_clear=raising)
    monkeypatch.setattr(sys.modules["vllm.engine.arg_utils"], "_compute_kwargs", computed)


def no_registering(legacy: Legacy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry takes no backend."""
    monkeypatch.setattr(sys.modules[fake_vllm.REGISTRY], "register_backend", raising)


def no_path(legacy: Legacy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry takes it, and cannot say what it has."""
    monkeypatch.setattr(sys.modules[fake_vllm.REGISTRY].AttentionBackendEnum, "get_path", raising)


FAULTS: tuple[Callable[[Legacy, pytest.MonkeyPatch], None], ...] = (no_schema, no_forgetting, no_registering, no_path)
"""What can be amiss after the first change."""
