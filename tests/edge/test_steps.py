"""Each step has one effect, and doing it again, or after it was cut off anywhere, comes to the same."""

import inspect
import io
import json
import tarfile
from functools import partial
from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.deployment import Order
from b70ctl.core.plan import Step, Verb, plan_prune
from b70ctl.core.release import State
from b70ctl.edge import companions
from b70ctl.edge.composer import Composer
from b70ctl.edge.daemon import Daemon
from b70ctl.edge.filling import Prepared
from b70ctl.edge.steps import take
from b70ctl.edge.store import PROVEN_LOG
from b70ctl.errors import B70Error, DaemonAway, DaemonError, EngineError, MachineError, Refused
from tests.making import a_release, resolved
from tests.stub_daemon import StubDaemon, absence, refusal
from tests.stub_site import NEW, OLD, a_stub_site, counting_disk

GONE = a_release(3, "gone", OLD.deployment.model_copy(update={"cache_volume": "its-own-cache"}))
TAG = f"b70ctl/{GONE.deployment.site}:{GONE.id}"


pytestmark = pytest.mark.usefixtures("no_engines")


def step(verb, release=OLD, **more):
    return Step(verb=verb, subject=release.id, because="asked for", **more)


def do(site, verb, release=OLD, **more):
    take(step(verb, release, **more), site.world(prepared={NEW.id: Prepared(NEW, "sha256:new", {}, "name: x\n", {})}))


def looks(site):
    """Everything that a step may change, but the time."""
    files = {
        str(path.relative_to(site.root)): path.read_text() for path in sorted(site.root.rglob("*")) if path.is_file()
    }
    for name in [name for name in files if name.endswith("verdict.json")]:
        files[name] = {key: value for key, value in json.loads(files[name]).items() if key != "at"}
    return json.dumps([files, site.daemon.containers, sorted(site.daemon.tags), sorted(site.daemon.caches)])


# -- twice is once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.STOP, Verb.START, Verb.SERVE, Verb.REMOVE, Verb.DISCARD, Verb.IDLE])
def test_a_step_done_twice_is_a_step_done_once(site, verb):
    do(site, verb)
    once = looks(site)
    do(site, verb)
    assert looks(site) == once


def test_a_name_given_twice_is_given_once(site):
    do(site, Verb.NAME, name="good")
    do(site, Verb.NAME, name="good")
    assert site.state.snapshots == {"good": OLD.id}


@pytest.mark.parametrize("verb", [Verb.STOP, Verb.REMOVE])
def test_a_container_that_is_gone_needs_nothing(site, verb):
    site.daemon.containers.clear()
    do(site, verb)
    assert {call[0] for call in site.daemon.calls} == {"observe"}


def test_an_engine_that_is_gone_cannot_be_recorded_as_serving(site):
    site.daemon.containers.clear()
    with pytest.raises(EngineError, match="gone"):
        do(site, Verb.SERVE)


# -- start and stop ---------------------------------------------------------------------------------------------------


def test_a_container_that_is_there_is_started_and_not_made_anew(site):
    do(site, Verb.STOP)
    do(site, Verb.START)
    assert site.daemon.named("start", "up") == [("start", f"c-{OLD.id}")]


SCRIPT = "5" * 64
SCRIPTED = a_release(
    7, "scripted", contents={"files/s/s.py": SCRIPT},
    deployment=resolved(name="scripted").model_copy(
        update={"files": (Order(kind="copy", to="files/s/s.py", target="/opt/s.py", name="s"),)}),
)  # fmt: skip


def marks(*names):
    """The folder of a container where its start scripts leave their marks."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("done")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in names:
            archive.addfile(tarfile.TarInfo(f"done/{name}"))
    return buffer.getvalue()


def stopped_scripted(site, archive=None, release=SCRIPTED, state="exited"):
    site.daemon.containers.clear()
    site.keep(release)
    container = site.daemon.add(release, state)
    if archive:
        site.daemon.archives[container] = archive
    return container


def test_a_container_whose_start_scripts_came_to_their_end_is_started_and_not_made_anew(site):
    container = stopped_scripted(site, marks(f"{SCRIPT}-s.py", "6" * 64))
    do(site, Verb.START, SCRIPTED)
    assert site.daemon.named("start", "up", "remove") == [("start", container)]


@pytest.mark.parametrize(
    "archive", [None, marks(), marks("6" * 64 + "-s.py"), marks(f"{SCRIPT}-t.py")],
    ids=["none", "empty", "another content", "another script"],
)  # fmt: skip
@pytest.mark.parametrize("state", ["exited", "created", "restarting"])
def test_a_container_whose_start_script_was_cut_off_is_made_anew_and_leaves_its_log(site, archive, state):
    container = stopped_scripted(site, archive, state=state)
    do(site, Verb.START, SCRIPTED)
    assert site.daemon.named("start", "up", "remove") == [("remove", container), ("up", SCRIPTED.id)]
    assert f"log of {container}" in (site.store.release_folder(SCRIPTED.id) / PROVEN_LOG).read_text()
    assert site.daemon.running_releases() == [SCRIPTED.id]


def test_a_log_that_cannot_be_had_does_not_keep_a_half_edited_container(site):
    stopped_scripted(site)
    site.daemon.on("logs", refusal)
    do(site, Verb.START, SCRIPTED)
    assert site.daemon.running_releases() == [SCRIPTED.id]


def test_a_release_that_knows_no_hash_of_its_script_starts_from_a_fresh_container(site):
    old = SCRIPTED.model_copy(update={"contents": {}})
    container = stopped_scripted(site, marks(SCRIPT), release=old)
    do(site, Verb.START, old)
    assert site.daemon.named("up", "remove") == [("remove", container), ("up", old.id)]


def test_a_container_that_is_not_there_is_made_with_its_network_and_its_cache(site):
    site.daemon.containers.clear()
    do(site, Verb.START)
    made = site.daemon.named("ensure_network", "ensure_volume", "up")
    assert [call[0] for call in made] == ["ensure_network", "ensure_volume", "up"]
    assert site.daemon.running_releases() == [OLD.id]


def test_a_container_of_somebody_elses_with_the_projects_name_is_refused(site):
    site.daemon.containers.clear()
    site.daemon.of_project = lambda project: [{"Name": f"/{project}-engine-1"}]
    with pytest.raises(Refused, match="did not make it"):
        do(site, Verb.START)
    assert site.daemon.named("up") == []


def companions_that(site, *states):
    """The companions' containers as each look finds them; the last look stays."""
    looks = [[{"Id": "w", "Name": "/web", "State": {"Status": state, "ExitCode": 3}}] for state in states]
    site.daemon.of_project = lambda project: looks.pop(0) if len(looks) > 1 else looks[0]


@pytest.mark.parametrize("states", [("created", "exited"), ("exited", "running", "running", "exited")])
def test_a_companion_that_ends_at_once_is_told_with_its_exit_and_the_command_for_its_log(site, states):
    companions_that(site, *states)
    with pytest.raises(DaemonError, match="web ended at once with exit 3; docker logs web"):
        do(site, Verb.COMPANIONS)


def test_companions_that_ran_before_are_not_waited_for(site, monkeypatch):
    companions_that(site, "running")
    monkeypatch.setattr(companions, "LOOK", None)  # nobody sleeps for that long
    do(site, Verb.COMPANIONS)
    assert [call[0] for call in site.daemon.named("up_companions")] == ["up_companions"]


def test_an_adopted_container_that_is_gone_is_told_and_not_made(site):
    adopted = a_release(5, "by-hand", kind="adopted", container="hand")
    site.keep(adopted)
    with pytest.raises(EngineError, match="by-hand was removed"):
        do(site, Verb.START, adopted)
    assert site.daemon.named("up") == []


@pytest.mark.parametrize("verb", [Verb.REMOVE, Verb.DISCARD, Verb.FORGET])
def test_an_adopted_container_is_never_removed(site, verb):
    adopted = a_release(5, "by-hand", kind="adopted", container="hand")
    site.keep(adopted)
    site.daemon.containers.clear()
    site.daemon.add(adopted, "exited" if verb is Verb.FORGET else "running")
    do(site, verb, adopted)
    assert list(site.daemon.containers) == ["hand"]
    assert site.daemon.named("remove", "remove_volume") == []


# -- write ------------------------------------------------------------------------------------------------------------


def test_a_release_that_was_not_prepared_is_refused(site):
    with pytest.raises(Refused, match="not prepared"):
        take(step(Verb.WRITE, NEW), site.world())
    with pytest.raises(Refused, match="no container was named"):
        take(step(Verb.ADOPT, NEW), site.world())


def test_a_written_release_is_whole_tagged_and_its_number_is_used(site):
    do(site, Verb.WRITE, NEW)
    assert list(site.store.releases()) == [OLD.id, NEW.id]
    assert site.daemon.tags == {f"b70ctl/{NEW.deployment.site}:{NEW.id}"}
    assert site.store.next_number() == 3


def test_a_release_whose_tag_is_refused_leaves_no_half_of_it(site):
    site.daemon.on("tag", refusal)
    with pytest.raises(DaemonError):
        site.switch()
    assert site.store.verdict(NEW.id).state == "failed"
    assert site.store.next_number() > NEW.number


def a_lagging_state(site):
    site.store.save_state(State(serving=OLD.id, next=1))


def no_state(site):
    (site.store.folder / "state.json").unlink(missing_ok=True)


def a_damaged_release(site):
    no_state(site)
    for path in (site.store.folder / "releases").glob("*/release.json"):
        path.write_text("{")


@given(st.lists(st.integers(2, 9), unique=True, min_size=1), st.sampled_from([a_lagging_state, no_state]), st.data())
def test_a_number_that_a_release_had_is_never_given_again(tmp_path_factory, numbers, lose, data):
    site = a_stub_site(tmp_path_factory.mktemp("site"))
    releases = [a_release(number, "p") for number in sorted(numbers)]
    for release in releases:
        site.keep(release)
        site.daemon.add(release, "exited")
    forgotten = [release for release in releases if data.draw(st.booleans())]
    if forgotten:
        site.carry_out(plan_prune({release.id: "old" for release in forgotten}))
    lose(site)
    assert site.store.next_number() == max(numbers) + 1


def test_the_number_of_a_release_that_cannot_be_read_is_not_given_again(site):
    a_damaged_release(site)
    assert site.store.next_number() == OLD.number + 1


# -- remove and discard -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "log"), [(Verb.REMOVE, "engine.log"), (Verb.DISCARD, "failed.log")])
def test_a_removed_engine_leaves_its_log(site, verb, log):
    do(site, verb)
    assert (site.store.release_folder(OLD.id) / log).read_text() == f"log of c-{OLD.id}\n"
    assert site.daemon.containers == {}


@pytest.mark.parametrize("verb", [Verb.REMOVE, Verb.DISCARD])
@pytest.mark.parametrize("method", ["logs", "disk"])
def test_a_log_that_cannot_be_had_or_kept_does_not_keep_the_container(site, monkeypatch, verb, method):
    counting_disk(monkeypatch, site)
    site.daemon.on(method, refusal if method == "logs" else partial(MachineError, "full"))
    raised = site.outcome(lambda: do(site, verb))
    assert isinstance(raised, B70Error | None)
    assert site.daemon.containers == {}


def test_a_release_that_was_never_written_whole_is_swept(site):
    half = site.store.folder / "releases" / f".partial-{NEW.id}"
    half.mkdir()
    do(site, Verb.DISCARD, NEW)
    assert not half.exists()


# -- forget -----------------------------------------------------------------------------------------------------------


def with_one_to_forget(folder):
    site = a_stub_site(folder)
    site.keep(GONE)
    site.daemon.add(GONE, "exited")
    site.daemon.tags.add(TAG)
    site.daemon.caches |= {"its-own-cache", OLD.deployment.cache_volume}
    site.store.save_state(State(serving=OLD.id, snapshots={f"before-{GONE.id}": GONE.id, "mine": OLD.id}))
    site.daemon.calls.clear()
    return site


def is_forgotten(site):
    assert [path.name for path in (site.store.folder / "releases").iterdir()] == [OLD.id]
    assert (site.daemon.tags, site.daemon.caches) == (set(), {OLD.deployment.cache_volume})
    assert list(site.daemon.containers) == [f"c-{OLD.id}"]
    assert site.state.snapshots == {"mine": OLD.id}


def test_a_forgotten_release_leaves_nothing_and_takes_nothing_of_the_others(tmp_path):
    site = with_one_to_forget(tmp_path)
    do(site, Verb.FORGET, GONE)
    is_forgotten(site)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [absence, KeyboardInterrupt, partial(TypeError, "surprise")])
@pytest.mark.parametrize("method", [None, "disk"])
def test_a_forget_that_is_cut_off_at_any_call_and_repeated_leaves_nothing(tmp_path, method, error, late):
    for nth in range(1, 20):
        folder = tmp_path / str(nth)
        folder.mkdir()
        site = with_one_to_forget(folder)
        with pytest.MonkeyPatch.context() as patch:
            counting_disk(patch, site)
            site.daemon.on(method, error, nth=nth, late=late)
            try:
                do(site, Verb.FORGET, GONE)
            except (B70Error, TypeError, KeyboardInterrupt):
                site.daemon.heal()
                do(site, Verb.FORGET, GONE)
        is_forgotten(site)
        if site.daemon.count(method) < nth:
            return
    raise AssertionError("it made more calls than were tried")


def test_a_cache_that_somebody_uses_does_not_keep_the_release(tmp_path):
    site = with_one_to_forget(tmp_path)
    site.daemon.on("remove_volume", refusal)
    do(site, Verb.FORGET, GONE)
    assert list(site.store.releases()) == [OLD.id]


def test_a_release_that_runs_is_not_forgotten(site):
    with pytest.raises(Refused, match="runs"):
        do(site, Verb.FORGET)
    assert list(site.store.releases()) == [OLD.id]


def client(error):
    def fail(*_, **__):
        raise error

    return SimpleNamespace(api=SimpleNamespace(remove_image=fail))


def test_a_name_that_is_in_use_stays_and_one_that_an_absent_daemon_keeps_is_told():
    Daemon(client(APIError("conflict"))).untag(TAG)
    with pytest.raises(DaemonAway):
        Daemon(client(requests.exceptions.ConnectionError("Connection refused"))).untag(TAG)


def test_the_stub_is_called_as_the_daemon_and_compose_are():
    own = {"on", "heal", "count", "named", "call", "add", "running_releases"}
    called = {name for name, _ in inspect.getmembers(StubDaemon, inspect.isfunction) if not name.startswith("_")} - own
    for name in called:
        real = getattr(Daemon, name, None) or getattr(Composer, name)
        assert list(inspect.signature(getattr(StubDaemon, name)).parameters) == list(inspect.signature(real).parameters)


def damaged(site, release=GONE):
    site.keep(release)
    (site.store.release_folder(release.id) / "release.json").write_text("{")
    site.daemon.calls.clear()


def test_a_release_that_cannot_be_read_is_forgotten_with_its_tag_and_with_nothing_that_may_be_anothers(site):
    damaged(site)
    do(site, Verb.FORGET, GONE)
    assert not site.store.release_folder(GONE.id).exists()
    assert site.daemon.named("untag", "remove_volume", "remove") == [("untag", TAG)]


def test_a_release_that_cannot_be_read_and_runs_is_not_forgotten(site):
    damaged(site)
    site.daemon.add(GONE)
    with pytest.raises(Refused, match="runs, so it is not forgotten"):
        do(site, Verb.FORGET, GONE)
    assert site.store.release_folder(GONE.id).exists()
