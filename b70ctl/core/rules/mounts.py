"""Rules about what a profile mounts of its own."""

from __future__ import annotations

from collections.abc import Iterable

from b70ctl.core.deployment import OWN
from b70ctl.core.mounting import meet
from b70ctl.core.rules.case import Case, Remark, Rule, error, warning


def package_mount(case: Case) -> Iterable[Remark]:
    """No mount hides the whole of vLLM, and none replaces a file of it that nobody looked at."""
    packages = case.facts.site_packages if case.facts else None
    for number, mount in enumerate(case.profile.mounts):
        if mount.target.endswith("-packages/vllm") or _holds(mount.target, packages):
            yield error(f"mounts.{number}", f"{mount.target} would hide vLLM's compiled parts", "mount single files")
        elif "-packages/" in mount.target:
            yield warning(f"mounts.{number}", f"{mount.target} is replaced whatever the image has there",
                          "a patch with `overlays`, which names the file that it was made from")  # fmt: skip


def _holds(target: str, packages: str | None) -> bool:
    """Whether the image's vLLM lies in what a mount hides."""
    return packages is not None and f"{packages}/vllm/".startswith(f"{target}/")


def own_folder(case: Case) -> Iterable[Remark]:
    """No mount lies where a release mounts its own files, or around it."""
    for number, mount in enumerate(case.profile.mounts):
        target = mount.target
        if meet(target, OWN):
            where = f"holds {OWN}, which is" if len(target) < len(OWN) else "is"
            yield error(f"mounts.{number}", f"{target} {where} where a release mounts what is its own: plugin, start "
                        "scripts and the marks of those that were run", "another target")  # fmt: skip


RULES = (
    Rule("package-mount", "a mount hides what is below it, and is not compared with it", package_mount),
    Rule("own-folder", "a start script is passed over for a mark that another container left", own_folder),
)
