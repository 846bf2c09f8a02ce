"""The command line in this process: what it wrote, and how it ended."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from b70ctl.cli import app
from b70ctl.cli.console import console

SITE = 'models: /srv/models\nhf_cache: /srv/hf\ngids: [992]\ncards: ["0000:03:00.0"]\n'
WHOLE = """\
summary: mine
status: production
image: {ref: "a/b:1", vllm: 0.21.0}
model: {path: some-model, served_names: [m]}
"""


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit status."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """stdout as the one JSON value that it must be."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The error that was said; it must be one, with its two words."""
        assert self.err.count("error: ") == 1, self.err
        assert "Traceback" not in self.err
        return self.err

    def exits(self, code: int) -> "Said":
        """Itself, when it ended with this status."""
        assert self.code == code, self.err
        return self

    def refused(self, code: int, *told: str) -> "Said":
        """Itself, when it ended with this status and one error, in which all this is said."""
        assert [text for text in told if text not in self.exits(code).error] == [], self.err
        return self


Command = Callable[..., Said]


@pytest.fixture
def b70ctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command line in a directory that is no site, with no daemon to be found."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-daemon.sock")

    def call(*words: object) -> Said:
        console().json = False
        result = CliRunner().invoke(app, [str(word) for word in words], prog_name="b70ctl")
        return Said(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site with one profile of its own."""
    root = tmp_path / "site"
    (root / "profiles").mkdir(parents=True)
    (root / "site.yaml").write_text(SITE)
    (root / "profiles" / "mine.yaml").write_text(WHOLE)
    return root
