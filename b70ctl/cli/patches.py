"""patches: what they are for, and what they are to an image."""

from __future__ import annotations

import json
import os
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from b70ctl.cli.here import Here
from b70ctl.core.image import ImageFacts, check_reference, parsed_version
from b70ctl.core.patch import Answer, Checked, Edit, Patch
from b70ctl.core.patchcheck import by_files, by_release, unread
from b70ctl.core.patchset import brought, refuse_taken
from b70ctl.core.strict import NAME
from b70ctl.edge.sitefiles import is_file, lies_in
from b70ctl.errors import B70Error, Refused, UsageError

if TYPE_CHECKING:
    from b70ctl.edge.sitelock import SiteLock

NO_PATCH = (
    "a vLLM checkout in the image's working directory needs no patch: every engine starts in /, and after the start it "
    "is proven which files Python imports"
)

NEW_TEXT = """\
# yaml-language-server: $schema=../../{state}/patch.schema.json
summary: {name}, and what it does in a line
why: what breaks without it, with the message that people will search for
versions: ">=0.19,<0.34"
edits:
  - file: vllm/some/module.py
    old: the lines as they stand
    new: the lines as they should be
source: where it comes from
"""


def list_(here: Here) -> None:
    """Every patch, the vLLM versions that it is for, and why it is needed."""
    patches = _every(here)
    if here.console.json:
        here.console.data({name: {"status": "broken", "summary": patch.what} if isinstance(patch, B70Error)
                           else patch.model_dump(mode="json") for name, patch in patches.items()})  # fmt: skip
        return
    here.console.rows(["NAME", "VLLM", "WHOSE", "SUMMARY"], [_row(here, *each) for each in patches.items()])
    here.console.say(NO_PATCH)


def _row(here: Here, name: str, patch: Patch | B70Error) -> list[str]:
    if isinstance(patch, B70Error):
        own = here.root is not None and lies_in(here.root / "patches", name)
        return [name, "broken", "yours" if own else "", patch.what]
    return [name, patch.versions, "yours" if _is_own(here, name) else patch.status, patch.summary]


def _is_own(here: Here, name: str) -> bool:
    return here.root is not None and lies_in(here.root / "patches" / name, "patch.yaml")


def _every(here: Here) -> dict[str, Patch | B70Error]:
    """Every patch by name, and of one that cannot be read the error."""
    for folder in here.catalog.misnamed_patches():
        here.console.warn(f"{folder} cannot be asked for: a patch's name is of a-z, 0-9, dot, dash and underscore")
    found: dict[str, Patch | B70Error] = {}
    for name in here.catalog.patches():
        try:
            found[name] = here.catalog.patch(name)
        except B70Error as error:
            found[name] = error
    return found


def show(here: Here, name: str) -> None:
    """One patch with its reasons, what it changes, and where it does not belong."""
    patch = here.catalog.patch(name)
    if here.console.json:
        here.console.data(patch.model_dump(mode="json"))
        return
    here.console.rows(None, [[f"{name}: {patch.summary}"], [""], [patch.why], [""]])
    here.console.rows(None, _facts(patch, "yours" if _is_own(here, name) else patch.status))
    for edit in patch.edits:
        here.console.text("\n".join(["", f"in {edit.file}:", *_difference(edit)]))


def _difference(edit: Edit) -> list[str]:
    """An edit line by line: what goes with a minus, what comes with a plus, what stays with neither."""
    old, new = edit.old.splitlines(), edit.new.splitlines()
    # the three lines before are names that it has not got, and a place that only the image's file knows
    return list(unified_diff(old, new, lineterm="", n=len(old)))[3:]


def _facts(patch: Patch, whose: str) -> list[list[str]]:
    spans = [(word, span) for word in ("needless", "harmful") for span in getattr(patch, word)]
    told = [
        ("vLLM", patch.versions),
        *((word, f"{_span(span)}: {span.reason}") for word, span in spans),
        *(("base", f"{digest}  {version}") for digest, version in patch.bases.items()),
        *(("changes", file) for file in sorted(patch.files)),
        *(("script", f"{each.file}, sha256 {each.sha256 or 'of any'}, from {each.where}") for each in patch.scripts),
        *(("overlay", f"{each.source} over {each.file}, made from sha256 {each.base}") for each in patch.overlays),
        *(("leaves", f"`{marker.text}` in {marker.file}") for marker in patch.markers),
        *(("excludes", f"{other}: {reason}") for other, reason in patch.excludes.items()),
        *(("after", other) for other in patch.after),
        *(("sets", f"{variable}={value}") for variable, value in patch.env.items()),
        ("source", f"{patch.source} ({whose})"),
    ]
    return [list(each) for each in told]


def _span(span: Any) -> str:
    kernels = f"vllm-xpu-kernels {span.kernels}" if span.kernels else ""
    return ", ".join(filter(None, [f"vLLM {span.versions}" if span.versions else "", kernels]))


def check(here: Here, image: str | None, vllm: str | None) -> None:
    """What every patch is to an image or a version: applies, needless, harmful, unknown or broken; with the reason."""
    if (image is None) == (vllm is None):
        hint = "b70ctl patches check --image REF, or: b70ctl patches check --vllm 0.30.0"
        raise UsageError("give either an image or a version", hint=hint)
    if vllm is not None:
        parsed_version(vllm)
    facts = probed(here, image) if image is not None else None
    answers = {name: _answer(here, name, patch, facts or str(vllm)) for name, patch in _every(here).items()}
    vllm = facts.vllm if facts else vllm
    if here.console.json:
        told = {name: {"answer": found.answer, "reason": found.reason} for name, found in answers.items()}
        here.console.data({"image": image, "vllm": vllm, "patches": told})
        return
    rows = [[name, found.answer, found.reason] for name, found in answers.items()]
    here.console.say(f"for vLLM {vllm}{f', as {image} has it' if image else ''}:")
    here.console.rows(["NAME", "ANSWER", "REASON"], rows)


def _answer(here: Here, name: str, patch: Patch | B70Error, of: ImageFacts | str) -> Checked:
    """What a patch is to an image or to a version."""
    if isinstance(patch, B70Error):
        return Checked(Answer.BROKEN, patch.what)
    found = by_release(patch, of) if isinstance(of, str) else _by_image(here, name, patch, of)
    return _as_it_lies_here(here, name, patch, found)


def probed(here: Here, image: str) -> ImageFacts:
    """What an image holds, asked now with the files of every patch, and kept."""
    from b70ctl.cli.images import patch_targets
    from b70ctl.edge.imagefacts import probe_image

    keep = here.store.folder if here.root else None
    return probe_image(here.daemon, check_reference(image), patch_targets(here), keep)


def _by_image(here: Here, name: str, patch: Patch, facts: ImageFacts) -> Checked:
    accepted = site_lock(here).accepted().get(name, frozenset())
    texts = {file: text for file in unread(patch, facts) if (text := text_of(here, facts, file)) is not None}
    return by_files(name, patch, facts, accepted, texts)


def _as_it_lies_here(here: Here, name: str, patch: Patch, found: Checked) -> Checked:
    """An answer, and which file of the patch this site has not got; one that no release would carry applies to none."""
    from b70ctl.edge.files import not_allowed
    from b70ctl.edge.filling import unfit
    from b70ctl.edge.secretfiles import secret_files

    if here.root is None or found.answer is not Answer.APPLIES:
        return found
    lacking: list[str] = []
    try:
        needed = brought(name, patch, here.workshop(docker=False).place)
    except Refused as refused:
        return Checked(Answer.BROKEN, refused.what)
    hidden = secret_files(here.catalog.site, here.root, looking=True)
    for order in needed:
        for error in unfit([order], {name: patch}, hidden):
            if os.path.lexists(order.source) or not_allowed(Path(order.source)):
                return Checked(Answer.BROKEN, f"{error.what} ({error.hint})")
            get = f": get it from {error.hint}" if order.kind == "copy" else ""
            lacking.append(f"{order.source} is not here{get}")
    return Checked(found.answer, "; ".join([*lacking, found.reason]))


def new(here: Here, name: str) -> None:
    """Start a patch of your own at this site, with the schema for editors where it says."""
    from b70ctl.edge import places
    from b70ctl.edge.files import replace

    if not NAME.fullmatch(name):
        raise UsageError(f"`{name}` cannot be a patch's name", hint="lower-case letters, digits, dot, dash, underscore")
    another = f"b70ctl patches new my-{name}"
    refuse_taken(name, hint=another)
    if (places.shipped("patches") / name).exists():
        # a file that is still to be filled in would stand in for it in every profile that has it
        raise Refused(f"patch `{name}` is shipped, and one of yours would take its place", hint=another)
    file = here.site_root / "patches" / name / "patch.yaml"
    if is_file(file):
        raise Refused(f"{file} exists already", hint=f"b70ctl patches show {name}")
    replace(here.site_root / places.STATE / "patch.schema.json", json.dumps(Patch.model_json_schema(), indent=2))
    replace(file, NEW_TEXT.format(name=name, state=places.STATE))
    here.console.say(f"{file} is ready to be filled in; b70ctl patches check --image REF says whether it applies")


def site_lock(here: Here) -> SiteLock:
    """What the site's owner decided once."""
    from b70ctl.edge.sitelock import read_lock

    return read_lock(here.root)


def text_of(here: Here, facts: ImageFacts, file: str) -> str | None:
    """A file below an image's site-packages; None where it has none."""
    found: bytes | None = here.daemon.read_file(facts.id, f"{facts.site_packages}/{file}")
    return None if found is None else found.decode("utf-8", errors="surrogateescape")
