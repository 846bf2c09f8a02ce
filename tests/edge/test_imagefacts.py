"""An image is asked once, and what it said is found again by its id."""

import json
import os
import sys

import pytest

from b70ctl.edge.imagefacts import QUESTIONS, all_kept, digest_of, facts_file, kept_facts, last_told, probe_image
from b70ctl.edge.process import run
from b70ctl.errors import DaemonError, Refused

ID = "sha256:" + "1" * 64
DIGEST = "sha256:" + "2" * 64
ANSWERS = {
    "vllm": "0.21.0", "torch": "2.8", "triton": None, "kernels": None, "compute_runtime": None, "python": "3.12.3",
    "site_packages": "/opt/venv/lib/python3.12/site-packages", "groups": {"video": 44}, "setvars": True,
    "files": {"vllm/a.py": "a" * 64},
}  # fmt: skip


class FakeDaemon:
    """Has one image, which answers as it was told."""

    def __init__(self, said, about=None):
        self.said, self.asked = said, []
        self.about = {"Id": ID, "RepoDigests": [f"a/b@{DIGEST}"], "Config": about or {}}

    def image(self, ref):
        return None if ref == "nothing" else self.about

    def run_once(self, image, argv, seconds):
        self.asked.append((image, argv))
        return self.said


def probed(tmp_path=None, said=None, about=None, files=("vllm/a.py",)):
    daemon = FakeDaemon(json.dumps(ANSWERS) if said is None else said, about)
    return probe_image(daemon, "a/b:1", files, tmp_path), daemon


def test_an_image_is_asked_by_its_id_and_its_configuration_is_read():
    about = {"Entrypoint": ["vllm", "serve"], "WorkingDir": "/w", "Env": ["PYTHONPATH=/x:/y", "A=b=c", "ODD"]}
    facts, daemon = probed(about=about)
    assert daemon.asked[0][0] == ID
    assert daemon.asked[0][1][-1] == "vllm/a.py"
    assert (facts.entrypoint, facts.workdir, facts.pythonpath) == (("vllm", "serve"), "/w", "/x:/y")
    assert (facts.vllm, facts.identity, facts.source) == ("0.21.0", f"a/b@{DIGEST}", "probe")


def test_what_an_image_prints_beside_its_answer_does_not_matter():
    facts, _ = probed(said=f"a banner\n:: initializing\n{json.dumps(ANSWERS)}\n")
    assert facts.vllm == "0.21.0"


@pytest.mark.parametrize("said", ["", "\n", "no json", "{"])
def test_an_image_that_does_not_answer_is_an_error(said):
    with pytest.raises(DaemonError, match="did not answer"):
        probed(said=said)


def test_an_image_without_vllm_is_refused():
    with pytest.raises(Refused, match="no vLLM"):
        probed(said=json.dumps(ANSWERS | {"vllm": None}))


def test_an_image_that_is_not_there_is_refused_with_the_command_that_gets_it():
    with pytest.raises(Refused) as refused:
        probe_image(FakeDaemon(""), "nothing", ())
    assert refused.value.hint == "docker pull nothing"


def test_what_an_image_said_is_found_again_by_its_id_under_any_name(tmp_path):
    facts, daemon = probed(tmp_path)
    assert facts_file(tmp_path, ID).is_file()
    assert kept_facts(tmp_path, daemon.about, "a/b:1", ["vllm/a.py"]) == facts
    assert kept_facts(tmp_path, daemon.about, "other:1").digest is None


def test_an_image_is_asked_again_for_a_file_that_it_was_not_asked_for(tmp_path):
    _, daemon = probed(tmp_path)
    assert kept_facts(tmp_path, daemon.about, "a/b:1", ["vllm/b.py"]) is None
    assert kept_facts(tmp_path, {"Id": DIGEST}, "a/b:1") is None


@pytest.mark.parametrize(
    ("ref", "digests", "found"),
    [
        ("a/b:1", [f"a/b@{DIGEST}"], f"a/b@{DIGEST}"),
        ("a/b", [f"x/y@{ID}", f"a/b@{DIGEST}"], f"a/b@{DIGEST}"),
        (f"a/b@{DIGEST}", [f"a/b@{DIGEST}"], f"a/b@{DIGEST}"),
        ("localhost:5000/a/b:1", [f"localhost:5000/a/b@{DIGEST}"], f"localhost:5000/a/b@{DIGEST}"),
        ("a/b:1", [f"x/a/b@{DIGEST}"], None),
        ("a/b:1", [], None),
        (ID, [f"a/b@{DIGEST}"], None),
    ],
)
def test_a_digest_is_the_one_of_the_repository_that_was_asked_for(ref, digests, found):
    assert digest_of({"Id": ID, "RepoDigests": digests}, ref) == found


@pytest.mark.process
def test_the_questions_are_answered_by_any_python(tmp_path):
    package = tmp_path / "site-packages" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('asking must not import it')")
    (tmp_path / "site-packages" / "vllm-0.21.0.dist-info").mkdir()
    (tmp_path / "site-packages" / "vllm-0.21.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.21.0\n")
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r})\n{QUESTIONS}"
    ran = run([sys.executable, "-I", "-c", code, "vllm/__init__.py", "vllm/none.py"], timeout=30)
    answers = json.loads(ran.stdout)
    assert (answers["vllm"], answers["site_packages"]) == ("0.21.0", str(package.parent))
    assert len(answers["files"]["vllm/__init__.py"]) == 64
    assert answers["files"]["vllm/none.py"] == "absent"


def spoiled(tmp_path):
    facts, daemon = probed(tmp_path)
    whole = json.loads(facts_file(tmp_path, ID).read_text())
    rows = ["", "{}", "[]", "null", "[" * 100_000, "{" * 100_000, '{"files": 3}', "\ud800", *(
        json.dumps(whole | changed)
        for changed in ({"files": 3}, {"files": {"a": 1}}, {"vllm": None}, {"id": DIGEST}, {"odd": 1}, {"groups": []})
    )]  # fmt: skip
    return facts, daemon, [row.encode(errors="surrogatepass") for row in rows]


def test_what_was_kept_and_spoilt_is_not_known_and_the_image_can_be_asked_anew(tmp_path):
    facts, daemon, rows = spoiled(tmp_path)
    for raw in rows:
        facts_file(tmp_path, ID).write_bytes(raw)
        assert kept_facts(tmp_path, daemon.about, "a/b:1") is None
    assert probe_image(daemon, "a/b:1", ("vllm/a.py",), tmp_path) == facts
    assert kept_facts(tmp_path, daemon.about, "a/b:1", ["vllm/a.py"]) == facts


def test_one_spoilt_file_hides_no_other_image(tmp_path):
    facts, _, rows = spoiled(tmp_path)
    for number, raw in enumerate(rows):
        (tmp_path / "images" / f"{number}.json").write_bytes(raw)
    (tmp_path / "images" / "folder.json").mkdir()
    with (tmp_path / "images" / "endless.json").open("wb") as file:
        file.truncate(2**40)
    assert facts in all_kept(tmp_path)
    assert {known.vllm for known in all_kept(tmp_path)} == {"0.21.0"}


@pytest.mark.parametrize("said", ["[]", "3", "null", "{}", "[" * 100_000, '{"vllm": 3}', '{"vllm": "1", "odd": 1}'])
def test_an_answer_that_is_none_is_an_error_with_a_command_to_ask_by_hand(said):
    with pytest.raises(DaemonError, match="did not answer") as told:
        probed(said=said)
    assert told.value.hint == "docker run --rm --entrypoint python3 a/b:1 -V"


@pytest.mark.parametrize("spoilt", [{"id": None}, {"id": ""}, {"vllm": "newest"}, {"vllm": ""}, {"vllm": "1" * 5000}])
def test_what_was_kept_of_no_image_or_of_no_version_is_not_known(tmp_path, spoilt):
    probed(tmp_path)
    [known] = all_kept(tmp_path)
    text = known.model_copy(update=spoilt).model_dump_json()
    (tmp_path / "images" / "another.json").write_text(text)
    assert all_kept(tmp_path) == [known]
    facts_file(tmp_path, ID).write_text(text)
    assert kept_facts(tmp_path, {"Id": ID}, "a/b:1") is None


def told_at(folder, number, second, **more):
    """Facts that are kept of image `number`, as if they had been asked for at that second."""
    known = json.loads(probed()[0].model_dump_json()) | {"id": "sha256:" + str(number) * 64} | more
    file = facts_file(folder, known["id"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(known))
    os.utime(file, (second, second))


@pytest.mark.parametrize("latest", [1, 2])
def test_of_two_images_that_had_one_name_the_one_that_was_asked_last_is_believed(tmp_path, latest):
    for number in (1, 2):
        told_at(tmp_path, number, 100 + (number == latest), vllm=f"0.2{number}.0")
    told_at(tmp_path, 3, 200, ref="a/other:1", digest=None)
    assert last_told(tmp_path, "a/b:1").vllm == f"0.2{latest}.0"


@pytest.mark.parametrize("name", ["a/b:1", f"a/b@{DIGEST}", ID])
def test_what_was_told_is_found_by_name_digest_and_id(tmp_path, name):
    told_at(tmp_path, 1, 100)
    assert last_told(tmp_path, name).id == ID


def test_nothing_was_told_of_an_image_that_nobody_asked(tmp_path):
    assert last_told(tmp_path, "a/b:1") is None
    told_at(tmp_path, 1, 100)
    facts_file(tmp_path, ID).write_text("spoilt")
    assert last_told(tmp_path, "a/b:1") is None
