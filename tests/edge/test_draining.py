"""A drain tells what an engine still has, and what it cut off; a router that did not say yes is not believed."""

import http.server
import threading
import time
from dataclasses import dataclass, field

import pytest

from b70ctl.core.deployment import Address
from b70ctl.core.plan import Step, Verb, plan_drain, plan_restore
from b70ctl.core.progress import Emptying, Lost, Note
from b70ctl.edge import draining
from b70ctl.edge.executor import execute
from b70ctl.edge.recovering import recover
from b70ctl.edge.steps import take
from b70ctl.errors import Interrupted, RouterError, Unproven
from tests.eventually import eventually
from tests.making import a_release, a_site, a_verdict, resolved
from tests.stub_site import StubSite, quiet, without_engines


@dataclass
class Figures:
    """What /metrics says, and how often it was asked."""

    port: int
    running: int = 0
    asked: int = 0
    gone: bool = False
    """It says nothing of use any more."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@pytest.fixture
def engine():
    figures = Figures(0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            with figures.lock:
                figures.asked += 1
            self.send_response(500 if figures.gone else 200)
            self.end_headers()
            self.wfile.write(f"vllm:num_requests_running {figures.running}\nvllm:num_requests_waiting 0\n".encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    figures.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield figures
    server.shutdown()
    server.server_close()


@pytest.fixture
def site(tmp_path, engine, monkeypatch):
    """A site that serves a release at the engine's address, which gives its requests one second."""
    without_engines(monkeypatch)
    changes = {"address": Address(bind="127.0.0.1", port=engine.port), "shutdown_timeout": 1}
    made = StubSite(tmp_path)
    made.serve(a_release(1, "old", resolved(name="old").model_copy(update=changes)))
    return made


def serving(site):
    return str(site.state.serving)


def stops_when(site, condition):
    """The engine takes the stop, and ends once that holds."""
    stop = site.daemon.stop

    def stopping(container, grace):
        eventually(condition)
        stop(container, grace)

    site.daemon.stop = stopping


def drain(site, limit=0, router=None, errand=None):
    world = site.world()
    world.site = a_site(drain={"limit": limit}, **({"router": {"command": router}} if router else {}))
    plan = plan_drain(serving(site), limit=limit, router="`hook`" if router else None)
    return execute(plan, world, quiet(), "b70ctl drain")


def after(seconds):
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def told(site, kind):
    return [event for event in site.told if isinstance(event, kind)]


# -- what is in flight -------------------------------------------------------------------------------------------------


def test_requests_that_still_run_when_the_grace_ends_are_told_and_kept(site, engine):
    engine.running = 3
    stops_when(site, after(1.2))
    drain(site)
    assert told(site, Lost) == [Lost(serving(site), 3)]
    assert site.state.drained.lost == 3
    assert site.last.end.what == "3 requests were cut off"


def test_requests_that_end_within_the_grace_are_not_told_as_lost(site, engine):
    engine.running = 3
    asked = engine.asked
    stops_when(site, lambda: engine.asked > asked + 2)
    drain(site)
    assert told(site, Lost) == []
    assert (site.state.drained.lost, site.last.end.what) == (0, "")


def test_an_engine_that_does_not_say_what_it_has_is_said_not_to_be_known(site, engine):
    engine.gone = True
    stops_when(site, after(1.2))
    drain(site)
    assert told(site, Lost) == [Lost(serving(site), None)]
    assert site.state.drained.lost is None
    assert site.last.end.what == "whether requests were cut off is not known"


def test_an_engine_that_crashes_at_the_stop_lost_what_it_had(site, engine):
    engine.running = 2
    asked = engine.asked
    stops_when(site, lambda: engine.asked > asked + 2)
    stop = site.daemon.stop

    def crash(container, grace):
        stop(container, grace)
        site.daemon.containers[container]["State"]["ExitCode"] = 139

    site.daemon.stop = crash
    drain(site)
    assert site.state.drained.lost == 2


def test_a_drain_that_is_interrupted_in_the_grace_says_nothing_of_what_may_still_end(site, engine):
    engine.running = 2
    world = site.world()
    world.settled[serving(site)] = None
    with pytest.raises(Interrupted), draining.witnessed(world.release(serving(site)), world):
        eventually(lambda: engine.asked > 1)
        raise Interrupted("SIGTERM")
    assert (world.lost, told(site, Lost)) == ({}, [])


def test_a_stop_that_nobody_waited_for_asks_the_engine_nothing(site, engine):
    take(Step(verb=Verb.STOP, subject=serving(site), because="asked for"), site.world())
    assert engine.asked == 0


def test_a_drain_that_was_cut_off_after_the_stop_does_not_claim_that_nothing_was_lost(site, engine):
    plan = plan_drain(serving(site), limit=0)
    book = site.store.begin(plan, "b70ctl drain")
    for number in range(2):
        book.write("before", step=number)
    site.daemon.stop(next(iter(site.daemon.containers)), 1)
    recover(site.world(), quiet())
    assert site.state.drained.lost is None
    assert site.last.end.what == "whether requests were cut off is not known"


def test_while_it_waits_a_drain_tells_what_the_engine_has_and_the_seconds_left(site, engine):
    engine.running = 4
    site.hear = lambda event: setattr(engine, "running", 0) if isinstance(event, Emptying) else None
    drain(site, limit=60)
    first = told(site, Emptying)[0]
    assert (first.release, first.running, first.waiting) == (serving(site), 4, 0)
    assert 0 < first.left <= 60
    assert told(site, Lost) == []


def test_a_limit_that_has_passed_is_told_with_the_length_of_the_grace(site, engine):
    engine.running = 1
    stops_when(site, lambda: True)
    drain(site)
    [note] = [event.text for event in told(site, Note)]
    assert note.startswith("not empty after 0 s (1 running, 0 waiting); ")
    assert "grace of 1 s, and is cut off then" in note


# -- the router --------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_router_that_did_not_say_yes_leaves_it_unsure_whether_the_engine_is_out(site):
    world = site.world()
    world.site = a_site(router={"command": ["false"]})
    with pytest.raises(RouterError):
        take(Step(verb=Verb.WITHDRAW, subject=serving(site), because="x"), world)
    assert (site.state.withdrawn is not None, site.state.unsure) == (True, True)
    world.site = a_site(router={"command": ["true"]})
    take(Step(verb=Verb.WITHDRAW, subject=serving(site), because="x"), world)
    assert (site.state.withdrawn is not None, site.state.unsure) == (True, False)
    take(Step(verb=Verb.ADMIT, subject=serving(site), because="x"), world)
    assert (site.state.withdrawn, site.state.unsure) == (None, False)


@pytest.mark.process
def test_the_first_cause_is_told_before_what_fails_on_the_way_back(site):
    with pytest.raises(Unproven) as raised:
        drain(site, router=["sh", "-c", "echo $ACTION is closed; exit 1"])
    removed, added = "exit 1 at remove: remove is closed", "exit 1 at add: add is closed"
    assert raised.value.what.index(removed) < raised.value.what.index(added)
    assert site.last.end.what.index(removed) < site.last.end.what.index(added)


@pytest.mark.process
def test_a_restore_that_the_router_refuses_counts_what_failed_late(site):
    drain(site, router=["true"])
    site.daemon.heal()
    world = site.world()
    world.site = a_site(router={"command": ["false"]})
    late = execute(plan_restore(serving(site), router="`hook`"), world, quiet(), "b70ctl restore")
    assert len(late) == site.last.end.late == 1
    assert site.state.withdrawn is not None
    assert site.store.verdict(serving(site)).state == a_verdict().state
