"""A small root filesystem as a tar file, made from the machine's own package mirror, without root.

apt works out which packages are needed and fetches them; nothing is installed, no maintainer script
runs, and the tree is owned by root inside the tar whoever made it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from b70ctl.errors import MachineError

from .places import cache_dir
from .talk import give, say

WANTED = ("bash", "coreutils", "libpython3-stdlib", "python3-minimal")
# closure members that only maintainer scripts call, and none runs here
LEFT_OUT = frozenset({"debianutils", "dpkg", "mawk", "perl-base", "readline-common", "tar"})
MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
STRIPPED = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/lintian",
    "usr/lib/x86_64-linux-gnu/gconv",
    "usr/lib/aarch64-linux-gnu/gconv",
)
STRIPPED_MODULES = frozenset({"ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo"})
PASSWD = "root:x:0:0:root:/root:/bin/bash\n"
# no `render`: the images that users run have none, so a group name cannot be resolved in them
GROUP = "root:x:0:\ntty:x:5:\nvideo:x:44:\n"
EMPTY_DIRS = ("dev", "proc", "root", "run", "sys", "var/tmp", "home", "mnt", "opt")


def rootfs_tar() -> Path:
    """The tar for this distribution release; made on the first call (a minute), then reused."""
    target = cache_dir() / f"rootfs-{rootfs_key()}.tar"
    if not target.exists():
        _make(target)
    return target


def rootfs_key() -> str:
    """Names what the tar is made from: distribution, release, machine and this recipe."""
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:10]
    return "-".join((*_release(), platform.machine(), recipe))


def _release() -> tuple[str, str]:
    facts = platform.freedesktop_os_release()
    return facts.get("ID", "unknown"), facts.get("VERSION_ID", "0")


def _make(target: Path) -> None:
    say(f"making a root filesystem for {' '.join(_release())}")
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="rootfs-") as scratch:
        debs, tree = Path(scratch, "debs"), Path(scratch, "tree")
        debs.mkdir()
        _download(_closure(Path(scratch)), debs)
        _lay_out(tree)
        for deb in sorted(debs.glob("*.deb")):
            _unpack(deb, tree)
        _finish(tree)
        _compile(tree)
        part = Path(scratch, "rootfs.tar")
        _pack(tree, part)
        for older in cache_dir().glob("rootfs-*.tar"):
            older.unlink()
        part.replace(target)


def _apt(*args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise MachineError(
            "the rig's images are made with apt-get and dpkg-deb, and this machine has none",
            hint="run the demo on Debian 12 or Ubuntu 24.04",
        )
    argv = ("apt-get", "-o", "APT::Sandbox::User=root", "-o", "Debug::NoLocking=1", *args)
    env = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(argv, cwd=cwd, env=env, text=True, capture_output=True, check=False)


def _closure(scratch: Path) -> list[str]:
    """What apt would install for `WANTED` on an empty machine, as `name=version`."""
    result = _simulate(scratch)
    if result.returncode != 0:
        _update_lists()
        result = _simulate(scratch)
    if result.returncode != 0:
        raise MachineError(
            f"apt cannot resolve {' '.join(WANTED)}: {result.stderr.strip()[-400:]}", hint="apt-get update"
        )
    fields = (line.split() for line in result.stdout.splitlines() if line.startswith("Inst "))
    return [f"{name}={version.lstrip('(')}" for _, name, version, *_ in fields if name not in LEFT_OUT]


def _simulate(scratch: Path) -> subprocess.CompletedProcess[str]:
    status = scratch / "status"
    status.touch()
    options = ("-o", f"Dir::State::status={status}", "-o", "APT::Install-Recommends=0")
    return _apt("--simulate", *options, "install", *WANTED)


def _update_lists() -> None:
    if os.geteuid() != 0 or os.environ.get("B70CTL_NO_APT"):
        raise MachineError(
            "apt's package lists are missing, and fetching them needs root and B70CTL_NO_APT unset",
            hint="sudo apt-get update",
        )
    say("apt-get update (package lists are missing or old)")
    result = _apt("update")
    if result.returncode != 0:
        raise MachineError(f"apt-get update failed: {result.stderr.strip()[-400:]}", hint="apt-get update")


def _download(packages: list[str], debs: Path) -> None:
    result = _apt("download", *packages, cwd=debs)
    if result.returncode != 0:
        # lists older than the mirror name files that are gone
        _update_lists()
        result = _apt("download", *_closure(debs), cwd=debs)
    if result.returncode != 0:
        raise MachineError(f"packages could not be fetched: {result.stderr.strip()[-400:]}", hint="apt-get update")


def _lay_out(tree: Path) -> None:
    for name in MERGED:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")


def _unpack(deb: Path, tree: Path) -> None:
    argv = ("dpkg-deb", "--fsys-tarfile", str(deb))
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE) as packed,
        tarfile.open(fileobj=packed.stdout, mode="r|") as members,
    ):
        # a package's own paths are taken as they are; python before 3.11.4 has no filters to name
        members.extraction_filter = lambda member, _: member
        members.extractall(tree, members=_kept(members))
    if packed.returncode != 0:
        raise MachineError(f"{deb.name} cannot be unpacked", hint="apt-get clean")


def _kept(members: Iterable[tarfile.TarInfo]) -> Iterator[tarfile.TarInfo]:
    """The members that the tree needs, moved under /usr where the merge puts them."""
    for member in members:
        name = _merged(member.name.removeprefix("./").rstrip("/"))
        if name in ("", ".", *MERGED) or _is_stripped(name):
            continue
        if member.islnk():
            member.linkname = _merged(member.linkname.removeprefix("./"))
        member.name, member.mode = name, member.mode | stat.S_IWUSR
        yield member


def _merged(name: str) -> str:
    top, _, rest = name.partition("/")
    return f"usr/{name}" if top in MERGED and rest else name


def _is_stripped(name: str) -> bool:
    if name.startswith(STRIPPED):
        return True
    parts = name.split("/")
    return len(parts) > 3 and parts[2].startswith("python3") and parts[3] in STRIPPED_MODULES


def _finish(tree: Path) -> None:
    (tree / "etc").mkdir(exist_ok=True)
    (tree / "etc/passwd").write_text(PASSWD)
    (tree / "etc/group").write_text(GROUP)
    for name in EMPTY_DIRS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "tmp").mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    shell = tree / "usr/bin/sh"
    if not shell.is_symlink() and not shell.exists():
        shell.symlink_to("bash")
    for name in MERGED:
        if not any((tree / "usr" / name).iterdir()):
            (tree / name).unlink()
            (tree / "usr" / name).rmdir()


def _compile(tree: Path) -> None:
    """Byte-compile with the tree's own interpreter, or every container start would do it again."""
    loader = next(iter(sorted((tree / "usr").glob("lib*/**/ld-linux*.so*"))))
    libraries = ":".join(str(p) for p in sorted((tree / "usr/lib").glob("*-linux-gnu")))
    python = (tree / "usr/bin/python3").resolve()
    argv = (
        str(_inside(tree, loader)),
        "--library-path",
        libraries,
        str(python),
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        str(tree),
        str(tree / "usr/lib" / python.name),
    )
    env = {"PYTHONHOME": str(tree / "usr"), "LC_ALL": "C.UTF-8"}
    result = subprocess.run(argv, env=env, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        say(f"byte-compiling was not possible, containers start slower: {result.stderr[-200:]}")


def _inside(tree: Path, path: Path) -> Path:
    """The file that a possibly absolute symlink in the tree means."""
    if not path.is_symlink():
        return path
    target = path.readlink()
    return tree / str(target).lstrip("/") if target.is_absolute() else path.parent / target


def _pack(tree: Path, target: Path) -> None:
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as packed:
        packed.add(tree, arcname=".", filter=_owned_by_root)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    return member


if __name__ == "__main__":
    give(str(rootfs_tar()))
