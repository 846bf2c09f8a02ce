"""Small, valid things for tests to bend: a profile, an image, a site, a deployment, a release."""

from typing import Any

from b70ctl.core.deployment import Deployment
from b70ctl.core.host import INTEL, Card, Host
from b70ctl.core.image import ImageFacts
from b70ctl.core.inherit import merge
from b70ctl.core.patch import Patch
from b70ctl.core.place import Place
from b70ctl.core.profile import Profile
from b70ctl.core.release import Release, Verdict, release_id
from b70ctl.core.resolve import Request, resolve
from b70ctl.core.site import Site

SITE_PACKAGES = "/opt/venv/lib/python3.12/site-packages"
ADDRESS = "0000:03:00.0"
SECOND = "0000:04:00.0"

PROFILE = {
    "summary": "a profile for tests",
    "status": "production",
    "image": {"ref": "example/vllm:1", "vllm": "0.21.0"},
    "model": {"path": "some-model", "served_names": ["m"]},
}
FACTS = {"ref": "example/vllm:1", "vllm": "0.21.0", "site_packages": SITE_PACKAGES, "source": "catalog"}
SITE = {"models": "/srv/models", "hf_cache": "/srv/hf", "gids": [992], "cards": [ADDRESS]}
PATCH = {
    "summary": "a patch for tests",
    "why": "because",
    "versions": ">=0.19,<0.23",
    "edits": [{"file": "vllm/a.py", "old": "old\n", "new": "new\n"}],
    "source": "here",
}


def a_profile(changes: dict[str, Any] | None = None, **more: Any) -> Profile:
    return Profile.model_validate(merge(PROFILE, (changes or {}) | more))


def some_facts(**changes: Any) -> ImageFacts:
    return ImageFacts.model_validate(FACTS | changes)


def a_site(**changes: Any) -> Site:
    return Site.model_validate(merge(SITE, changes))


def a_patch(**changes: Any) -> Patch:
    return Patch.model_validate(merge(PATCH, changes))


def a_card(address: str, gid: int = 992, vendor: str | None = INTEL) -> Card:
    return Card(address, f"/dev/dri/renderD{128 + int(address[5:7], 16)}", gid, vendor)


def a_host(*addresses: str) -> Host:
    return Host(tuple(a_card(address) for address in addresses))


def resolved(
    profile: Profile | None = None, site: Site | None = None, host: Host | None = None, facts: ImageFacts | None = None,
    patches: dict[str, Patch] | None = None, name: str = "p", **request: Any,
) -> Deployment:  # fmt: skip
    place = Place(site=site or a_site(), root="/srv/site", host=host or Host())
    asked = Request(name=name, profile=profile or a_profile(), **request)
    return resolve(asked, place, facts or some_facts(), patches or {})


def a_release(number: int, profile: str = "p", deployment: Deployment | None = None, **more: Any) -> Release:
    deployment = deployment or resolved(name=profile)
    return Release(
        id=release_id(number, profile, deployment.digest), number=number, key=f"{number:032}",
        created="2026-01-01T00:00:00Z", command="b70ctl switch", deployment=deployment, **more,
    )  # fmt: skip


def a_verdict(state: str = "proven", op: int = 1) -> Verdict:
    return Verdict.model_validate({"state": state, "at": "2026-01-01T00:00:00Z", "op": op})
