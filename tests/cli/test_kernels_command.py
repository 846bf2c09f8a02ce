"""`b70ctl kernels` without Docker: what a dry run shows, what is refused, and the kernels in this host's own Python."""

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from b70ctl.core.host import Card, Host
from b70ctl.edge import hardware, hostasks, kernels
from tests.fake_kernels import LINES, write_kernels

CHOICE = {"keys": 64, "warps": 4, "stages": 1, "programs": 64}
ROW = {"preset": "k8v4", "rows": 16, "head_size": 128, "choice": CHOICE}


@pytest.fixture
def fake(site, monkeypatch):
    """The site's own kernels, run by the Python of these tests; each wish is written before a run."""
    monkeypatch.setattr(kernels, "python", lambda: sys.executable)
    return lambda **wish: write_kernels(site, **wish)


def report(site):
    [file] = (site / ".b70ctl" / "reports").glob("*.json")
    return json.loads(file.read_text())


# -- a dry run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["check", "bench", "tune"])
def test_a_dry_run_needs_no_docker_and_touches_nothing(b70ctl, site, program):
    before = sorted(site.rglob("*"))
    said = b70ctl("--site", site, "kernels", program, "mine", "--dry-run").exits(0)
    assert f"b70_kernels.{program}" in said.out
    assert "(shipped)" in said.out
    assert "a/b:1 (vLLM 0.21.0)" in said.out
    assert "no Docker Engine answers" in said.err
    assert sorted(site.rglob("*")) == before


def test_a_dry_run_shows_what_the_container_would_have_of_the_host(b70ctl, site):
    said = b70ctl("--site", site, "kernels", "check", "mine", "-n").exits(0)
    rows = [line.split(maxsplit=1) for line in said.out.splitlines()]
    for row in (["network", "none"], ["env", "ZE_AFFINITY_MASK=0 PYTHONPATH=/opt/b70"], ["groups", "992"],
                ["device", "/dev/dri at /dev/dri"]):  # fmt: skip
        assert row in rows
    mounts = [told for name, told in rows if name == "mount"]
    assert [each.split(" at ")[1] for each in mounts] == [
        "/opt/b70/b70_kernels, read-only", "/opt/b70-out, written to", "/dev/dri/by-path, read-only",
    ]  # fmt: skip


@pytest.mark.parametrize("program", ["check", "tune"])
def test_the_sites_own_memory_is_never_given_to_the_container(b70ctl, site, program):
    found = b70ctl("--site", site, "kernels", program, "mine", "-n", "--json").data
    [written] = [each["Source"] for each in found["container"]["HostConfig"]["Mounts"] if not each["ReadOnly"]]
    assert Path(written).parent == site / ".b70ctl"
    assert not Path(written).exists()


def test_a_dry_run_as_data_has_the_whole_container(b70ctl, site):
    found = b70ctl("--site", site, "kernels", "check", "mine", "--full", "-n", "--json").data
    assert found["container"]["Cmd"] == ["-m", "b70_kernels.check", "--full", "--json"]
    assert found["container"]["HostConfig"]["NetworkMode"] == "none"
    assert found["faults"] == []


def test_a_dry_run_needs_no_site_for_a_profile_that_needs_none(b70ctl):
    said = b70ctl("kernels", "check", "--here", "-n").exits(0)
    assert "-m b70_kernels.check" in said.out


def test_a_dry_run_here_gives_the_command_that_can_be_typed_and_says_what_it_leaves_open(b70ctl, site, fake):
    fake()
    said = b70ctl("--site", site, "kernels", "tune", "--here", "-n").exits(0)
    rows = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert rows["writes"] == f"{site}/tuning.json"
    assert "the run itself finds out" in said.err
    typed = b70ctl("--site", site, "kernels", "check", "--here", "--full", "-n").exits(0).out
    command = shlex.split(dict(line.split(maxsplit=1) for line in typed.splitlines())["command"])
    assert command[2] == sys.executable
    assert "argv --full\n" in subprocess.check_output(command, text=True, cwd="/")


def test_a_dry_run_here_tells_who_holds_the_card(b70ctl, site, monkeypatch):
    card = Card(address="0000:03:00.0", node="/dev/dri/renderD128", gid=992)
    monkeypatch.setattr(Host, "usable", (card,))
    monkeypatch.setattr(hardware, "holders", lambda _: [(7, "python3")])
    b70ctl("--site", site, "kernels", "check", "--here", "-n").refused(1, "is held by process 7 (python3)")


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("-n",)], ids=["run", "dry"])
def test_without_a_profile_and_an_engine_the_profile_is_asked_for(b70ctl, site, words):
    b70ctl("--site", site, "kernels", "check", *words).refused(
        2, "nothing has served at this site yet", "hint: b70ctl profiles list"
    )


def test_a_profile_without_a_card_is_a_usage_error(b70ctl, site):
    text = (site / "profiles" / "mine.yaml").read_text()
    (site / "profiles" / "cpu.yaml").write_text(f"{text}cards: none\n")
    b70ctl("--site", site, "kernels", "check", "cpu", "-n").refused(2, "profile `cpu` uses no card")


@pytest.mark.parametrize("where", ["mine", "--here"])
@pytest.mark.parametrize("words", [("--presets", "foo"), ("--presets", ""), ("--head-sizes", "96")])
def test_a_dry_run_refuses_words_that_no_run_would_take(b70ctl, site, where, words):
    b70ctl("--site", site, "kernels", "tune", where, "-n", *words).refused(2, "there is no ")


def test_a_missing_card_is_told_as_that_and_not_by_its_group(b70ctl, site):
    (site / "site.yaml").write_text(f"models: /srv/models\ndri: {site}/dri\n")
    said = b70ctl("--site", site, "kernels", "check", "mine", "-n").refused(3, f"no card was found below {site}/dri")
    assert "group" not in said.err


def test_here_and_a_profile_are_not_meant_together(b70ctl, site):
    b70ctl("--site", site, "kernels", "bench", "mine", "--here").refused(2, "`mine`")


def test_a_run_in_an_image_needs_docker(b70ctl, site):
    assert b70ctl("--site", site, "kernels", "check", "mine").code == 3


# -- here -------------------------------------------------------------------------------------------------------------

pytestmark = pytest.mark.process


def test_lines_are_shown_as_data_and_a_report_is_kept(b70ctl, site, fake):
    fake(err=["a warning"])
    said = b70ctl("--site", site, "kernels", "check", "--here", "--full").exits(0)
    assert said.out.splitlines()[: len(LINES)] == list(LINES)
    assert "argv --full" in said.out
    assert "a warning" in said.err
    told = report(site)
    assert (told["program"], told["exit"], told["python"]) == ("check --full", 0, sys.executable)
    assert told["inventory"]["host"]["kernel"] == os.uname().release
    assert told["stderr"] == ["a warning"]
    [file] = (site / ".b70ctl" / "reports").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert str(file) in said.err


def test_a_report_holds_no_secret_no_name_and_no_serial_number(b70ctl, site, fake, monkeypatch):
    (site / "key").write_text("hunter2hunter2\n")
    (site / "key").chmod(0o600)
    (site / "site.yaml").write_text((site / "site.yaml").read_text() + "secrets: {VLLM_API_KEY: {file: key}}\n")
    monkeypatch.setattr(hostasks, "private_words", lambda: ("nightingale",))
    said = ["on nightingale", "serial number: ABCD1234", "given hunter2hunter2", "HF_TOKEN=hf_abc", "b0:1a:2b:3c:4d:5e"]
    fake(lines=said)
    assert b70ctl("--site", site, "kernels", "check", "--here").code == 0
    text = json.dumps(report(site))
    for word in ("nightingale", "ABCD1234", "hunter2", "hf_abc", "b0:1a"):
        assert word not in text


def test_as_data_a_run_is_one_object_with_its_result(b70ctl, site, fake):
    fake()
    told = b70ctl("--site", site, "kernels", "bench", "--here", "--presets", "k8v4", "--json").data
    assert told["result"] == {"passed": True, "argv": ["--presets", "k8v4", "--json"]}
    assert told["file"]


def test_what_does_not_hold_is_exit_1_and_no_error(b70ctl, site, fake):
    fake(lines=["WRONG x"], code=1)
    said = b70ctl("--site", site, "kernels", "check", "--here").exits(1)
    assert "error:" not in said.err
    assert "attach the report" in said.err


def test_a_python_without_torch_is_what_the_machine_lacks(b70ctl, site, fake):
    package = fake()
    (package / "check.py").write_text("import no_such_torch\n")
    b70ctl("--site", site, "kernels", "check", "--here").refused(3, "the Python here has no no_such_torch")
    assert not (site / ".b70ctl" / "reports").exists()


def test_a_usage_error_of_the_program_is_one_of_the_command(b70ctl, site, fake):
    fake(err=["usage: python -m b70_kernels.bench [-h]", "python -m b70_kernels.bench: error: no preset x"], code=2)
    said = b70ctl("--site", site, "kernels", "bench", "--here").refused(2, "no preset x")
    assert "usage:" not in said.err


def test_a_table_is_written_whole_into_the_site(b70ctl, site, fake):
    fake(table=json.dumps({"device": "x", "rows": [ROW]}))
    assert b70ctl("--site", site, "kernels", "tune", "--here").code == 0
    assert json.loads((site / "tuning.json").read_text())["rows"] == [ROW]
    fake(table="half of a")
    said = b70ctl("--site", site, "kernels", "tune", "--here")
    assert "wrote no table" in said.error
    assert json.loads((site / "tuning.json").read_text())["rows"] == [ROW]


def test_rows_that_were_measured_before_a_fault_are_kept(b70ctl, site, fake):
    fake(table=json.dumps({"device": "x", "rows": [ROW]}), code=1)
    said = b70ctl("--site", site, "kernels", "tune", "--here").exits(1)
    assert json.loads((site / "tuning.json").read_text())["rows"] == [ROW]
    assert "wrote" in said.err
    fake(code=1)
    (site / "tuning.json").unlink()
    b70ctl("--site", site, "kernels", "tune", "--here").exits(1)
    assert not (site / "tuning.json").exists()


def test_all_but_tune_run_with_the_sites_own_table(b70ctl, site, fake):
    (site / "tuning.json").write_text(json.dumps({"device": "x", "rows": [ROW]}))
    for program, named in (("check", f"{site}/tuning.json"), ("bench", f"{site}/tuning.json"), ("tune", "None")):
        fake()
        assert f"B70_KERNELS_TUNING={named}\n" in b70ctl("--site", site, "kernels", program, "--here").out
    assert f"table    {site}/tuning.json" in b70ctl("--site", site, "kernels", "check", "--here", "-n").out


def test_a_table_at_which_the_kernels_would_stop_is_refused_before_they_run(b70ctl, site, fake):
    (site / "tuning.json").write_text("{}")
    fake()
    said = b70ctl("--site", site, "kernels", "check", "--here")
    assert (said.code, said.out) == (1, "")
    assert "tuning.json" in said.error


@pytest.mark.parametrize("before", [b"[" * 100_000, b"\xff", b'{"device": "x", "rows": [{"choice": {}}]}'])
def test_a_table_that_cannot_be_read_costs_nothing_of_what_was_measured(b70ctl, site, fake, before):
    (site / "tuning.json").write_bytes(before)
    fake(table=json.dumps({"device": "x", "rows": [ROW]}))
    assert b70ctl("--site", site, "kernels", "tune", "--here").code == 0
    assert json.loads((site / "tuning.json").read_text())["rows"] == [ROW]


def test_without_a_site_the_report_lies_here(b70ctl, tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "find", lambda _: (write_kernels(tmp_path / "k"), "shipped"))
    monkeypatch.setattr(kernels, "python", lambda: sys.executable)
    mode = Path.cwd().stat().st_mode
    assert b70ctl("kernels", "check", "--here").code == 0
    assert [path.name.split("-", 1)[1] for path in Path.cwd().iterdir()] == ["kernels-check.json"]
    assert Path.cwd().stat().st_mode == mode
