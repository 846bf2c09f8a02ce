"""A site's secrets: where each comes from, and what a release was written with. Their values are shown to nobody."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from b70ctl.core.compose import SECRETS_FILE
from b70ctl.core.release import Release
from b70ctl.core.site import API_KEY, Secret, Site
from b70ctl.edge.files import entries, read_bytes
from b70ctl.edge.places import STATE, expanded
from b70ctl.errors import MachineError, Refused, UsageError, to_type

MOST_SECRET = 16_384
"""Bytes of one secret; a header of more than that is refused on its way."""

Inode = tuple[int, int]
"""A file's device and number on it."""


def read_secrets(site: Site, root: Path) -> dict[str, str]:
    """The site's secrets; UsageError for one that is missing or cannot stand on one line."""
    return {name: _secret(name, secret, root) for name, secret in sorted(site.secrets.items())}


def secret_values(site: Site, root: Path) -> list[str]:
    """What must be shown to nobody; a secret that cannot be read is told elsewhere."""
    found = []
    for name, secret in site.secrets.items():
        with contextlib.suppress(UsageError):
            found.append(_secret(name, secret, root))
    return found


def secret_places(site: Site, root: Path) -> dict[str, frozenset[str]]:
    """Where on this host secrets lie: the files that are named in site.yaml, and our own memory, which has copies."""
    memory = ("the site's own memory", root / STATE)
    return {what: names_of(path) for what, path in (*_named(site, root), memory)}


def secret_files(site: Site, root: Path, *, looking: bool = False) -> dict[Inode, str]:
    """Whose secret lies in a file, by what is the same under each of its names, a hard link among them.

    Of releases that nobody may list none is known to who is only `looking`; before one is made that is an error.
    """
    copies: list[tuple[str, Path]] = []
    with contextlib.suppress(*([MachineError] if looking else [])):
        copies += [("a release's secrets", path / SECRETS_FILE) for path in entries(root / STATE / "releases")]
    found: dict[Inode, str] = {}
    for what, path in (*copies, *_named(site, root)):
        with contextlib.suppress(OSError):  # one that cannot be read is told elsewhere
            found[_inode(path)] = what
    return found


def _named(site: Site, root: Path) -> list[tuple[str, Path]]:
    return [(f"secrets.{name}", root / expanded(each.file)) for name, each in site.secrets.items() if each.file]


def refuse_secret(path: Path, hidden: Mapping[Inode, str]) -> None:
    """Raise for a file in which a secret lies, whatever it is called here: its copy would be for everybody to read."""
    if what := secret_in(path, hidden):
        raise Refused(f"{path} is the file of {what} by another name, and would be copied into the release",
                      hint=to_type("ls", "-li", path))  # fmt: skip


def secret_in(path: Path, hidden: Mapping[Inode, str]) -> str | None:
    """Whose secret lies in a file, whatever it is called; None for one that cannot be looked at."""
    try:
        return hidden.get(_inode(path))
    except OSError:
        return None


def _inode(path: Path) -> Inode:
    about = path.stat()
    return about.st_dev, about.st_ino


def names_of(path: Path) -> frozenset[str]:
    """A path as it was written, and as it is behind links."""
    return frozenset({os.path.normpath(path), os.path.realpath(path)})


def _secret(name: str, secret: Secret, root: Path) -> str:
    if secret.env is not None:
        value = os.environ.get(secret.env)
        if value is None:
            raise UsageError(
                f"secret {name} is read from ${secret.env}, which is not set", hint=f"export {secret.env}=…"
            )
    else:
        path = root / expanded(str(secret.file))
        try:
            value = read_bytes(path, MOST_SECRET + 3).decode("utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"secret {name} is read from {path}: {getattr(error, 'strerror', None) or error}"
            ) from error
    if not value or any(char in value for char in "\n\r\0"):
        raise UsageError(f"secret {name} is empty or has more than one line")
    if len(value.encode("utf-8", errors="surrogateescape")) > MOST_SECRET:
        raise UsageError(f"secret {name} has more than {MOST_SECRET:,} bytes, which is no password any more")
    if name == API_KEY and not (value.isascii() and value.isprintable() and value == value.strip()):
        raise UsageError(f"secret {name} has spaces around it, or characters that an HTTP header cannot carry",
                         hint="openssl rand -hex 24")  # fmt: skip
    return value


def kept_secrets(folder: Path) -> dict[str, str]:
    """The secrets that a release was written with; none where it has none."""
    try:
        lines = read_bytes(folder / SECRETS_FILE).decode("utf-8").split("\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Refused(f"{folder / SECRETS_FILE} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return dict(line.split("=", 1) for line in lines if "=" in line)


def api_key(release: Release, folder: Path, site: Site, root: Path) -> str | None:
    """The API key that a release's engine asks for, where it does; one made by hand has no secrets of its own."""
    secrets = read_secrets(site, root) if release.kind == "adopted" else kept_secrets(folder)
    return secrets.get(API_KEY)
