"""Answers that are JSON: from a question's own words, or to a schema."""

from __future__ import annotations

import json
import re

from .flags import Json
from .knowledge import arithmetic, fact


def json_object(question: str, text: str) -> str | None:
    if not re.search(r"\bjson\b", question, re.IGNORECASE):
        return None
    return json.dumps({key: _value(key, question, text) for key in _json_keys(question)})


def _json_keys(question: str) -> list[str]:
    template = re.search(r"\{([^{}]*)\}", question)
    quoted = re.findall(r"[\"'`](\w+)[\"'`]\s*:", template[1]) if template else []
    named = re.search(r"\b(?:keys?|fields?|propert(?:y|ies))\b(.*)", question, re.IGNORECASE | re.DOTALL)
    keys = quoted or re.findall(r"[\"'`](\w+)[\"'`]", named[1] if named else question)
    if not keys and named:
        keys = [
            w
            for w in re.findall(r"\w+", named[1].split(".")[0])
            if w.lower() not in ("and", "the", "named", "called", "s")
        ]
    return list(dict.fromkeys(keys)) or ["answer"]


def _value(key: str, question: str, text: str) -> object:
    link = r"(?:set to|=|:|is|equal to|with (?:the )?value)"
    stated = re.search(rf"[\"'`]?{key}[\"'`]?\s*{link}\s*(true|false|-?\d+\b|\"[^\"]*\")", question)
    if stated:
        return json.loads(stated[1])
    if re.search(r"\bage\b|count\b|number|year|population|total|sum|result", key, re.IGNORECASE):
        value = arithmetic(question, text)
        return int(value) if value else 7
    if key.lower() in ("ok", "success", "valid", "done"):
        return True
    return fact(question, text) or arithmetic(question, text) or "plain"


def from_schema(schema: Json, prompt: str) -> object:
    """A value that satisfies a JSON schema, with words of the prompt where they fit."""
    if schema.get("enum"):
        return next(
            (v for v in schema["enum"] if re.search(rf"\b{re.escape(str(v))}\b", prompt, re.IGNORECASE)),
            schema["enum"][0],
        )
    if "const" in schema:
        return schema["const"]
    if schema.get("anyOf"):
        return from_schema(schema["anyOf"][0], prompt)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {key: from_schema(part, prompt) for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [from_schema(schema.get("items", {}), prompt)] * int(schema.get("minItems", 1))
    if kind in ("integer", "number"):
        found = re.search(r"-?\d+", prompt)
        return int(found[0]) if found else int(schema.get("minimum", 1))
    place = re.search(r"\b(?:in|for|of|to|at) ([A-Z]\w+)", prompt)
    plain = {"boolean": True, "null": None}
    return plain[kind] if kind in plain else (place[1] if place else "plain")
