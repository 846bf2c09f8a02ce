"""The patches of one profile, side by side: which may meet, what each brings, and what it changes."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from itertools import combinations

from b70ctl.core import serving
from b70ctl.core.deployment import Changed, Order
from b70ctl.core.image import ImageFacts
from b70ctl.core.kernels import TABLE
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.errors import NotAsked, Refused, UsageError, to_type

TAKEN = frozenset({"draft", "mounts", "plugin", TABLE})
"""Names below a release's `files`, where each patch has a folder of its name."""


def refuse_taken(name: str, *, hint: str) -> None:
    """Raise for a patch's name that a release has for something else."""
    if name in TAKEN:
        raise Refused(f"patch `{name}` has the name of what b70ctl itself puts into a release", hint=hint)


def orders(names: Sequence[str], place: Place, facts: ImageFacts, patches: Mapping[str, Patch]) -> list[Order]:
    """Every file that the release must bring for them; Refused for patches that must not meet."""
    for name in names:
        refuse_taken(name, hint=to_type("mv", f"patches/{name}", f"patches/my-{name}"))
    for quarrel in quarrels({name: patches[name] for name in names}):
        raise quarrel
    found: list[Order] = []
    for name in names:
        patch, folder = patches[name], f"patches/{name}"
        for file in dict.fromkeys(edit.file for edit in patch.edits):
            target = _installed(name, file, facts)
            found.append(Order(kind="patched", to=f"files/{name}/{file}", target=target, name=name, source=file))
        found += (
            Order(kind="overlay", to=f"files/{name}/{overlay.file}", target=_installed(name, overlay.file, facts),
                  name=name, source=place.path(f"{folder}/{overlay.source}"), sha256=overlay.sha256)
            for overlay in patch.overlays
        )  # fmt: skip
        for number, script in enumerate(patch.scripts):
            base = posixpath.basename(script.file)
            found.append(
                Order(
                    kind="copy",
                    to=f"files/{name}/{script.file}",
                    target=f"{serving.SCRIPTS}/{len(found):02}-{number}-{base}",
                    name=name,
                    source=place.path(f"{folder}/{script.file}"),
                    sha256=script.sha256,
                )
            )
    return found


def brought(name: str, patch: Patch, place: Place) -> list[Order]:
    """The site's own files that a release must bring for one patch, whatever the image."""
    anywhere = ImageFacts(ref=name, vllm="0", site_packages="/", source="assumed")
    return [order for order in orders([name], place, anywhere, {name: patch}) if order.kind != "patched"]


def _installed(name: str, file: str, facts: ImageFacts) -> str:
    if facts.site_packages is None:
        raise NotAsked(f"patch `{name}` changes {file}, and where {facts.ref} keeps it is not known",
                       hint=f"b70ctl images probe {facts.ref}")  # fmt: skip
    return f"{facts.site_packages}/{file}"


def changed(names: Sequence[str], facts: ImageFacts, patches: Mapping[str, Patch]) -> tuple[Changed, ...]:
    """What the patches do to the image's files; a script's files only where it is known where the image keeps them."""
    if facts.site_packages is None:
        return ()
    return tuple(
        Changed(
            patch=name,
            file=file,
            target=f"{facts.site_packages}/{file}",
            to=f"files/{name}/{file}" if file in patches[name].judged else None,
            markers=tuple(marker.text for marker in patches[name].markers if marker.file == file),
        )
        for name in names
        for file in sorted(patches[name].files)
    )


def variables(names: Sequence[str], patches: Mapping[str, Patch], given: Mapping[str, object]) -> dict[str, str]:
    """The variables that come with the patches; UsageError where the profile says something else of one."""
    found: dict[str, str] = {}
    for name in names:
        for variable, value in patches[name].env.items():
            if str(given.get(variable, value)) != value:
                raise UsageError(f"`env.{variable}` is {given[variable]}, and patch `{name}` comes with {value}",
                                 hint=f"drop the variable, or `{name}` from the profile's patches")  # fmt: skip
            found[variable] = value
    return found


def quarrels(patches: Mapping[str, Patch]) -> list[Refused]:
    """Every pair of patches, in their order, that must not meet."""
    pairs = combinations(patches.items(), 2)
    found = [_quarrel(first, one, second, two) for (first, one), (second, two) in pairs]
    return [quarrel for quarrel in found if quarrel]


def _quarrel(first: str, one: Patch, second: str, two: Patch) -> Refused | None:
    if reason := one.excludes.get(second) or two.excludes.get(first):
        return Refused(f"patches `{first}` and `{second}` exclude each other: {reason}",
                       hint=f"remove `{first}` or `{second}` from the profile's patches")  # fmt: skip
    scripts = bool(one.scripts and two.scripts)
    if scripts and second in one.after:
        return Refused(f"patch `{first}` edits a file of `{second}` once more, and comes after it",
                       hint=f"in the profile's patches: {second}, {first}")  # fmt: skip
    if not (scripts and first in two.after) and (both := sorted(one.files & two.files)):
        return Refused(f"patches `{first}` and `{second}` both change {both[0]}",
                       hint="one patch.yaml may hold both changes, as edits or as scripts in order")  # fmt: skip
    return None
