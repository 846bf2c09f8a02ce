"""Fills a release: patched files, draft configs, start scripts, secrets, the Compose text."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from b70ctl.core.compose import COMPOSE_FILE, SECRETS_FILE
from b70ctl.core.deployment import Deployment, Order
from b70ctl.core.patch import Patch, patched
from b70ctl.core.patchcheck import base_of, refuse_spoilt
from b70ctl.core.release import Release
from b70ctl.edge import draft, plugin
from b70ctl.edge.carrying import MOST_CARRIED, files_below, read_carried
from b70ctl.edge.files import is_gone, nearest, replace, unwritable
from b70ctl.edge.places import STATE
from b70ctl.edge.secretfiles import Inode
from b70ctl.edge.store import SCRATCH
from b70ctl.errors import B70Error, Refused, to_type

LEFT_OUT = frozenset({".git", "__pycache__"})
SETTLED = frozenset({"patched", "plugin"})
"""Orders whose content the deployment knows by a hash of its own."""

ReadImage = Callable[[str], bytes | None]
"""A file of the image by its absolute path."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that a new release is made of, gathered before the first step."""

    release: Release
    image_id: str
    files: Mapping[str, bytes]
    text: str
    secrets: Mapping[str, str]


def contents(
    deployment: Deployment, patches: Mapping[str, Patch], accepted: Mapping[str, frozenset[str]], read: ReadImage,
    hidden: Mapping[Inode, str] = {},
) -> dict[str, bytes]:  # fmt: skip
    """What each file of the release must hold; Refused when a patch does not apply or a source is not as named.

    No file of this host that is `hidden` is among them.
    """
    found: dict[str, bytes] = {}
    for order in deployment.files:
        if order.kind == "tree":
            more = _tree(order, hidden)
        elif order.kind == "plugin":
            more = plugin.contents(order, deployment.kernels, hidden)
        elif order.kind == "draft-config":
            more = {order.to: draft.changed(order, deployment.mounts, hidden)}
        else:
            more = {order.to: _content(order, patches, accepted, read, hidden)}
        _refuse_one_place(found, more)
        found |= more
    return found


def _refuse_one_place(before: Mapping[str, bytes], more: Mapping[str, bytes]) -> None:
    """Raise where one file of a release would take the place of another, or lie in it as in a folder."""
    folders = {str(folder) for name in before for folder in Path(name).parents}
    for name in more:
        if name in before or name in folders or any(str(folder) in before for folder in Path(name).parents):
            raise Refused(f"two things would lie at {name} in the release, and one would be lost",
                          hint="give the patch, or the mounted file, another name")  # fmt: skip


def unfit(
    orders: Iterable[Order], patches: Mapping[str, Patch], hidden: Mapping[Inode, str] = {}
) -> list[B70Error]:  # fmt: skip
    """What of this host's own files cannot be copied into a release: not there, `hidden`, not what a patch names."""
    found: list[B70Error] = []
    for order in orders:
        try:
            if order.kind == "tree":
                _tree(order, hidden)
            elif order.kind in ("copy", "overlay"):
                _copied(order, patches, hidden)
        except Refused as error:
            found.append(error)
    return found


def fingerprints(deployment: Deployment, secrets: Mapping[str, str], salt: str) -> dict[str, str]:
    """Hashes of everything that the release would carry from this host; `absent` for what is not there.

    Patched files and the kernels are not among them: what they are made of stands in the deployment already. Secrets
    are hashed with a salt that stays in the site, so that the hash tells nobody what they are.
    """
    found = {order.to: _fingerprint(order) for order in deployment.files if order.kind not in SETTLED}
    if secrets:
        text = "".join(f"{name}={value}\n" for name, value in sorted(secrets.items()))
        found[SECRETS_FILE] = hashlib.blake2b(text.encode(), key=salt.encode()[:64], digest_size=8).hexdigest()
    return found


def _fingerprint(order: Order) -> str:
    try:
        files = _tree(order, {}) if order.kind == "tree" else {order.to: read_carried(Path(order.source), {})}
    except (OSError, Refused):
        return "absent"
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return digest.hexdigest()[:16]


def _tree(order: Order, hidden: Mapping[Inode, str]) -> dict[str, bytes]:
    """A file or a folder of the site, as the release carries it."""
    source = Path(order.source)
    if STATE in (*source.parts, *os.path.realpath(source).split("/")) or os.path.lexists(source / STATE):
        raise Refused(f"{source} holds b70ctl's own memory of the site, secrets among it, which no engine may be given",
                      hint="mount a folder of the site that holds just what the engine needs")  # fmt: skip
    try:
        paths = _inside(source, order.to) if source.is_dir() else {order.to: source}
        size = sum(path.stat().st_size for path in paths.values())
        if not paths or size > MOST_CARRIED:
            what = f"holds {size:,} bytes; {MOST_CARRIED:,} at most are copied into a release" if paths else "is empty"
            raise Refused(f"{source} {what}", hint=f"write an absolute path to mount it as it is: {source}")
        return {name: read_carried(path, hidden) for name, path in paths.items()}
    except OSError as error:
        if is_gone(source):
            raise Refused(f"{source} does not exist", hint=to_type("ls", nearest(source))) from error
        raise Refused(f"{source} cannot be read: {_why(error)}", hint=to_type("ls", "-ld", source)) from error


def _inside(folder: Path, to: str) -> dict[str, Path]:
    found = {path.relative_to(folder): path for path in files_below(folder, LEFT_OUT) if path.is_file()}
    return {f"{to}/{name}": path for name, path in found.items()}


def _content(
    order: Order, patches: Mapping[str, Patch], accepted: Mapping[str, frozenset[str]], read: ReadImage,
    hidden: Mapping[Inode, str],
) -> bytes:  # fmt: skip
    if order.kind == "patched":
        base = read(order.target)
        if base is None:
            raise Refused(f"patch `{order.name}` changes {order.target}, which the image does not have")
        text = base.decode("utf-8", errors="surrogateescape")
        made = patched(order.name, patches[order.name], order.source, text, accepted.get(order.name, frozenset()))
        return made.encode("utf-8", errors="surrogateescape")
    base = base_of(order, patches[order.name], read(order.target)) if order.kind == "overlay" else None
    own = _copied(order, patches, hidden)
    if base is not None:
        refuse_spoilt(order, base, own)
    return own


def _copied(order: Order, patches: Mapping[str, Patch], hidden: Mapping[Inode, str]) -> bytes:
    listed, scripts = to_type("ls", "-l", order.source), patches[order.name].scripts
    where = next((each.where for each in scripts if order.to == f"files/{order.name}/{each.file}"), listed)
    try:
        content = read_carried(Path(order.source), hidden)
    except OSError as error:
        hint = where if isinstance(error, FileNotFoundError) else listed
        raise Refused(f"{order.source} of patch `{order.name}` cannot be read: {_why(error)}", hint=hint) from error
    found = hashlib.sha256(content).hexdigest()
    if order.sha256 and found != order.sha256:
        raise Refused(f"{order.source} is not the file that patch `{order.name}` names: sha256 {found[:12]}…, "
                      f"not {order.sha256[:12]}…", hint=where)  # fmt: skip
    if b"\r\n" in content[:4096]:
        raise Refused(
            f"{order.source} has Windows line ends, which a shell trips over", hint=to_type("dos2unix", order.source)
        )
    return content


def fill(folder: Path, files: Mapping[str, bytes], text: str, secrets: Mapping[str, str]) -> None:
    """Write everything into a release folder that nobody reads yet."""
    for name, content in files.items():
        _refuse_outside(name)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if content[:2] == b"#!" else 0o644)
        with path.open("rb") as file:
            os.fsync(file.fileno())
    replace(folder / COMPOSE_FILE, text)
    if secrets:
        replace(folder / SECRETS_FILE, "".join(f"{name}={value}\n" for name, value in secrets.items()), mode=0o600)


def hashes(files: Mapping[str, bytes], text: str) -> dict[str, str]:
    """What a release is known by later: sha256 of each file, the Compose text among them, secrets not."""
    whole = dict(files) | {COMPOSE_FILE: text.encode()}
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(whole.items())}


def damage(release: Release, folder: Path) -> list[Refused]:
    """Files of a release that are gone or not what was written, so that another engine would start than was proven."""
    found: list[Refused] = []
    for name, wanted in release.contents.items():
        try:
            digest = hashlib.sha256(read_carried(folder / name, {})).hexdigest()
        except OSError as error:
            what = f"{folder / name} of release {release.id} cannot be read: {_why(error)}"
        else:
            if digest == wanted:
                continue
            what = (f"{folder / name} was changed since release {release.id} was written: sha256 {digest[:12]}…, "
                    f"not {wanted[:12]}…")  # fmt: skip
        found.append(Refused(what, hint=f"b70ctl switch {release.profile}"))
    return found


def _refuse_outside(name: str) -> None:
    """Raise for a file that would not lie in the release, whoever named it."""
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise Refused(f"{name!r} is no place in a release, and nothing is written outside of it",
                      hint="b70ctl profiles lint PROFILE")  # fmt: skip


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder beside the releases that is gone when the block ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
    except OSError as error:
        raise unwritable(folder, error) from error
    try:
        yield made
    except OSError as error:
        raise unwritable(made, error, "filled") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
