"""Where the kernels lie, how their programs are heard, and that no container is left of any of them."""

import os
import signal
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker.errors import APIError

from b70ctl.edge import kernels
from b70ctl.edge.carrying import MOST_CARRIED
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.process import overhear
from b70ctl.edge.signals import Interrupts
from b70ctl.errors import DaemonError, Interrupted, Refused
from tests.eventually import eventually, is_gone
from tests.fake_kernels import LINES, write_kernels

CHECKOUT = Path(__file__).resolve().parents[2]
WANTED = {"Image": "sha256:1", "Cmd": ["x"]}


# -- the package ------------------------------------------------------------------------------------------------------


def test_the_shipped_package_is_found_and_a_sites_own_wins(tmp_path):
    assert kernels.find(None) == (CHECKOUT / "kernels" / "b70_kernels", "shipped")
    assert kernels.find(tmp_path)[1] == "shipped"
    own = write_kernels(tmp_path)
    assert kernels.find(tmp_path) == (own, "site")


IN_THE_WAY = {
    "a file": (lambda path: path.write_text("x"), "it is not a folder"),
    "a link loop": (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    "a link to nowhere": (lambda path: path.symlink_to("gone"), "a link to what is not there"),
}


@pytest.mark.parametrize("place", ["kernels", "kernels/b70_kernels"])
@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_stands_in_the_place_of_a_sites_kernels_is_told_and_not_passed_over(tmp_path, place, kind):
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    make, why = IN_THE_WAY[kind]
    make(path)
    with pytest.raises(Refused, match=why) as refused:
        kernels.find(tmp_path)
    assert str(path) in refused.value.what
    assert str(path) in str(refused.value.hint)


def test_a_folder_for_other_kernels_is_none_of_ours(tmp_path):
    (tmp_path / "kernels" / "others").mkdir(parents=True)
    assert kernels.find(tmp_path)[1] == "shipped"


def test_a_link_to_a_folder_is_a_sites_own(tmp_path):
    write_kernels(tmp_path / "elsewhere")
    (tmp_path / "kernels").symlink_to(tmp_path / "elsewhere" / "kernels")
    assert kernels.find(tmp_path) == (tmp_path / "kernels" / "b70_kernels", "site")


def test_a_file_with_a_name_that_is_no_text_is_one_of_the_package(tmp_path):
    package = write_kernels(tmp_path)
    before = kernels.digest(package)
    (package / os.fsdecode(b"\xff.py")).write_text("x")
    assert kernels.digest(package) != before


@pytest.mark.parametrize("sizes", [[MOST_CARRIED + 1], [MOST_CARRIED // 2 + 1] * 2], ids=["one file", "all together"])
def test_kernels_that_are_too_large_are_refused_and_not_read_whole(tmp_path, sizes):
    package = write_kernels(tmp_path)
    for number, size in enumerate(sizes):
        with (package / f"big{number}.py").open("wb") as file:
            file.truncate(size)
    with pytest.raises(Refused, match=r"big\d\.py: more than the 67,108,864 bytes"):
        kernels.carried(package)


def test_a_digest_is_of_the_sources_alone(tmp_path):
    package = write_kernels(tmp_path)
    before = kernels.digest(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "check.cpython-311.pyc").write_bytes(b"x")
    assert kernels.digest(package) == before
    (package / "check.py").write_text("changed")
    assert kernels.digest(package) != before


def test_two_reports_of_one_second_are_both_kept_and_their_owners_alone(tmp_path):
    folder = tmp_path / "reports"
    first, second = (kernels.keep(folder, "2026-01-01T00:00:00Z", "kernels-check", text) for text in "ab")
    assert (first.read_text(), second.read_text()) == ("a", "b")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (first, second)} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o755)
    kernels.keep(tmp_path, "2026-01-01T00:00:00Z", "kernels-check", "a")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


# -- in a container ---------------------------------------------------------------------------------------------------


class Api:
    """Docker's API with one container, which says `pieces` and ends with 0; a call may fail."""

    def __init__(self, *pieces, failing=None, error=None):
        self.pieces, self.failing, self.error, self.calls = pieces, failing, error, []

    def _call(self, name):
        self.calls.append(name)
        if name == self.failing:
            raise self.error

    def create_container_from_config(self, wanted, name):
        assert (wanted, name) == (WANTED, "n")
        self._call("create")
        return {"Id": "1"}

    def attach(self, container, **how):
        assert how == {"stdout": True, "stderr": True, "stream": True, "logs": True, "demux": True}
        self._call("attach")
        return self._said()

    def _said(self):
        yield from self.pieces
        self._call("said")

    def start(self, container):
        self._call("start")

    def wait(self, container):
        self._call("wait")
        return {"StatusCode": 3}

    def remove_container(self, container, force):
        assert force
        self.calls.append("remove")


def ran(api, hear=lambda *_: None):
    interrupts = Interrupts(terminal=False, warn=lambda _: None)
    return kernels.in_container(Daemon(SimpleNamespace(api=api)), "n", WANTED, interrupts, hear)


def test_a_container_is_heard_from_its_first_line_and_removed():
    api = Api()
    assert ran(api) == 3
    assert api.calls == ["create", "attach", "start", "said", "wait", "remove"]


def test_lines_are_whole_however_they_come_and_each_stream_is_its_own():
    said = []
    pieces = [
        (b"on", None),
        (None, b"war"),
        (b"e\ntwo\r\nca", None),
        (None, b"ning\n"),
        (b"f\xc3", None),
        (b"\xa9\nlast", None),
    ]
    ran(Api(*pieces), lambda line, aside: said.append((line, aside)))
    assert said == [("one", False), ("two", False), ("warning", True), ("café", False), ("last", False)]


@pytest.mark.parametrize("error", [APIError("no"), Interrupted("asked"), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize("call", ["attach", "start", "said", "wait"])
def test_however_it_fails_no_container_is_left(call, error):
    api = Api(failing=call, error=error)
    with pytest.raises(DaemonError if isinstance(error, APIError) else type(error)):
        ran(api)
    assert api.calls[-1] == "remove"


def test_a_container_that_was_never_made_is_not_removed():
    api = Api(failing="create", error=APIError("no such image"))
    with pytest.raises(DaemonError, match="no such image"):
        ran(api)
    assert api.calls == ["create"]


# -- here -------------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_program_is_run_from_a_folder_that_holds_the_package_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/mine")
    package = write_kernels(tmp_path, err=["careful"])
    said = []
    with kernels.aside(package) as folder:
        assert [path.name for path in folder.iterdir()] == ["b70_kernels"]
        argv = (sys.executable, "-m", "b70_kernels.check", "--full")
        assert kernels.in_python(argv, folder, None, lambda *each: said.append(each)) == 0
    assert not folder.exists()
    assert (package / "check.py").is_file()
    out = [line for line, aside in said if not aside]
    assert out[: len(LINES)] == list(LINES)
    assert {"argv --full", f"PYTHONPATH=/mine:{folder}"} <= set(out)
    assert ("careful", True) in said


@pytest.mark.process
def test_a_program_that_is_overheard_gives_its_status_and_gets_no_input(tmp_path):
    said = []
    code = "import sys; sys.stderr.write('x' * 300_000 + '\\n'); print('y' * 300_000); input()"
    status = overhear(
        [sys.executable, "-c", code], env=dict(os.environ), cwd=tmp_path, hear=lambda *each: said.append(each)
    )
    assert status == 1
    assert {("x" * 300_000, True), ("y" * 300_000, False)} <= set(said)
    assert any("EOFError" in line for line, _ in said)


@pytest.mark.process
def test_an_interruption_ends_a_program_with_all_that_it_started(tmp_path):
    pids = []

    def hear(line, _):
        pids.append(int(line))
        if len(pids) == 2:
            raise KeyboardInterrupt

    family = ["sh", "-c", "echo $$; setsid sleep 600 & echo $!; wait"]
    with pytest.raises(KeyboardInterrupt):
        overhear(family, env=dict(os.environ), cwd=tmp_path, hear=hear)
    assert all(is_gone(pid) for pid in pids)


PARENT = """
import os, sys
from pathlib import Path
from b70ctl.edge.process import overhear
argv = ["sh", "-c", "echo $$; exec sleep 600"]
overhear(argv, env=dict(os.environ), cwd=Path("/"), hear=lambda line, _: Path(sys.argv[1]).write_text(line))
"""


@pytest.mark.process
def test_a_program_dies_with_its_parent_however_that_dies(tmp_path):
    import subprocess

    file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(file)], cwd=CHECKOUT) as parent:
        eventually(lambda: file.exists() and file.read_text())
        pid = int(file.read_text())
        parent.send_signal(signal.SIGKILL)
    eventually(lambda: is_gone(pid))
