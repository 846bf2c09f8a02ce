"""Our attention backend among real vLLM objects, release by release, on Triton's interpreter; no card is needed.

    python -m tests.vllm.backend [VERSION ... | all]

Runs the tests of inside/ in the environment that setup.sh made, records a row a feature, and exits with 1 when one
fails. A release takes one to two minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from b70_kernels.plugin.proven import ACCEPT

from tests.rig.talk import exit_status, say
from tests.vllm import sdist, versions
from tests.vllm.backend.rows import rows
from tests.vllm.record import record

INSIDE = Path(__file__).with_name("inside")
COMMAND = "make test-vllm-backend"


def main(arguments: list[str]) -> int:
    """Every release that was asked for, those after one that fails too."""
    asked = list(sdist.releases()) if arguments == ["all"] else arguments or list(versions.TIERS["backend"])
    failed = [version for version in asked if not _holds(version)]
    if failed:
        say(f"the backend does not hold with vLLM {', '.join(failed)}")
    return int(bool(failed))


def _holds(version: str) -> bool:
    say(f"the backend among the objects of vLLM {version}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found"
        variables = versions.environment(
            version, versions.plugin_folder(), TRITON_INTERPRET="1", B70_BACKEND_FOUND=str(out), **{ACCEPT: version}
        )
        code = subprocess.run(_pytest(), env=variables, cwd="/", stdin=subprocess.DEVNULL, check=False).returncode
        found = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    record("backend", rows(version, found), command=COMMAND, whole=True)
    return code == 0 and bool(found)


def _pytest() -> list[str]:
    # from `/`, so that no folder of the checkout is taken for a module
    where = ["-c", str(INSIDE / "pytest.ini"), "--rootdir", str(INSIDE), "--confcutdir", str(INSIDE), str(INSIDE)]
    return [str(versions.interpreter()), "-m", "pytest", "-q", *where]


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
