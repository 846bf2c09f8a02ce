"""The laws of the kernels on the Intel path, in the environment that setup.sh made.

FOLDER/venv/bin/python -m tests.xpu.suite [pytest's arguments]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = Path(sys.prefix).parent
KERNELS = HERE.parents[1] / "kernels"


def main(arguments: list[str]) -> int:
    """Run them, say what was left out, and give pytest's exit status."""
    sys.path.insert(0, str(KERNELS))
    # what Triton compiled is kept beside the compilers, and found by what it was compiled from
    os.environ.setdefault("TRITON_CACHE_DIR", str(FOLDER / "triton"))
    code = pytest.main([*(arguments or [str(HERE / "laws")]), "-p", "no:cacheprovider"])
    missing = FOLDER / "no-ocloc"
    if missing.exists():
        sys.stdout.write(
            f"NOT CHECKED: spills and instruction counts; no offline compiler: {missing.read_text().strip()}\n"
        )
    else:
        sys.stdout.write(f"disassembled by {(FOLDER / 'ocloc-version').read_text().strip().replace(chr(10), ', ')}\n")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
