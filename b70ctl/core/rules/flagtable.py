"""What each vLLM release accepts on its command line and in its environment."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from b70ctl.core.image import parsed_version


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a name is accepted; `perhaps` where the version lies between tables that differ, or beyond them."""

    answer: Literal["yes", "perhaps", "no"]
    because: str = ""
    """What the tables say, when they do not simply say yes."""


YES = Verdict("yes")


class FlagTable:
    """Names by release, from the shipped table's data."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.versions: tuple[str, ...] = tuple(data["versions"])

    def flag(self, name: str, version: str) -> Verdict:
        """Whether `--name` exists; what stands behind a dot is a key of the flag's own and not looked at."""
        return self._verdict(self._data["flags"], name.split(".")[0], version, f"flag `--{name}`")

    def is_bare(self, name: str, version: str) -> bool:
        """Whether a flag stands without a value."""
        mask = self._data["bare"].get(name, 0)
        return any(_bit(mask, index) for index in self._around(version) if index is not None)

    def choice(self, flag: str, value: str, version: str) -> Verdict:
        """Whether a flag takes a value; yes where the choices are not known."""
        choices = self._data["choices"].get(flag, {})
        known = 0
        for mask in choices.values():
            known |= mask
        if not all(_bit(known, index) for index in self._around(version) if index is not None):
            return YES
        return self._verdict(choices, value, version, f"`--{flag} {value}`")

    def method(self, name: str, version: str) -> Verdict:
        """Whether a speculative method exists."""
        return self._verdict(self._data["speculative_methods"], name, version, f"speculative method `{name}`")

    def speculative_key(self, name: str, version: str) -> Verdict:
        """Whether the speculative config has a key."""
        return self._verdict(self._data["speculative_keys"], name, version, f"speculative key `{name}`")

    def variable(self, name: str, version: str) -> Verdict:
        """Whether vLLM reads a variable of its own."""
        return self._verdict(self._data["env"], name, version, f"variable `{name}`")

    def _verdict(self, masks: Mapping[str, int], name: str, version: str, what: str) -> Verdict:
        below, above = self._around(version)
        mask = masks.get(name, 0)
        has = {index: _bit(mask, index) for index in (below, above) if index is not None}
        if all(has.values()):
            return YES
        near = self._near(masks, name, list(has))
        if below == above:
            return Verdict("no", f"vLLM {version} has no {what}{near}")
        if not any(has.values()) and mask == 0 and near:
            # no release ever had it and it looks like one that they have: a slip, wherever the version lies
            return Verdict("no", f"no vLLM has a {what}{near}")
        said = " and ".join(f"{self.versions[index]} {'has' if held else 'has no'}" for index, held in has.items())
        place = "lies between" if len(has) == 2 else "lies beyond the releases that are known"
        return Verdict("perhaps", f"vLLM {said} {what}; {version} {place}{near}")

    def _near(self, masks: Mapping[str, int], name: str, indices: list[int]) -> str:
        known = [each for each, mask in masks.items() if any(_bit(mask, index) for index in indices) and each != name]
        close = difflib.get_close_matches(name, known, n=2, cutoff=0.75)
        return f"; did you mean {' or '.join(f'`{each}`' for each in close)}?" if close else ""

    def _around(self, version: str) -> tuple[int | None, int | None]:
        """The newest table at or below a version and the oldest at or above it; the same one where it is exact."""
        wanted = parsed_version(parsed_version(version).public)
        tables = [parsed_version(each) for each in self.versions]
        below = [index for index, table in enumerate(tables) if table <= wanted]
        above = [index for index, table in enumerate(tables) if table >= wanted]
        return (below[-1] if below else None, above[0] if above else None)


def _bit(mask: int, index: int) -> bool:
    return bool(mask >> index & 1)
