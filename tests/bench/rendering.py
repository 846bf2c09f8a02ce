"""How long `render` takes, for one profile and for all, with every check and without Docker."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from tests.rig.standin_site import COMMAND

from .sampling import heading, in_turn, process, ratio, tell

PROFILE = "qwen3-30b-eagle3"
LIMITS = {"render": 0.5, "render --all --check": 1.5}
SITE = "name: bench\nmodels: /srv/models\nhf_cache: /srv/hf\ngids: [992]\n"


def main(n: int = 9) -> None:
    """Print medians, spreads and ratios."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        env = {"PATH": "/usr/bin:/bin", "HOME": scratch, "DOCKER_HOST": "unix:///nonexistent"}
        run = partial(process, cwd=folder, env=env)
        found = in_turn(
            {
                "b70ctl --help": lambda: run((COMMAND, "--help")),
                "render": lambda: run((COMMAND, "render", PROFILE)),
                "render --all --check": lambda: run((COMMAND, "render", "--all", "--check")),
            },
            n,
        )
    heading("rendering: wall time of the whole process, no Docker", "tests.bench.rendering")
    for sample in found.values():
        tell(str(sample))
    for name, limit in LIMITS.items():
        tell(f"  {name}: {ratio(found[name], found['b70ctl --help'])}; at most {limit} s wanted")


if __name__ == "__main__":
    main()
