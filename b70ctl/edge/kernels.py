"""The attention kernels' package: where it lies, and its programs run in a container or in a Python of this host."""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from b70ctl.core.incident import incident_name
from b70ctl.core.kernels import PACKAGE, TABLE_VARIABLE
from b70ctl.edge import places
from b70ctl.edge.carrying import MOST_CARRIED, files_below, read_carried
from b70ctl.edge.files import replace, unwritable
from b70ctl.edge.process import overhear, program
from b70ctl.edge.secretfiles import Inode
from b70ctl.errors import MachineError, Refused, to_type

if TYPE_CHECKING:  # a dry run must not pay for Docker
    from b70ctl.edge.daemon import Daemon
    from b70ctl.edge.signals import Interrupts

Hear = Callable[[str, bool], None]
"""Is given each line as it is written, and whether it was written to stderr."""
FOLDER = "reports"
CARRIED = frozenset({".py", ".json"})
LEFT_OUT = frozenset({"__pycache__", "tests"})


def find(root: Path | None) -> tuple[Path, str]:
    """The package's folder and whose it is: a site's own `kernels/b70_kernels` wins over the shipped one."""
    own = root / "kernels" / PACKAGE if root else None
    if root and own and _is_folder(root / "kernels") and _is_folder(own):
        return own, "site"
    shipped = places.kernels(PACKAGE)
    if not shipped.is_dir():
        what = f"{shipped} is not there, so b70ctl is not installed whole"
        raise MachineError(what, hint="pip install --force-reinstall b70ctl")
    return shipped, "shipped"


def _is_folder(path: Path) -> bool:
    """Whether a site has a folder there; Refused where something else, or a link to nowhere, is in its place."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            return True
        why = "it is not a folder"
    except FileNotFoundError:
        if not path.is_symlink():
            return False
        why = "it is a link to what is not there"
    except OSError as error:
        why = str(error.strerror)
    raise Refused(f"the site's own kernels cannot be read at {path}: {why}; the shipped ones step in once it is gone",
                  hint=to_type("ls", "-ld", path))  # fmt: skip


def carried(package: Path, hidden: Mapping[Inode, str] = {}) -> dict[str, bytes]:
    """The package's files by their path in it: Python and tables, no caches, no tests, nothing that is `hidden`."""
    found: dict[str, bytes] = {}
    left = MOST_CARRIED
    try:
        for path in files_below(package, LEFT_OUT):
            if path.suffix in CARRIED:
                found[path.relative_to(package).as_posix()] = content = read_carried(path, hidden, left)
                left -= len(content)
    except OSError as error:
        raise Refused(f"the kernels in {package} cannot be read: {error.filename}: {error.strerror}",
                      hint=to_type("ls", "-l", error.filename)) from error  # fmt: skip
    return found


def digest(package: Path) -> str:
    """A hash of the package's files, to know which kernels a report is about, or a release has."""
    return digest_of(carried(package))


def digest_of(files: Mapping[str, bytes]) -> str:
    """The same of files that were read already."""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name}\0".encode(errors="surrogateescape") + hashlib.sha256(content).digest())
    return found.hexdigest()


def keep(folder: Path, at: str, name: str, text: str) -> Path:
    """Write a report that its owner alone can read, whole or not at all, under a name that no other has."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    path = folder / f"{incident_name(at, name, (each.stem for each in folder.glob('*.json')))}.json"
    replace(path, text, mode=0o600)
    return path


# --- in a container ---------------------------------------------------------------------------------------------------


def in_container(daemon: Daemon, name: str, wanted: Mapping[str, Any], interrupts: Interrupts, hear: Hear) -> int:
    """Make a container, hear it to its end, and give its exit status; it is removed however this ends."""
    from b70ctl.edge.speaking import speaking

    api, made = daemon.client.api, None
    try:
        with speaking(f"running {wanted['Image']}"):
            with interrupts.shielded():
                made = api.create_container_from_config(wanted, name)["Id"]
            pieces = api.attach(made, stdout=True, stderr=True, stream=True, logs=True, demux=True)
            api.start(made)
            _tell(pieces, hear)
            return int(api.wait(made)["StatusCode"])
    finally:
        if made:
            with interrupts.shielded():
                daemon.remove(made)


def _tell(pieces: Iterator[tuple[bytes | None, bytes | None]], hear: Hear) -> None:
    streams = [_Lines(), _Lines()]
    for pair in pieces:
        for aside, (stream, piece) in enumerate(zip(streams, pair, strict=True)):
            for line in stream.more(piece or b""):
                hear(line, bool(aside))
    for aside, stream in enumerate(streams):
        for line in stream.more(b"", last=True):
            hear(line, bool(aside))


class _Lines:
    """A stream of bytes as whole lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = ""

    def more(self, piece: bytes, *, last: bool = False) -> list[str]:
        """The lines that are whole by now; the rest of the stream too, when this was the last of it."""
        *whole, self._begun = (self._begun + self._decoder.decode(piece, last)).split("\n")
        if last and self._begun:
            whole.append(self._begun)
        return [line.rstrip("\r") for line in whole]


# --- here -------------------------------------------------------------------------------------------------------------


def python() -> str:
    """The Python that has torch: the one that runs b70ctl, else the `python3` that a shell would find."""
    if importlib.util.find_spec("torch"):
        return sys.executable
    found = program("python3")
    if found is None:
        raise MachineError("there is no `python3` here", hint="leave out --here: the profile's image has one")
    return found


@contextlib.contextmanager
def aside(package: Path) -> Iterator[Path]:
    """A folder with nothing but the package in it, to be put on Python's path, and written into."""
    with tempfile.TemporaryDirectory(prefix="b70ctl-") as made:
        (Path(made) / PACKAGE).symlink_to(package.resolve())
        yield Path(made)


def variables(folder: Path, table: str | None) -> dict[str, str]:
    """What a Python of this host is told, so that it finds the package in `folder` behind whatever it finds already.

    `table` is a site's own tile sizes; without it a table that the environment names is used.
    """
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(folder))))
    return {"PYTHONPATH": path} | ({TABLE_VARIABLE: table} if table else {})


def in_python(argv: tuple[str, ...], folder: Path, table: str | None, hear: Hear) -> int:
    """Run a program of the package that lies in `folder` to its end, and give its exit status."""
    return overhear(argv, env=os.environ | variables(folder, table), cwd=folder, hear=hear)
