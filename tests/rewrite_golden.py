"""`python -m tests.rewrite_golden`: the golden Compose files, written anew; read the diff before it is kept."""

from pathlib import Path

from b70ctl.core.release import release_id
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.preparing import Workshop

GOLDEN = Path(__file__).parent / "golden"


def render_all() -> dict[str, str]:
    """Every shipped profile's Compose text at the golden site."""
    site = GOLDEN / "site"
    workshop = Workshop(open_catalog(site), site / ".b70ctl")
    found = {}
    for entry in workshop.catalog.profiles():
        deployment = workshop.wanted(entry.name, any_status=True).deployment
        found[entry.name] = workshop.text(deployment, release_id(1, entry.name, deployment.digest), "golden")
    return found


def golden_file(name: str) -> Path:
    """Where a profile's text is kept."""
    return GOLDEN / f"{name}.compose.yaml"


def main() -> None:
    """Replace the golden files, and remove those of profiles that are gone."""
    texts = render_all()
    for path in GOLDEN.glob("*.compose.yaml"):
        if path.name.removesuffix(".compose.yaml") not in texts:
            path.unlink()
    for name, text in texts.items():
        golden_file(name).write_text(text, encoding="utf-8")
    print(f"{len(texts)} files in {GOLDEN}")  # noqa: T201 - a script's answer


if __name__ == "__main__":
    main()
