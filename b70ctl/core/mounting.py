"""What a container sees of the host, and what its release carries instead."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from b70ctl.core import serving
from b70ctl.core.deployment import Mount, Order
from b70ctl.core.image import ImageFacts
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.core.profile import MountSpec, Profile
from b70ctl.errors import Refused, UsageError


def requires(profile: Profile, place: Place) -> tuple[str, ...]:
    """What must lie on the host: a model directory with its config, or the hub's copy of one."""
    draft = profile.speculative.draft if profile.speculative else None
    found: list[str] = []
    for model in (profile.model, draft):
        if model is None:
            continue
        folder = place.model(model.path)
        if folder:
            found.append(f"{folder}/config.json")
        elif not profile.boot.download:
            hub = f"models--{str(model.hub).replace('/', '--')}"
            found.append(f"{place.path(str(place.site.hf_cache))}/hub/{hub}")
    found += (place.path(mount.source) for mount in profile.mounts if _is_carried(mount))
    return tuple(found)


def _is_carried(mount: MountSpec) -> bool:
    """Whether the release carries the file: what belongs to the site may change under a release that does not."""
    return mount.read_only and not mount.source.startswith("/")


def mounts(profile: Profile, place: Place, orders: tuple[Order, ...]) -> list[Mount]:
    """What is mounted from the host as it is; UsageError when two things have one target."""
    found = []
    draft = profile.speculative.draft if profile.speculative else None
    if profile.model.path is not None or (draft and draft.path is not None):
        models = place.path(str(place.site.models))
        found.append(Mount(source=models, target=serving.MODELS, read_only=True))
    if profile.model.hub is not None or (draft and draft.hub is not None):
        if place.site.hf_cache is None:
            raise UsageError("the profile names a hub model, and site.yaml has no `hf_cache`",
                             hint="add to site.yaml: hf_cache: ~/.cache/huggingface (as an absolute path)")  # fmt: skip
        cache = place.path(place.site.hf_cache)
        found.append(Mount(source=cache, target=serving.HF_CACHE, read_only=not profile.boot.download))
    found += (
        Mount(source=place.path(mount.source), target=mount.target, read_only=mount.read_only)
        for mount in profile.mounts
        if not _is_carried(mount)
    )
    targets = [posixpath.normpath(mount.target) for mount in found]
    targets += [*(order.target for order in orders), serving.CACHE, "/dev/dri/by-path"]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice:
        raise UsageError(f"two mounts have the target {twice}")
    return found


def orders(profile: Profile, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]) -> tuple[Order, ...]:
    """Every file that the release must bring."""
    found: list[Order] = []
    for name in profile.patches:
        patch = patches[name]
        for file in dict.fromkeys(edit.file for edit in patch.edits):
            if facts.site_packages is None:
                raise UsageError(f"patch `{name}` changes {file}, and where {facts.ref} keeps it is not known",
                                 hint=f"b70ctl images probe {facts.ref}")  # fmt: skip
            target = f"{facts.site_packages}/{file}"
            found.append(Order(kind="patched", to=f"files/{name}/{file}", target=target, name=name, source=file))
        for number, script in enumerate(patch.scripts):
            base = posixpath.basename(script.file)
            found.append(
                Order(
                    kind="copy",
                    to=f"files/{name}/{script.file}",
                    target=f"{serving.SCRIPTS}/{len(found):02}-{number}-{base}",
                    name=name,
                    source=place.path(f"patches/{name}/{script.file}"),
                    sha256=script.sha256,
                )
            )
    _refuse_twice(found)
    found += (
        Order(kind="tree", to=f"files/mounts/{number:02}-{posixpath.basename(mount.source)}", target=mount.target,
              name="mounts", source=place.path(mount.source))
        for number, mount in enumerate(profile.mounts)
        if _is_carried(mount)
    )  # fmt: skip
    draft = profile.speculative.draft if profile.speculative else None
    if draft and draft.overrides:
        found.append(
            Order(
                kind="draft-config",
                to="files/draft/config.json",
                target=f"{serving.below_models(str(draft.path))}/config.json",
                name=str(draft.path),
                source=f"{place.model(draft.path)}/config.json",
                overrides=draft.overrides,
            )
        )
    return tuple(found)


def _refuse_twice(orders: list[Order]) -> None:
    owners: dict[str, str] = {}
    for order in orders:
        if order.target in owners:
            raise Refused(f"patches `{owners[order.target]}` and `{order.name}` both change {order.target}")
        owners[order.target] = order.name
