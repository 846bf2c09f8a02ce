"""`python -m tests.rewrite_hosts`: the hand-made hosts, written anew; read the diff before it is kept."""

import shutil
from pathlib import Path
from typing import Any

from b70ctl.core.hostfacts import DEBUGFS, DPKG, KMSG, PCI, Asked, Entry, HostFacts
from b70ctl.edge.hostrecord import record

HOSTS = Path(__file__).parent / "hosts"
GIB = 2**30
NOTE = """\
# {name}

Made by hand from what owners of such boxes report, in the form that `b70ctl doctor --record` writes. Nobody recorded
it. `python -m tests.rewrite_hosts` writes it anew.

{about}
"""
HEALTHY: dict[str, Any] = {
    "docker": "28.2.2",
    "compose": "2.40.3",
    "disks": [
        {"role": "docker", "free": 400 * GIB, "size": 900 * GIB},
        {"role": "site", "free": 400 * GIB, "size": 900 * GIB},
    ],
    "caches": [{"name": "b70-cache-1", "size": 3 * GIB}],
    "port": {"bind": "127.0.0.1", "port": 8000},
    "images": [{"ref": "vllm/vllm-openai-xpu:v0.26.0", "vllm": "0.26.0", "kernels": "0.1.11.1",
                "compute_runtime": "26.18.38308.1", "source": "catalog"}],
    "synchronized": True,
    "site": "b70",
}  # fmt: skip
CARDS = {"b70": ("e223", 32), "b60": ("e211", 24), "a770": ("56a0", 16), "amd": ("164e", 0), "aspeed": ("2000", 0)}
VENDORS = {"amd": "1002", "aspeed": "1a03"}


class Box:
    """A host in the making."""

    def __init__(self, kernel: str, *, ram: int = 128, swap: int = 64, root: bool = True, **asked: Any) -> None:
        self.entries: dict[str, Entry] = {}
        self.root = root
        self.log: list[str] = []
        who = {"uid": 0, "gids": [0]} if root else {"uid": 1000, "gids": [1000, 992]}
        self.asked = HEALTHY | who | asked
        self.put("/proc/sys/kernel/osrelease", kernel)
        self.put("/proc/meminfo", f"MemTotal: {ram * 2**20} kB\nSwapTotal: {swap * 2**20} kB")
        self.put("/proc/cpuinfo", "model name\t: AMD Ryzen 9 9950X 16-Core Processor")
        self.put("/proc/cmdline", "")
        self.put("/etc/group", "video:x:44:\nrender:x:992:\ndocker:x:998:")
        self.put("/usr/lib/os-release", 'PRETTY_NAME="Ubuntu 26.04 LTS"\nID=ubuntu\nVERSION_ID="26.04"')
        self.put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance")
        self.put("/sys/module/pcie_aspm/parameters/policy", "[default] performance powersave powersupersave")
        self.packages({"intel-opencl-icd": "26.35.39758.10-1", "libigc2": "2.41.5", "libigdgmm12": "22.8.2",
                       "libze1": "1.28.2-1", "linux-firmware": "20260919"})  # fmt: skip

    def put(self, path: str, text: str, mode: int = 0o444) -> None:
        """A file."""
        self.entries[path] = Entry("file", mode, text=f"{text}\n")

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self.entries[path] = Entry("link", 0o777, target=target)

    def packages(self, versions: dict[str, str]) -> None:
        """What dpkg has."""
        blocks = [f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
                  for name, version in versions.items()]  # fmt: skip
        self.put(DPKG, "\n".join(blocks))

    def card(
        self, kind: str, bus: int, number: int, *, driver: str | None = "xe", guc: str | None = "70.72.1",
        bar: int = 32 * 1024, link: str = "32.0 GT/s PCIe", timeout: int = 10000, used: int = 0, lit: str | None = None,
        warm: int = 52, throttled: bool = False,
    ) -> str:  # fmt: skip
        """A graphics card behind a switch of its own, its nodes and its sensors; gives back its PCI address."""
        device, vram = CARDS[kind]
        vendor = VENDORS.get(kind, "8086")
        address, up, down, root = f"0000:{bus:02x}:00.0", f"0000:{bus - 2:02x}:00.0", f"0000:{bus - 1:02x}:01.0", bus
        folder = f"{PCI}/{address}"
        self._ids(address, vendor, device, "0x030000")
        self.link(folder, f"../../../devices/pci0000:00/0000:00:{root:02x}.1/{up}/{down}/{address}")
        if vendor == "8086":
            switch = ("4fa0", "4fa1") if kind == "a770" else ("e2ff", "e2f0")
            self._ids(up, "8086", switch[0], "0x060400")
            self._ids(down, "8086", switch[1], "0x060400")
            self._link_of(up, link, "32.0 GT/s PCIe", "16")
            self._link_of(address, "2.5 GT/s PCIe", "2.5 GT/s PCIe", "1")
        size = bar * 2**20
        self.put(
            f"{folder}/resource",
            f"0x0 0x0 0x0\n0x0 0x0 0x0\n{0x4000000000:#018x} {0x4000000000 + size - 1:#018x} 0x14220c",
        )
        if driver:
            self.link(f"{folder}/driver", f"../../../../bus/pci/drivers/{driver}")
            self._nodes(address, number, lit)
        if driver == "xe":
            self._sensors(folder, timeout, warm, throttled=throttled)
            self._debug(address, number, guc, vram, used)
        return address

    def _ids(self, address: str, vendor: str, device: str, kind: str) -> None:
        for name, text in (("vendor", f"0x{vendor}"), ("device", f"0x{device}"), ("class", kind)):
            self.put(f"{PCI}/{address}/{name}", text)

    def _link_of(self, address: str, speed: str, most: str, width: str) -> None:
        rows = {
            "current_link_speed": speed,
            "max_link_speed": most,
            "current_link_width": width,
            "max_link_width": width,
        }
        for name, text in rows.items():
            self.put(f"{PCI}/{address}/{name}", text)

    def _nodes(self, address: str, number: int, lit: str | None) -> None:
        node, card = f"renderD{number}", f"card{number - 128}"
        self.entries[f"/dev/dri/{node}"] = Entry("device", 0o660, 0, 992)
        self.entries[f"/dev/dri/{card}"] = Entry("device", 0o660, 0, 44)
        self.link(f"/dev/dri/by-path/pci-{address}-render", f"../{node}")
        self.link(f"/dev/dri/by-path/pci-{address}-card", f"../{card}")
        self.entries[f"{PCI}/{address}/drm/{node}"] = Entry("dir", 0o755)
        for name in ("DP-1", "HDMI-A-1"):
            state = "connected" if name == lit else "disconnected"
            self.put(f"{PCI}/{address}/drm/{card}/{card}-{name}/status", state)

    def _sensors(self, folder: str, timeout: int, warm: int, *, throttled: bool) -> None:
        hwmon, gt = f"{folder}/hwmon/hwmon4", f"{folder}/tile0/gt0"
        rows = {
            f"{hwmon}/name": "xe", f"{hwmon}/power1_cap": "275000000", f"{hwmon}/fan1_input": "1100",
            f"{hwmon}/temp2_label": "pkg", f"{hwmon}/temp2_input": f"{warm}000", f"{hwmon}/temp2_crit": "100000",
            f"{hwmon}/temp3_label": "vram", f"{hwmon}/temp3_input": f"{warm + 8}000",
            f"{gt}/engines/ccs/job_timeout_ms": str(timeout), f"{gt}/engines/ccs/job_timeout_max": "10000",
            f"{gt}/freq0/throttle/status": str(int(throttled)), f"{gt}/freq0/throttle/reason_pl1": str(int(throttled)),
            f"{gt}/freq0/throttle/reason_thermal": "0",
        }  # fmt: skip
        for path, text in rows.items():
            self.put(path, text)
        energy = {"path": f"{hwmon}/energy1_input", "before": 1_000_000_000, "after": 1_019_000_000, "seconds": 0.5}
        self.asked["energies"] = [*self.asked.get("energies", []), energy]

    def _debug(self, address: str, number: int, guc: str | None, vram: int, used: int) -> None:
        folder = f"{DEBUGFS}/{number - 128}"
        self.log += [f"xe {address}: [drm] Tile0: GT0: Using GuC firmware from xe/bmg_guc_70.bin version {guc}"] * bool(
            guc
        )
        self.put(f"{folder}/name", f"xe dev={address} unique={address}")
        found = f"\tfound release version {guc}\n" if guc else ""
        self.put(f"{folder}/gt0/uc/guc_info", f"GuC firmware: xe/bmg_guc_70.bin\n\tstatus: RUNNING\n{found}")
        # a B70 shows 32,656 of its 32,768 MiB
        size = vram * GIB - 112 * 2**20
        self.put(f"{folder}/tile0/vram_mm", f"  use_type: 1\n  use_tt: 0\n  size: {size}\n  usage: {used * 2**20}")

    def facts(self) -> HostFacts:
        """The host as it would have been read by root, or by an ordinary user."""
        if self.root:
            self.put(KMSG, "\n".join(self.log))
        else:
            self.entries = {path: entry for path, entry in self.entries.items() if not path.startswith(DEBUGFS)}
            self.entries |= {"/sys/kernel/debug": Entry("denied"), KMSG: Entry("denied")}
        return HostFacts(self.entries, Asked.model_validate(self.asked))


def one_b70() -> HostFacts:
    """One B70 that serves, seen by root: nothing to complain of."""
    holder = {"address": "0000:03:00.0", "pid": 4321, "process": "VLLM::EngineCor", "container": "b70-1", "site": "b70"}
    port = HEALTHY["port"] | {"by": "container b70-1", "container": "b70-1", "site": "b70"}
    box = Box("7.1.8-generic", holders=[holder], port=port)
    box.card("b70", 3, 128, used=30000)
    return box.facts()


def four_b70() -> HostFacts:
    """Four B70 seen by an ordinary user: one at half its speed, little swap, an IOMMU, an image that hangs pairs."""
    image = HEALTHY["images"][0] | {"ref": "vllm/vllm-openai-xpu:v0.30.0", "vllm": "0.30.0", "kernels": "0.1.14.1",
                                    "compute_runtime": "26.27.39122.11"}  # fmt: skip
    box = Box("6.17.0-1010-intel", ram=64, swap=8, root=False, images=[image])
    box.entries["/sys/class/iommu/ivhd0"] = Entry("link", 0o777, target="../../devices/virtual/iommu/ivhd0")
    for number in range(4):
        speed = "16.0 GT/s PCIe" if number == 2 else "32.0 GT/s PCIe"
        box.card("b70", 3 + 4 * number, 128 + number, link=speed, timeout=5000)
    return box.facts()


def b60() -> HostFacts:
    """One B60 with the firmware that resets engines and a small memory window."""
    box = Box("7.0.0-27-generic", ram=32, swap=0)
    address = box.card("b60", 3, 128, guc="70.58.0", bar=256, warm=93, throttled=True)
    box.log += [f"xe {address}: [drm] Failed to resize: Can't resize VRAM BAR - platform support is missing",
                f"xe {address}: [drm] Tile0: GT0: Engine reset: engine_class=ccs, logical_mask: 0x1"]  # fmt: skip
    return box.facts()


def a770() -> HostFacts:
    """One A770 under i915 and an old kernel."""
    box = Box("6.8.0-60-generic", ram=32, swap=16)
    box.card("a770", 3, 128, driver="i915", bar=16 * 1024)
    return box.facts()


def mixed() -> HostFacts:
    """A B70 beside an AMD adapter that has the display; a container made by hand has card and port."""
    holders = [{"address": "0000:0c:00.0", "pid": 900, "process": "gnome-shell"},
               {"address": "0000:03:00.0", "pid": 5555, "process": "python3", "container": "vllm-old"}]  # fmt: skip
    port = HEALTHY["port"] | {"by": "container vllm-old", "container": "vllm-old"}
    box = Box("6.17.4-200.fc44", holders=holders, port=port, root=True)
    box.card("amd", 12, 128, driver="amdgpu", lit="HDMI-A-1", bar=256)
    box.card("b70", 3, 129, used=29000)
    return box.facts()


def no_card() -> HostFacts:
    """A box whose only display controller is the board's; no Docker runs; one profile of the site uses no card."""
    box = Box("6.12.0-amd64", docker=None, docker_trouble="no Docker Engine answers: no such file or directory",
              disks=[], caches=None, images=[], cardless=["embeddings-cpu"])  # fmt: skip
    box.card("aspeed", 5, 128, driver=None, bar=16)
    return box.facts()


MADE = {"one-b70": one_b70, "four-b70": four_b70, "b60": b60, "a770": a770, "mixed": mixed, "no-card": no_card}


def main() -> None:
    """Replace the hosts, and remove those that are gone."""
    shutil.rmtree(HOSTS, ignore_errors=True)
    for name, make in MADE.items():
        record(make(), HOSTS / name)
        (HOSTS / name / "README.md").write_text(NOTE.format(name=name, about=make.__doc__), encoding="utf-8")
    print(f"{len(MADE)} hosts in {HOSTS}")  # noqa: T201 - a script's answer


if __name__ == "__main__":
    main()
