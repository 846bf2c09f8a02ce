"""The engine tier: a real vLLM, in a container, switched by b70ctl; about a quarter of an hour on two cores.

python -m tests.vllm.engine [pytest's own arguments]     after tests/vllm/setup.sh engine
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.rig.talk import exit_status, say
from tests.vllm.places import CHECKOUT, cache_dir
from tests.vllm.versions import BUILT, interpreter

CHECKS = Path(__file__).with_name("check_serving.py")
LEARNT_FROM = ("models.py", "lesson.py", "draft_model.py")


def taught() -> str:
    """What the tiny models are made from, as one text."""
    return "".join((Path(__file__).parents[1] / name).read_text() for name in LEARNT_FROM)


def ensure_models() -> None:
    """The tiny models, taught anew when what they are taught has changed."""
    folder = cache_dir() / "models"
    mark = folder / "taught-by"
    if mark.exists() and mark.read_text() == taught():
        return
    say("teaching two tiny models, two to five minutes")
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "HF_HUB_OFFLINE": "1"}
    subprocess.run([interpreter(BUILT), "-m", "tests.vllm.models", folder], env=env, cwd=CHECKOUT, check=True)
    mark.write_text(taught())


def main(arguments: list[str]) -> int:
    """Teach what is missing, and run the checks."""
    ensure_models()
    # the conftest of all tests forbids processes, which this tier is about
    options = ("-q", "-p", "no:cacheprovider", f"--confcutdir={CHECKS.parent}")
    command = [sys.executable, "-m", "pytest", *options, str(CHECKS), *arguments]
    return subprocess.run(command, cwd=CHECKOUT, check=False).returncode


if __name__ == "__main__":
    sys.exit(exit_status(lambda: main(sys.argv[1:])))
