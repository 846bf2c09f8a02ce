"""Writes the table of known causes at the end of docs/diagnose.md."""

from pathlib import Path

from b70ctl.edge import places, yamlfile
from b70ctl.edge.diagnoses import read_causes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "diagnose.md"
MARK = "The table is written by `python -m tests.diagnoses_table`.\n"


def table() -> str:
    """Every shipped cause on a line, by theme."""
    titles = {cause.id: cause for cause in read_causes(None)}
    parts = []
    for path in sorted(places.data("diagnoses").glob("*.yaml")):
        rows = ["", f"### {path.stem}", "", "| id | cause | versions | sure |", "|---|---|---|---|"]
        for item in yamlfile.read(path).data["causes"]:
            cause = titles[item["id"]]
            rows.append(f"| `{cause.id}` | {cause.title} | {cause.versions or ''} | {cause.confidence} |")
        parts += rows
    return "\n".join(parts) + "\n"


def page() -> str:
    """The page with its table as it should be."""
    return PAGE.read_text(encoding="utf-8").split(MARK)[0] + MARK + table()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
