"""What every test stands on: no home, no network beyond loopback, no process that was not asked for."""

import ipaddress
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from b70ctl.edge.signals import ASKED

HERE = Path(__file__).parent
OWN_WORLD = ("docker", "rig_checks", "bench", "kernels")
"""Folders whose tests run against real programs and bring their own fixtures."""
STARTING = {"subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "pty.spawn"}
KEPT = {"B70CTL_REQUIRE_DOCKER", "B70CTL_RIG_CACHE", "B70CTL_NO_APT"}

settings.register_profile("b70ctl", deadline=None, database=None, max_examples=60, derandomize=True)
settings.load_profile("b70ctl")


class _Guard:
    """Whether the test that runs now may start processes."""

    processes = True
    active = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    # an audit hook sees every way to a process or a socket, and cannot be patched around by accident
    if not _Guard.active:
        return
    if event in STARTING and not _Guard.processes:
        raise AssertionError(f"this test starts a process ({args[0]!r}); mark it `process` if that is what it is about")
    if event == "socket.connect" and not _is_local(args[1]):
        raise AssertionError(f"this test connects to {args[1]!r}, which is not loopback")


def _is_local(address: Any) -> bool:
    if not isinstance(address, tuple):
        return True  # a path: AF_UNIX
    try:
        return ipaddress.ip_address(str(address[0])).is_loopback
    except ValueError:
        return address[0] in ("localhost", "")


sys.addaudithook(_watch)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "process: starts processes of its own, without Docker")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _Guard.processes = _in_own_world(item.path) or item.get_closest_marker("process") is not None
    _Guard.active = True
    try:
        return (yield)
    finally:
        _Guard.active = False


def _in_own_world(path: Path) -> bool:
    inside = path.relative_to(HERE) if path.is_relative_to(HERE) else path
    return not path.is_relative_to(HERE) or inside.parts[0] in OWN_WORLD or inside.name == "test_packaging.py"


@pytest.fixture(autouse=True)
def isolated(request: pytest.FixtureRequest) -> None:
    """A home of its own, a fixed terminal, and none of the person's settings."""
    if _in_own_world(request.node.path):
        return
    patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    home: Path = request.getfixturevalue("tmp_path_factory").mktemp("home")
    for name in os.environ:
        if name.startswith(("B70CTL_", "COMPOSE_", "DOCKER_")) and name not in KEPT:
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        patch.setenv(name, str(home / name.lower()))
    patch.setenv("B70CTL_LEASES", str(home / "leases"))
    patch.setenv("COLUMNS", "120")
    patch.setenv("NO_COLOR", "1")
    patch.setenv("TERM", "dumb")


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """What signals mean: a command that has ended leaves them ignored, as its process is about to end too."""
    before = {number: signal.getsignal(number) for number in ASKED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Which tests stay together when two processes share them; said before xdist reads it, or it is not heard."""
    for item in items:
        if {"docker", "rig_checks"} & {*item.path.parts}:
            # a file's tests share a site; all cards of all tests are one device, so they come one after the other
            cards = "make_dri" in item.path.read_text()
            item.add_marker(pytest.mark.xdist_group("cards" if cards else item.path.stem))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that xdist does not hear would let two tests have one card: no such run begins."""
    if session.config.getoption("loadgroup", None):
        grouped = [item.nodeid for item in session.items if item.get_closest_marker("xdist_group")]
        deaf = [name for name in grouped if "@" not in name]
        if deaf:
            raise pytest.UsageError(f"pytest {pytest.__version__}: xdist puts {deaf[0]} in no group")


@pytest.fixture
def as_nobody() -> Iterator[tuple[Path, Callable[[], None]]]:
    """A directory that anybody may enter, and a user who is not root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        before = os.geteuid()
        yield Path(folder), (lambda: os.seteuid(65534)) if before == 0 else (lambda: None)
        os.seteuid(before)
