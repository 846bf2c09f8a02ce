"""A speculative method's draft: where its config lies, what of it is overridden, how far it reaches."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from b70ctl.core import serving
from b70ctl.core.deployment import Order
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.core.printable import one_line
from b70ctl.core.profile import Draft, Profile
from b70ctl.errors import Refused, UsageError

COMMIT = re.compile(r"[0-9a-f]{40}")
LIMIT = "max_position_embeddings"
LAYERS = ("transformer_layer_config", "text_config")
"""Where a config keeps its model's keys, when it does not at the top: drafts of the `speculators` format do."""
MOST_TOLD = 20
"""Keys that a refusal lists."""
MOST_SHOWN = 80
"""Characters of each."""
ELSEWHERE = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME", "HOME")
"""Variables that take the engine to another cache than the one that is mounted."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a draft's config.json says of its positions."""

    limit: int | None = None
    """How many there are."""
    ropes: frozenset[str] = frozenset()
    """How they are encoded, as far as the config names it: `default`, `llama3`, `yarn`, …"""
    key: str = LIMIT
    """Where the config says so, as an override names it."""


def draft_of(profile: Profile) -> Draft | None:
    """The profile's draft, where it has one."""
    return profile.speculative.draft if profile.speculative else None


def cache(place: Place) -> str:
    """The site's cache of hub models; UsageError where it has none."""
    if place.site.hf_cache is None:
        raise UsageError("the profile names a hub model, and site.yaml has no `hf_cache`",
                         hint="add to site.yaml: hf_cache: ~/.cache/huggingface (as an absolute path)")  # fmt: skip
    return place.path(place.site.hf_cache)


def cached(hub: str, place: Place) -> str:
    """The folder of a hub repository in that cache."""
    return f"{cache(place)}/{_repository(hub)}"


def in_cache(hub: str, revision: str | None, place: Place) -> str:
    """What an engine off the net must find in the cache: the commit, or what says which one a name stands for."""
    known = f"snapshots/{revision}" if COMMIT.fullmatch(revision or "") else f"refs/{revision or 'main'}"
    return f"{cached(hub, place)}/{known}"


def _repository(hub: str) -> str:
    return f"hub/models--{hub.replace('/', '--')}"


def config_file(draft: Draft, place: Place) -> str | None:
    """The draft's config.json on this host; None for a hub draft of which the cache has no snapshot."""
    if draft.path is not None:
        return f"{place.model(draft.path)}/config.json"
    commit = _commit(draft, place)
    return f"{cached(str(draft.hub), place)}/snapshots/{commit}/config.json" if commit else None


def _commit(draft: Draft, place: Place) -> str | None:
    pinned = draft.revision if COMMIT.fullmatch(draft.revision or "") else None
    return pinned or place.draft_commit


def revision(draft: Draft, place: Place) -> str | None:
    """What the engine is told to load: with overrides the very snapshot whose config was changed, and no later one."""
    return _commit(draft, place) if draft.overrides and draft.hub else draft.revision


def orders(profile: Profile, place: Place, patches: Mapping[str, Patch] | None = None) -> tuple[Order, ...]:
    """The changed config that the release must bring, where the profile overrides anything."""
    draft = draft_of(profile)
    if draft is None or not draft.overrides:
        return ()
    if draft.hub:
        _refuse_elsewhere(draft, profile, patches or {})
    return (
        Order(
            kind="draft-config",
            to="files/draft/config.json",
            target=f"{_folder(draft, place)}/config.json",
            name=str(draft.path or draft.hub),
            source=str(config_file(draft, place)),
            overrides=draft.overrides,
        ),
    )


def _folder(draft: Draft, place: Place) -> str:
    """Where the container has the draft."""
    if draft.path is not None:
        return serving.below_models(draft.path)
    if commit := _commit(draft, place):
        return f"{serving.HF_CACHE}/{_repository(serving.model_argument(draft))}/snapshots/{commit}"
    wanted = f" --revision {shlex.quote(draft.revision)}" if draft.revision else ""
    raise Refused(
        f"draft {draft.hub} has a config to be changed, and {cached(str(draft.hub), place)} has no snapshot of "
        f"`{draft.revision or 'main'}`",
        hint=f"HF_HOME={shlex.quote(cache(place))} hf download {shlex.quote(str(draft.hub))}{wanted}",
    )


def _refuse_elsewhere(draft: Draft, profile: Profile, patches: Mapping[str, Patch]) -> None:
    for moved in ELSEWHERE:
        patch = next((name for name in profile.patches if name in patches and moved in patches[name].env), None)
        if patch is None and moved not in profile.env:
            continue
        what = f"`{moved}`, which patch `{patch}` comes with," if patch else f"`env.{moved}`"
        fix = f"drop `{patch}` from the profile's patches" if patch else f"{moved}: null, and in site.yaml: hf_cache"
        raise UsageError(
            f"{what} takes the engine to another cache than the site's, so that draft {draft.hub} would be "
            "loaded unchanged",
            hint=fix,
        )


# --- the config itself ------------------------------------------------------------------------------------------------


def overridden(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its keys changed; `a.b` is the key `b` of the mapping `a`. Refused for a key that is not there.

    A key is never added: a misspelt one would change nothing, and nobody would notice.
    """
    made = dict(config)
    for name, value in overrides.items():
        _override(made, name, name, value, _meant(config, name))
    return made


def _meant(config: Mapping[str, Any], name: str) -> str | None:
    """The key that an override is about which names none."""
    layers = {layer: config.get(layer) for layer in LAYERS}
    nested = [f"{layer}.{key}" for layer, part in layers.items() if isinstance(part, Mapping) for key in part]
    below = [key for key in nested if key.partition(".")[2] == name]
    return next(iter(below or get_close_matches(name, [*config, *nested], 1, 0.85)), None)


def _override(inside: dict[str, Any], name: str, whole: str, value: Any, meant: str | None) -> None:
    if name in inside:
        inside[name] = value
        return
    first, _, rest = name.partition(".")
    below = inside.get(first)
    if not rest or not isinstance(below, dict):
        has = ", ".join(map(_told, sorted(inside)[:MOST_TOLD])) or "nothing"
        if len(inside) > MOST_TOLD:
            has += f" and {len(inside) - MOST_TOLD:,} more"
        what = f"no `{_told(whole)}` to override; where `{_told(name)}` was looked for it has {has}"
        fix = meant and f"in the profile's speculative.draft.overrides: {_told(meant)}: {value}"
        raise Refused(f"the draft's config has {what}", hint=fix)
    inside[first] = dict(below)
    _override(inside[first], rest, whole, value, meant)


def _told(key: str) -> str:
    """A key of somebody's JSON, which may be of any length and hold anything."""
    shown = one_line(key)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"


def lifted(overrides: Mapping[str, Any]) -> int | None:
    """The position limit that overrides set."""
    names = (LIMIT, *(f"{layer}.{LIMIT}" for layer in LAYERS))
    return next((overrides[name] for name in names if _is_count(overrides.get(name))), None)


def described(config: Mapping[str, Any]) -> Reach:
    """How far a draft reaches, and how it encodes positions, by its config."""
    named = {"": config, **{f"{layer}.": config.get(layer) for layer in LAYERS}}
    parts = {prefix: part for prefix, part in named.items() if isinstance(part, Mapping)}
    ropes = frozenset(name for part in parts.values() for name in _ropes(part))
    for prefix, part in parts.items():
        if _is_count(part.get(LIMIT)):
            return Reach(part[LIMIT], ropes, f"{prefix}{LIMIT}")
    return Reach(ropes=ropes)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ropes(part: Mapping[str, Any]) -> Iterator[str]:
    """`rope_scaling` of older configs, `rope_parameters` of newer ones, which may have one for each kind of layer."""
    for given in (part.get("rope_parameters"), part.get("rope_scaling")):
        if isinstance(given, Mapping):
            for rope in (given, *(each for each in given.values() if isinstance(each, Mapping))):
                name = rope.get("rope_type", rope.get("type"))
                if isinstance(name, str):
                    yield name
