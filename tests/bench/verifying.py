"""How long `verify` takes, with an engine that serves and on a drained box."""

from __future__ import annotations

from tests.rig import dockerd
from tests.rig.images import ensure_images
from tests.rig.standin_site import COMMAND, furnish, standin_site

from .sampling import heading, in_turn, process, ratio, tell


def main(n: int = 9) -> None:
    """Print medians and spreads."""
    with dockerd.running() as daemon:
        ensure_images(daemon.host)
        with standin_site(daemon.host, "bench") as site:

            def b70ctl(*words: str) -> float:
                # whether the box is quiet is its own affair
                return process((COMMAND, *words), cwd=site.folder, env=site.env, ok=(0, 1))

            b70ctl("init", ".", "--name", site.name)
            furnish(site, boot=0.3)
            b70ctl("switch", "demo-b", "--yes")
            asked = {"b70ctl --help": lambda: b70ctl("--help"), "verify": lambda: b70ctl("verify")}
            serving = in_turn(asked, n)
            b70ctl("drain", "--yes")
            drained = in_turn(asked, n)
    heading("verify: wall time of the whole process", "tests.bench.verifying")
    for name, found in (("while an engine serves", serving), ("drained", drained)):
        tell(f"{found['verify']}, {name}: {ratio(found['verify'], found['b70ctl --help'])}")


if __name__ == "__main__":
    main()
