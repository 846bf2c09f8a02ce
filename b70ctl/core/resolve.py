"""From a profile to a deployment: every choice is settled here, from what the site, the box and the image say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from b70ctl.core import draft as drafts
from b70ctl.core import imported, mounting, patchset, plugin, serving
from b70ctl.core.collectives import collective
from b70ctl.core.deployment import Address, Deployment, Order
from b70ctl.core.host import Host
from b70ctl.core.image import ImageFacts, check_reference
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile, Status
from b70ctl.core.site import Site
from b70ctl.core.sizes import refuse_endless
from b70ctl.errors import B70Error, MachineError, Refused, UsageError, to_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A profile that somebody asked for, and how."""

    name: str
    profile: Profile
    overrides: tuple[str, ...] = ()
    allow_status: str | None = None
    port: int | None = None


def refuse_status(request: Request) -> None:
    """Raise for a rejected profile that was not asked for by its status."""
    profile = request.profile
    if request.allow_status not in (None, *Status):
        raise UsageError(f"`--allow-status {request.allow_status}`: there are {', '.join(Status)}")
    if profile.status is Status.REJECTED and request.allow_status != profile.status:
        raise Refused(
            f"profile `{request.name}` is rejected: {profile.status_reason}; "
            "`--allow-status` is for who wants to see it fail",
            hint=f"b70ctl switch {request.name} --allow-status rejected",
        )


def resolve(
    request: Request, place: Place, facts: ImageFacts, patches: Mapping[str, Patch], kernels: Kernels | None = None
) -> Deployment:
    """The deployment that a profile means at a place, with an image, and with the `kernels` that its release carries.

    Raises UsageError for a profile that contradicts itself, MachineError where the box lacks a card or its group
    is not known, Refused for a patch that is not meant for the image.
    """
    profile, site = request.profile, place.site
    indices, addresses = _cards(profile, place)
    orders = (*mounting.orders(profile, place, facts, patches), *plugin.orders(kernels))
    preset = collective(profile.collectives) if profile.collectives else None
    patch_env = patchset.variables(profile.patches, patches, profile.env)
    scripts = tuple(order.target for order in orders if order.kind == "copy")
    settled = _with_env(profile, {**plugin.environment(kernels), **(preset.env if preset else {})})
    draft = drafts.draft_of(profile)
    words = serving.argv(profile, drafts.revision(draft, place) if draft else None)
    env = serving.environment(settled, facts, patch_env, indices, plugin.FOLDER if kernels else None)
    refuse_endless(words, env)
    changed = patchset.changed(profile.patches, facts, patches)
    imported.refuse_endless(changed)
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
        mounts=tuple(mounting.mounts(profile, place, orders)),
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
        requires=mounting.requires(profile, place),
        chat=profile.model.chat,
        patches={name: _digest(patches[name]) for name in profile.patches},
        changed=changed,
        kernels=kernels.name if kernels else None,
        draft_limit=_lifted(draft.overrides if draft else {}),
    )


def contradictions(
    profile: Profile, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]
) -> list[tuple[str, B70Error]]:
    """What `resolve` would refuse on any box, whatever lies there, each with the key of the profile that it is about.

    Of what rules say more is not among them: empty variables, and patches that must not meet.
    """
    place = _assumed(place)
    told = profile.model_copy(update={"env": {name: value for name, value in profile.env.items() if value != ""}})
    speculative = profile.speculative
    checks: dict[str, Callable[[], object]] = {
        "model": lambda: serving.model_argument(profile.model),
        "speculative": lambda: speculative and serving.speculative_config(speculative),
        "engine": lambda: refuse_endless(serving.argv(profile), {}),
        "env": lambda: refuse_endless((), serving.environment(told, facts, {}, ())),
        "speculative.draft": lambda: drafts.orders(profile, place, patches),
        "mounts": lambda: mounting.mounts(profile, place, _known_orders(profile, place, facts, patches)),
        "patches": lambda: imported.refuse_endless(patchset.changed(profile.patches, facts, patches)),
    }
    found: dict[str, tuple[str, B70Error]] = {}
    for key, check in checks.items():
        try:
            check()
        except B70Error as error:
            found.setdefault(error.what, (key, error))
    return list(found.values())


def _assumed(place: Place) -> Place:
    """The place with all that a profile could name there."""
    site = place.site.model_copy(update={"models": place.site.models or "/", "hf_cache": place.site.hf_cache or "/"})
    return replace(place, site=site, draft_commit=place.draft_commit or "0" * 40)


def _known_orders(
    profile: Profile, place: Place, facts: ImageFacts, patches: Mapping[str, Patch]
) -> tuple[Order, ...]:  # fmt: skip
    """What a release must bring, as far as each part can be told by itself."""
    parts: tuple[Callable[[], Iterable[Order]], ...] = (
        lambda: mounting.carried(profile, place),
        lambda: patchset.orders(profile.patches, place, facts, patches),
        lambda: drafts.orders(profile, place, patches),
    )
    found: list[Order] = []
    for part in parts:
        try:
            found += part()
        except B70Error:
            continue
    return tuple(found)


def _with_env(profile: Profile, ours: Mapping[str, str]) -> Profile:
    return profile.model_copy(update={"env": {**ours, **profile.env}})


def _lifted(overrides: Mapping[str, object]) -> int | None:
    # where a limit was lifted, 2048 is what it was: the long probe must still go past it
    return 2048 if drafts.lifted(overrides) else None


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
            hint=to_type("ls", "-l", f"{place.site.dri}/by-path"),
        )
    order = seen or sorted(allowed)
    chosen = sorted(allowed, key=order.index)[:wanted]
    return tuple(order.index(address) for address in chosen), tuple(chosen)


def _groups(site: Site, host: Host) -> tuple[int, ...]:
    if site.gids is not None:
        return tuple(site.gids)
    if not host.gids:
        raise MachineError(
            f"no render node below {site.dri}, so the group that may open it is not known; "
            "where no card is meant to be, as in CI, site.yaml says `gids: [992]`",
            hint="b70ctl doctor",
        )
    return host.gids


def _digest(patch: Patch) -> str:
    text = json.dumps(patch.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _cache_volume(site: Site, facts: ImageFacts, words: tuple[str, ...], env: Mapping[str, str]) -> str:
    # kernels compiled for one image and one set of flags are wrong for another
    key = json.dumps([facts.identity, words, sorted(env.items())])
    return f"b70ctl-{site.name}-cache-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
