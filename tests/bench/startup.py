"""How long `--help` and shell completion take, beside a bare Typer app in the same run."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.rig.standin_site import COMMAND

from .sampling import heading, in_turn, process, ratio, tell

LIMIT = 1.25
SCRIPT = """\
#!{python}
import sys
from bare_app import main
if __name__ == "__main__":
    sys.exit(main())
"""


def main(n: int = 15) -> None:
    """Print medians, spreads and ratios."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        bare = folder / "bare"
        bare.write_text(SCRIPT.format(python=sys.executable))
        bare.chmod(0o755)
        env = {"PATH": "/usr/bin:/bin", "HOME": scratch, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parent)}
        run = partial(process, cwd=folder)
        found = in_turn(
            {
                "bare --help": lambda: run((bare, "--help"), env=env),
                "b70ctl --help": lambda: run((COMMAND, "--help"), env=env),
                "bare completion": lambda: run((bare,), env=env | _completing("bare", "t")),
                "b70ctl completion": lambda: run((COMMAND,), env=env | _completing("b70ctl", "sw")),
                "b70ctl completion of a profile's name": lambda: run(
                    (COMMAND,), env=env | _completing("b70ctl", "switch qwen")
                ),
            },
            n,
        )
    heading("start-up: wall time of the whole process", "tests.bench.startup")
    for sample in found.values():
        tell(str(sample))
    for name, base in (
        ("b70ctl --help", "bare --help"),
        ("b70ctl completion", "bare completion"),
        ("b70ctl completion of a profile's name", "bare completion"),
    ):
        tell(f"  {name}: {ratio(found[name], found[base])}; at most {LIMIT} wanted")


def _completing(command: str, words: str) -> dict[str, str]:
    """The environment with which a shell asks for completions of the last word."""
    typed = f"{command} {words}"
    return {
        f"_{command.upper()}_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }


if __name__ == "__main__":
    main()
