"""`python -m b70ctl`, and the console script."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from b70ctl.cli import app

    app(prog_name="b70ctl")


if __name__ == "__main__":
    main()
