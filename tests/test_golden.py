"""What the shipped profiles render to is on record, so that a change of it is seen by a person."""

import pytest

from tests.rewrite_golden import GOLDEN, golden_file, render_all

TEXTS = render_all()
HINT = "if it is meant: python -m tests.rewrite_golden, and read the diff"


@pytest.mark.parametrize("name", TEXTS)
def test_golden_text_is_what_a_profile_renders_to(name: str) -> None:
    assert golden_file(name).read_text(encoding="utf-8") == TEXTS[name], HINT


def test_golden_files_are_of_profiles_that_exist() -> None:
    assert {path.name.removesuffix(".compose.yaml") for path in GOLDEN.glob("*.compose.yaml")} == set(TEXTS)


def test_golden_texts_do_not_differ_between_two_renderings() -> None:
    assert render_all() == TEXTS
