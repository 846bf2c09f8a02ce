"""Real vLLM's argument parser, config and choice of backends, release by release.

python -m tests.vllm.config [pytest's arguments]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.vllm.config.conftest import RUNNING, WHOLE


def main(arguments: list[str]) -> int:
    """Run them, and give pytest's exit status."""
    os.environ[RUNNING] = "part" if arguments else WHOLE
    here = str(Path(__file__).parent)
    named = any(word.startswith((here, "tests/")) for word in arguments)
    return int(pytest.main([*([] if named else [here]), *arguments, "-p", "no:cacheprovider"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
