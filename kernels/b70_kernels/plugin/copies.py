"""Where on Python's path this package lies. Of two copies Python takes the first, and says nothing of the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import metadata

PACKAGE = "b70_kernels"
DISTRIBUTION = "b70-kernels"


def copies(path: Iterable[str] | None = None) -> tuple[str, ...]:
    """The folders that hold the package or its metadata, each once however often and by whatever link it is named."""
    entries = [entry or os.getcwd() for entry in (sys.path if path is None else path)]  # noqa: PTH109 - vLLM starts no faster for pathlib
    places = [entry for entry in entries if os.path.isfile(os.path.join(entry, PACKAGE, "__init__.py"))]  # noqa: PTH113, PTH118
    described = metadata.distributions(name=DISTRIBUTION, path=entries)
    places += [str(each.locate_file("")) for each in described]
    return tuple(dict.fromkeys(os.path.realpath(place) for place in places))
