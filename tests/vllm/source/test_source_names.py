"""Names are found in a text as Python would find them, and what the plugin uses is read off its own text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core import lint
from tests.vllm.source import assumptions
from tests.vllm.source.anchors import Anchor
from tests.vllm.source.claims import Claim, row
from tests.vllm.source.references import Reference, references, subclasses
from tests.vllm.source.resolving import resolved
from tests.vllm.source.tree import Tree, members

FILES = {
    "vllm/__init__.py": "from .version import __version__\n",
    "vllm/version.py": "__version__ = '0.21.0'\n",
    "vllm/base.py": """
class Base:
    inherited: int = 0

    def call(self, first, *, second=None):
        helper()
        self.made = 1
        self.typed: int = 2
""",
    "vllm/sub/__init__.py": "from ..base import Base as Renamed\nfrom . import inner\n",
    "vllm/sub/inner.py": """
from functools import lru_cache

import vllm.base
from vllm.sub import Renamed

class Child(Renamed):
    MEMBER = "value"

class Dotted(vllm.base.Base):
    pass

class Loop(Loop):
    pass

@lru_cache
def cached(): ...

def plain(): ...

if True:
    try:
        late = 1
    except ImportError:
        instead = 2
""",
    "vllm/lazy.py": "names = ['Found']\ndef __getattr__(name): ...\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree("0.21.0", tmp_path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vllm", ""),
        ("vllm", "__version__"),
        ("vllm", "sub"),
        ("vllm.base", "Base.call"),
        ("vllm.base", "Base.made"),
        ("vllm.base", "Base.typed"),
        ("vllm.sub", "Renamed.inherited"),
        ("vllm.sub", "inner.Child.MEMBER"),
        ("vllm.sub.inner", "Child.inherited"),
        ("vllm.sub.inner", "Child.call"),
        ("vllm.sub.inner", "Child.made"),
        ("vllm.sub.inner", "cached.cache_clear"),
        ("vllm.sub.inner", "late"),
        ("vllm.sub.inner", "instead"),
        ("vllm.lazy", "Found"),
    ],
)
def test_what_python_would_find_is_found(tree: Tree, module: str, name: str) -> None:
    assert resolved(tree, module, name) is not None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vllm.none", ""),
        ("vllm.base", "none"),
        ("vllm.base", "Base.none"),
        ("vllm.base", "Base.call.none"),
        ("vllm.sub.inner", "plain.cache_clear"),
        ("vllm.sub.inner", "Loop.none"),
        ("vllm.lazy", "Lost"),
    ],
)
def test_what_python_would_not_find_is_not_found(tree: Tree, module: str, name: str) -> None:
    assert resolved(tree, module, name) is None


@pytest.mark.parametrize(
    ("anchor", "fault"),
    [
        (Anchor(module="vllm.base", name="Base.call", takes=("first", "second"), calls="helper"), None),
        (Anchor(module="vllm.base", name="Base.call", takes=("third",)), "vllm.base.Base.call takes no third"),
        (Anchor(module="vllm.base", name="Base.call", calls="other"), "vllm.base.Base.call does not call other"),
        (Anchor(module="vllm.version", name="__version__", says="0.21.0"), None),
        (Anchor(module="vllm.version", name="__version__", says="9"), "vllm.version.__version__ does not say '9'"),
        (Anchor(module="vllm.base", name="Other"), "there is no vllm.base.Other"),
        (Anchor(module="vllm.base", name="Other", versions=">=0.22"), None),
        (Anchor(module="vllm.base", name="Base", versions=">=0.22"), None),
        (Anchor(module="vllm.base", name="Base", versions=">=0.22", absent=True), "there is vllm.base.Base"),
    ],
)  # fmt: skip
def test_an_anchor_says_what_is_wrong_with_it(tree: Tree, anchor: Anchor, fault: str | None) -> None:
    assert anchor.fault(tree) == fault


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        (Claim(path="vllm/base.py"), None),
        (Claim(path="vllm/none.py"), "there is no vllm/none.py"),
        (Claim(path="vllm/none.py", versions="<0.21"), None),
        (Claim(path="vllm/base.py", words="class Base"), None),
        (Claim(path="vllm/base.py", words="class Other"), "there is no `class Other` in vllm/base.py"),
        (Claim(path="vllm/base.py", words="class Base", versions="<0.21"), "there is `class Base` in vllm/base.py"),
        (Claim(path="vllm/base.py", words="class Base", versions="<0.21", elsewhere=True), None),
        (Claim(words="class Child"), None),
        (Claim(words="class Nowhere"), "there is no `class Nowhere` in any file"),
    ],
)
def test_a_claim_says_what_is_wrong_with_it(tree: Tree, claim: Claim, fault: str | None) -> None:
    assert claim.fault(tree) == fault


def test_a_row_with_something_wrong_has_failed_and_says_what(tree: Tree) -> None:
    assert row(tree, "a: b", ["one", "two"], "refused", "why").outcome == "failed"
    assert row(tree, "a: b", ["one", "two"], "refused", "why").note == "one; two"
    assert row(tree, "a: b", [], "refused", "why").note == "why"


def test_a_rule_that_is_held_against_the_sources_is_one_of_lint_s() -> None:
    assert assumptions.RULES.keys() <= {rule.name for rule in lint.RULES}


PLUGIN = """
import vllm
from vllm.v1.attention import backend
from vllm.v1.attention.backend import Base, Batch
from vllm.platforms import current_platform

from .where import OTHER

WHERE = "vllm.registry"

class Ours(Base[int]):
    flag = True

    def build(self, batch: Batch):
        copy = batch
        return copy.length + current_platform.is_xpu() + backend.limit + vllm.__version__

def look():
    anchor(WHERE, "Enum.MEMBER")
    anchor("vllm.registry")
    anchor(OTHER, "there")
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    (tmp_path / "ours.py").write_text(PLUGIN)
    (tmp_path / "where.py").write_text('OTHER = "vllm.other"\n')
    return tmp_path


def test_everything_that_a_plugin_names_is_read_off_its_text(plugin: Path) -> None:
    named = {(each.module, each.name) for each in references(plugin)}
    assert named == {
        ("vllm", ""),
        ("vllm", "__version__"),
        ("vllm.v1.attention", "backend"),
        ("vllm.v1.attention", "backend.limit"),
        ("vllm.v1.attention.backend", "Base"),
        ("vllm.v1.attention.backend", "Batch"),
        ("vllm.v1.attention.backend", "Batch.length"),
        ("vllm.platforms", "current_platform"),
        ("vllm.platforms.interface", "Platform.is_xpu"),
        ("vllm.registry", ""),
        ("vllm.registry", "Enum.MEMBER"),
        ("vllm.other", "there"),
    }


def test_a_class_in_the_place_of_vllm_s_is_known_with_what_it_brings(plugin: Path) -> None:
    [ours] = subclasses(plugin)
    assert (ours.module, ours.base, ours.name) == ("vllm.v1.attention.backend", "Base", "Ours")
    assert [*ours.methods] == ["build"]
    assert ours.attributes == ("flag",)


def test_a_name_that_is_made_at_run_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text("def look(name):\n    anchor('vllm.registry', name)\n")
    with pytest.raises(ValueError, match="line 2: a name that is looked up is a constant"):
        references(tmp_path)


def test_the_shipped_plugin_names_its_registry() -> None:
    wanted = Reference("vllm.v1.attention.backends.registry", "register_backend", "anchors.py")
    assert wanted in references()


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True).filter(str.isidentifier), unique=True))
def test_every_name_that_a_module_binds_is_a_member(names: list[str]) -> None:
    words = [name for name in names if not __import__("keyword").iskeyword(name)]
    forms = ("{} = 1", "{}: int = 1", "def {}(): ...", "class {}: ...", "from x import {}", "if True:\n    {} = 1")
    text = "\n".join(forms[at % len(forms)].format(name) for at, name in enumerate(words))
    assert [name for name, _ in members(ast.parse(text))] == words
