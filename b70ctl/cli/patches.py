"""patches: what they are for, what they are to an image, and the bases that an owner took responsibility for."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from b70ctl.cli.here import Here
from b70ctl.core.image import ImageFacts, check_reference, parsed_version
from b70ctl.core.patch import Answer, Checked, Patch, by_version, edited, refuse_unless_meant_for
from b70ctl.core.patchcheck import by_files, by_release, unread
from b70ctl.errors import Refused, UsageError

if TYPE_CHECKING:
    from b70ctl.edge.sitelock import SiteLock

NO_PATCH = (
    "a vLLM checkout in the image's working directory needs no patch: every engine starts in /, and after the start it "
    "is proven which files Python imports"
)


def list_(here: Here) -> None:
    """Every patch, the vLLM versions that it is for, and why it is needed."""
    patches = _every(here)
    if here.console.json:
        here.console.data({name: patch.model_dump(mode="json") for name, patch in patches.items()})
        return
    own = here.root / "patches" if here.root else None
    rows = [[name, patch.versions, "yours" if own and (own / name / "patch.yaml").is_file() else patch.status,
             patch.summary] for name, patch in patches.items()]  # fmt: skip
    here.console.rows(["NAME", "VLLM", "WHOSE", "SUMMARY"], rows)
    here.console.say(NO_PATCH)


def _every(here: Here) -> dict[str, Patch]:
    for folder in here.catalog.misnamed_patches():
        here.console.warn(f"{folder} cannot be asked for: a patch's name is of a-z, 0-9, dot, dash and underscore")
    return {name: here.catalog.patch(name) for name in here.catalog.patches()}


def show(here: Here, name: str) -> None:
    """One patch with its reasons, what it changes, and where it does not belong."""
    patch = here.catalog.patch(name)
    if here.console.json:
        here.console.data(patch.model_dump(mode="json"))
        return
    here.console.text("\n".join([f"{name}: {patch.summary}", "", patch.why, "", *_facts(patch)]))


def _facts(patch: Patch) -> list[str]:
    spans = [(word, span) for word in ("needless", "harmful") for span in getattr(patch, word)]
    told = [
        ("vLLM", patch.versions),
        *((word, f"{_span(span)}: {span.reason}") for word, span in spans),
        *(("base", f"{digest}  {version}") for digest, version in patch.bases.items()),
        *(("changes", file) for file in sorted(patch.files)),
        *(("script", f"{script.file}, from {script.where}") for script in patch.scripts),
        *(("overlay", f"{overlay.source} over {overlay.file}") for overlay in patch.overlays),
        *(("leaves", f"`{marker.text}` in {marker.file}") for marker in patch.markers),
        *(("excludes", f"{other}: {reason}") for other, reason in patch.excludes.items()),
        *(("after", other) for other in patch.after),
        *(("sets", f"{variable}={value}") for variable, value in patch.env.items()),
        ("source", f"{patch.source} ({patch.status})"),
    ]
    return [f"{label:<9} {text}" for label, text in told]


def _span(span: Any) -> str:
    kernels = f"vllm-xpu-kernels {span.kernels}" if span.kernels else ""
    return ", ".join(filter(None, [f"vLLM {span.versions}" if span.versions else "", kernels]))


def check(here: Here, image: str | None, vllm: str | None) -> None:
    """What every patch is to an image or to a version: applies, needless, harmful, or unknown; with the reason."""
    if (image is None) == (vllm is None):
        raise UsageError("give either an image or a version", hint="b70ctl patches check --image REF, or --vllm 0.30.0")
    patches = _every(here)
    if vllm is not None:
        parsed_version(vllm)
        answers = {name: by_release(patch, vllm) for name, patch in patches.items()}
    else:
        facts = _probed(here, str(image))
        vllm = facts.vllm
        answers = {name: _by_image(here, name, patch, facts) for name, patch in patches.items()}
    answers = {name: _as_it_lies_here(here, name, patches[name], found) for name, found in answers.items()}
    if here.console.json:
        told = {name: {"answer": found.answer, "reason": found.reason} for name, found in answers.items()}
        here.console.data({"image": image, "vllm": vllm, "patches": told})
        return
    rows = [[name, found.answer, found.reason] for name, found in answers.items()]
    here.console.say(f"what every patch is to vLLM {vllm}{f', as {image} has it' if image else ''}:")
    here.console.rows(["NAME", "ANSWER", "REASON"], rows)


def _probed(here: Here, image: str) -> ImageFacts:
    from b70ctl.cli.images import patch_targets
    from b70ctl.edge.imagefacts import probe_image

    keep = here.store.folder if here.root else None
    return probe_image(here.daemon, check_reference(image), patch_targets(here), keep)


def _by_image(here: Here, name: str, patch: Patch, facts: ImageFacts) -> Checked:
    accepted = _lock(here).accepted().get(name, frozenset())
    texts = {file: text for file in unread(patch, facts) if (text := _text(here, facts, file)) is not None}
    return by_files(name, patch, facts, accepted, texts)


def _as_it_lies_here(here: Here, name: str, patch: Patch, found: Checked) -> Checked:
    """An answer, and which script of the patch this site has not got."""
    folder = here.root / "patches" / name if here.root else None
    lacking = [script for script in patch.scripts if folder and not (folder / script.file).is_file()]
    if found.answer is not Answer.APPLIES or not lacking:
        return found
    get = "; ".join(f"{folder}/{script.file} is not here: get it from {script.where}" for script in lacking)
    return Checked(found.answer, f"{get}; {found.reason}")


def _lock(here: Here) -> SiteLock:
    from b70ctl.edge.sitelock import read_lock

    return read_lock(here.root)


def _text(here: Here, facts: ImageFacts, file: str) -> str | None:
    found: bytes | None = here.daemon.read_file(facts.id, f"{facts.site_packages}/{file}")
    return None if found is None else found.decode("utf-8", errors="surrogateescape")


def accept(here: Here, base: str, image: str | None) -> None:
    """Take responsibility for applying a patch to a file that it was not made for.

    Refused unless an image of this machine has that very file, its version is in the patch's range, and each anchor
    stands there exactly once.
    """
    from b70ctl.edge.files import now
    from b70ctl.edge.lock import locked
    from b70ctl.edge.sitelock import write_lock

    root = here.site_root
    name, _, digest = base.partition(":")
    patch = here.catalog.patch(name)
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise UsageError(f"`{digest}` is not a sha256 of 64 hex digits", hint="b70ctl patches check --image IMAGE")
    if not patch.edits:
        what = "its script finds its own places" if patch.scripts else "an overlay has one base: make it anew"
        raise Refused(f"patch `{name}` has no base to accept: {what}", hint=f"b70ctl patches show {name}")
    facts, file = _holder(here, name, patch, digest, image)
    lines = _fits(here, name, patch, facts, file, digest)
    with locked(here.store.lock_file, f"site {root}", f"patches accept {name}", now()):
        lock = _lock(here)
        known = lock.patches.get(name, [])
        write_lock(root, lock.model_copy(update={"patches": lock.patches | {name: sorted({*known, digest})}}))
    where = f"its anchor{'' if len(lines) == 1 else 's'} at line {', '.join(map(str, lines))}"
    here.console.say(f"{name} may be applied from now on to {file} with sha256 {digest[:12]}…, as {facts.ref} has it "
                     f"(vLLM {facts.vllm}; {where})")  # fmt: skip


def _holder(here: Here, name: str, patch: Patch, digest: str, image: str | None) -> tuple[ImageFacts, str]:
    """The image that has the file, and the file: the one that is named, else any that was asked before."""
    from b70ctl.edge.imagefacts import all_kept

    candidates = all_kept(here.store.folder) if image is None else [_probed(here, image)]
    # a file may be the same in an image that the patch is for and in one where it does harm
    for facts in sorted(candidates, key=lambda facts: not _meant_for(patch, facts)):
        for file in sorted(patch.judged):
            if facts.files.get(file) == digest and here.daemon.image(facts.id) is not None:
                return facts, file
    whose = f"image {image} has" if image is not None else "no image that was asked here has"
    raise Refused(f"{whose} a file of patch `{name}` with sha256 {digest[:12]}…",
                  hint="b70ctl patches check --image IMAGE, which names the hash")  # fmt: skip


def _meant_for(patch: Patch, facts: ImageFacts) -> bool:
    return by_version(patch, facts.vllm, facts.kernels).answer is Answer.APPLIES


def _fits(here: Here, name: str, patch: Patch, facts: ImageFacts, file: str, digest: str) -> list[int]:
    """The lines of the anchors; Refused where the image is not one that the patch is for."""
    refuse_unless_meant_for(name, patch, facts)
    text = _text(here, facts, file)
    found = hashlib.sha256((text or "").encode("utf-8", errors="surrogateescape")).hexdigest()
    if text is None or found != digest:
        raise Refused(f"{file} of {facts.ref} has sha256 {found[:12]}… now", hint=f"b70ctl images probe {facts.ref}")
    return edited(name, patch, file, text)[1]
