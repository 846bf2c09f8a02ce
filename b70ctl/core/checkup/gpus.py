"""The cards themselves: which, with which driver and firmware, how they are attached."""

from __future__ import annotations

import re
from collections.abc import Iterator

from b70ctl.core.checkup.case import AS_ROOT, Answer, Case, Device, debug_folders, dotted, first, gib, pci_id
from b70ctl.core.hostfacts import DEBUGFS, KMSG, PCI, HostFacts, version_in

GUC_LINE = re.compile(r"Using GuC firmware from \S+ version (\d+\.\d+\.\d+)")
GUC_FOUND = re.compile(r"found release version (\d+\.\d+\.\d+)")
BAD_GUC = frozenset({(70, 58, 0)})
OLDEST_GUC = (70, 44)
SMALL_BAR = 256 * 2**20
"""What a card's memory window is without resizable BAR."""
BAR_LINE = 2
EVERY_TIMEOUT = "/sys/class/drm/card*/device/tile*/gt*/engines/ccs/job_timeout_ms"


def cards(case: Case) -> Iterator[Answer]:
    """Which cards there are, and whether one can serve."""
    missing = [address for address in case.facts.asked.wanted if address not in {each.address for each in case.cards}]
    for address in missing:
        yield Answer("problem", "site.yaml names this card, and sysfs shows no Intel card there", address,
                     do="take it out of `cards` in site.yaml, or look for it: lspci -d 8086:")  # fmt: skip
    for card in case.cards:
        if card.model and card.model.verified:
            yield Answer("ok", card.name, card.address)
        else:
            said = f"{card.name}: this id was not read off a card yet" if card.model else f"{card.id} is not known"
            yield Answer("unknown", said, card.address, do="b70ctl inventory, and report what the card is sold as")
    if not case.cards:
        others = ", ".join(f"{device.address} {device.id}" for device in case.devices) or "none"
        names = ", ".join(case.facts.asked.cardless)
        spared = f"; without one only profiles that use none can be served: {names}" if names else ""
        yield Answer("problem", f"no Intel card to serve from; display controllers: {others}{spared}")


def driver(case: Case) -> Iterator[Answer]:
    """Whether xe drives each card."""
    for card in case.cards:
        if card.driver == "xe":
            yield Answer("ok", "bound to xe", card.address)
        elif card.driver == "i915" and card.model and card.model.family == "alchemist":
            yield Answer(
                "problem", "bound to i915; what is asked below is what xe would show", card.address, severity="note"
            )
        else:
            yield Answer("problem", f"bound to {card.driver or 'no driver'}", card.address)


def guc(case: Case) -> Iterator[Answer]:
    """Which GuC firmware each card runs."""
    for card in case.cards:
        version = guc_version(case.facts, card.address)
        if version is None:
            yield _guc_unknown(case.facts, card)
        elif card.model is None or card.model.family != "battlemage":
            yield Answer("unknown", f"GuC {dotted(version)}; no figures are known for this card", card.address)
        elif version in BAD_GUC:
            yield Answer("problem", f"GuC {dotted(version)} resets engines under sustained load", card.address)
        elif version < OLDEST_GUC:
            yield Answer("problem", f"GuC {dotted(version)} is older than {dotted(OLDEST_GUC)}", card.address)
        else:
            yield Answer("ok", f"GuC {dotted(version)}", card.address)


def guc_version(facts: HostFacts, address: str) -> tuple[int, ...] | None:
    """The GuC firmware that a card runs, from debugfs, else from the kernel's log."""
    info = first(facts, [f"{folder}/gt0/uc/guc_info" for folder in debug_folders(facts, address)])
    match = GUC_FOUND.search(info or "")
    if match:
        return version_in(match[1])
    lines = [line for line in (facts.text(KMSG) or "").splitlines() if address in line]
    found = [match[1] for line in lines if (match := GUC_LINE.search(line))]
    return version_in(found[-1]) if found else None


def _guc_unknown(facts: HostFacts, card: Device) -> Answer:
    closed = facts.denied(f"{DEBUGFS}/{card.address}") or facts.denied(KMSG)
    if closed:
        return Answer("unknown", "debugfs and the kernel's log are read by root only", card.address, do=AS_ROOT)
    return Answer("unknown", "neither debugfs nor the kernel's log names it", card.address)


def rebar(case: Case) -> Iterator[Answer]:
    """Whether the whole memory of each card can be reached."""
    for card in case.cards:
        size = bar_size(case.facts, card.address)
        needed = card.model.vram_gib * 2**30 if card.model and card.model.vram_gib else SMALL_BAR + 1
        if size is None:
            yield Answer("unknown", "sysfs does not say how large BAR 2 is", card.address)
        else:
            yield Answer("ok" if size >= needed else "problem", f"BAR 2 is {gib(size)}", card.address)


def bar_size(facts: HostFacts, address: str) -> int | None:
    """Bytes of the window through which a card's memory is reached."""
    lines = (facts.text(f"{PCI}/{address}/resource") or "").splitlines()
    parts = lines[BAR_LINE].split() if len(lines) > BAR_LINE else []
    if len(parts) < 2 or not all(re.fullmatch(r"0x[0-9a-f]{1,16}", part) for part in parts[:2]):
        return None
    start, end = (int(part, 16) for part in parts[:2])
    return end - start + 1 if end > start else 0


def link(case: Case) -> Iterator[Answer]:
    """How each card is really attached: the link above the switch on the card, not the virtual one below it."""
    for card in case.cards:
        port = real_port(case, card)
        now, most = (_link(case.facts, port, word) for word in ("current", "max"))
        if now is None:
            yield Answer("unknown", f"sysfs does not say what the link at {port} runs at", card.address)
        elif most is None or now >= most:
            yield Answer("ok", f"{now[0]:g} GT/s x{now[1]} at {port}", card.address)
        else:
            said = f"{now[0]:g} GT/s x{now[1]} at {port}, which can do {most[0]:g} GT/s x{most[1]}"
            yield Answer("problem", said, card.address)


def real_port(case: Case, card: Device) -> str:
    """The upstream port of the switch that sits on the card; the card itself where it has none."""
    port = card.address
    for address in reversed(card.above):
        if pci_id(case.facts, address) not in case.switches:
            break
        port = address
    return port


def _link(facts: HostFacts, address: str, word: str) -> tuple[float, int] | None:
    speed = re.match(r"\d+(\.\d+)?", facts.text(f"{PCI}/{address}/{word}_link_speed") or "", re.ASCII)
    width = facts.number(f"{PCI}/{address}/{word}_link_width")
    return (float(speed[0]), width) if speed and width else None


def display(case: Case) -> Iterator[Answer]:
    """Whether a display takes memory of a card that serves."""
    for card in case.cards:
        states = {path.split("/")[-2]: case.facts.text(path)
                  for path in case.facts.matching(f"{card.folder}/drm/card*/card*-*/status")}  # fmt: skip
        lit = [name.split("-", 1)[-1] for name, state in states.items() if state == "connected"]
        if lit:
            yield Answer("problem", f"a display is connected to {', '.join(lit)}", card.address)
        elif states or card.driver:
            yield Answer("ok", f"none of {len(states)} connectors is in use", card.address)
        else:
            yield Answer("unknown", "without a driver nobody knows", card.address)


def job_timeout(case: Case) -> Iterator[Answer]:
    """Whether a long prefill may run to its end."""
    for card in case.cards:
        short, seen = [], 0
        for path in case.facts.matching(f"{card.folder}/tile*/gt*/engines/ccs/job_timeout_ms"):
            now, most = case.facts.number(path), case.facts.number(path.replace("_ms", "_max"))
            seen = max(seen, now or 0)
            if now is not None and most is not None and now < most:
                short.append((now, most))
        if short:
            yield Answer("problem", f"a compute job is reset after {short[0][0]} ms; {short[0][1]} ms can be allowed",
                         card.address, do=f"echo {short[0][1]} | sudo tee {EVERY_TIMEOUT}")  # fmt: skip
        elif seen:
            yield Answer("ok", f"a compute job may run for {seen} ms", card.address)
        else:
            yield Answer("unknown", "sysfs shows no compute engine", card.address)
