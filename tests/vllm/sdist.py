"""The source distributions of vLLM that the tiers read: fetched once, checked, and unpacked without compiled parts.

    python -m tests.vllm.sdist [--add] VERSION ... | all

prints the folder of each; `vllm/`, `docker/` and `requirements/` are in it. They come from the package index that pip
uses, and must have the sha256 that stands in sdists.json; `--add` writes a new release into that table first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from b70ctl.errors import MachineError, UsageError
from tests.rig.talk import exit_status, give, say
from tests.vllm.index import find
from tests.vllm.places import cache_dir

TABLE = Path(__file__).with_name("sdists.json")
FOLDERS = ("vllm", "docker", "requirements")
SUFFIXES = ("", ".py", ".json", ".jinja", ".typed", ".txt", ".xpu")
"""What is unpacked: enough to read the sources, and to import them where a build brings the rest."""
RECIPE = "1"
ATTEMPTS = 4
BLOCK = 1 << 20


def releases() -> tuple[str, ...]:
    """Every release with a known hash, in order."""
    return tuple(sorted(hashes(), key=Version))


def hashes() -> dict[str, str]:
    """Release to the sha256 of its source distribution."""
    return dict(json.loads(TABLE.read_text(encoding="utf-8")))


def unpacked(version: str) -> Path | None:
    """The folder of a release that is at hand; None where it would have to be fetched."""
    folder = _place() / version
    stamp = folder / ".unpacked"
    return folder if stamp.is_file() and stamp.read_text() == _stamp(version) else None


def sources(version: str) -> Path:
    """The folder of a release, fetched where it is not at hand."""
    if version not in hashes():
        raise UsageError(f"no hash is known of vLLM {version}", hint=f"python -m tests.vllm.sdist --add {version}")
    with _alone(version):
        return unpacked(version) or _from_index(version)


def add(version: str) -> None:
    """Take the hash that the index states for a release into the table; a hash that is there stays."""
    if version in hashes():
        return
    _, link = find(version)
    if link.hash_name != "sha256":
        raise MachineError(f"the package index states no sha256 for {link.filename}", hint=f"pip download {link.url}")
    table = hashes() | {version: str(link.hash)}
    TABLE.write_text(json.dumps({name: table[name] for name in sorted(table, key=Version)}, indent=2) + "\n")


def _place() -> Path:
    return cache_dir() / "sdists"


def _stamp(version: str) -> str:
    return f"{RECIPE} {hashes().get(version)}\n"


@contextlib.contextmanager
def _alone(version: str) -> Iterator[None]:
    """Two processes that want one release do not fetch it twice."""
    _place().mkdir(parents=True, exist_ok=True)
    with (_place() / f".{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _from_index(version: str) -> Path:
    part, wanted = _place() / f".{version}.tar.gz", hashes()[version]
    if not (part.exists() and _digest(part) == wanted):
        session, link = find(version)
        say(f"fetching {link.filename} into {_place()}; `make clean` removes it")
        download(session, link.url_without_fragment, part, wanted)
    unpack(part, _place() / version, _stamp(version))
    part.unlink()
    return _place() / version


def download(session: Any, url: str, part: Path, wanted: str) -> None:
    """Append what is missing; what a cut connection has left is gone on with, what is wrong is fetched anew.

    Raises MachineError when the file with that sha256 does not come.
    """
    fault = "nothing came"
    for _ in range(ATTEMPTS):
        try:
            _append(session, url, part)
        except OSError as error:  # requests' errors are of this kind
            fault = str(error)[:200]
            continue
        if _digest(part) == wanted:
            return
        fault = f"its sha256 is {_digest(part)}, not {wanted}"
        part.unlink()
    raise MachineError(f"{url.rsplit('/', 1)[-1]} could not be fetched: {fault}", hint="try again")


def _append(session: Any, url: str, part: Path) -> None:
    there = part.stat().st_size if part.exists() else 0
    # what pip caches is kept twice, and its cache knows no ranges
    headers = {"Accept-Encoding": "identity", "Cache-Control": "no-store"} | (
        {"Range": f"bytes={there}-"} if there else {}
    )
    answer = session.get(url, headers=headers, stream=True)
    if answer.status_code == 416:
        return
    answer.raise_for_status()
    with part.open("ab" if answer.status_code == 206 else "wb") as file:
        for block in answer.iter_content(BLOCK):
            file.write(block)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, folder: Path, stamp: str) -> None:
    """Fill a folder with what is wanted of an archive; beside its place first, so that it is whole or not there."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        fresh = Path(scratch, folder.name)
        fresh.mkdir()
        with tarfile.open(archive) as members:
            for member in members:
                _take(members, member, fresh)
        (fresh / ".unpacked").write_text(stamp)
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    top, _, name = member.name.partition("/")
    path = Path(name)
    wanted = member.isfile() and path.parts[:1] and path.parts[0] in FOLDERS and path.suffix in SUFFIXES
    if not wanted or not top or ".." in path.parts:
        return
    content = archive.extractfile(member)
    (into / path).parent.mkdir(parents=True, exist_ok=True)
    (into / path).write_bytes(content.read() if content else b"")


def main(arguments: list[str]) -> int:
    """Print the folder of every release that is asked for."""
    adding, named = "--add" in arguments, [word for word in arguments if word != "--add"]
    if not named:
        raise UsageError("no version is given", hint="python -m tests.vllm.sdist 0.21.0")
    for version in releases() if named == ["all"] else named:
        _checked(version)
        if adding:
            add(version)
        give(str(sources(version)))
    return 0


def _checked(version: str) -> None:
    try:
        Version(version)
    except InvalidVersion as error:
        raise UsageError(f"{version} is no version", hint="python -m tests.vllm.sdist 0.21.0") from error


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
