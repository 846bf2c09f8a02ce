"""The schema that editors read says what the program reads."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from b70ctl.cli.profiles import schema_text
from b70ctl.edge import places, yamlfile

FOLDER = places.shipped("profiles")
FILES = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("_base/*.yaml")])
SCHEMA: dict[str, Any] = json.loads(schema_text())


def faults(data: Any, schema: dict[str, Any] = SCHEMA) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(data)]


def test_the_shipped_schema_is_the_one_that_the_program_writes() -> None:
    assert (FOLDER / "profile.schema.json").read_text(encoding="utf-8") == schema_text(), "make schema"


@pytest.mark.parametrize("site", [False, True])
def test_the_schemas_are_schemas(site: bool) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schema_text(site=site)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_file_is_valid_for_an_editor(path: Path) -> None:
    assert faults(yamlfile.read(path).data) == []


@pytest.mark.parametrize(
    "data",
    [
        {"sumary": "typo"},
        {"engine": {"max_model_len": "long"}},
        {"engine": {"dtype": "float8"}},
        {"extends": 1},
        {"+patches": "one"},
        {"cards": "all"},
    ],
)
def test_what_the_program_refuses_an_editor_underlines(data: dict[str, Any]) -> None:
    assert faults(data)


@pytest.mark.parametrize(
    "data",
    [
        {"extends": "a", "+patches": ["b"]},
        {"engine": {"flags": {"x": None}}},
        {"speculative": None},
        {"speculative": {"draft": {"overrides": {"a": {"b": 1}, "c.d": "x", "e": None}}}},
        {"engine": {"dtype": None, "enable_prefix_caching": None}, "boot": {"stall": None}},
        {"env": {"VLLM_X": None}, "resources": {"ulimits": {"memlock": None}}},
        {"model": {"+served_names": ["another"]}, "mounts": None},
    ],
)
def test_what_inheritance_allows_an_editor_does_not_underline(data: dict[str, Any]) -> None:
    assert faults(data) == []


def test_the_golden_site_is_valid_for_an_editor() -> None:
    site = yamlfile.read(Path(__file__).parent / "golden" / "site" / "site.yaml").data
    assert faults(site, json.loads(schema_text(site=True))) == []
