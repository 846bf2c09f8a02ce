"""What b70ctl would run for a profile, and what its lint says of it, for one release of vLLM."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from packaging.version import Version

from b70ctl.core.image import parsed_version
from b70ctl.core.lint import FlagTable, lint
from b70ctl.core.profile import Draft, ModelSpec, Profile, Status
from b70ctl.core.serving import argv, model_argument
from b70ctl.edge.catalog import Catalog, open_catalog
from tests.vllm.config.checkpoints import checkpoint, standing_in
from tests.vllm.versions import CONFIG

CLAIMS = frozenset({
    "unknown-flag", "flag-value", "kv-cache-dtype", "turboquant-overlay", "quantization", "speculative-words",
    "kv-scales", "asked-async", "draft-given", "turboquant-hybrid",
})  # fmt: skip
"""Rules that say "vLLM will not start with this"; the others speak of what happens later."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A profile with some of its keys set, as one of `profiles show --set`."""

    profile: str
    sets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What an answer is found by."""
        return " ".join((self.profile, *self.sets))


@functools.cache
def catalog() -> Catalog:
    """What is shipped."""
    return open_catalog(None)


def shipped() -> tuple[str, ...]:
    """Every shipped profile by name."""
    return tuple(entry.name for entry in catalog().profiles())


@functools.cache
def read(asked: Asked, version: str | None = None) -> Profile:
    """The profile, for another release than its own where one is given."""
    sets = (*asked.sets, f"image.vllm={version}") if version else asked.sets
    return catalog().profile(asked.profile, sets).profile


def meant_for(profile: Profile) -> str | None:
    """The release that a profile's image is, or is built on; None where this tier does not try it."""
    public = parsed_version(parsed_version(profile.image.vllm).public)
    older = [version for version in CONFIG if Version(version) <= public]
    near = older[-1] if older else None
    return near if near and Version(near).release[:2] == public.release[:2] else None


def is_served(profile: Profile) -> bool:
    """Whether anybody may start it without saying that it was rejected."""
    return profile.status is not Status.REJECTED


def words(asked: Asked) -> list[str]:
    """What follows `vllm serve`, with checkpoints that have no weights in place of the models."""
    profile = read(asked)
    draft = profile.speculative.draft if profile.speculative else None
    line = list(argv(profile)[2:])
    models = [(profile.model, checkpoint(standing_in(_name(profile.model))))]
    if draft:
        models.append((draft, checkpoint(standing_in(_name(draft)), dict(draft.overrides))))
    for model, folder in models:
        line = [word.replace(f'"{model_argument(model)}"', f'"{folder}"') for word in line]
        line = [str(folder) if word == model_argument(model) else word for word in line]
    return line


def _name(model: ModelSpec | Draft) -> str:
    return str(model.path or model.hub)


def claims(asked: Asked, version: str) -> tuple[set[str], set[str]]:
    """What lint calls an error that vLLM would stop at, and what it is not sure of, by rule."""
    found = lint(read(asked, version), facts=None, flags=FlagTable(catalog().flags()))
    about = [finding for finding in found if finding.rule in CLAIMS]
    return ({finding.rule for finding in about if finding.severity == "error"},
            {finding.rule for finding in about if finding.severity == "warning"})  # fmt: skip
