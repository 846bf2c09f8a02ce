"""The backend under the name that vLLM 0.19 keeps for backends that are not its own."""

from __future__ import annotations

from .backend import B70TurboQuantBackend


class B70LegacyBackend(B70TurboQuantBackend):
    """`B70TurboQuantBackend`; 0.19 has no TURBOQUANT to be called by."""

    @staticmethod
    def get_name() -> str:
        """The registry's name of it."""
        return "CUSTOM"
