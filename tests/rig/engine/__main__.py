"""The stand-in as a program, where its folder is all that Python is given: `python tests/rig/engine serve MODEL`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

# a folder that is run is no package yet, and its modules must not stand where others' are looked for
folder = Path(__file__).resolve().parent
sys.path[0] = str(folder.parent)

sys.exit(import_module(folder.name).main(sys.argv[1:]))
