"""A patch leaves Python Python, as far as the Python at hand can tell."""

import sys
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.patch import Answer, edited
from b70ctl.core.patchcheck import by_files
from b70ctl.core.syntax import refuse_unless_python
from b70ctl.errors import Refused
from tests.making import a_patch, some_facts

BASE = "def limit(tokens):\n    return min(tokens, 2048)\n"
PLAIN = "more = tokens\nreturn min(more, 8192)\n"
NO_PYTHON = "this is no Python\n"


def an_edit(new, file="vllm/a.py"):
    return a_patch(edits=[{"file": file, "old": "return min(tokens, 2048)\n", "new": new}])


def refuse(base, made, file="vllm/a.py"):
    refuse_unless_python("p", file, base, made, hint="mend it")


@pytest.mark.parametrize(("new", "line", "why"), [
    (PLAIN, 3, "'return' outside function"), ("  x = 1\n   return x\n", 3, "unindent does not match"),
    ("return (\n", 2, "was never closed"), ("if tokens:\n    return 1\n", 3, "expected an indented block"),
])  # fmt: skip
def test_an_edit_by_which_python_stops_being_python_is_refused_with_the_line_and_how_to_write_it(new, line, why):
    with pytest.raises(Refused, match=f"`p` would leave vllm/a.py no Python, line {line}: .*{why}") as refused:
        edited("p", an_edit(new), "vllm/a.py", BASE)
    assert refused.value.hint == "write every space of the file into `new`, by `|2`: b70ctl patches show p"


def test_an_image_of_which_an_edit_would_spoil_a_file_is_told_so_and_no_base_is_offered_for_it():
    facts = some_facts(files={"vllm/a.py": "f" * 64})
    found = by_files("p", an_edit(PLAIN), facts, frozenset(), {"vllm/a.py": BASE})
    assert found.answer is Answer.UNKNOWN
    assert "no Python, line 3" in found.reason
    assert "patches accept" not in found.reason


def test_an_edit_that_leaves_python_is_made():
    assert "8192" in edited("p", an_edit("return min(tokens, 8192)\n"), "vllm/a.py", BASE)[0]


def test_of_a_file_that_is_no_python_to_this_one_and_of_other_files_nothing_is_said():
    assert edited("p", an_edit(PLAIN), "vllm/a.py", BASE + NO_PYTHON)[1] == [2]
    assert edited("p", an_edit(PLAIN, "vllm/a.json"), "vllm/a.json", BASE)[1] == [2]


@pytest.mark.parametrize(
    "base", ["x = 1\n", "x = '\\d'\n", "\ufeffx = 1\n", "# \udcff\n", "# -*- coding: latin-1 -*-\n# \udcff\n"]
)
def test_text_in_which_python_sees_no_fault_is_none(base, recwarn):
    refuse(base, base)
    refuse(NO_PYTHON, base)
    assert list(recwarn) == []


@pytest.mark.parametrize("made", ["x = \0\n", "(" * 5000, "-" * 100_000 + "1"])
def test_what_no_parser_comes_to_an_end_with_is_refused_and_no_crash(made):
    with pytest.raises(Refused, match="no Python"):
        refuse("x = 1\n", made)
    refuse(made, made)


@given(st.text(max_size=40))
def test_any_text_is_judged_and_none_of_it_is_run(text):
    refuse(text, text)
    with suppress(Refused):
        refuse("", f"import sys\nsys.ran = 1\n{text}")
    assert not hasattr(sys, "ran")
