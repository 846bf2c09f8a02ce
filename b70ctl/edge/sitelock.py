"""The site's lock file: which image a reference was pinned to, and which patch bases the owner accepted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import StringConstraints

from b70ctl.core.patch import Sha256
from b70ctl.core.strict import Name, Strict, Text
from b70ctl.edge import yamlfile
from b70ctl.edge.catalog import checked
from b70ctl.edge.files import replace
from b70ctl.edge.yamlfile import Document

FILE = "b70ctl.lock.yaml"
HEAD = "# Written by b70ctl; keep it with site.yaml. Images that were pinned, patch bases that were accepted.\n"


class Pin(Strict):
    """What a reference meant when it was pinned."""

    identity: Annotated[str, StringConstraints(pattern=r"sha256:[0-9a-f]{64}$")]
    """`repository@sha256:…`, or the image id of one that was built or imported here."""
    vllm: Text
    at: Text


class SiteLock(Strict):
    """The whole file."""

    images: dict[Text, Pin] = {}
    patches: dict[Name, list[Sha256]] = {}

    def accepted(self) -> dict[str, frozenset[str]]:
        """Accepted base hashes by patch."""
        return {name: frozenset(hashes) for name, hashes in self.patches.items()}


def read_lock(root: Path | None) -> SiteLock:
    """The site's lock file; empty where there is none, and UsageError for one that is there and cannot be read."""
    # a link that leads nowhere is no file that was never written: what it pinned is not to be forgotten in silence
    if root is None or not os.path.lexists(root / FILE):
        return SiteLock()
    return _understood(yamlfile.read(root / FILE))


def _understood(document: Document) -> SiteLock:
    return checked(SiteLock, document.data, [document])


def write_lock(root: Path, lock: SiteLock) -> None:
    """Replace the lock file; UsageError for what could not be read again, and then it stays as it was."""
    text = HEAD + yamlfile.dump(lock.model_dump(mode="json"))
    _understood(yamlfile.parse(text, str(root / FILE)))
    replace(root / FILE, text)
