"""images: what images hold, and which one a reference is pinned to."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from b70ctl.cli.here import Here
from b70ctl.core.image import ImageFacts, check_reference
from b70ctl.errors import B70Error, Refused


def list_(here: Here) -> None:
    """The images that profiles use and the catalog knows, and what they are pinned to at this site."""
    from b70ctl.edge.sitelock import read_lock

    pins = read_lock(here.root).images
    known = {facts.ref: facts for facts in here.catalog.images()}
    used: dict[str, list[str]] = {}
    for entry in here.catalog.profiles():
        try:
            ref = here.catalog.profile(entry.name).profile.image.ref
        except B70Error as error:
            here.console.warn(error.what)
        else:
            used.setdefault(ref, []).append(entry.name)
    rows: list[dict[str, Any]] = [
        {"image": ref, "vllm": pins[ref].vllm if ref in pins else known[ref].vllm if ref in known else None,
         "pinned": pins[ref].identity if ref in pins else None, "profiles": used.get(ref, [])}
        for ref in dict.fromkeys([*used, *pins, *known])
    ]  # fmt: skip
    if here.console.json:
        here.console.data(rows)
        return
    cells = [
        [_short(row["image"]), row["vllm"] or "?", _short(row["pinned"] or "-"), ", ".join(row["profiles"])]
        for row in rows
    ]
    here.console.rows(["IMAGE", "VLLM", "PINNED", "PROFILES"], cells)


def _short(name: str) -> str:
    head, _, digest = name.partition("sha256:")
    return f"{head}sha256:{digest[:12]}…" if digest else name


def probe(here: Here, image: str) -> None:
    """Ask an image what it holds, in one short container without a card and without a network."""
    from b70ctl.edge.imagefacts import probe_image

    keep = here.store.folder if here.root else None
    facts = probe_image(here.daemon, check_reference(image), patch_targets(here), keep)
    if here.console.json:
        here.console.data(facts.model_dump(mode="json"))
        return
    for key, value in facts.model_dump(exclude_none=True, exclude={"files", "source"}).items():
        here.console.text(f"{key.replace('_', ' '):<16} {_words(value)}")
    for file, digest in facts.files.items():
        here.console.text(f"{digest if digest == 'absent' else digest[:16] + '…':<18} {file}")


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "none"
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "none"
    return str(value)


def patch_targets(here: Here) -> list[str]:
    """The files that any known patch touches; one that cannot be read touches none."""
    found: set[str] = set()
    for name in here.catalog.patches():
        with suppress(B70Error):
            found |= here.catalog.patch(name).files
    return sorted(found)


def pin(here: Here, image: str) -> None:
    """Record what a reference means now, so that it means the same tomorrow; kept in the site's lock file."""
    from b70ctl.edge.files import now
    from b70ctl.edge.imagefacts import probe_image
    from b70ctl.edge.lock import locked
    from b70ctl.edge.sitelock import Pin, read_lock, write_lock

    root = here.site_root
    facts: ImageFacts = probe_image(here.daemon, check_reference(image), patch_targets(here), here.store.folder)
    if "sha256:" not in facts.identity:
        raise Refused(f"image {image} has neither a digest nor an id")
    with locked(here.store.lock_file, f"site {root}", f"images pin {image}", now()):
        lock = read_lock(root)
        pins = lock.images | {image: Pin(identity=facts.identity, vllm=facts.vllm, at=now())}
        write_lock(root, lock.model_copy(update={"images": dict(sorted(pins.items()))}))
    here.console.say(f"{image} is {facts.identity} (vLLM {facts.vllm}) from now on")
