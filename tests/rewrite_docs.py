"""Writes what is generated from the code: the profile schema and the profile reference. `make schema` runs it."""

import sys
from pathlib import Path
from typing import Any

from b70ctl.cli.profiles import schema_text
from b70ctl.core.profile import Profile
from b70ctl.core.site import Site

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "profiles" / "profile.schema.json"
REFERENCE = ROOT / "docs" / "profile-reference.md"

HEAD = """\
# Profile and site reference

Generated from the schema by `make schema`; do not edit. `b70ctl profiles schema` prints the schema itself, and an
editor that reads the modeline at the top of a profile completes and checks it.

Beside the keys below a profile has `extends: NAME`, the profile that it builds on. Mappings are merged, lists are
replaced, `+key:` appends to the parent's list, and `key: null` removes what was inherited.
"""


def reference() -> str:
    """Every key of a profile and of site.yaml with its type, default and meaning."""
    parts = [HEAD]
    for title, model in (("Profile", Profile), ("site.yaml", Site)):
        schema = model.model_json_schema()
        parts.append(f"## {title}\n\n{schema.get('description', '')}\n")
        parts += _table("", schema, schema.get("$defs", {}))
    return "\n".join(parts)


def _table(prefix: str, schema: dict[str, Any], defs: dict[str, Any]) -> list[str]:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    nested: list[str] = []
    required = set(schema.get("required", ()))
    for name, field in schema["properties"].items():
        kind, inner = _kind(field, defs)
        default = "required" if name in required else f"`{_plain(field['default'])}`" if "default" in field else ""
        meaning = field.get("description") or (inner or {}).get("description", "")
        rows.append(f"| `{prefix}{name}` | {kind} | {default} | {_cell(meaning)} |")
        if inner is not None:
            many = "[]" if "a list" in kind else ".NAME" if kind == "a mapping" else ""
            nested += ["", f"### `{prefix}{name}`", "", _cell(inner.get("description", "")), ""]
            nested += _table(f"{prefix}{name}{many}.", inner, defs)
    return [*rows, *nested, ""] if not prefix else [*rows, *nested]


def _kind(field: dict[str, Any], defs: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    if "$ref" in field:
        inner = defs[field["$ref"].rsplit("/", 1)[-1]]
        return _kind(inner, defs) if "properties" not in inner else ("a mapping of the keys below", inner)
    if "allOf" in field:
        return _kind(field["allOf"][0], defs)
    if "anyOf" in field:
        found = [_kind(each, defs) for each in field["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kind for kind, _ in found)), next((inner for _, inner in found if inner), None)
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"]), None
    if "const" in field:
        return f"`{field['const']}`", None
    if field.get("type") == "array":
        kind, inner = _kind(field.get("items", {}), defs)
        return f"a list of {kind}" if inner is None else "a list of mappings", inner
    if field.get("type") == "object":
        values = [field.get("additionalProperties"), *field.get("patternProperties", {}).values()]
        kind, inner = next((_kind(value, defs) for value in values if isinstance(value, dict)), ("", None))
        return f"a mapping to {kind}" if kind and inner is None else "a mapping", inner
    return {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(
        str(field.get("type")), "anything"
    ), None


def _plain(value: Any) -> str:
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def main() -> int:
    """Rewrite both files."""
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    REFERENCE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"{SCHEMA.relative_to(ROOT)} and {REFERENCE.relative_to(ROOT)} are written\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
