"""What a patch is to one image: by its version, then by its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from b70ctl.core.deployment import Order
from b70ctl.core.image import ImageFacts, parsed_version, within
from b70ctl.core.patch import Answer, Checked, Patch, by_version, edited
from b70ctl.core.syntax import refuse_unless_python
from b70ctl.errors import Refused, to_type

BY_ITSELF = "its script looks for its own anchors when the container starts, and stops the start without them"


def by_release(patch: Patch, vllm: str) -> Checked:
    """What can be said with no image at hand: of a development build, whose files differ, only the range."""
    found = by_version(patch, vllm)
    if found.answer is not Answer.APPLIES:
        return found
    for span in (*patch.harmful, *patch.needless):
        # a version says nothing of the kernels beside it
        if span.kernels and (span.versions is None or within(vllm, span.versions)):
            what = f"not with vllm-xpu-kernels {span.kernels}: {span.reason}"
            return Checked(Answer.UNKNOWN, f"{what}; ask the image: --image REF")
    if patch.scripts:
        return Checked(Answer.APPLIES, BY_ITSELF)
    if patch.overlays:
        return Checked(Answer.UNKNOWN, "an overlay fits the one file that it was made from; ask the image: --image REF")
    if not patch.bases:
        what = "it is in its range, and no file that it was made for is recorded (`bases`); ask the image: --image REF"
        return Checked(Answer.UNKNOWN, what)
    if parsed_version(vllm).is_prerelease:
        return Checked(Answer.UNKNOWN, "a development build has files of its own; ask the image: --image REF")
    return Checked(Answer.APPLIES, f"made for {', '.join(patch.bases.values())}")


def by_files(
    name: str, patch: Patch, facts: ImageFacts, accepted: frozenset[str], texts: Mapping[str, str]
) -> Checked:  # fmt: skip
    """What a patch is to an image whose files were hashed; `texts` holds those that it edits."""
    found = by_version(patch, facts.vllm, facts.kernels)
    if found.answer is not Answer.APPLIES:
        return found
    if patch.scripts:
        if lacking := [file for file in sorted(patch.files) if facts.files.get(file) == "absent"]:
            return Checked(Answer.UNKNOWN, f"the image has no {lacking[0]}, which its script edits")
        return Checked(Answer.APPLIES, BY_ITSELF)
    told = [_by_file(name, patch, file, facts, accepted, texts.get(file)) for file in sorted(patch.judged)]
    doubtful = [each for each in told if each.answer is not Answer.APPLIES]
    return doubtful[0] if doubtful else Checked(Answer.APPLIES, "; ".join(each.reason for each in told))


def _by_file(
    name: str, patch: Patch, file: str, facts: ImageFacts, accepted: frozenset[str], text: str | None
) -> Checked:  # fmt: skip
    digest = facts.files.get(file, "absent")
    short = file.rpartition("/")[2]
    if digest == "absent":
        return Checked(Answer.UNKNOWN, f"the image has no {file}")
    for overlay in (overlay for overlay in patch.overlays if overlay.file == file):
        if overlay.base == digest:
            return Checked(Answer.APPLIES, f"the image's {short} is the file that it was made from")
        what = f"the image's {short} is another than the one that it was made from; made anew, its base is {digest}"
        return Checked(Answer.UNKNOWN, what)
    if text is None:
        return Checked(Answer.UNKNOWN, f"{short} cannot be read in the image (sha256 {digest[:12]}…)")
    try:
        _, lines = edited(name, patch, file, text)
    except Refused as error:
        return Checked(Answer.UNKNOWN, error.what)
    if digest in patch.bases:
        return Checked(Answer.APPLIES, f"{short} is that of {patch.bases[digest]}")
    if digest in accepted:
        return Checked(Answer.APPLIES, f"{short} has another hash, which was accepted here")
    there = f"its anchor stands there once, at line {', '.join(map(str, lines))}"
    how = f"b70ctl patches accept {name}:{digest} --image {facts.ref}"
    return Checked(Answer.UNKNOWN, f"{short} has another hash; {there}: {how}")


def unread(patch: Patch, facts: ImageFacts) -> list[str]:
    """The files that have to be read before anything can be said of them: a hash that is known has anchors that are
    not, where the patch was changed since."""
    if by_version(patch, facts.vllm, facts.kernels).answer is not Answer.APPLIES or not patch.edits:
        return []
    return [file for file in sorted(patch.judged) if facts.files.get(file, "absent") != "absent"]


def unknown_bases(
    name: str, patch: Patch, facts: ImageFacts, accepted: Mapping[str, frozenset[str]]
) -> list[Refused]:  # fmt: skip
    """What can be told from hashes alone, before a file is read: bases that the patch was not made for."""
    known = {*patch.bases, *accepted.get(name, ())}
    bases = dict.fromkeys((edit.file for edit in patch.edits), known) | {
        overlay.file: {overlay.base} for overlay in patch.overlays
    }
    return [
        _unknown_base(name, patch, file, found, facts.ref)
        for file, good in bases.items()
        if (found := facts.files.get(file)) is not None and found not in good
    ]


def _unknown_base(name: str, patch: Patch, file: str, digest: str, image: str) -> Refused:
    if digest == "absent":
        return Refused(f"patch `{name}` changes {file}, which the image does not have")
    if patch.overlays:
        return _other_base(name, file, digest)
    return Refused(f"patch `{name}` was not made for this {file} (sha256 {digest[:12]}…), which can be accepted if its "
                   "anchor is there", hint=f"b70ctl patches accept {name}:{digest} --image {image}")  # fmt: skip


def base_of(order: Order, patch: Patch, base: bytes | None) -> bytes:
    """The image's file under an overlay; Refused unless it is the one that the overlay was made from."""
    overlay = next(each for each in patch.overlays if order.to == f"files/{order.name}/{each.file}")
    if base is None:
        raise Refused(f"patch `{order.name}` replaces {order.target}, which the image does not have")
    if (digest := hashlib.sha256(base).hexdigest()) != overlay.base:
        raise _other_base(order.name, overlay.file, digest)
    return base


def refuse_spoilt(order: Order, base: bytes, own: bytes) -> None:
    """Raise for an overlay that is no Python where the image's file is."""
    before, after = (each.decode("utf-8", errors="surrogateescape") for each in (base, own))
    hint = to_type("python3", "-m", "py_compile", order.source)
    refuse_unless_python(order.name, order.to.removeprefix(f"files/{order.name}/"), before, after, hint=hint)


def _other_base(name: str, file: str, digest: str) -> Refused:
    """The refusal of an overlay whose image has moved on."""
    return Refused(f"the overlay of patch `{name}` was made from another {file} than the image's "
                   f"(sha256 {digest[:12]}…), and would undo what has changed since",
                   hint=f"make it anew from the image's file, then in patch.yaml: base: {digest}")  # fmt: skip
