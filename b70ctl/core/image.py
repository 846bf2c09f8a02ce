"""What is known of a container image; rules name these facts, never a tag."""

from __future__ import annotations

import re
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import BaseModel, ConfigDict, Field

from b70ctl.errors import UsageError

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REFERENCE = re.compile(
    r"(?P<repository>(?:[a-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


MOST_VERSION, MOST_VERSIONS = 100, 200
"""Characters of a version, and of a range of them."""


class ImageFacts(BaseModel):
    """One image, as it was read; `source` says by whom."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ref: str
    """The reference that was asked for."""
    id: str | None = None
    """The image id of the daemon that read it; none in the catalog."""
    digest: str | None = None
    """`repository@sha256:…`; an image that was built or imported here has none."""
    vllm: str
    torch: str | None = None
    triton: str | None = None
    kernels: str | None = None
    """vllm-xpu-kernels."""
    arctic_inference: str | None = None
    """What suffix decoding needs: its version, `absent`, or None where nobody asked."""
    compute_runtime: str | None = None
    python: str | None = None
    entrypoint: tuple[str, ...] = ()
    workdir: str = "/"
    site_packages: str | None = None
    pythonpath: str | None = None
    """PYTHONPATH of the image's own environment: appended to, never replaced."""
    groups: dict[str, int] = Field(default_factory=dict)
    setvars: bool = False
    """Whether /opt/intel/oneapi/setvars.sh exists."""
    files: dict[str, str] = Field(default_factory=dict)
    """sha256 of the files that patches touch, by their path below site-packages; `absent` where there is none."""
    source: Literal["catalog", "probe", "assumed"]
    """Read from the image itself, known from the catalog, or only what the profile expects of it."""

    @property
    def identity(self) -> str:
        """The name that cannot move: the repository digest, else the image id, else the reference."""
        return self.digest or self.id or self.ref


def sources_setvars(facts: ImageFacts) -> bool:
    """Whether the image's entrypoint prepares oneAPI, which an entrypoint of ours then has to do in its place."""
    return facts.setvars and any("setvars.sh" in word for word in facts.entrypoint)


def is_version(text: str) -> bool:
    """Whether a text is a version that rules can compare."""
    try:
        parsed_version(text)
    except UsageError:
        return False
    return True


def parsed_version(text: str) -> Version:
    """A vLLM version, development builds included."""
    try:
        if len(text) <= MOST_VERSION:
            return Version(text)
    except InvalidVersion:
        pass
    shown = text if len(text) <= MOST_VERSION else f"{text[:40]}…"
    raise UsageError(
        f"`{shown}` is not a version", hint="write it as vLLM prints it, for example 0.21.1.dev17+g0a4756bb5"
    )


def within(version: str, ranges: str) -> bool:
    """Whether a version lies in a range such as `>=0.19,<0.23`; a development build counts as what it leads to.

    0.21.1.dev17 comes before 0.21.1 and after 0.21.0, so `<0.23` holds and `>=0.21.1` does not.
    """
    try:
        specifiers = SpecifierSet(ranges)
    except InvalidSpecifier:
        raise UsageError(f"`{ranges}` is not a range of versions", hint="for example >=0.19,<0.23") from None
    return specifiers.contains(parsed_version(version).public, prereleases=True)


def same_version(wanted: str, found: str) -> bool:
    """Whether two spellings mean one version; a local part (`+g0a4756bb5`) counts only where both have one."""
    left, right = parsed_version(wanted), parsed_version(found)
    return left == right if left.local and right.local else Version(left.public) == Version(right.public)


def check_reference(ref: str) -> str:
    """`ref` itself, when Docker could understand it."""
    if not (DIGEST.fullmatch(ref) or REFERENCE.fullmatch(ref)):
        raise UsageError(f"`{ref}` is not an image reference", hint="repository:tag, repository@sha256:… or sha256:…")
    return ref


def is_moving(ref: str) -> bool:
    """Whether a reference may mean another image tomorrow."""
    return "sha256:" not in ref
