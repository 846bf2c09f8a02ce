"""An engine that imports another file than its release holds is not proven."""

import hashlib
import json

import pytest

from b70ctl.core.deployment import Changed
from b70ctl.core.plan import Step, Verb
from b70ctl.edge.imported import prove_files
from b70ctl.edge.steps import take
from b70ctl.errors import DaemonAway, DaemonError, EngineError
from tests.making import a_release
from tests.stub_daemon import absence, refusal
from tests.stub_site import OLD, a_stub_site

FILE = "vllm/models/a.py"
TEXT = b"new\n"
TARGET = f"/sp/{FILE}"
CHANGED = Changed(patch="one", file=FILE, target=TARGET, to="files/one/a.py")
PATCHED = a_release(3, "patched", OLD.deployment.model_copy(update={"changed": (CHANGED,)}))


@pytest.fixture
def site(tmp_path):
    site = a_stub_site(tmp_path)
    site.keep(PATCHED)
    place = site.store.release_folder(PATCHED.id) / "files" / "one" / "a.py"
    place.parent.mkdir(parents=True)
    place.write_bytes(TEXT)
    site.daemon.add(PATCHED)
    return site


def answers(site, **changes):
    found = {"file": FILE, "place": TARGET, "sha256": hashlib.sha256(TEXT).hexdigest(),
             "imports": {"serve": TARGET, "module": TARGET}}  # fmt: skip
    site.daemon.asked = lambda _: f"a line of somebody's\n{json.dumps([found | changes])}\n"


def test_a_release_without_patches_asks_nothing(site):
    assert prove_files(OLD, site.world()) == ()
    assert site.daemon.count("ask") == 0


def test_the_finding_is_kept_and_told(site):
    answers(site)
    [found] = prove_files(PATCHED, site.world())
    assert (found["probe"], found["passed"]) == ("files", True)
    assert [(each.probe, each.passed) for each in site.told] == [("files", True)]


def test_a_script_that_names_no_marker_is_told_of_and_does_not_stop_the_switch(tmp_path):
    site = a_stub_site(tmp_path)
    bare = CHANGED.model_copy(update={"to": None})
    release = a_release(3, "scripted", OLD.deployment.model_copy(update={"changed": (bare,)}))
    site.keep(release)
    site.daemon.add(release)
    answers(site)
    [found] = prove_files(release, site.world())
    assert found["passed"] is None
    assert [each.detail for each in site.told] == [found["detail"]]
    assert f"whether patch `one` has edited {CHANGED.file} is not provable" in found["detail"]


@pytest.mark.parametrize("changes", [{"sha256": "0" * 64}, {"imports": {"serve": "/w/a.py"}}, {"missing": ["M"]}])
def test_an_engine_that_imports_something_else_is_not_asked_anything_and_fails(site, changes):
    answers(site, **changes)
    world = site.world()
    with pytest.raises(EngineError, match="the engine was not proven: files: ") as raised:
        take(Step(verb=Verb.PROBE, subject=PATCHED.id, because="asked for"), world)
    assert raised.value.hint == ("b70ctl patches show one" if "missing" in changes else None)
    assert world.findings[PATCHED.id][0]["passed"] is False


@pytest.mark.parametrize("said", ["", "{}", "[1]", "[{}]", "no json", '[{"file": 1}]'])
def test_an_answer_that_is_none_proves_nothing(site, said):
    site.daemon.asked = lambda _: said
    with pytest.raises(EngineError):
        prove_files(PATCHED, site.world())


@pytest.mark.parametrize(("error", "kind"), [(refusal, DaemonError), (absence, DaemonAway)])
def test_a_container_that_cannot_be_asked_is_not_proven(site, error, kind):
    site.daemon.on("ask", error)
    with pytest.raises(kind):
        prove_files(PATCHED, site.world())


def test_a_container_that_is_gone_is_not_proven(site):
    site.daemon.containers.clear()
    with pytest.raises(EngineError, match="gone"):
        prove_files(PATCHED, site.world())
