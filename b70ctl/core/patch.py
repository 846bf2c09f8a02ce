"""A patch: one change to the image's own files, why it is ours, and where it may be applied."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal

from packaging.specifiers import SpecifierSet
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from b70ctl.core.image import ImageFacts, within
from b70ctl.core.profile import EnvName, Strict, Text
from b70ctl.errors import Refused

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _below(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("it leads out of its folder")
    return path


RelativePath = Annotated[str, StringConstraints(pattern=r"^[^/\x00][^\x00]*$"), AfterValidator(_below)]
Range = Annotated[Text, AfterValidator(lambda ranges: str(SpecifierSet(ranges)) and ranges)]
"""Versions, for example `>=0.19,<0.23`."""


class Edit(Strict):
    """An exact replacement: `old` stands once in the file, or the patch does not apply."""

    file: RelativePath
    """Below the image's site-packages."""
    old: Text
    new: Text


class Script(Strict):
    """Somebody's program that edits the installed vLLM when the container starts, before the engine."""

    file: RelativePath
    """Below the patch's own folder, or the site's `patches/<name>/`."""
    sha256: Sha256 | None = None
    """The file that the profile was proven with."""
    where: Text
    """Where to get it."""


class Harm(Strict):
    """A range of versions that must not have the patch, and why."""

    versions: Range
    reason: Text


class Patch(Strict):
    """One change with its reasons; a patch applies exactly or the start is refused."""

    summary: Text
    why: Text
    """What breaks without it."""
    versions: Range
    """The vLLM versions that need it, as a range."""
    unneeded: list[Harm] = Field(default_factory=list)
    """Versions where it is needless or harmful."""
    bases: dict[Sha256, Text] = Field(default_factory=dict)
    """Hashes of the files that it was made for, each with the version that ships it."""
    edits: list[Edit] = Field(default_factory=list)
    scripts: list[Script] = Field(default_factory=list)
    env: dict[EnvName, str] = Field(default_factory=dict)
    """Variables that switch the change on; they come with the patch and never without it."""
    source: Text
    status: Literal["ours", "theirs"] = "ours"

    @model_validator(mode="after")
    def _one_kind(self) -> Patch:
        if bool(self.edits) == bool(self.scripts):
            raise ValueError("a patch has either `edits` or `scripts`")
        return self


def refuse_unless_meant_for(name: str, patch: Patch, facts: ImageFacts) -> None:
    """Raise unless the patch is for the image's version."""
    for harm in patch.unneeded:
        if within(facts.vllm, harm.versions):
            raise Refused(
                f"patch `{name}` must not be applied to vLLM {facts.vllm}: {harm.reason}",
                hint=f"remove `{name}` from the profile's patches",
            )
    if not within(facts.vllm, patch.versions):
        raise Refused(
            f"patch `{name}` is for vLLM {patch.versions}, the image has {facts.vllm}",
            hint=f"remove `{name}` from the profile's patches, or use an image in that range",
        )


def unknown_bases(
    name: str, patch: Patch, facts: ImageFacts, accepted: Mapping[str, frozenset[str]]
) -> list[Refused]:  # fmt: skip
    """What can be told from hashes alone, before a file is read: bases that the patch was not made for."""
    known = {*patch.bases, *accepted.get(name, ())}
    found = {edit.file: facts.files[edit.file] for edit in patch.edits if edit.file in facts.files}
    return [_unknown_base(name, file, digest) for file, digest in found.items() if digest not in known]


def _unknown_base(name: str, file: str, digest: str) -> Refused:
    if digest == "absent":
        return Refused(f"patch `{name}` changes {file}, which the image does not have")
    return Refused(f"patch `{name}` was not made for this {file} (sha256 {digest[:12]}…)",
                   hint=f"b70ctl patches accept {name}:{digest}, if its anchor is there")  # fmt: skip


def patched(name: str, patch: Patch, file: str, base: str, accepted: frozenset[str] = frozenset()) -> str:
    """`base` with the patch's edits of `file` made; refused when the base is unknown or an anchor is not there once.

    `accepted` holds base hashes that the owner took responsibility for, beyond the ones the patch was made for.
    """
    found = hashlib.sha256(base.encode("utf-8", errors="surrogateescape")).hexdigest()
    text = base
    for edit in (edit for edit in patch.edits if edit.file == file):
        times = text.count(edit.old)
        if times != 1:
            raise Refused(f"patch `{name}` does not apply to {file}: its anchor stands there {times} times, not once")
        text = text.replace(edit.old, edit.new)
    if found not in patch.bases and found not in accepted:
        raise Refused(
            f"patch `{name}` was not made for this {file} (sha256 {found[:12]}…), though its anchor is there",
            hint=f"b70ctl patches accept {name}:{found}",
        )
    return text
