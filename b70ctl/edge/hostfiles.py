"""The host's own files: sysfs, proc, debugfs, device nodes, lists of packages; read below a root, as they are now."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from b70ctl.core.hostfacts import DEBUGFS, DPKG, KMSG, PACMAN, PCI, Asked, Entry, HostFacts, Kind
from b70ctl.core.hosttext import PACKAGES, kept, scrub
from b70ctl.core.packages import PACMAN_FOLDER
from b70ctl.edge.process import run
from b70ctl.errors import EngineError, MachineError

MOST_BYTES = 64 * 2**20
PIECE = 2**16

EVERYWHERE = (
    "/etc/group",
    "/etc/os-release",
    "/usr/lib/os-release",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/sys/kernel/osrelease",
    DPKG,
    f"{PACMAN}/*",
    "/opt/intel/oneapi/*/*",
    "/sys/class/iommu/*",
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "/sys/module/pcie_aspm/parameters/policy",
    "/sys/module/xe/srcversion",
    "/sys/module/xe/version",
    f"{PCI}/*",
    f"{PCI}/*/class",
    f"{DEBUGFS}/*/name",
    f"{DEBUGFS}/*/gt0/uc/guc_info",
    f"{DEBUGFS}/*/gt0/uc/huc_info",
    f"{DEBUGFS}/*/tile0/vram_mm",
)
OF_A_NODE = ("*", "by-path/*")
OF_A_BRIDGE = (
    "vendor",
    "device",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
)
OF_A_CARD = (
    *OF_A_BRIDGE,
    "driver",
    "resource",
    "drm/*",
    "drm/card*/card*-*/status",
    "hwmon/hwmon*/name",
    "hwmon/hwmon*/temp*_input",
    "hwmon/hwmon*/temp*_label",
    "hwmon/hwmon*/temp*_crit",
    "hwmon/hwmon*/energy*_label",
    "hwmon/hwmon*/power*_cap",
    "hwmon/hwmon*/power*_crit",
    "hwmon/hwmon*/fan*_input",
    "tile*/gt*/freq0/*_freq",
    "tile*/gt*/freq0/power_profile",
    "tile*/gt*/freq0/throttle/*",
    "tile*/gt*/throttle/*",
    "tile*/gt*/engines/*/job_timeout_ms",
    "tile*/gt*/engines/*/job_timeout_max",
    "tile*/gt*/engines/*/preempt_timeout_us",
)
ENERGY = "hwmon/hwmon*/energy*_input"
LOGS = (("dmesg", "--notime"), ("journalctl", "-k", "-b", "-q", "-o", "cat", "--no-pager"))


def read_files(dri: str, root: Path = Path("/"), private: Iterable[str] = ()) -> dict[str, Entry]:
    """Everything that checks read, by its path on the host; words in `private` are taken out of the kernel's log."""
    reading = _Reading(root)
    for pattern in (*EVERYWHERE, *(f"{dri}/{name}" for name in OF_A_NODE)):
        reading.take(pattern)
    for address, above in reading.graphics():
        for bridge in above:
            reading.take_all(f"{PCI}/{bridge}", OF_A_BRIDGE)
        reading.take_all(f"{PCI}/{address}", OF_A_CARD)
    if root == Path("/"):
        reading.entries[KMSG] = _kernel_log(private)
    else:
        reading.take(KMSG)
    return {path: entry for path, entry in reading.entries.items() if _is_kept(path)}


def _is_kept(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    match = PACMAN_FOLDER.fullmatch(name)
    return folder != PACMAN or bool(match and PACKAGES.fullmatch(match["name"]))


def energy_counters(entries: Iterable[str], root: Path = Path("/")) -> dict[str, int]:
    """The energy counters of the graphics cards among these paths, in µJ, as they stand now."""
    folders = [path.removesuffix("/driver") for path in entries if path.startswith(PCI) and path.endswith("/driver")]
    found = {}
    for folder in folders:
        for path in _Reading(root).glob(f"{folder}/{ENERGY}"):
            with contextlib.suppress(OSError, ValueError):
                found[path] = int((root / path.lstrip("/")).read_text())
    return found


class _Reading:
    """Files that were looked at so far."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.entries: dict[str, Entry] = {}

    def take(self, pattern: str) -> None:
        """Read whatever a pattern names."""
        for path in self.glob(pattern):
            if path not in self.entries:
                self.entries[path] = self._entry(path)

    def take_all(self, folder: str, patterns: Sequence[str]) -> None:
        """Read what several patterns name below a folder."""
        for pattern in patterns:
            self.take(f"{folder}/{pattern}")

    def graphics(self) -> list[tuple[str, list[str]]]:
        """Address of each display controller, and of the PCI functions above it."""
        facts = HostFacts(self.entries, Asked())
        classes = {path: facts.text(path) or "" for path in facts.matching(f"{PCI}/*/class")}
        folders = [path.removesuffix("/class") for path, text in classes.items() if text.startswith("0x03")]
        chains = {folder: (facts.target(folder) or "").split("/") for folder in folders}
        return [(folder.rsplit("/", 1)[-1], [part for part in chain[:-1] if part.count(":") == 2])
                for folder, chain in chains.items()]  # fmt: skip

    def glob(self, pattern: str) -> list[str]:
        """The paths that a pattern names; a directory that may not be listed is itself noted as denied."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            found = [f"{folder}/{name}" for folder in found for name in self._names(folder, part)]
        return found

    def _names(self, folder: str, part: str) -> list[str]:
        place = self._place(folder)
        if "*" not in part:
            return [part] if self._exists(f"{folder}/{part}") else []
        try:
            names = [path.name for path in place.iterdir()]
        except PermissionError:
            self.entries[folder] = Entry("denied")
            return []
        except OSError:
            return []
        return sorted(name for name in names if fnmatch.fnmatchcase(name, part) and name.isprintable())

    def _exists(self, path: str) -> bool:
        try:
            self._place(path).lstat()
        except PermissionError:
            self.entries[path.rsplit("/", 1)[0]] = Entry("denied")
            return False
        except OSError:
            return False
        return True

    def _place(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def _entry(self, path: str) -> Entry:
        place = self._place(path)
        try:
            about = place.lstat()
            target = str(place.readlink()) if stat.S_ISLNK(about.st_mode) else ""
            text = kept(path, _text(place)) if stat.S_ISREG(about.st_mode) else ""
        except OSError as error:
            return Entry("denied" if error.errno in (errno.EACCES, errno.EPERM) else "broken")
        return Entry(_kind(about.st_mode), stat.S_IMODE(about.st_mode), about.st_uid, about.st_gid, target, text)


def _kind(mode: int) -> Kind:
    if stat.S_ISCHR(mode):
        return "device"
    kinds: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _text(place: Path) -> str:
    # piece by piece: a file below /proc/sys refuses to fill a large buffer
    pieces, size = [], 0
    with place.open("rb", buffering=0) as file:
        while size < MOST_BYTES and (piece := file.read(PIECE)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces).decode("utf-8", errors="replace")


def _kernel_log(private: Iterable[str]) -> Entry:
    for argv in LOGS:
        try:
            ran = run(argv, timeout=2)
        except (MachineError, EngineError):
            continue
        if ran.code == 0 and ran.stdout.strip():
            return Entry("file", text=scrub(kept(KMSG, ran.stdout), private))
    return Entry("denied")


def rpm_packages() -> dict[str, str]:
    """Packages of the stack as rpm lists them; empty where there is no rpm."""
    try:
        ran = run(("rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n"), timeout=2)
    except (MachineError, EngineError):
        return {}
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 2 and PACKAGES.fullmatch(row[0])}
