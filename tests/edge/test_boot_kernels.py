"""An engine that serves is not proven before each of its processes said that it uses the kernels of its release."""

import threading

import pytest

from b70ctl.edge import boot
from b70ctl.errors import EngineError
from tests.making import a_release, resolved

NAME = "b70_kernels 0.1.0"
OURS = a_release(1, deployment=resolved().model_copy(update={"kernels": f"{NAME}, files 0123456789ab"}))
THEIRS = a_release(1)
USED = f"INFO 11-30 10:00:00 [__init__.py:70] {NAME}: in use with vLLM 0.30.0, TURBOQUANT is ours"
BOOT = [
    f"{USED} (pid 1)", "(APIServer pid=1) INFO 11-30 10:00:00 [utils.py:1] version 0.30.0",
    f"(EngineCore pid=97) {USED} (pid 97)",
    "(EngineCore pid=97) INFO 11-30 10:00:01 [x.py:1] XPU KV cache size: 1,024 tokens",
]  # fmt: skip
SERVES = "(APIServer pid=1) INFO 11-30 10:00:02 [api_server.py:1] Starting vLLM server on http://0.0.0.0:8000"


class Daemon:
    """Its container runs; its log comes in parts, the next one once the engine was asked for its health."""

    def __init__(self, *parts):
        self.parts, self.asked = parts, threading.Event()

    def inspect(self, _):
        return {"State": {"StartedAt": "2026-11-30T10:00:00Z", "Status": "running"}}

    def follow(self, _, *, since):
        assert since
        for part in self.parts:
            yield "".join(f"{line}\n" for line in part).encode()
            self.asked.wait(10)

    def healthy(self):
        self.asked.set()
        return True

    def models(self):
        return ["m"]


def followed(release, *parts):
    daemon = Daemon(*parts)
    return boot.follow(daemon, release, "c", daemon, lambda _: None)


def test_kernels_that_every_process_uses_are_a_fact_of_the_boot():
    facts = followed(OURS, [*BOOT, SERVES])
    assert (facts.kernels, facts.kernels_in) == (NAME, ("APIServer", "EngineCore"))
    assert facts.kv_tokens == 1024


def test_lines_that_the_daemon_brings_late_are_waited_for():
    facts = followed(OURS, BOOT[1:2], BOOT[:1], BOOT[2:], [SERVES])
    assert facts.kernels_in == ("APIServer", "EngineCore")


def test_a_worker_whose_first_line_comes_late_is_not_overlooked(monkeypatch):
    monkeypatch.setattr(boot, "LATE_LINES", 1.0)
    worker = "(Worker_TP1 pid=141) INFO 11-30 10:00:01 [worker.py:1] Starting"
    with pytest.raises(EngineError, match="the kernels are not in use everywhere: Worker_TP1 did not say"):
        followed(OURS, BOOT, [worker, SERVES])


def test_a_log_that_does_not_come_to_where_the_server_starts_proves_nothing(monkeypatch):
    monkeypatch.setattr(boot, "LATE_LINES", 1.0)
    with pytest.raises(EngineError, match="did not come to where the server starts"):
        followed(OURS, BOOT[:2])


def test_an_engine_that_talks_and_talks_is_not_listened_to_for_ever(monkeypatch):
    monkeypatch.setattr(boot, "LATE_LINES", 0.5)
    monkeypatch.setattr(boot, "QUIET", 0.2)

    class Talker(Daemon):
        def follow(self, _, *, since):
            self.asked.wait(10)
            while not self.ended.wait(0.05):
                yield b"and another line\n"

    daemon = Talker()
    daemon.ended = threading.Event()
    try:
        assert boot.follow(daemon, THEIRS, "c", daemon, lambda _: None).kernels is None
    finally:
        daemon.ended.set()


def test_a_log_that_is_read_anew_speaks_for_no_more_processes_than_before(monkeypatch):
    monkeypatch.setattr(boot, "LATE_LINES", 1.0)
    worker = "(Worker_TP1 pid=141) INFO 11-30 10:00:01 [worker.py:1] Starting"
    # the daemon's stream ends, and is asked for from its beginning, as after a restart of the daemon
    with pytest.raises(EngineError, match="Worker_TP1 did not say"):
        followed(OURS, [*BOOT, worker], [])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([BOOT[0], BOOT[1], BOOT[3]], "EngineCore did not say"),
        ([*BOOT[:2], BOOT[2].replace("in use with", "refused: not proven with")], "EngineCore says that .* is refused"),
        ([*BOOT[:2], "(EngineCore pid=97) ERROR 11-30 10:00:00 [x.py:1] Failed to load plugin b70_kernels"],
         "EngineCore could not load the plugin"),
        ([line.replace("0.1.0", "0.0.9") for line in BOOT], "uses b70_kernels 0.0.9, and not b70_kernels 0.1.0"),
        ([BOOT[3]], "EngineCore, APIServer did not say"),
    ],
    ids=["silent", "refused", "not loaded", "another version", "nobody"],
)  # fmt: skip
def test_one_process_without_them_is_an_engine_that_is_not_proven(monkeypatch, lines, why):
    monkeypatch.setattr(boot, "LATE_LINES", 0.5)
    with pytest.raises(EngineError, match=why):
        followed(OURS, [*lines, SERVES])


def test_a_release_without_kernels_of_ours_asks_for_none():
    facts = followed(THEIRS, [BOOT[1], SERVES])
    assert (facts.kernels, facts.kernels_in) == (None, ())
