"""watch on a real daemon: what is captured, what is restarted, and when it leaves everything as it is."""

import contextlib
import json
import os
import queue
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livesite import LiveSite, until
from test_live_drain import streaming
from test_live_kill import ARRIVE, boundaries

QUICK = {"tick": 0.2, "every": 0.01, "unreachable": 1, "silence": 2}
"""A pace for tests; the times are what is waited for at least."""
SECRET = "s3cr3t-of-the-house"
PARTS = {
    "what.json", "metrics.txt", "engine.log", "processes.txt", "stacks.txt", "dmesg.txt", "container.json",
    "inventory.json", "diagnosis.txt",
}  # fmt: skip


class Watching:
    """A watch that runs: its events, as they come."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.seen: list[dict[str, Any]] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.child.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def hears(self, *events: str, seconds: float = 60) -> dict[str, Any]:
        """The next event of these, whatever comes before it."""
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"never heard {events}; heard {self.seen}") from None
            assert line is not None, f"it ended before {events}; heard {self.seen}"
            self.seen.append(json.loads(line))
            if self.seen[-1]["event"] in events:
                return self.seen[-1]

    def ends(self, code: int, seconds: float = 60) -> str:
        """What it said on stderr, once it ended with this status."""
        assert self.child.wait(seconds) == code, self.seen
        while (line := self._lines.get(timeout=5)) is not None:
            self.seen.append(json.loads(line))
        return (self.child.stderr.read() if self.child.stderr else "") + "".join(map(str, self.seen[-1:]))

    def stop(self) -> None:
        """End it as systemd does."""
        self.child.send_signal(signal.SIGTERM)
        self.ends(0)


@contextlib.contextmanager
def watching(site: LiveSite, *words: str) -> Iterator[Watching]:
    """A watch of a site, ended with the block."""
    with site.begin("watch", "--json", *words) as child:
        yield Watching(child)


@pytest.fixture
def faulty(site: LiveSite) -> LiveSite:
    """A site that serves `a`, whose engine takes its faults from a file."""
    return serving(site)


def serving(site: LiveSite, **watch: Any) -> LiveSite:
    (site.root / "key").write_text(SECRET)
    (site.root / "token").write_text("hf_0123456789")
    secrets = {"VLLM_API_KEY": {"file": "key"}, "HF_TOKEN": {"file": "token"}}
    site.write_site(watch=QUICK | watch, secrets=secrets)
    # a request that hangs is given up at once
    site.triggered("a", env={"STANDIN_SHUTDOWN_SECONDS": "0.1"})
    site.switch("a")
    return site


def started(site: LiveSite) -> str:
    return str(site.engine().attrs["State"]["StartedAt"])


def incidents(site: LiveSite) -> list[Path]:
    return sorted((site.store / "incidents").glob("*"))


def restarts(site: LiveSite) -> list[str]:
    """How each restart of a watch ended."""
    return [str(op["result"]) for op in site.history() if op["command"] == "watch"]


def test_an_engine_that_answers_nonsense_is_captured_then_restarted_and_proven(faulty: LiveSite) -> None:
    site = faulty
    before = started(site)
    with watching(site) as watch:
        watch.hears("healthy")
        site.fault("garbage")
        assert watch.hears("fault")["kind"] == "degenerate"
        captured = Path(watch.hears("incident")["text"])
        assert started(site) == before
        watch.hears("restart")
        site.fault("")
        watch.hears("restarted")
        watch.hears("healthy")
        watch.stop()
    site.run("status").exits(0)
    site.assert_whole()
    assert started(site) != before
    assert site.verdict(site.serving())["state"] == "proven"
    assert restarts(site) == ["done"]
    assert incidents(site) == [captured]
    assert_whole_and_private(captured)
    what = json.loads((captured / "what.json").read_text())
    assert (what["fault"], what["release"], what["restarts"]["left"]) == ("degenerate", site.serving(), 3)
    assert "!!!!" in what["evidence"]
    assert "Application startup complete" in (captured / "engine.log").read_text()
    assert "vllm:generation_tokens_total" in (captured / "metrics.txt").read_text()
    assert "serve" in (captured / "processes.txt").read_text()
    assert json.loads((captured / "inventory.json").read_text())["image"]["ref"]
    about = json.loads((captured / "container.json").read_text())
    assert about["Config"]["Labels"]["b70ctl.release"] == site.serving()


def assert_whole_and_private(folder: Path) -> None:
    """Every part is there, nobody else can read it, and it holds no secret."""
    assert {path.name for path in folder.iterdir()} == PARTS
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        text = path.read_text()
        assert SECRET not in text, path
        assert "hf_0123456789" not in text, path
        assert text


@pytest.mark.parametrize(
    ("fault", "watch", "kind"),
    [("hang", {"confirm": 1}, "wedge"), ("hang-after-first-token", {}, "wedge"), ("never-healthy", {}, "unreachable")],
    ids=["no token", "no second token", "no health"],
)
def test_an_engine_that_stands_still_is_restarted_and_proven(
    site: LiveSite, fault: str, watch: dict[str, int], kind: str
) -> None:
    serving(site, **watch)
    with watching(site) as watched:
        watched.hears("healthy")
        site.fault(fault)
        assert watched.hears("fault")["kind"] == kind
        watched.hears("restart")
        site.fault("")
        watched.hears("restarted")
        watched.stop()
    site.assert_whole()
    assert restarts(site) == ["done"]


def test_requests_that_run_without_a_token_are_a_wedge_though_no_probe_is_due(faulty: LiveSite) -> None:
    site = faulty
    with watching(site, "--every", "60") as watch:
        watch.hears("healthy")
        site.fault("hang-after-first-token")
        asked = threading.Thread(target=site.ask, args=("a", "Count from 1 to 1000."), kwargs={"key": SECRET})
        asked.start()
        assert "1 requests run, and no token came for" in watch.hears("fault")["text"]
        watch.hears("restart")
        site.fault("")
        watch.hears("restarted")
        watch.stop()
        asked.join()
    assert restarts(site) == ["done"]


def test_an_engine_that_was_stopped_behind_our_back_is_gone_and_is_brought_back(faulty: LiveSite) -> None:
    site = faulty
    with watching(site) as watch:
        watch.hears("healthy")
        site.engine().stop(timeout=5)
        assert watch.hears("fault")["kind"] == "gone"
        captured = Path(watch.hears("incident")["text"])
        watch.hears("restarted")
        watch.stop()
    assert (captured / "processes.txt").read_text() == "not captured: the container does not run\n"
    assert site.engine().status == "running"
    assert site.engine().attrs["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"


def test_an_engine_that_died_and_that_docker_started_again_is_captured_and_left_alone(faulty: LiveSite) -> None:
    site = faulty
    with watching(site) as watch:
        watch.hears("healthy")
        site.fault("crash-now")
        until(lambda: site.engine().attrs["RestartCount"], "Docker starts it again")
        site.fault("")
        assert watch.hears("fault")["kind"] == "ended"
        captured = Path(watch.hears("incident")["text"])
        watch.stop()
    assert "EngineCore encountered a fatal error" in (captured / "engine.log").read_text()
    assert restarts(site) == []


def test_an_engine_that_ends_in_every_boot_is_gone_with_its_exit_code_and_does_not_boot(faulty: LiveSite) -> None:
    site = faulty
    with watching(site) as watch:
        watch.hears("healthy")
        site.fault("crash-now")
        found = watch.hears("fault")
        assert (found["kind"], "exit code " in found["text"]) == ("gone", True)
        site.fault("")
        watch.hears("restarted", "stood-down")
        watch.hears("healthy")
        watch.stop()
    site.run("status").exits(0)


def test_with_no_restart_left_it_captures_says_so_and_ends(site: LiveSite) -> None:
    serving(site, restarts=1)
    site.fault("garbage")
    with watching(site) as watch:
        watch.hears("fault")
        watch.hears("restart-failed")  # it is as broken after the restart
        told = watch.ends(1, seconds=120)
    assert "the site allows 1 restarts in 24 h, so the watch ends" in told
    assert restarts(site) == ["unproven"]
    assert len(incidents(site)) == 2
    # a watch that is started again finds the restart in the journal
    with watching(site) as watch:
        watch.hears("fault")
        watch.ends(1)
    assert restarts(site) == ["unproven"]
    site.fault("")
    site.run("restart", "--yes").exits(0)
    site.run("watch", "--once").exits(0)
    # and what a person proved since begins a new count
    with watching(site) as watch:
        watch.hears("healthy")
        site.fault("garbage")
        watch.hears("restart")
        site.fault("")
        watch.hears("restarted")
        watch.stop()
    assert restarts(site) == ["unproven", "done"]


def test_it_waits_while_another_command_is_at_work_and_while_the_site_is_drained(faulty: LiveSite) -> None:
    site = faulty
    with watching(site) as watch:
        watch.hears("healthy")
        with site.begin("restart", "--yes") as other:
            assert "another command is at work" in watch.hears("paused")["text"]
            assert other.wait(60) == 0
        watch.hears("paused-over")
        site.run("drain", "--yes").exits(0)
        while "drained since" not in watch.hears("paused")["text"]:
            pass
        assert "drained since" in site.run("watch", "--once").exits(0).out
        site.run("restore").exits(0)
        watch.hears("healthy")
        site.run("stop", "--yes").exits(0)
        while "stopped" not in watch.hears("paused")["text"]:
            pass
        watch.stop()
    assert restarts(site) == []
    assert incidents(site) == []


def test_one_watch_a_site(faulty: LiveSite) -> None:
    with watching(faulty) as watch:
        watch.hears("healthy")
        assert "b70ctl watch" not in faulty.run("watch", "--once").exits(0).err
        assert "the watch of site" in faulty.run("watch").exits(7).err
        watch.child.send_signal(signal.SIGINT)
        watch.ends(130)


def test_looking_once_tells_by_its_exit_status_and_touches_nothing(faulty: LiveSite) -> None:
    site = faulty
    before = site.tree(), site.docker_state()
    assert site.run("watch", "--once").exits(0).out.startswith("healthy: capital: ")
    site.fault("garbage")
    tree = site.tree()
    assert site.run("watch", "--once", "--json").exits(1).data()["verdict"] == "degenerate"
    assert site.tree() == tree
    site.fault("never-healthy")
    assert site.run("watch", "--once", "--json").exits(1).data()["verdict"] == "unreachable"
    (site.root / "trigger" / "faults").unlink()
    site.engine().kill()
    assert site.run("watch", "--once", "--json").exits(1).data()["verdict"] in ("gone", "unreachable")
    assert site.docker_state()["containers"][0][0] == before[1]["containers"][0][0]
    assert restarts(site) == []


def test_a_full_kv_cache_and_a_lower_rate_are_told_and_nothing_is_done(site: LiveSite) -> None:
    site.write_site(watch=QUICK | {"kv": 0.0001})
    slow = {"STANDIN_TOKENS_PER_SECOND": "200", "STANDIN_KV_TOKENS": "4096"}
    skip = dict.fromkeys(("arithmetic", "prose", "json", "long-prompt"), "asked elsewhere")
    site.profile("a", env=slow, probes={"skip": skip})
    site.switch("a")
    # what it did when it was new
    (site.store / "rates.json").write_text(json.dumps({site.serving(): [1000.0] * 5}))
    with watching(site) as watch:
        text = watch.hears("drift")["text"]
        assert "of the 1000.0 that this release began with" in text
        with streaming(site, "a", 1, 2000) as found:
            assert "of the KV cache is in use" in watch.hears("kv-full")["text"]
            found[0].result()
        watch.hears("kv-full-over")
        watch.stop()
    assert [each["event"] for each in watch.seen].count("drift") == 1
    assert restarts(site) == []
    assert incidents(site) == []


@pytest.mark.parametrize(("when", "line"), boundaries("stop", *ARRIVE))
def test_a_watch_that_is_killed_in_its_restart_leaves_a_journal_that_recovers(
    site: LiveSite, when: str, line: int
) -> None:
    serving(site)
    site.engine().stop(timeout=5)
    ran = site.cut(when, line, "watch", "--json")
    assert ran.code == -signal.SIGKILL, str(ran)
    site.run("recover").exits(0)
    site.assert_whole()
    assert site.engine().status == "running"
    assert site.verdict(site.serving())["state"] == "proven"
    assert restarts(site)[0] in ("done", "finished", "rolled-back", "recovered")


def test_a_signal_in_a_restart_undoes_it_and_ends_with_0(faulty: LiveSite) -> None:
    site = faulty
    site.triggered("b", env={"STANDIN_BOOT_SECONDS": "4"})
    site.switch("b")
    with watching(site) as watch:
        watch.hears("healthy")
        site.fault("garbage")
        watch.hears("restart")
        site.fault("")
        # once it hears signals, in the middle of its boot
        until(lambda: site.begun("await") and site.engine().logs().count(b"vLLM API server version") == 2, "it boots")
        os.kill(watch.child.pid, signal.SIGTERM)
        watch.ends(0, seconds=90)
    site.assert_whole()
    assert site.engine().status == "running"
    assert site.verdict(site.serving())["state"] == "proven"
    assert restarts(site) == ["interrupted"]
