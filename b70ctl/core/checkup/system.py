"""The box around the cards: kernel, memory, clock, power policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from b70ctl.core.checkup.case import AS_ROOT, Answer, Case, Severity, dotted
from b70ctl.core.hostfacts import KMSG, version_in

OLDEST_KERNEL = (6, 17)
TWO_CARD_KERNEL = (7, 1)
CARD_SWAP_GIB, CARD_RAM_GIB = 16, 25
"""Floors per card, from a box with four: 64 GiB of swap, 100 GiB of memory."""
MOST_LINES = 3


class Sign(NamedTuple):
    """A line of the kernel's log that means something."""

    pattern: re.Pattern[str]
    means: str
    severity: Severity
    do: str


SIGNS = (
    Sign(re.compile(r"Failed to initialize uC"), "the card's firmware did not start", "block",
         "install a newer linux-firmware (bmg_guc_70.bin), rebuild the initrd, reboot"),
    Sign(re.compile(r"failed to map registers"), "the card's registers could not be mapped", "block",
         "in the BIOS: Above 4G Decoding and Resizable BAR on"),
    Sign(re.compile(r"Can't resize VRAM BAR"), "the memory window could not be made larger", "warn",
         "in the BIOS: Above 4G Decoding and Resizable BAR on"),
    Sign(re.compile(r"Unable to change power state from D3cold to D0"), "a card did not wake up", "warn",
         "echo performance | sudo tee /sys/module/pcie_aspm/parameters/policy, then reboot"),
    Sign(re.compile(r"\bxe\b.*(Engine reset|Timedout job|timedout_job|Fault response: Unsuccessful)"),
         "an engine of a card was reset", "warn", "restart the engine; if it comes back: b70ctl doctor, row guc"),
)  # fmt: skip


def kernel(case: Case) -> Iterator[Answer]:
    """Whether the kernel is new enough, and new enough for as many cards."""
    text = case.facts.text("/proc/sys/kernel/osrelease")
    version = version_in(text)
    if version is None:
        yield Answer("unknown", "the kernel does not say its version")
    elif version < OLDEST_KERNEL:
        yield Answer("problem", f"{text} is older than {dotted(OLDEST_KERNEL)}")
    elif len(case.cards) > 1 and version < TWO_CARD_KERNEL:
        yield Answer("problem", f"{text}: several cards together are steadier from {dotted(TWO_CARD_KERNEL)} on",
                     severity="note")  # fmt: skip
    else:
        yield Answer("ok", str(text))


def kernel_log(case: Case) -> Iterator[Answer]:
    """Whether the kernel complained about a card since the start."""
    text = case.facts.text(KMSG)
    if text is None:
        yield Answer("unknown", "the kernel's log is read by root only", do=AS_ROOT)
        return
    lines = text.splitlines()
    found = [(sign, [line.strip() for line in lines if sign.pattern.search(line)]) for sign in SIGNS]
    hits = [(sign, matching) for sign, matching in found if matching]
    for sign, matching in hits:
        shown = " | ".join(matching[-MOST_LINES:])
        yield Answer("problem", f"{sign.means}, {_lines(len(matching))}: {shown}", severity=sign.severity, do=sign.do)
    if not hits:
        yield Answer("ok", f"nothing known to be bad in {_lines(len(lines))} about graphics")


def _lines(count: int) -> str:
    return f"{count} {'line' if count == 1 else 'lines'}"


def memory(case: Case) -> Iterator[Answer]:
    """Whether memory and swap hold the largest shard of a model while it is loaded."""
    rows = dict(re.findall(r"^(\w+):\s*(\d+) kB", case.facts.text("/proc/meminfo") or "", re.MULTILINE | re.ASCII))
    if not {"MemTotal", "SwapTotal"} <= set(rows):
        yield Answer("unknown", "/proc/meminfo does not say")
        return
    ram, swap = (int(rows[name]) / 2**20 for name in ("MemTotal", "SwapTotal"))
    count = max(1, len(case.cards))
    low = [f"{word} below {floor} GiB" for word, size, floor in
           (("memory", ram, CARD_RAM_GIB * count), ("swap", swap, CARD_SWAP_GIB * count)) if size < floor]  # fmt: skip
    said = f"{ram:.0f} GiB of memory, {swap:.0f} GiB of swap"
    yield Answer("problem" if low else "ok", f"{said}: {' and '.join(low)}" if low else said)


def clock(case: Case) -> Iterator[Answer]:
    """Whether the clock is kept right; logs and records are compared by it."""
    match case.facts.asked.synchronized:
        case True:
            yield Answer("ok", "synchronized")
        case False:
            yield Answer("problem", "not synchronized")
        case None:
            yield Answer("unknown", "no time service says whether it is synchronized")


def iommu(case: Case) -> Iterator[Answer]:
    """Whether addresses of the cards are translated; with several cards it costs speed between them."""
    words = [word for word in (case.facts.text("/proc/cmdline") or "").split() if "iommu" in word]
    units = [path.rsplit("/", 1)[-1] for path in case.facts.matching("/sys/class/iommu/*")]
    said = f"{', '.join(units) or 'no unit'} active; boot options: {' '.join(words) or 'none'}"
    translated = units and not {"iommu=pt", "iommu=off"} & set(words)
    yield Answer("problem" if translated and len(case.cards) > 1 else "ok", said)


def governor(case: Case) -> Iterator[Answer]:
    """Whether the processor is let run at speed; decoding waits for it between steps."""
    paths = case.facts.matching("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
    found = sorted({text for path in paths if (text := case.facts.text(path))})
    if not found:
        yield Answer("unknown", "the kernel shows no governor")
    else:
        yield Answer("ok" if found == ["performance"] else "problem", ", ".join(found))


def aspm(case: Case) -> Iterator[Answer]:
    """Whether the links to the cards are let sleep so deeply that a card does not wake."""
    text = case.facts.text("/sys/module/pcie_aspm/parameters/policy")
    active = re.search(r"\[(\w+)\]", text or "")
    if active is None:
        yield Answer("unknown", "the kernel does not say")
    else:
        yield Answer("problem" if active[1] == "powersupersave" else "ok", active[1])
