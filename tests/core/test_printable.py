"""A terminal shows what a log holds, and obeys none of it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.printable import printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b]0;gone\x07", "^[]0;gone^G"),
        ("\x1b[2J\x1b[H", "^[[2J^[[H"),
        ("\x1b[8mhidden", "^[[8mhidden"),
        ("\x1b[1;08mhidden", "^[[1;08mhidden"),
        ("\x9b2J\x7f", "\\u009b2J\\u007f"),
        ("50 %\r100 %", "50 %^M100 %"),
        ("a\u202eb", "a\\u202eb"),
    ],
)
def test_an_order_to_the_terminal_is_named_and_not_given(raw, shown):
    assert printable(raw) == shown


@pytest.mark.parametrize(
    "text", ["\x1b[0;36m(EngineCore)\x1b[0;0m", "\x1b[1mbold\x1b[m", "a\r\nb\tc\n", "\u00fc \u4e2d\u00a0"]
)
def test_colours_lines_and_letters_stay_as_they_are(text):
    assert printable(text) == text


@given(st.text(st.sampled_from("\x1b[]0;8m1a\r\n\x07\x9b\u202e")))
def test_whatever_a_text_holds_nothing_but_colours_is_left_to_obey(text):
    left = re.sub(r"\x1b\[[0-9;]*m|\r\n", "", printable(text))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", left)
    assert not re.search(r"\x1b\[(?:[0-9]*;)*0?8m", printable(text))
