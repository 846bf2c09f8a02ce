"""What is said of a release, held against its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from b70ctl.core.image import within
from tests.vllm.record import Row
from tests.vllm.source.tree import Tree

ALL = ">=0.19"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Some words stand in a file, in these versions and in no other."""

    versions: str = ALL
    path: str = ""
    """Without one, it is any of the package's Python files."""
    words: str = ""
    """Without any, it is the file itself that is there."""
    elsewhere: bool = False
    """Whether other versions may have it as well."""

    def fault(self, tree: Tree) -> str | None:
        """What is wrong with it in a release; None where it holds."""
        there, meant = self._stands(tree), within(tree.version, self.versions)
        what = f"`{self.words}` in {self.path or 'any file'}" if self.words else self.path
        if meant and not there:
            return f"there is no {what}"
        return f"there is {what}" if there and not meant and not self.elsewhere else None

    def _stands(self, tree: Tree) -> bool:
        if not self.path:
            return any(True for _ in tree.containing(self.words))
        return self.words in tree.text(self.path) if self.words else tree.has(self.path)


def faults(claims: Iterable[Claim], tree: Tree) -> Iterator[str]:
    """What is wrong with several."""
    return (fault for claim in claims if (fault := claim.fault(tree)))


def row(tree: Tree, feature: str, wrong: Iterable[str], outcome: str = "ok", note: str = "") -> Row:
    """A result: the outcome that was meant, or `failed` with what is wrong."""
    said = "; ".join(wrong)
    return Row(tree.version, feature, "failed" if said else outcome, "source", said or note)
