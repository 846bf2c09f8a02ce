"""What a shell offers at TAB, quickly and in silence: names of files, and what Docker lists.

A completion that fails is an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

DOCKER_SECONDS = 2.0


def _offered(names: Callable[[Path | None, str], Iterable[str]]) -> Callable[[typer.Context, str], list[str]]:
    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        from b70ctl.edge import places

        try:
            root = places.site_root(ctx.find_root().params.get("site"))
            return sorted({name for name in names(root, incomplete) if name.startswith(incomplete)})
        except Exception:  # noqa: BLE001 - whoever presses TAB is not to be told of anything else
            return []

    return offer


@_offered
def profiles(root: Path | None, _: str) -> Iterator[str]:
    """Profiles, the site's and the shipped ones."""
    for folder in _folders(root, "profiles"):
        yield from (path.stem for path in folder.glob("*.yaml"))


@_offered
def patches(root: Path | None, _: str) -> Iterator[str]:
    """Patches, up to where the hash begins."""
    for folder in _folders(root, "patches"):
        yield from (f"{path.parent.name}:" for path in folder.glob("*/patch.yaml"))


@_offered
def patch_names(root: Path | None, _: str) -> Iterator[str]:
    """Patches by name."""
    for folder in _folders(root, "patches"):
        yield from (path.parent.name for path in folder.glob("*/patch.yaml"))


@_offered
def kept(root: Path | None, _: str) -> list[str]:
    """What can be gone back to: snapshots, and profiles of releases."""
    from b70ctl.edge import places
    from b70ctl.edge.store import Store

    store = Store(root / places.STATE) if root else None
    return [*store.state().snapshots, *(each.profile for each in store.releases().values())] if store else []


@_offered
def releases(root: Path | None, _: str) -> list[str]:
    """Releases that lie in the store."""
    return _releases(root)


@_offered
def logs(root: Path | None, incomplete: str) -> list[str]:
    """Releases, and files from here."""
    folder = incomplete[: incomplete.rfind("/") + 1]
    files = [f"{folder}{path.name}{'/' if path.is_dir() else ''}" for path in Path(folder or ".").iterdir()
             if not path.name.startswith(".")]  # fmt: skip
    return [*_releases(root), *files]


@_offered
def containers(_: Path | None, __: str) -> list[str]:
    """Containers that run."""
    return _docker("ps", "--format", "{{.Names}}")


@_offered
def images(_: Path | None, __: str) -> list[str]:
    """Images that Docker has under a name."""
    return [name for name in _docker("images", "--format", "{{.Repository}}:{{.Tag}}") if "<none>" not in name]


def _folders(root: Path | None, kind: str) -> list[Path]:
    from b70ctl.edge import places

    return [*([root / kind] if root else []), places.shipped(kind)]


def _releases(root: Path | None) -> list[str]:
    from b70ctl.edge import places

    return [path.name for path in (root / places.STATE / "releases").glob("[0-9]*")] if root else []


def _docker(*words: str) -> list[str]:
    from b70ctl.edge.process import run

    return run(("docker", *words), timeout=DOCKER_SECONDS).stdout.split()
