"""doctor and inventory on the command line: words, data and exit statuses."""

import json

import pytest

from b70ctl.core.checks import JUDGES
from b70ctl.core.image import ImageFacts
from b70ctl.edge.imagefacts import facts_file
from tests.rewrite_hosts import HOSTS

pytestmark = pytest.mark.process
BLOCKED = {"b60", "no-card"}


@pytest.mark.parametrize("host", ["one-b70", "four-b70", "b60", "a770", "mixed", "no-card"])
def test_a_box_that_cannot_serve_is_exit_3_and_any_other_is_0(host, b70ctl):
    said = b70ctl("doctor", "--host-root", HOSTS / host)
    assert said.code == (3 if host in BLOCKED else 0)
    assert ("BLOCK " in said.out) == (host in BLOCKED)
    assert said.err == ""


def test_a_problem_is_told_with_its_evidence_and_what_to_type(b70ctl):
    lines = b70ctl("doctor", "--host-root", HOSTS / "b60").out.splitlines()
    assert "guc" in lines[0]
    assert "70.58.0" in lines[0]
    assert lines[1].strip().startswith("-> update linux-firmware")
    assert lines[-1].startswith("7 problems, 1 of them blocking; 0 not known")


@pytest.mark.parametrize("host", ["one-b70", "four-b70", "b60", "a770", "mixed", "no-card"])
def test_the_totals_count_the_lines_that_are_shown(host, b70ctl):
    *lines, total = b70ctl("doctor", "--host-root", HOSTS / host).out.splitlines()
    words = [line.split()[0] for line in lines if not line.lstrip().startswith("->")]
    problems = sum(word.isupper() for word in words)
    assert total == (f"{problems} problems, {words.count('BLOCK')} of them blocking; "
                     f"{words.count('unknown')} not known; {words.count('ok')} ok")  # fmt: skip


def test_data_has_every_finding_and_what_blocks(b70ctl):
    said = b70ctl("doctor", "--host-root", HOSTS / "b60", "--json")
    assert said.data["blocking"] == ["guc"]
    assert {each["check"] for each in said.data["findings"]} == set(JUDGES)
    for each in said.data["findings"]:
        assert set(each) == {"check", "subject", "state", "severity", "question", "evidence", "do", "source"}


def test_cards_that_say_the_same_share_a_line_for_readers_and_not_for_programs(b70ctl):
    text = b70ctl("doctor", "--host-root", HOSTS / "four-b70").out
    data = b70ctl("doctor", "--host-root", HOSTS / "four-b70", "--json").data
    assert sum(" throttle " in line for line in text.splitlines()) == 1
    assert sum(each["check"] == "throttle" for each in data["findings"]) == 4


def test_this_box_is_examined_without_docker_and_its_record_says_the_same(b70ctl, tmp_path):
    live = b70ctl("doctor", "--json", "--record", tmp_path / "it")
    again = b70ctl("doctor", "--json", "--host-root", tmp_path / "it")
    assert again.data == live.data
    assert (live.code, again.code) == (0, 3), "what was asked for is a record, and it was written"
    assert "docker" in live.data["blocking"]


def test_a_record_is_not_recorded_again(b70ctl, tmp_path):
    b70ctl("doctor", "--record", tmp_path / "a", "--host-root", HOSTS / "b60").exits(2)
    assert not (tmp_path / "a").exists()


def test_a_directory_that_is_no_record_is_a_usage_error(b70ctl, tmp_path):
    said = b70ctl("doctor", "--host-root", tmp_path).refused(2, "holds no record", "on the other box")
    assert f"--record {tmp_path}" not in said.error, "that would record this box"


def test_no_hint_ever_says_to_delete_what_is_somebodys(b70ctl, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    (tmp_path / "mine-2").mkdir()
    said = b70ctl("doctor", "--record", tmp_path / "mine")
    assert (said.code, "rm " in said.error) == (2, False)
    assert f"hint: b70ctl doctor --record {tmp_path / 'mine-3'}" in said.error
    assert (tmp_path / "mine" / "thesis").read_text() == "x"


def test_a_record_is_written_with_the_advice_to_look_at_it_before_it_is_sent(b70ctl, tmp_path):
    assert "look at asked.json before you send it" in b70ctl("doctor", "--record", tmp_path / "it").err


def test_without_a_site_what_is_asked_of_one_says_so_and_how_to_name_one(b70ctl):
    told = {each["check"]: each for each in b70ctl("doctor", "--json").data["findings"]}
    for check in ("caches", "port", "disk-site"):
        assert "there is no site here" in told[check]["evidence"]
        assert told[check]["do"] == "b70ctl --site DIR doctor"


def test_a_site_is_asked_for_its_port_its_cards_and_its_profiles_without_one(b70ctl, site):
    whole = (site / "profiles" / "mine.yaml").read_text()
    (site / "profiles" / "cpu.yaml").write_text(f"{whole}cards: none\n")
    facts = ImageFacts(ref="a/b:1", id="sha256:1", vllm="0.30.0", compute_runtime="26.27.39122.11", source="probe")
    file = facts_file(site / ".b70ctl", "sha256:1")
    file.parent.mkdir(parents=True)
    file.write_text(facts.model_dump_json())
    for number, spoilt in enumerate(["{}", "[]", "[" * 100_000]):
        (file.parent / f"spoilt-{number}.json").write_text(spoilt)
    findings = b70ctl("--site", site, "doctor", "--json").data["findings"]
    told = {(each["check"], each["subject"]): each for each in findings}
    assert "port 8000" in told["port", None]["evidence"]
    assert told["cards", "0000:03:00.0"]["state"] == "problem"
    assert "cpu" in told["cards", None]["evidence"]
    assert "26.27.39122.11" in told["runtime-image", "a/b:1"]["evidence"]
    assert told["disk-site", "site"]["state"] in ("ok", "problem")


# -- inventory ---------------------------------------------------------------------------------------------------------


def kept(b70ctl, host, tmp_path):
    out = tmp_path / f"{host}.json"
    b70ctl("inventory", "--host-root", HOSTS / host, "-o", out).exits(0)
    return out


def test_an_inventory_is_shown_as_data_or_written(b70ctl, tmp_path):
    said = b70ctl("inventory", "--host-root", HOSTS / "one-b70", "--json")
    assert said.data["layers"]["IGC"]["host"] == "2.41.5"
    assert json.loads(kept(b70ctl, "one-b70", tmp_path).read_text()) == said.data


def test_an_inventory_makes_no_directory_that_nobody_asked_for(b70ctl, tmp_path):
    b70ctl("inventory", "--host-root", HOSTS / "one-b70", "-o", tmp_path / "nosuch" / "x.json").refused(
        2, "there is no directory"
    )
    assert not (tmp_path / "nosuch").exists()


def test_an_inventory_is_a_table_of_two_sides(b70ctl):
    said = b70ctl("inventory", "--host-root", HOSTS / "one-b70", "--image", "vllm/vllm-openai-xpu:v0.30.0").exits(0)
    head, *rows = said.out.splitlines()
    assert head.split() == ["LAYER", "HOST", "vllm/vllm-openai-xpu:v0.30.0"]
    assert any(row.split() == ["compute-runtime", "26.35.39758.10-1", "26.27.39122.11"] for row in rows)
    assert "without asking it" in said.err


def test_an_image_that_nobody_knows_needs_docker(b70ctl):
    assert b70ctl("inventory", "--host-root", HOSTS / "one-b70", "--image", "x/y:1").code == 3


def test_this_box_has_an_inventory(b70ctl):
    assert b70ctl("inventory", "--json").data["host"]["kernel"]


def test_inventories_that_differ_are_exit_4_and_equal_ones_0(b70ctl, tmp_path):
    one, other = kept(b70ctl, "one-b70", tmp_path), kept(b70ctl, "b60", tmp_path)
    assert b70ctl("inventory", "diff", one, one).code == 0
    said = b70ctl("inventory", "diff", one, other).exits(4)
    assert "cards[0].GuC" in said.out
    data = b70ctl("inventory", "diff", one, other, "--json").data
    assert {"where": "cards[0].GuC", "before": "70.72.1", "after": "70.58.0"} in data


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_what_is_no_inventory_is_a_usage_error(b70ctl, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    assert b70ctl("inventory", "diff", tmp_path / "x.json", tmp_path / "x.json").code == 2
    assert b70ctl("inventory", "diff", tmp_path / "none.json", tmp_path / "x.json").code == 2


@pytest.mark.parametrize("content", ['{"inventory": 1, "a": ' + "[" * 3000 + "]" * 3000 + "}",
                                     '{"inventory": 1, "a": ' + "[" * 900 + "]" * 900 + "}", None])  # fmt: skip
def test_an_inventory_that_has_no_end_or_no_bottom_is_a_usage_error(b70ctl, tmp_path, content):
    path = tmp_path / "it.json"
    path.write_text(content) if content else path.symlink_to("/dev/zero")
    said = b70ctl("inventory", "diff", path, path)
    assert said.code in (0, 2) if content and len(content) < 3000 else said.code == 2
    assert said.code == 0 or str(path) in said.error


def test_a_record_with_a_name_that_no_file_may_have_is_a_usage_error(b70ctl):
    for option in ("--record", "--host-root"):
        b70ctl("doctor", option, "x" * 5000).refused(2, "name too long")
