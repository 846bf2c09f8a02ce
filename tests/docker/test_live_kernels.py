"""The kernels' programs in a container of the engine's image: what it gets, what is kept, and that none is left."""

import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from livesite import LiveSite, NewSite, Ran, until

from tests.fake_kernels import LINES, write_kernels
from tests.rig.dri import make_dri
from tests.rig.image_files import INTEL, OPENAI

ADDRESS = "0000:03:00.0"


@pytest.fixture
def box(new_site: NewSite, tmp_path: Path) -> Iterator[LiveSite]:
    """A site with two cards, and a profile that uses the first."""
    make_dri(tmp_path / "dri", cards=2)
    site = new_site(dri=str(tmp_path / "dri"), cards=[ADDRESS])
    site.quick("a", cards=1)
    yield site
    for container in short(site):
        container.remove(force=True)


def short(site: LiveSite) -> list[Any]:
    """The containers of kernels that there are of this site."""
    return list(site.client.containers.list(all=True, filters={"label": f"b70ctl.root={site.root.resolve()}"}))


def reports(site: LiveSite) -> list[Path]:
    return sorted((site.store / "reports").glob("*.json"))


def check(site: LiveSite, *words: str, code: int = 0) -> Ran:
    ran = site.run("kernels", "check", *words).exits(code)
    assert short(site) == []
    site.assert_whole()
    return ran


def test_an_image_without_torch_is_refused_in_words_and_nothing_is_kept(box: LiveSite) -> None:
    ran = check(box, "a", code=1)
    assert f"the image {OPENAI.ref} has no torch" in ran.err
    assert f"b70ctl images probe {OPENAI.ref}" in ran.err
    assert reports(box) == []
    assert not list(box.store.glob(".check-*"))


@pytest.mark.parametrize(("intel", "family"), [(True, INTEL), (False, OPENAI)], ids=["intel", "openai"])
def test_a_check_has_the_first_card_the_images_own_path_and_the_kernels_behind_it(
    box: LiveSite, *, intel: bool, family: Any
) -> None:
    write_kernels(box.root)
    box.quick("a", intel=intel, cards=1)
    lines = check(box, "a", "--full").out.splitlines()
    assert [line for line in lines if line in LINES] == list(LINES)
    assert {"argv --full", "PYTHONPATH=/opt/image/python:/opt/b70", "ZE_AFFINITY_MASK=0"} <= set(lines)
    assert any(line.startswith("cards by-path card0 card1 renderD128") for line in lines)
    assert any("stand-in oneAPI environment" in line for line in lines) == family.oneapi


def test_a_report_tells_image_card_box_and_kernels_and_is_its_owners_alone(box: LiveSite) -> None:
    write_kernels(box.root, err=[f"seen on {os.uname().nodename}", "api_key=hunter2"])
    ran = check(box, "a")
    [file] = reports(box)
    assert str(file) in ran.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = json.loads(file.read_text())
    assert (told["program"], told["exit"], told["cards"]) == ("check", 0, [ADDRESS])
    assert told["lines"][: len(LINES)] == list(LINES)
    assert told["image"]["id"] == box.client.images.get(OPENAI.ref).id
    assert (told["image"]["vllm"], told["image"]["torch"]) == (OPENAI.vllm, OPENAI.torch)
    assert told["kernels"]["origin"] == "site"
    assert len(told["kernels"]["sha256"]) == 64
    assert told["inventory"]["host"]["kernel"] == os.uname().release
    assert told["inventory"]["layers"]["PyTorch"]["image"] == OPENAI.torch
    assert told["stderr"] == ["seen on (hidden)", "api_key=(hidden)"]


def test_a_check_that_does_not_hold_is_exit_1_with_its_report(box: LiveSite) -> None:
    write_kernels(box.root, lines=["WRONG runs_agree  0.1 s  k8v4: two runs differ"], code=1)
    ran = check(box, "a", code=1)
    assert "WRONG runs_agree" in ran.out
    assert json.loads(reports(box)[0].read_text())["exit"] == 1


def test_a_program_that_breaks_off_is_one_error_and_its_traceback_is_in_the_report(box: LiveSite) -> None:
    write_kernels(box.root, raises="no device")
    ran = check(box, "a", code=1)
    assert "b70_kernels.check broke off: RuntimeError: no device" in ran.err
    assert any("Traceback" in line for line in json.loads(reports(box)[0].read_text())["stderr"])


def test_with_json_stdout_is_one_object_with_what_the_program_found(box: LiveSite) -> None:
    write_kernels(box.root)
    told = check(box, "a", "--json").data()
    assert told["result"] == {"passed": True, "argv": ["--json"]}
    assert told["file"] == str(reports(box)[0])


def test_a_card_that_the_engine_holds_is_refused_until_it_is_drained(box: LiveSite) -> None:
    write_kernels(box.root)
    box.switch("a")
    serving = box.serving()
    ran = box.run("kernels", "check").exits(1)
    assert f"card {ADDRESS} is held by" in ran.err
    assert "hint: b70ctl drain" in ran.err
    box.assert_serves("a", serving)
    box.run("drain", "--yes").exits(0)
    ran = box.run("kernels", "check").exits(0)  # of the release that was drained
    assert "argv" in ran.out
    box.run("restore").exits(0)
    box.assert_serves("a", serving)


def test_a_card_that_a_process_holds_is_refused_with_its_name(box: LiveSite, tmp_path: Path) -> None:
    with (tmp_path / "dri" / "renderD128").open("rb"):
        ran = check(box, "a", code=1)
    assert f"process {os.getpid()}" in ran.err
    assert "hint: b70ctl verify" in ran.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_check_that_is_interrupted_leaves_a_report_and_no_container(box: LiveSite, number: int) -> None:
    write_kernels(box.root, sleep=600)
    with box.begin("kernels", "check", "a") as child:
        _until_it_speaks(child)
        child.send_signal(number)
        assert child.wait(60) == 130
    assert short(box) == []
    assert json.loads(reports(box)[0].read_text())["exit"] is None


def test_what_a_killed_check_leaves_is_removed_by_the_next_command_though_it_runs(box: LiveSite) -> None:
    write_kernels(box.root, sleep=600)
    with box.begin("kernels", "check", "a") as child:
        _until_it_speaks(child)
        child.kill()
        child.wait()
    assert [each.status for each in short(box)] == ["running"]
    before = box.tree()
    box.run("status").exits(0)
    assert box.tree() == before
    write_kernels(box.root)
    check(box, "a")
    assert not list(box.store.glob(".check-*"))


def test_while_a_check_runs_the_site_and_its_card_are_taken(box: LiveSite, new_site: NewSite, tmp_path: Path) -> None:
    write_kernels(box.root, sleep=600)
    other = new_site(dri=str(tmp_path / "dri"), cards=[ADDRESS])
    other.quick("a", cards=1)
    with box.begin("kernels", "check", "a") as child:
        _until_it_speaks(child)
        assert "kernels check a" in box.run("stop", "--yes").exits(7).err
        assert f"card {ADDRESS} is held by" in other.switch("a", code=7).err
        assert "kernels check a" in box.run("status").exits(0).out
        child.send_signal(signal.SIGTERM)
        child.wait(60)
    assert short(box) == []


def test_a_check_has_no_network_and_no_more_rights_than_the_engine(box: LiveSite) -> None:
    write_kernels(box.root, sleep=600)
    with box.begin("kernels", "check", "a") as child:
        _until_it_speaks(child)
        [found] = short(box)
        host = found.attrs["HostConfig"]
        child.send_signal(signal.SIGTERM)
        child.wait(60)
    assert (host["NetworkMode"], host["Privileged"], host["CapAdd"]) == ("none", False, None)
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert {each["Destination"]: each["RW"] for each in found.attrs["Mounts"]} == {
        "/opt/b70/b70_kernels": False, "/opt/b70-out": True, "/dev/dri/by-path": False,
    }  # fmt: skip


CHOICE = {"keys": 64, "warps": 4, "stages": 1, "programs": 1}
ROW = {"preset": "k8v4", "rows": 16, "head_size": 128, "choice": CHOICE}


def test_a_table_is_written_into_the_site_and_keeps_rows_that_are_not_measured_anew(box: LiveSite) -> None:
    for size in (128, 64):
        write_kernels(box.root, table=json.dumps({"device": "B70", "rows": [ROW | {"head_size": size}]}))
        ran = box.run("kernels", "tune", "a", "--head-sizes", str(size)).exits(0)
        assert f"argv --head-sizes {size} --out /opt/b70-out/tuning.json" in ran.out
        assert f"wrote {box.root}/tuning.json" in ran.err
    rows = json.loads((box.root / "tuning.json").read_text())["rows"]
    assert [row["head_size"] for row in rows] == [128, 64]
    before = (box.root / "tuning.json").read_bytes()
    write_kernels(box.root, table="{}")
    assert "wrote no table" in box.run("kernels", "tune", "a").exits(1).err
    write_kernels(box.root, code=1, err=["k8v4: no candidate is right here"])
    box.run("kernels", "tune", "a").exits(1)
    assert (box.root / "tuning.json").read_bytes() == before
    assert short(box) == []


def _until_it_speaks(child: Any) -> None:
    """Wait for the last line that the program writes before it sleeps."""
    spoken = threading.Event()

    def read() -> None:
        for line in child.stdout:
            if line.startswith("cards "):
                spoken.set()

    threading.Thread(target=read, daemon=True).start()
    until(spoken.is_set, "the program is at work")
