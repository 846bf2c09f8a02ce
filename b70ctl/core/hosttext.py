"""Which parts of a host's files are kept: what a check reads, and nothing that says whose box it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from b70ctl.core.hostfacts import DPKG, KMSG

PACKAGES = re.compile(
    r"intel-(opencl-icd|level-zero-gpu|compute-runtime|igc\S*|gmmlib|ocloc|gpu-firmware|graphics-compiler\S*)"
    r"|libze1|libze-dev|libze-intel-gpu1|level-zero(-loader|-headers|-devel)?|oneapi-level-zero(-devel)?"
    r"|libigc[12]|libigdfcl[12]|libigdgmm\d+|intel-oneapi-(ccl|compiler-dpcpp-cpp|runtime-libs)\S*|oneccl"
    r"|linux-firmware(-intel)?|firmware-(misc-nonfree|intel-graphics)|xpu-smi|xpumanager"
    r"|docker(\.io|-ce|-compose-plugin|-compose-v2|-compose)?|moby-engine"
)
"""Packages of the stack, as Debian, Fedora and Arch name them."""
BOOT_WORDS = re.compile(r"(intel_iommu|iommu|amd_iommu|xe\.\w+|i915\.\w+|pci|pcie_aspm|pcie_ports|intel_idle\.\w+"
                        r"|processor\.\w+|hardlockup_panic|modprobe\.blacklist|module_blacklist)(=\S*)?")  # fmt: skip
KERNEL_LINES = re.compile(r"\bxe\b|\bGuC\b|\bHuC\b|\[drm|\bi915\b|VRAM BAR|D3cold|\bDMAR\b|AMD-Vi|\bIOMMU\b")
FIELD = re.compile(r"^(Package|Status|Version): (.*)$", re.MULTILINE)
GROUPS = ("render", "video", "docker")
RELEASE = ("ID=", "VERSION_ID=", "PRETTY_NAME=")
MOST_KERNEL_LINES = 2000

MAC = re.compile(r"\b[0-9a-fA-F]{2}(?:[:-][0-9a-fA-F]{2}){5}\b")
UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
SERIAL = re.compile(r"(?i)\b(serial(?:\s*(?:number|no\.?))?\s*[:=]?\s*)[^\s,;]{4,}")
SECRET = re.compile(r"(?i)\b((?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|api[_-]?key)\s*[:=]\s*)[^\s,;]+")


def scrub(text: str, private: Iterable[str] = ()) -> str:
    """A text without hardware addresses, serial numbers, secrets, and the words in `private` (host and user names)."""
    text = UUID.sub("(uuid)", MAC.sub("(mac)", text))
    text = SECRET.sub(r"\1(hidden)", SERIAL.sub(r"\1(hidden)", text))
    for word in sorted({word for word in private if len(word) > 1}, key=lambda word: (-len(word), word)):
        text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", "(hidden)", text)
    return text


def _lines(text: str, wanted: Callable[[str], bool]) -> str:
    return "".join(f"{line}\n" for line in text.splitlines() if wanted(line))


def _packages(text: str) -> str:
    kept = []
    for block in text.split("\n\n"):
        fields = dict(FIELD.findall(block))
        if PACKAGES.fullmatch(fields.get("Package", "")):
            kept.append("".join(f"{name}: {value}\n" for name, value in fields.items()))
    return "\n".join(kept)


def _groups(text: str) -> str:
    rows = [line.split(":") for line in text.splitlines()]
    return "".join(f"{row[0]}:x:{row[2]}:\n" for row in rows if len(row) > 2 and row[0] in GROUPS)


def _boot_words(text: str) -> str:
    return " ".join(word for word in text.split() if BOOT_WORDS.fullmatch(word)) + "\n"


def _kernel(text: str) -> str:
    lines = [line for line in text.splitlines() if KERNEL_LINES.search(line)]
    # the newest: a box that has been up for long repeats itself
    return "".join(f"{line}\n" for line in lines[-MOST_KERNEL_LINES:])


def _first_model(text: str) -> str:
    return next((f"{line}\n" for line in text.splitlines() if line.startswith("model name")), "")


def _starting(*names: str) -> Callable[[str], str]:
    return lambda text: _lines(text, lambda line: line.startswith(names))


KEPT: Mapping[str, Callable[[str], str]] = {
    DPKG: _packages,
    KMSG: _kernel,
    "/etc/group": _groups,
    "/etc/os-release": _starting(*RELEASE),
    "/usr/lib/os-release": _starting(*RELEASE),
    "/proc/cmdline": _boot_words,
    "/proc/cpuinfo": _first_model,
    "/proc/meminfo": _starting("MemTotal:", "SwapTotal:"),
}
"""What is kept of a file; of others everything."""


def kept(path: str, text: str) -> str:
    """The part of a file that is kept; keeping twice changes nothing."""
    return KEPT[path](text) if path in KEPT else text
