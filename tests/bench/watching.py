"""What a watch costs at its default pace: processor time and memory, of a real one that follows a stand-in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.rig import dockerd
from tests.rig.images import ensure_images
from tests.rig.standin_site import Site, furnish, standin_site

from .sampling import heading, process, tell

SECONDS = 330
"""The probe of the beginning, and one at the default pace."""
WANTED_PERCENT, WANTED_MB = 0.5, 80


def main(seconds: int = SECONDS) -> None:
    """Print what one watch took, start-up apart and included."""
    with dockerd.running() as daemon:
        ensure_images(daemon.host)
        with standin_site(daemon.host, "bench") as site:
            b70ctl(site, "init", ".", "--name", site.name)
            furnish(site, boot=0.3)
            b70ctl(site, "switch", "demo-a", "--yes")
            heading(f"watch: its default pace for {seconds} s, one process", "tests.bench.watching")
            _follow(site, seconds)


def b70ctl(site: Site, *words: str) -> None:
    """One command, to its end."""
    process((sys.executable, "-m", "b70ctl", *words), cwd=site.folder, env=site.env | {"PYTHONPATH": str(Path.cwd())})


def _follow(site: Site, seconds: int) -> None:
    env = site.env | {"PYTHONPATH": str(Path.cwd())}
    child = subprocess.Popen((sys.executable, "-m", "b70ctl", "watch"), cwd=site.folder, env=env, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    try:
        said = [str(child.stdout.readline()) for _ in range(3)] if child.stdout else []
        begun, began = _processor_seconds(child.pid), time.monotonic()
        time.sleep(seconds)
        lasted, spent = time.monotonic() - began, _processor_seconds(child.pid) - begun
        memory = _peak_megabytes(child.pid)
    finally:
        child.terminate()
        rest, _ = child.communicate()
    if "healthy" not in said[-1] or child.returncode != 0:
        raise SystemExit(f"the watch ended with {child.returncode}:\n{''.join(said)}{rest}")
    tell(f"  {spent / lasted:.3%} of one core ({spent:.2f} s), and {begun:.2f} s to start; {memory:.1f} MB at most")
    tell(f"  at most {WANTED_PERCENT} % and {WANTED_MB} MB wanted")


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_megabytes(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
