"""patches accept: a base that the owner takes responsibility for."""

from __future__ import annotations

import hashlib
import re

from b70ctl.cli.here import Here
from b70ctl.cli.patches import probed, site_lock, text_of
from b70ctl.core.image import ImageFacts
from b70ctl.core.patch import Answer, Patch, by_version, edited, refuse_unless_meant_for
from b70ctl.errors import Refused, UsageError

OVERLAID = "an overlay takes the place of the one file that it was made from, and is made anew for another"


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
        what = "its script finds its own places" if patch.scripts else OVERLAID
        raise Refused(f"patch `{name}` has no base to accept: {what}", hint=f"b70ctl patches show {name}")
    facts, file = _holder(here, name, patch, digest, image)
    lines = _fits(here, name, patch, facts, file, digest)
    with locked(here.store.lock_file, f"site {root}", f"patches accept {name}", now()):
        lock = site_lock(here)
        known = lock.patches.get(name, [])
        write_lock(root, lock.model_copy(update={"patches": lock.patches | {name: sorted({*known, digest})}}))
    where = f"its anchor{'' if len(lines) == 1 else 's'} at line {', '.join(map(str, lines))}"
    here.console.say(f"{name} may be applied from now on to {file} with sha256 {digest[:12]}…, as {facts.ref} has it "
                     f"(vLLM {facts.vllm}; {where})")  # fmt: skip


def _holder(here: Here, name: str, patch: Patch, digest: str, image: str | None) -> tuple[ImageFacts, str]:
    """The image that has the file, and the file: the one that is named, else any that was asked before."""
    from b70ctl.edge.imagefacts import all_kept

    candidates = all_kept(here.store.folder) if image is None else [probed(here, image)]
    # a file may be the same in an image that the patch is for and in one where it does harm
    for facts in sorted(candidates, key=lambda facts: not _meant_for(patch, facts)):
        for file in sorted(patch.judged):
            if facts.files.get(file) == digest and here.daemon.image(facts.id) is not None:
                return facts, file
    whose = f"image {image} has" if image is not None else "no image that was asked here has"
    raise Refused(f"{whose} a file of patch `{name}` with sha256 {digest[:12]}…; `patches check` names the hash",
                  hint="b70ctl patches check --image IMAGE")  # fmt: skip


def _meant_for(patch: Patch, facts: ImageFacts) -> bool:
    return by_version(patch, facts.vllm, facts.kernels).answer is Answer.APPLIES


def _fits(here: Here, name: str, patch: Patch, facts: ImageFacts, file: str, digest: str) -> list[int]:
    """The lines of the anchors; Refused where the image is not one that the patch is for."""
    refuse_unless_meant_for(name, patch, facts)
    text = text_of(here, facts, file)
    found = hashlib.sha256((text or "").encode("utf-8", errors="surrogateescape")).hexdigest()
    if text is None or found != digest:
        raise Refused(f"{file} of {facts.ref} has sha256 {found[:12]}… now", hint=f"b70ctl images probe {facts.ref}")
    return edited(name, patch, file, text)[1]
