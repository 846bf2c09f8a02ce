"""From a profile to a deployment: every choice is settled here, from what the site, the box and the image say."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field

from b70ctl.core import serving
from b70ctl.core.collectives import collective
from b70ctl.core.deployment import Address, Deployment, Mount, Order
from b70ctl.core.host import Host
from b70ctl.core.image import ImageFacts, check_reference
from b70ctl.core.patch import Patch
from b70ctl.core.profile import Profile, Status
from b70ctl.core.site import Site
from b70ctl.errors import MachineError, Refused, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A profile that somebody asked for, and how."""

    name: str
    profile: Profile
    overrides: tuple[str, ...] = ()
    allow_status: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where it is to run: the site with its paths made absolute, and the box."""

    site: Site
    root: str
    """The site's directory; relative paths start here."""
    host: Host = field(default_factory=Host)


def refuse_status(request: Request) -> None:
    """Raise for a rejected profile that was not asked for by its status."""
    profile = request.profile
    if profile.status is Status.REJECTED and request.allow_status != profile.status:
        raise Refused(
            f"profile `{request.name}` is rejected: {profile.status_reason}",
            hint=f"--allow-status rejected, if you want to see it fail yourself: b70ctl switch {request.name} "
            "--allow-status rejected",
        )


def resolve(request: Request, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]) -> Deployment:
    """The deployment that a profile means at a place, with an image.

    Raises UsageError for a profile that contradicts itself, MachineError where the box lacks a card or its group
    is not known, Refused for a patch that is not meant for the image.
    """
    profile, site = request.profile, place.site
    indices, addresses = _cards(profile, place)
    orders = _orders(profile, place, facts, patches)
    preset = collective(profile.collectives) if profile.collectives else None
    patch_env = {name: value for key in profile.patches for name, value in patches[key].env.items()}
    scripts = tuple(order.target for order in orders if order.kind == "copy")
    settled = profile if preset is None else _with_env(profile, preset.env)
    words = serving.argv(profile)
    env = serving.environment(settled, facts, patch_env, indices)
    draft = profile.speculative.draft if profile.speculative else None
    return Deployment(
        profile=request.name,
        overrides=request.overrides,
        summary=profile.summary,
        site=site.name,
        image=facts.identity,
        image_ref=check_reference(profile.image.ref),
        vllm=facts.vllm,
        template=profile.template,
        entrypoint=serving.entrypoint(facts, scripts),
        argv=words,
        env=env,
        secrets=tuple(sorted(site.secrets)),
        working_dir="/",
        address=Address(bind=site.bind, port=request.port or site.port),
        network=site.network,
        cards=addresses,
        card_count=len(indices),
        devices=((site.dri, "/dev/dri"),) if indices else (),
        groups=_groups(site, place.host) if indices else (),
        mounts=tuple(_mounts(profile, place, orders)),
        files=orders,
        cache_volume=_cache_volume(site, facts, words, env),
        shm_size=profile.resources.shm_size,
        ipc=preset.ipc if preset and preset.ipc else profile.resources.ipc,
        ulimits=dict(sorted(profile.resources.ulimits.items())),
        cap_add=tuple(sorted({*profile.resources.cap_add, *(preset.cap_add if preset else ())})),
        shutdown_timeout=serving.SHUTDOWN_TIMEOUT,
        boot=profile.boot,
        probes=profile.probes,
        served_names=tuple(profile.model.served_names),
        max_model_len=profile.engine.max_model_len,
        tools=profile.engine.tool_call_parser is not None,
        reasoning=profile.engine.reasoning_parser is not None,
        speculative=profile.speculative.method if profile.speculative else None,
        requires=_requires(profile, place),
        patches={name: _digest(patches[name]) for name in profile.patches},
        draft_limit=_lifted(draft.overrides if draft else {}),
    )


def _with_env(profile: Profile, preset: Mapping[str, str]) -> Profile:
    return profile.model_copy(update={"env": {**preset, **profile.env}})


def _lifted(overrides: Mapping[str, object]) -> int | None:
    # where a limit was lifted, 2048 is what it was: the long probe must still go past it
    return 2048 if "max_position_embeddings" in overrides else None


def _cards(profile: Profile, place: Place) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Level Zero's indices of the cards to use, and their addresses where they are known."""
    if profile.cards == "none":
        return (), ()
    wanted = profile.cards or profile.engine.tensor_parallel_size
    seen = [card.address for card in place.host.level_zero]
    allowed = place.site.cards or [card.address for card in place.host.usable]
    if not allowed:
        return tuple(range(wanted)), ()
    if len(allowed) < wanted:
        raise MachineError(
            f"the profile needs {wanted} cards, the site has {len(allowed)}: {', '.join(allowed)}",
            hint="b70ctl render PROFILE --set engine.tensor_parallel_size=1",
        )
    unknown = [address for address in allowed if seen and address not in seen]
    if unknown:
        raise MachineError(
            f"site.yaml names card {unknown[0]}, {place.site.dri}/by-path has {', '.join(seen)}",
            hint=f"ls -l {place.site.dri}/by-path",
        )
    order = seen or sorted(allowed)
    chosen = sorted(allowed, key=order.index)[:wanted]
    return tuple(order.index(address) for address in chosen), tuple(chosen)


def _groups(site: Site, host: Host) -> tuple[int, ...]:
    if site.gids is not None:
        return tuple(site.gids)
    if not host.gids:
        raise MachineError(
            f"no render node below {site.dri}, so the group that may open it is not known",
            hint="where there is no card, as in CI, write its group into site.yaml: gids: [992]",
        )
    return host.gids


def _absolute(path: str, root: str) -> str:
    return posixpath.normpath(posixpath.join(root, path))


def _host_model(path: str | None, place: Place) -> str | None:
    if path is None:
        return None
    if place.site.models is None:
        raise UsageError("the profile names a model directory, and site.yaml has no `models`",
                         hint="add to site.yaml: models: /path/to/your/models")  # fmt: skip
    return _absolute(path, _absolute(place.site.models, place.root))


def _requires(profile: Profile, place: Place) -> tuple[str, ...]:
    """What must lie on the host: a model directory with its config, or the hub's copy of one."""
    draft = profile.speculative.draft if profile.speculative else None
    found: list[str] = []
    for model in (profile.model, draft):
        if model is None:
            continue
        folder = _host_model(model.path, place)
        if folder:
            found.append(f"{folder}/config.json")
        elif not profile.boot.download:
            hub = f"models--{str(model.hub).replace('/', '--')}"
            found.append(_absolute(f"hub/{hub}", _absolute(str(place.site.hf_cache), place.root)))
    return tuple(found)


def _mounts(profile: Profile, place: Place, orders: tuple[Order, ...]) -> list[Mount]:
    found = []
    draft = profile.speculative.draft if profile.speculative else None
    if profile.model.path is not None or (draft and draft.path is not None):
        models = _absolute(str(place.site.models), place.root)
        found.append(Mount(source=models, target=serving.MODELS, read_only=True))
    if profile.model.hub is not None or (draft and draft.hub is not None):
        if place.site.hf_cache is None:
            raise UsageError("the profile names a hub model, and site.yaml has no `hf_cache`",
                             hint="add to site.yaml: hf_cache: ~/.cache/huggingface (as an absolute path)")  # fmt: skip
        cache = _absolute(place.site.hf_cache, place.root)
        found.append(Mount(source=cache, target=serving.HF_CACHE, read_only=not profile.boot.download))
    found += (
        Mount(source=_absolute(mount.source, place.root), target=mount.target, read_only=mount.read_only)
        for mount in profile.mounts
    )
    targets = [posixpath.normpath(mount.target) for mount in found]
    targets += [*(order.target for order in orders), serving.CACHE, "/dev/dri/by-path"]
    twice = next((target for target in targets if targets.count(target) > 1), None)
    if twice:
        raise UsageError(f"two mounts have the target {twice}")
    return found


def _orders(profile: Profile, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]) -> tuple[Order, ...]:
    """Every file that the release must bring."""
    orders: list[Order] = []
    for name in profile.patches:
        patch = patches[name]
        for file in dict.fromkeys(edit.file for edit in patch.edits):
            if facts.site_packages is None:
                raise UsageError(f"patch `{name}` changes {file}, and where {facts.ref} keeps it is not known",
                                 hint=f"b70ctl images probe {facts.ref}")  # fmt: skip
            target = f"{facts.site_packages}/{file}"
            orders.append(Order(kind="patched", to=f"files/{name}/{file}", target=target, name=name, source=file))
        for number, script in enumerate(patch.scripts):
            base = posixpath.basename(script.file)
            orders.append(
                Order(
                    kind="copy",
                    to=f"files/{name}/{script.file}",
                    target=f"{serving.SCRIPTS}/{len(orders):02}-{number}-{base}",
                    name=name,
                    source=_absolute(f"patches/{name}/{script.file}", place.root),
                    sha256=script.sha256,
                )
            )
    _refuse_twice(orders)
    draft = profile.speculative.draft if profile.speculative else None
    if draft and draft.overrides:
        orders.append(
            Order(
                kind="draft-config",
                to="files/draft/config.json",
                target=f"{serving.below_models(str(draft.path))}/config.json",
                name=str(draft.path),
                source=f"{_host_model(draft.path, place)}/config.json",
                overrides=draft.overrides,
            )
        )
    return tuple(orders)


def _refuse_twice(orders: list[Order]) -> None:
    owners: dict[str, str] = {}
    for order in orders:
        if order.target in owners:
            raise Refused(f"patches `{owners[order.target]}` and `{order.name}` both change {order.target}")
        owners[order.target] = order.name


def _digest(patch: Patch) -> str:
    text = json.dumps(patch.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cache_volume(site: Site, facts: ImageFacts, words: tuple[str, ...], env: Mapping[str, str]) -> str:
    # kernels compiled for one image and one set of flags are wrong for another
    key = json.dumps([facts.identity, words, sorted(env.items())])
    return f"b70ctl-{site.name}-cache-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
