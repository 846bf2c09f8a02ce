"""Writes the table of shipped patches at the end of docs/patches.md."""

from pathlib import Path
from textwrap import fill

from b70ctl.core.patch import Patch, Span
from b70ctl.edge.catalog import open_catalog

PAGE = Path(__file__).resolve().parent.parent / "docs" / "patches.md"
MARK = "The table is written by `python -m tests.patches_table`.\n"


def table() -> str:
    """Every shipped patch with its reason, and where it is not wanted."""
    catalog = open_catalog(None)
    parts = []
    for name in catalog.patches():
        patch = catalog.patch(name)
        summary = f"{patch.summary[0].upper()}{patch.summary[1:]}."
        parts += ["", f"### {name}", "", summary, "", fill(f"*Why:* {patch.why}", 120, break_long_words=False), ""]
        parts += ["| | |", "|---|---|", *(f"| {label} | {text} |" for label, text in _rows(patch))]
    return "\n".join(parts) + "\n"


def _rows(patch: Patch) -> list[tuple[str, str]]:
    kind = "edits" if patch.edits else "a script" if patch.scripts else "an overlay"
    pins = [f"`{each.file}`" + (f", sha256 `{each.sha256[:12]}…`" if each.sha256 else "") for each in patch.scripts]
    return [
        ("for", f"vLLM `{patch.versions}`"),
        *(("needless", _span(span)) for span in patch.needless),
        *(("harmful", _span(span)) for span in patch.harmful),
        ("how", f"{kind} ({patch.status})" + "".join(f": {pin}" for pin in pins)),
        ("changes", ", ".join(f"`{file}`" for file in sorted(patch.files))),
        *_markers(patch),
        *([("brings", ", ".join(f"`{name}={value}`" for name, value in patch.env.items()))] if patch.env else []),
        *([("after", ", ".join(f"`{name}`" for name in patch.after))] if patch.after else []),
        *([("never with", ", ".join(f"`{name}`" for name in patch.excludes))] if patch.excludes else []),
        ("source", patch.source),
    ]


def _markers(patch: Patch) -> list[tuple[str, str]]:
    if patch.scripts and not patch.markers:
        return [("marker", "none is known: that the script has edited anything is not provable after the start")]
    return [("marker", ", ".join(f"`{marker.text}`" for marker in patch.markers))] if patch.markers else []


def _span(span: Span) -> str:
    kernels = f"vllm-xpu-kernels `{span.kernels}`" if span.kernels else ""
    where = ", ".join(filter(None, [f"vLLM `{span.versions}`" if span.versions else "", kernels]))
    return f"{where}: {span.reason}"


def page() -> str:
    """The page with its table as it should be."""
    return PAGE.read_text(encoding="utf-8").split(MARK)[0] + MARK + table()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
