"""As much of vLLM as the plugin touches before a layer is made, in place of the real one."""

import enum
import sys
import types
from dataclasses import dataclass

import pytest

UPSTREAM = "vllm.v1.attention.backends.turboquant_attn.TurboQuantAttentionBackend"
REGISTRY = "vllm.v1.attention.backends.registry"


class Platform:
    """What the plugin asks of a platform."""

    def __init__(self, name: str) -> None:
        self._name = name

    def is_rocm(self) -> bool:
        return self._name == "rocm"

    def is_xpu(self) -> bool:
        return self._name == "xpu"


@dataclass(frozen=True)
class Fake:
    """A vLLM that stands in sys.modules; what was registered with it."""

    registered: dict[str, str]


def install(
    monkeypatch: pytest.MonkeyPatch, version: str, *, platform: str = "xpu", members: tuple[str, ...] = ("TURBOQUANT",)
) -> Fake:
    """Put one in place for a test."""
    registered: dict[str, str] = {}

    class Path:
        def get_path(self) -> str:
            return registered.get(self.name, UPSTREAM)  # type: ignore[attr-defined]

        def clear_override(self) -> None:
            registered.pop(self.name, None)  # type: ignore[attr-defined]

    backends = enum.Enum("AttentionBackendEnum", [(name, name) for name in members], type=Path)  # type: ignore[call-overload]
    _module(monkeypatch, "vllm", __version__=version)
    _module(monkeypatch, "vllm.platforms", current_platform=Platform(platform))
    for parent in ("vllm.v1", "vllm.v1.attention", "vllm.v1.attention.backends"):
        _module(monkeypatch, parent)
    _module(
        monkeypatch, REGISTRY, AttentionBackendEnum=backends,
        register_backend=lambda member, path: registered.__setitem__(member.name, path),
    )  # fmt: skip
    return Fake(registered)


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **names: object) -> None:
    module = types.ModuleType(name)
    module.__path__ = []
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)
