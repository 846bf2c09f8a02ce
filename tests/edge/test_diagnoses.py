"""Causes come from YAML: the shipped ones and a site's own, and what is wrong in a file is told with its line."""

import re

import pytest

from b70ctl.cli import COMMANDS
from b70ctl.edge import places
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.diagnoses import read_causes
from b70ctl.errors import UsageError
from tests.diagnoses_table import PAGE, page

OWN = """\
causes:
  - id: {id}
    title: mine
    patterns:
      - '{pattern}'
    cause: a reason
    fix: a fix
    source: us
    confidence: certain
    examples: [my own symptom]
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "diagnoses").mkdir()
    return tmp_path


def write(site, text, name="mine.yaml"):
    (site / "diagnoses" / name).write_text(text)


def refusal(site):
    with pytest.raises(UsageError) as caught:
        read_causes(site)
    return caught.value.what


def test_without_a_site_there_are_the_shipped_ones():
    files = list(places.data("diagnoses").glob("*.yaml"))
    assert len(files) > 8
    assert len(read_causes(None)) == sum(path.read_text().count("  - id: ") for path in files)


def test_a_site_without_causes_of_its_own_has_the_shipped_ones(tmp_path):
    assert read_causes(tmp_path) == read_causes(None)


def test_a_site_adds_its_own(site):
    write(site, OWN.format(id="mine", pattern="my own symptom"))
    assert {cause.id for cause in read_causes(site)} == {"mine"} | {cause.id for cause in read_causes(None)}


def test_a_cause_of_the_site_stands_in_place_of_a_shipped_one(site):
    write(site, OWN.format(id="disk-full", pattern="my own symptom"))
    found = {cause.id: cause for cause in read_causes(site)}
    assert found["disk-full"].title == "mine"
    assert len(found) == len(read_causes(None))


def test_a_bad_expression_is_told_with_file_and_line(site):
    write(site, OWN.format(id="mine", pattern="my (own symptom"))
    said = refusal(site)
    assert f"{site}/diagnoses/mine.yaml:5: `patterns.0`: " in said
    assert "is not a regular expression" in said


def test_an_expression_that_cannot_be_looked_for_quickly_is_told_with_its_line(site):
    write(site, OWN.format(id="mine", pattern=r"\d+ \w+"))
    assert "mine.yaml:5: `patterns.0`: " in refusal(site)


def test_an_unknown_key_is_told_with_its_line_and_what_was_meant(site):
    write(site, OWN.format(id="mine", pattern="my own symptom") + "    titel: x\n")
    assert "mine.yaml:11: there is no key `titel`; did you mean `title`?" in refusal(site)


def test_a_missing_key_is_told_with_the_line_of_its_cause(site):
    write(site, OWN.format(id="mine", pattern="my own symptom").replace("    fix: a fix\n", ""))
    assert "mine.yaml:2: `fix` is missing" in refusal(site)


def test_yaml_that_is_none_is_told_with_its_line(site):
    write(site, "causes:\n  - id: [\n")
    assert "mine.yaml:3: " in refusal(site)


@pytest.mark.parametrize("text", ["", "cause: []\n", "causes: {}\n", "causes: []\nmore: 1\n"])
def test_a_file_of_causes_has_one_list(site, text):
    write(site, text)
    assert "mine.yaml:1: a file of causes has one key, `causes`, and it is a list" in refusal(site)


def test_a_cause_that_is_no_mapping_is_told_with_its_line(site):
    write(site, "causes:\n  - just words\n")
    assert "mine.yaml:2: a cause is a mapping" in refusal(site)


def test_two_causes_of_one_site_have_two_ids(site):
    write(site, OWN.format(id="mine", pattern="my own symptom"))
    write(site, OWN.format(id="mine", pattern="another symptom"), "other.yaml")
    assert "other.yaml:2: there is another cause `mine`" in refusal(site)


def test_the_table_in_the_docs_lists_what_is_shipped():
    assert PAGE.read_text() == page()


ASSIGNMENTS = sorted(
    {found for cause in read_causes(None) for found in re.findall(r"--set ([\w.-]+=[^\s`,;)]+)", cause.fix)}
)


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_what_a_fix_tells_to_set_can_be_set(assignment):
    catalog = open_catalog(None)
    refusals = []
    for entry in catalog.profiles():
        try:
            catalog.profile(entry.name, [assignment])
        except UsageError as error:
            refusals.append(error.what)
        else:
            return
    raise AssertionError(refusals)


def test_what_a_fix_tells_to_type_is_a_command():
    for cause in read_causes(None):
        assert set(re.findall(r"`(?:sudo )?b70ctl (\w+)", cause.fix)) <= set(COMMANDS), cause.id
