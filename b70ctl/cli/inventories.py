"""inventory: the whole stack, of host and image, and where two boxes differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from b70ctl import __version__
from b70ctl.cli.doctoring import known_images, models, question, serving_deployment
from b70ctl.cli.here import Here
from b70ctl.core.image import check_reference
from b70ctl.core.inventory import Software, as_inventory, differences, inventory, software_of_facts
from b70ctl.edge import hostasks
from b70ctl.edge.files import read_bytes, replace
from b70ctl.edge.hostrecord import read_record
from b70ctl.errors import DaemonError, Exit, MachineError, UsageError, to_type

MOST_BYTES = 16 * 2**20
"""More than any inventory has."""


def show(here: Here, ref: str | None, host_root: Path | None, out: Path | None) -> None:
    """The stack of host and image, side by side."""
    if out and not out.absolute().parent.is_dir():
        raise UsageError(f"{out} cannot be written: there is no directory {out.absolute().parent}",
                         hint=to_type("mkdir", "-p", out.absolute().parent))  # fmt: skip
    image = _image(here, ref)
    found = _inventory(here, host_root, image)
    if out:
        _write(out, found)
        here.console.say(f"wrote {out}; it holds no secrets, host names or serial numbers")
    elif here.console.json:
        here.console.data(found)
    else:
        _tell(here, found)


def _inventory(here: Here, host_root: Path | None, image: tuple[str, Software, str] | None) -> dict[str, Any]:
    from b70ctl.edge.stack import ask_host

    facts, python = (
        (read_record(host_root), Software()) if host_root else (hostasks.read_host(question(here)), ask_host())
    )
    return inventory(facts, models(), python, image, version=__version__, private=hostasks.private_words())


def _image(here: Here, ref: str | None) -> tuple[str, Software, str] | None:
    from b70ctl.edge.stack import ask_image

    serving = None if ref else serving_deployment(here)
    if ref is None and serving is None:
        here.console.say("no image: nothing serves here; --image REF asks one")
        return None
    wanted = serving.image_ref if serving else check_reference(str(ref))
    try:
        return wanted, ask_image(here.daemon, serving.image if serving else wanted), "asked"
    except (MachineError, DaemonError) as error:
        known = [facts for facts in [*known_images(here), *here.catalog.images()] if facts.ref == wanted]
        if not known:
            raise
        here.console.warn(f"{error.what}; the image side is what is known of {wanted} without asking it")
        return wanted, software_of_facts(known[0]), known[0].source


def _write(out: Path, found: dict[str, Any]) -> None:
    try:
        replace(out.absolute(), json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error


def _tell(here: Here, found: dict[str, Any]) -> None:
    rows = [[name, _words(value), "-"] for name, value in found["host"].items()]
    for card in found["cards"]:
        parts = [card["name"] or card["id"], card["driver"] or "no driver", f"GuC {card['GuC'] or '?'}"]
        rows.append([f"card {card['address']}", ", ".join(parts), "-"])
    rows += [[name, _words(sides["host"]), _words(sides["image"])] for name, sides in found["layers"].items()]
    here.console.rows(["LAYER", "HOST", found["image"]["ref"] if found["image"] else "IMAGE"], rows)


def _words(value: Any) -> str:
    return "-" if value is None else str(value) or "none"


def diff(here: Here, before: Path, after: Path) -> None:
    """Where two inventories differ; exit 4 when they do."""
    try:
        found = differences(_read(before), _read(after))
    except RecursionError:
        raise UsageError(f"{before} or {after} is nested more deeply than any inventory") from None
    if here.console.json:
        here.console.data([{"where": each.where, "before": each.before, "after": each.after} for each in found])
    elif found:
        here.console.rows(["WHERE", str(before), str(after)],
                          [[each.where, _words(each.before), _words(each.after)] for each in found])  # fmt: skip
    else:
        here.console.text("no difference")
    if found:
        raise typer.Exit(int(Exit.DIFFERENT))


def _read(path: Path) -> dict[str, Any]:
    try:
        raw = read_bytes(path, MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise UsageError(f"{path} is no inventory: it has more than {MOST_BYTES >> 20} MiB")
        return as_inventory(json.loads(raw.decode("utf-8")), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
