"""Known causes, read from YAML: the shipped ones, and a site's own beside or instead of them."""

from __future__ import annotations

from pathlib import Path

from b70ctl.core.cause import Cause
from b70ctl.edge import places, yamlfile
from b70ctl.edge.catalog import checked
from b70ctl.errors import UsageError

FOLDER = "diagnoses"


def read_causes(root: Path | None) -> tuple[Cause, ...]:
    """Every cause, a site's own first; one with a shipped one's id stands in its place."""
    own = _folder(root / FOLDER) if root is not None else {}
    shipped = {name: cause for name, cause in _folder(places.data(FOLDER)).items() if name not in own}
    return tuple((own | shipped).values())


def _folder(folder: Path) -> dict[str, Cause]:
    found: dict[str, Cause] = {}
    for path in sorted(folder.glob("*.yaml")):
        for place, cause in _file(path):
            if cause.id in found:
                raise UsageError(f"{place}: there is another cause `{cause.id}` in {folder}")
            found[cause.id] = cause
    return found


def _file(path: Path) -> list[tuple[str, Cause]]:
    document = yamlfile.read(path)
    items = document.data.get("causes")
    if list(document.data) != ["causes"] or not isinstance(items, list):
        raise UsageError(f"{document.name}:1: a file of causes has one key, `causes`, and it is a list")
    found = []
    for number, item in enumerate(items):
        place = document.at(("causes", number))
        if not isinstance(item, dict):
            raise UsageError(f"{place}: a cause is a mapping of keys to values")
        found.append((place, checked(Cause, item, [document], ("causes", number))))
    return found
