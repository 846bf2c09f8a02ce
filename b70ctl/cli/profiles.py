"""profiles: list, show, lint, schema, new."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Any

import typer

from b70ctl.cli.here import Here
from b70ctl.errors import B70Error, Exit, Refused, UsageError

NEW_TEXT = """\
# yaml-language-server: $schema=../{state}/profile.schema.json
extends: {parent}

summary: {name}, my variant of {parent}
{status}
# change what is different, remove what is not; `+patches:` appends to a list, `key: null` removes an inherited key
# engine:
#   max_model_len: 65536
"""


def list_(here: Here) -> None:
    """Every profile with its status, where it comes from, and what it needs that nobody publishes."""
    rows: list[dict[str, Any]] = []
    for entry in here.catalog.profiles():
        row: dict[str, Any] = {"name": entry.name, "origin": entry.origin}
        try:
            profile = here.catalog.profile(entry.name).profile
        except B70Error as error:
            row |= {"status": "broken", "summary": error.what, "needs": []}
        else:
            row |= {"status": str(profile.status), "summary": profile.summary, "image": profile.image.ref,
                    "needs": [need.what for need in profile.needs]}  # fmt: skip
        rows.append(row)
    if here.console.json:
        here.console.data(rows)
        return
    cells = [[row["name"], row["status"], row["origin"], _needs(row["needs"]), row["summary"]] for row in rows]
    here.console.rows(["NAME", "STATUS", "FROM", "NEEDS", "SUMMARY"], cells)
    if any(row["needs"] for row in rows):
        here.console.say("what a profile needs and nobody publishes, and where to get it: b70ctl profiles show NAME")


def _needs(needs: list[str]) -> str:
    return "-" if not needs else needs[0].rsplit("/", 1)[-1] + (f" +{len(needs) - 1}" if len(needs) > 1 else "")


def show(here: Here, profile: str, sets: tuple[str, ...]) -> None:
    """A profile with everything that it inherits, and the evidence for it."""
    from b70ctl.edge.yamlfile import dump

    written = here.catalog.profile(profile, sets)
    if here.console.json:
        here.console.data({"name": written.name, "origin": written.origin, "lineage": written.lineage,
                           "profile": written.profile.model_dump(mode="json", exclude_none=True)})  # fmt: skip
        return
    parents = f", from {' <- '.join(reversed(written.lineage[:-1]))}" if written.lineage[1:] else ""
    here.console.text(f"# {written.name} ({written.origin}){parents}")
    here.console.text(dump(written.raw))


def lint_(here: Here, names: list[str], sets: tuple[str, ...]) -> None:
    """What will not work, or not as meant, with the image that a profile names; exit 1 when there is an error.

    The one profile that was named, and cannot be judged at all, ends it with the status of what is wrong with it.
    """
    from b70ctl.cli.linting import fault, findings, line

    workshop = here.workshop(docker=False)
    found: list[dict[str, Any]] = []
    failed = Exit.DONE
    for name in [here.catalog.entry(name).name for name in names] or [each.name for each in here.catalog.profiles()]:
        try:
            remarks = findings(here, workshop, name, sets, meant=bool(names))
        except B70Error as error:
            failed = error.exit_code if len(names) == 1 else Exit.FAILED
            found.append({"profile": name, "rule": None, "severity": "error", "where": None, "message": error.what,
                          "hint": error.hint})  # fmt: skip
            if not here.console.json:
                here.console.text(fault(name, error))
            continue
        if any(each.severity == "error" for each in remarks):
            failed = Exit.FAILED
        for each in remarks:
            found.append({"profile": name, "rule": each.rule, "severity": each.severity, "where": each.where,
                          "message": each.message, "hint": each.hint})  # fmt: skip
            if not here.console.json:
                here.console.text(line(name, each))
    if here.console.json:
        here.console.data(found)
    if failed:
        raise typer.Exit(int(failed))
    if not here.console.json and not found:
        here.console.say("nothing to remark")


def schema(here: Here, output: Path | None, *, site: bool) -> None:
    """The JSON Schema of a profile, or of site.yaml, for editors."""
    text = schema_text(site=site)
    if output is None:
        here.console.text(text)
        return
    from b70ctl.edge.files import replace

    replace(output, text)


def schema_text(*, site: bool = False) -> str:
    """The schema as it is shipped; `extends` and the list-appending keys are part of the file, not of the model."""
    from b70ctl.core.profile import Profile
    from b70ctl.core.site import Site

    found = (Site if site else Profile).model_json_schema()
    if not site:
        found["properties"]["extends"] = {"type": "string", "description": "The profile that this one builds on."}
        _make_removable(found)
        for part in (found, *found["$defs"].values()):
            if "properties" in part:
                # a child need not repeat what its parent says, and may append to it or remove it
                part.pop("required", None)
                part["patternProperties"] = {r"^\+": {"type": "array", "description": "Appended to the parent's list."}}
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
    return json_.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _make_removable(part: Any) -> None:
    """Allow null wherever a key has a value: it removes what is inherited."""
    if not isinstance(part, dict):
        return
    for kind in ("properties", "patternProperties", "$defs"):
        for each in part.get(kind, {}).values():
            _make_removable(each)
    for kind in ("properties", "patternProperties"):
        part |= {kind: {key: _or_null(each) for key, each in part[kind].items()}} if kind in part else {}
    if isinstance(part.get("additionalProperties"), dict):
        part["additionalProperties"] = _or_null(part["additionalProperties"])


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    about = {key: value for key, value in part.items() if key in ("description", "title", "default")}
    options = part.get("anyOf") or [{key: value for key, value in part.items() if key not in about}]
    return {"anyOf": options if {"type": "null"} in options else [*options, {"type": "null"}], **about}


def new(here: Here, name: str, extends: str) -> None:
    """Start a profile of your own at this site, on top of another."""
    from b70ctl.core.strict import NAME
    from b70ctl.edge import places
    from b70ctl.edge.files import replace
    from b70ctl.edge.sitefiles import is_file

    if not NAME.fullmatch(name):
        raise UsageError(
            f"`{name}` cannot be a profile's name", hint="lower-case letters, digits, dot, dash, underscore"
        )
    written = here.catalog.profile(extends)
    parent = written.profile
    if name in written.lineage:
        raise UsageError(f"a profile called `{name}` would extend itself: {' -> '.join(reversed(written.lineage))}")
    file = here.site_root / "profiles" / f"{name}.yaml"
    if is_file(file):
        raise Refused(f"{file} exists already", hint=f"b70ctl profiles show {name}")
    status = "" if parent.status == "production" else f"status: {parent.status}\nstatus_reason: as {extends}\n"
    replace(here.site_root / places.STATE / "profile.schema.json", schema_text())
    replace(file, NEW_TEXT.format(state=places.STATE, name=name, parent=extends, status=status))
    here.console.say(f"{file} is ready; b70ctl profiles lint {name} checks it")
