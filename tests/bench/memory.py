"""The most memory that each command has in use, Python and all; Compose, a child where one is needed, apart."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.rig import dockerd
from tests.rig.images import ensure_images
from tests.rig.standin_site import furnish, standin_site

from .sampling import heading, tell

LIMIT_MB = 120
# the kernel's own high-water mark of this program image; getrusage would count the process that forked it as well
WATCHED = """\
import pathlib, re, resource, sys
out = pathlib.Path(sys.argv[1])
sys.argv = ["b70ctl", *sys.argv[2:]]
from b70ctl.__main__ import main
try:
    main()
finally:
    own = re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]
    out.write_text(f"{own} {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}")
"""
COMMANDS = (
    ("--help",),
    ("profiles", "list"),
    ("profiles", "lint"),
    ("render", "--all", "--check"),
    ("switch", "demo-a", "--yes"),
    ("plan", "demo-b"),
    ("switch", "demo-b", "--yes"),
    ("status",),
    ("watch", "--once"),
    ("rollback", "--yes"),
    ("history",),
    ("logs",),
    ("stop", "--yes"),
    ("prune", "--yes"),
)


@dataclass(frozen=True, slots=True)
class Peak:
    """High-water marks in MB: of the command's own process, and of its largest child."""

    own: float
    child: float


def main() -> None:
    """Print every command's peak, the largest last."""
    peaks: dict[str, Peak] = {}
    with dockerd.running() as daemon:
        ensure_images(daemon.host)
        with standin_site(daemon.host, "bench") as site:
            watch(site.folder, site.env, ("init", ".", "--name", site.name))
            furnish(site, boot=0.3)
            with (site.folder / "site.yaml").open("a") as file:
                file.write("hf_cache: /srv/hf\n")
            for words in COMMANDS:
                peaks[" ".join(words)] = watch(site.folder, site.env, words)
    heading("memory: high-water mark of one run of each", "tests.bench.memory")
    for name, peak in peaks.items():
        child = f"; its largest child at most {peak.child:.1f} MB" if peak.child else ""
        tell(f"  b70ctl {name:<28} {peak.own:5.1f} MB{child}")
    largest = max(peaks, key=lambda name: peaks[name].own)
    tell(f"  largest: {peaks[largest].own:.1f} MB, {largest}; under {LIMIT_MB} MB wanted")


def watch(folder: Path, env: Mapping[str, str], words: tuple[str, ...]) -> Peak:
    """Run one command and read its marks."""
    marks = folder.parent / "marks"
    argv = (sys.executable, "-c", WATCHED, str(marks), *words)
    ran = subprocess.run(argv, cwd=folder, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode not in (0, 1):
        raise SystemExit(f"b70ctl {' '.join(words)} ended with exit {ran.returncode}:\n{ran.stderr.decode()}")
    own, child = marks.read_text().split()
    return Peak(int(own) / 1024, int(child) / 1024)


if __name__ == "__main__":
    main()
