"""Records of a site's memory: their text, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from b70ctl.core.release import Release
from b70ctl.errors import B70Error, Refused, to_type

Kind = TypeVar("Kind", bound=BaseModel)


def readable(release: Release) -> str:
    """The text of a release; Refused unless reading it gives the release."""
    try:
        text = release.model_dump_json(indent=1)
        same, why = Release.model_validate_json(text) == release, "it would be another one"
    except ValueError as error:
        same, why = False, str(error).splitlines()[0]
    if not same:
        raise Refused(f"release {release.id} is not written, since it could not be read again: {why}",
                      hint=f"b70ctl profiles lint {release.profile}")  # fmt: skip
    return text


def read(raw: str) -> Release | None:
    """A release's record; None for what is none."""
    try:
        return Release.model_validate_json(raw)
    except ValueError:
        return None


def parsed(kind: type[Kind], raw: str, path: Path) -> Kind:
    """What a file of the memory says; B70Error with a way out for one that is damaged."""
    try:
        return kind.model_validate_json(raw)
    except ValueError as error:
        what = str(error).splitlines()[0]
        raise B70Error(f"{path} is damaged: {what}", hint=to_type("mv", path, f"{path}.damaged")) from None
