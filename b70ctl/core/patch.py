"""A patch: one change to the image's own files, why it is made, and where it may be applied."""

from __future__ import annotations

import hashlib
from collections import Counter
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from b70ctl.core.image import MOST_VERSIONS, ImageFacts, within
from b70ctl.core.kernels import TABLE_VARIABLE
from b70ctl.core.serving import OURS
from b70ctl.core.sizes import below, markable
from b70ctl.core.strict import EnvName, Name, Strict, Text
from b70ctl.core.syntax import refuse_unless_python
from b70ctl.errors import BadValue, Refused

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MOST_MARKER = 1000
"""Characters: every marker is part of one question to the started engine's container."""


def _not_ours(variable: str) -> str:
    if variable in OURS or variable == TABLE_VARIABLE:
        raise ValueError(f"b70ctl itself sets {variable}, so no patch may")
    return variable


def _range(ranges: str) -> str:
    if not str(SpecifierSet(ranges)):
        raise ValueError(f"`{ranges}` names no version, and would hold for every one")
    return ranges


RelativePath = Annotated[str, StringConstraints(pattern=r"^[^/\x00][^\x00]*$"), AfterValidator(below)]
Range = Annotated[str, StringConstraints(min_length=1, max_length=MOST_VERSIONS), AfterValidator(_range)]
"""Versions, for example `>=0.19,<0.23`."""
GateName = Annotated[EnvName, AfterValidator(_not_ours)]
GateValue = Annotated[str, StringConstraints(pattern=r"^[^\x00]+$")]
"""Empty is not unset, and NUL is part of no variable."""


class Edit(Strict):
    """An exact replacement: `old` stands once in the file, or the patch does not apply."""

    file: RelativePath
    """Below the image's site-packages."""
    old: Text
    new: Text


class Script(Strict):
    """Somebody's program that edits the installed vLLM when the container starts, before the engine."""

    file: Annotated[RelativePath, AfterValidator(markable)]
    """Below the patch's own folder in the site: `patches/<name>/`."""
    sha256: Sha256 | None = None
    """The file that it was proven with; another is refused."""
    where: Text
    """Where to get it."""
    touches: list[RelativePath] = Field(default_factory=list)
    """The files below site-packages that it edits, as far as that is known."""


class Overlay(Strict):
    """A whole file of one's own in the place of the image's; never a folder, which would hide compiled parts."""

    file: RelativePath
    """Below the image's site-packages: what it replaces."""
    source: RelativePath
    """Below the patch's own folder in the site: `patches/<name>/`."""
    base: Sha256
    """The hash of the image's file that it was made from; in the place of any other it is refused."""
    sha256: Sha256 | None = None
    """The file itself, where only that one will do."""


class Marker(Strict):
    """Text that stands in a file only once the patch was applied."""

    file: RelativePath
    """Below site-packages: one that the patch changes."""
    text: Annotated[str, StringConstraints(min_length=1, max_length=MOST_MARKER)]


class Span(Strict):
    """Versions of which it is known that they do not want the patch, and why."""

    versions: Range | None = None
    """Of vLLM."""
    kernels: Range | None = None
    """Of vllm-xpu-kernels; with `versions`, both must hold."""
    reason: Text

    @model_validator(mode="after")
    def _some(self) -> Span:
        if self.versions is None and self.kernels is None:
            raise ValueError("give `versions` (of vLLM), `kernels` (of vllm-xpu-kernels), or both")
        return self

    def holds(self, vllm: str, kernels: str | None) -> bool:
        """Whether an image lies in it; kernels that are not known lie nowhere."""
        if self.kernels and not (kernels and within(kernels, self.kernels)):
            return False
        return self.versions is None or within(vllm, self.versions)


class Patch(Strict):
    """One change with its reasons; a patch applies exactly or the start is refused."""

    summary: Text
    why: Text
    """What breaks without it."""
    versions: Range
    """The vLLM versions that it is for, as a range."""
    needless: list[Span] = Field(default_factory=list)
    """Versions that do well without it."""
    harmful: list[Span] = Field(default_factory=list)
    """Versions that it would damage, or whose start it would stop."""
    bases: dict[Sha256, Text] = Field(default_factory=dict)
    """Hashes of the files that the edits were made for, each with the version that ships it."""
    edits: list[Edit] = Field(default_factory=list)
    scripts: list[Script] = Field(default_factory=list)
    overlays: list[Overlay] = Field(default_factory=list)
    markers: list[Marker] = Field(default_factory=list)
    """Looked for in the running container."""
    excludes: dict[Name, Text] = Field(default_factory=dict)
    """Patches that it must not be applied with, each with the reason."""
    after: list[Name] = Field(default_factory=list)
    """Patches whose scripts edit the same file and come before it, where they are there at all."""
    env: dict[GateName, GateValue] = Field(default_factory=dict)
    """Variables that switch the change on; they come with the patch and never without it."""
    source: Text
    status: Literal["ours", "theirs"] = "ours"

    @model_validator(mode="after")
    def _one_kind(self) -> Patch:
        if sum(map(bool, (self.edits, self.scripts, self.overlays))) != 1:
            raise ValueError("a patch has either `edits`, `scripts` or `overlays`")
        if self.after and not self.scripts:
            raise ValueError("`after` is for `scripts` alone: the other kinds bring a whole file each")
        if stray := [marker.file for marker in self.markers if marker.file not in self.files]:
            raise ValueError(f"`markers` names {stray[0]}, which the patch does not change")
        kind = "scripts" if self.scripts else "overlays"
        named = Counter([*(each.file for each in self.scripts), *(each.file for each in self.overlays)])
        if twice := next((file for file, times in named.items() if times > 1), None):
            raise BadValue(f"`{kind}` names {twice} twice, and a release has it once", hint="leave one of them out")
        return self

    @property
    def judged(self) -> frozenset[str]:
        """The files below site-packages whose content says whether it applies."""
        return frozenset({*(edit.file for edit in self.edits), *(overlay.file for overlay in self.overlays)})

    @property
    def files(self) -> frozenset[str]:
        """The files below site-packages that it changes, as far as that is known."""
        return self.judged | {file for script in self.scripts for file in script.touches}


class Answer(StrEnum):
    """What a patch is to an image."""

    APPLIES = "applies"
    NEEDLESS = "needless"
    HARMFUL = "harmful"
    UNKNOWN = "unknown"
    BROKEN = "broken"
    """To no image anything, as it lies at this site."""


class Checked(NamedTuple):
    """An answer and its reason."""

    answer: Answer
    reason: str


def by_version(patch: Patch, vllm: str, kernels: str | None = None) -> Checked:
    """What a patch is to a version; harm goes before everything."""
    for answer, spans in ((Answer.HARMFUL, patch.harmful), (Answer.NEEDLESS, patch.needless)):
        for span in spans:
            if span.holds(vllm, kernels):
                return Checked(answer, span.reason)
    if not within(vllm, patch.versions):
        return Checked(Answer.UNKNOWN, f"it is for vLLM {patch.versions}, and of {vllm} nothing is known")
    return Checked(Answer.APPLIES, patch.summary)


def refuse_unless_meant_for(name: str, patch: Patch, facts: ImageFacts) -> None:
    """Raise unless the patch is for the image's version."""
    answer, reason = by_version(patch, facts.vllm, facts.kernels)
    drop = f"remove `{name}` from the profile's patches"
    if answer is Answer.UNKNOWN:
        raise Refused(f"patch `{name}` is for vLLM {patch.versions}, the image has {facts.vllm}",
                      hint=f"{drop}, or use an image in that range")  # fmt: skip
    if answer is not Answer.APPLIES:
        verb = "must not be applied to" if answer is Answer.HARMFUL else "is needless with"
        kernels = f" and kernels {facts.kernels}" if facts.kernels else ""
        raise Refused(f"patch `{name}` {verb} vLLM {facts.vllm}{kernels}: {reason}", hint=drop)


def lines_of(text: str, anchor: str) -> list[int]:
    """The lines on which an anchor begins, each place that can be replaced once."""
    found, at = [], text.find(anchor)
    while at >= 0:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(anchor, at + len(anchor))
    return found


def edited(name: str, patch: Patch, file: str, base: str) -> tuple[str, list[int]]:
    """`base` with the edits of `file` made, and their lines; Refused unless each had one and Python stays Python."""
    text = base
    places: list[int] = []
    for edit in (edit for edit in patch.edits if edit.file == file):
        lines = lines_of(text, edit.old)
        if len(lines) != 1:
            where = f", at lines {' and '.join(map(str, lines))}" if lines else ""
            raise Refused(
                f"patch `{name}` does not apply: its anchor stands in {file} {len(lines)} times{where}, not once",
                hint=f"b70ctl patches show {name}",
            )
        text, places = text.replace(edit.old, edit.new), [*places, *lines]
    refuse_unless_python(name, file, base, text)
    return text, places


def patched(name: str, patch: Patch, file: str, base: str, accepted: frozenset[str] = frozenset()) -> str:
    """`base` with the patch's edits of `file` made; refused when the base is unknown or an anchor is not there once.

    `accepted` holds base hashes that the owner took responsibility for, beyond the ones the patch was made for.
    """
    text, _ = edited(name, patch, file, base)
    found = hashlib.sha256(base.encode("utf-8", errors="surrogateescape")).hexdigest()
    if found not in patch.bases and found not in accepted:
        raise Refused(
            f"patch `{name}` was not made for this {file} (sha256 {found[:12]}…), though its anchor is there",
            hint=f"b70ctl patches accept {name}:{found}",
        )
    return text
