"""What the cards measure: power, heat, memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from b70ctl.core.checkup.case import AS_ROOT, Answer, Case, Device, debug_folders, first
from b70ctl.core.hostfacts import DEBUGFS, HostFacts

MIB = 2**20
NEAR_CRITICAL = 10
"""Degrees below the critical temperature from which a card counts as hot."""
VISIBLE_SHARE = 0.92
"""Less of the card's memory than this is visible only where ECC takes its part."""
STRAY_MIB = 1024
"""Memory that may be in use although nobody serves."""
SIZE = re.compile(r"^\s*size:\s*(\d+)", re.MULTILINE | re.ASCII)
USAGE = re.compile(r"^\s*usage:\s*(\d+)", re.MULTILINE | re.ASCII)


def power_limit(case: Case) -> Iterator[Answer]:
    """What each card may draw."""
    for card in case.cards:
        cap = _reading(case.facts, card, "power1_cap")
        if cap is None:
            yield Answer("unknown", "hwmon shows no power limit", card.address)
        else:
            yield Answer("ok", f"{cap / 1e6:.0f} W", card.address)


def power_draw(case: Case) -> Iterator[Answer]:
    """What each card draws, from its energy counter: a B70 has no power reading."""
    for card in case.cards:
        found = [each for each in case.facts.asked.energies if each.path.startswith(f"{card.folder}/")
                 and each.path.endswith("/energy1_input")]  # fmt: skip
        if found and found[0].seconds > 0 and found[0].after >= found[0].before:
            watts = (found[0].after - found[0].before) / 1e6 / found[0].seconds
            yield Answer("ok", f"{watts:.0f} W over {found[0].seconds:.1f} s", card.address)
        else:
            yield Answer("unknown", "hwmon shows no energy counter", card.address)


def temperature(case: Case) -> Iterator[Answer]:
    """How warm each card is."""
    for card in case.cards:
        readings = _temperatures(case.facts, card)
        hot = [name for name, degrees, critical in readings if critical and degrees >= critical - NEAR_CRITICAL]
        said = ", ".join(f"{name} {degrees:.0f} °C" for name, degrees, _ in readings)
        if not readings:
            yield Answer("unknown", "hwmon shows no temperature", card.address)
        elif hot:
            yield Answer("problem", f"{said}; near critical: {', '.join(hot)}", card.address)
        else:
            yield Answer("ok", said, card.address)


def _temperatures(facts: HostFacts, card: Device) -> list[tuple[str, float, float | None]]:
    found = []
    for path in facts.matching(f"{card.folder}/hwmon/hwmon*/temp*_input"):
        base, value = path.removesuffix("_input"), facts.number(path)
        critical = facts.number(f"{base}_crit")
        if value is not None:
            name = facts.text(f"{base}_label") or base.rsplit("/", 1)[-1]
            found.append((name, value / 1000, critical / 1000 if critical else None))
    return found


def throttle(case: Case) -> Iterator[Answer]:
    """Whether something holds the clocks of a card down now."""
    for card in case.cards:
        paths = [path for part in ("freq0/throttle", "throttle")
                 for path in case.facts.matching(f"{card.folder}/tile*/gt*/{part}/reason_*")]  # fmt: skip
        active = [path.rsplit("reason_", 1)[-1] for path in paths if case.facts.text(path) == "1"]
        if active:
            yield Answer("problem", f"held down by {', '.join(dict.fromkeys(active))}", card.address)
        elif paths:
            yield Answer("ok", "nothing holds the clocks down", card.address)
        else:
            yield Answer("unknown", "sysfs shows no throttle reasons", card.address)


def vram(facts: HostFacts, address: str) -> tuple[int, int] | None:
    """Bytes of a card's memory, visible and in use; None where debugfs is closed or silent."""
    return read_memory(first(facts, [f"{folder}/tile0/vram_mm" for folder in debug_folders(facts, address)]) or "")


def read_memory(text: str) -> tuple[int, int] | None:
    """Bytes visible and in use, as the xe driver's `vram_mm` says them; None when it does not."""
    size, usage = SIZE.search(text), USAGE.search(text)
    return (int(size[1]), int(usage[1])) if size and usage else None


def vram_free(case: Case) -> Iterator[Answer]:
    """Whether memory is in use that nobody accounts for."""
    for card in case.cards:
        found = vram(case.facts, card.address)
        if found is None:
            yield _closed(case.facts, card)
            continue
        size, used = found
        said = f"{(size - used) // MIB} of {size // MIB} MiB are free"
        held = any(holder.address == card.address for holder in case.facts.asked.holders)
        if used > STRAY_MIB * MIB and not held and case.facts.asked.uid == 0:
            yield Answer("problem", f"{said}, and nobody holds the card", card.address)
        else:
            yield Answer("ok", said, card.address)


def ecc(case: Case) -> Iterator[Answer]:
    """Whether error correction takes a part of the memory."""
    for card in case.cards:
        found = vram(case.facts, card.address)
        if found is None:
            yield _closed(case.facts, card)
        elif card.model is None or card.model.vram_gib is None:
            yield Answer("unknown", f"{found[0] // MIB} MiB are visible; how many there are is not known", card.address)
        else:
            share = found[0] / (card.model.vram_gib * 2**30)
            said = f"{found[0] // MIB} MiB of {card.model.vram_gib} GiB are visible"
            yield Answer("ok" if share >= VISIBLE_SHARE else "problem", said, card.address)


def _closed(facts: HostFacts, card: Device) -> Answer:
    if facts.denied(f"{DEBUGFS}/{card.address}"):
        return Answer("unknown", "debugfs is read by root only", card.address, do=AS_ROOT)
    return Answer("unknown", "debugfs does not show the card's memory", card.address)


def _reading(facts: HostFacts, card: Device, name: str) -> int | None:
    paths = facts.matching(f"{card.folder}/hwmon/hwmon*/{name}")
    return facts.number(paths[0]) if paths else None
