"""`python -m b70ctl`, and the console script."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; Ctrl-C before it has begun ends it without a traceback."""
    try:
        from b70ctl.cli import app

        app(prog_name="b70ctl")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
