"""What stands in the way is found before anything is stopped, and named."""

import dataclasses
import os
import stat
from pathlib import Path

import pytest
from livesite import LiveSite, NewSite, listening, until

from tests.rig.dri import make_dri


@pytest.fixture(scope="module")
def serving(kept_site: LiveSite) -> LiveSite:
    kept_site.quick("a")
    kept_site.switch("a")
    return kept_site


class Untouched:
    """Holds when the serving engine was not touched and no release was written."""

    def __init__(self, site: LiveSite) -> None:
        self.site, self.before = site, self._look(site)

    def _look(self, site: LiveSite) -> object:
        engine = site.engine()
        return engine.id, engine.attrs["State"]["StartedAt"], list(site.releases()), site.state(), site.tags()

    def holds(self) -> None:
        assert self._look(self.site) == self.before
        self.site.assert_serves("a")


def test_a_port_that_a_process_has_is_named_with_its_holder(site: LiveSite) -> None:
    site.quick("a")
    with listening(site.port):
        ran = site.switch("a", code=1)
    assert f"port {site.port}" in ran.err
    assert f"process {os.getpid()}" in ran.err
    assert "--port" in ran.err
    site.assert_nothing_serves()
    assert site.releases() == {}


@pytest.mark.parametrize(
    ("changes", "code", "told"),
    [
        ({"image": {"ref": "example.invalid/none:1", "vllm": "0.30.0"}}, 1, "docker pull example.invalid/none:1"),
        ({"image": {"ref": "b70ctl-standin/openai-xpu:0.30.0", "vllm": "0.29.0"}}, 1, "written for vLLM 0.29.0"),
        ({"model": {"path": "absent", "served_names": ["x"]}}, 1, "models/absent/config.json does not exist"),
        ({"model": {"path": "empty", "served_names": ["x"]}}, 1, "models/empty/config.json does not exist"),
        ({"model": {"path": "../../etc", "served_names": ["x"]}}, 2, "below the site's `models`"),
        ({"mounts": [{"source": "nowhere", "target": "/x"}]}, 1, "nowhere does not exist"),
        ({"cards": 1}, 3, "card"),
        ({"env": {"EMPTY": ""}}, 2, "empty"),
    ],
)
def test_what_is_missing_is_named_and_nothing_is_stopped(
    serving: LiveSite, changes: dict[str, object], code: int, told: str
) -> None:
    (serving.root / "models" / "empty").mkdir(exist_ok=True)
    serving.write_site(dri=str(serving.root / "no-dri"), gids=[992])
    serving.quick("b", **{key: value for key, value in changes.items() if key != "env"},
                  env=changes.get("env"))  # fmt: skip
    untouched = Untouched(serving)
    ran = serving.switch("b", code=code)
    assert told in ran.err
    assert ran.err.startswith("error:")
    untouched.holds()


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 20)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"summary: [unclosed\n", "broken.yaml"),
        (b"summary: caf\xe9\n", "not UTF-8"),
        ("summary: hello\nstatus: production\n".encode("utf-16"), "broken.yaml"),
        (b"# " + b"x" * 1_100_000 + b"\n", "bytes"),
        (BOMB.encode(), "alias"),
        (b"summary: x\nstatus: production\nimagee: {ref: x, vllm: '1'}\n", "imagee"),
        (b"extends: broken\n", "broken"),
        (b"extends: no-such-parent\n", "no-such-parent"),
        (b"", "broken.yaml"),
        (b"- a\n- b\n", "mapping"),
        (b"summary: x\nsummary: y\n", "summary"),
        (b"[" * 5000, "broken.yaml"),
    ],
)  # fmt: skip
def test_a_broken_profile_is_one_clear_error_and_touches_nothing(serving: LiveSite, text: bytes, told: str) -> None:
    serving.write_profile("broken", text)
    untouched = Untouched(serving)
    try:
        ran = serving.switch("broken", code=2)
    finally:
        (serving.root / "profiles" / "broken.yaml").unlink()
    assert told in ran.err
    assert ran.err.startswith("error:")
    untouched.holds()


def _script(folder: Path, text: str) -> str:
    path = folder / "docker-compose"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("version", "told"), [("1.29.2", "Compose v1"), ("2.20.3", "2.20.3"), ("nonsense", "does not run"), (None, "none")]
)
def test_a_compose_that_cannot_be_used_is_found_before_anything_is_stopped(
    serving: LiveSite, tmp_path: Path, version: str | None, told: str
) -> None:
    compose = _script(tmp_path, f"echo {version}") if version else "/nonexistent/docker-compose"
    serving.quick("b")
    untouched = Untouched(serving)
    ran = serving.switch("b", code=3, env={"B70CTL_COMPOSE": compose})
    assert "2.30 or newer is needed" in ran.err
    assert told in ran.err
    assert "pip install 'b70ctl[compose]'" in ran.err
    untouched.holds()


def test_a_compose_that_refuses_the_file_stops_nothing(serving: LiveSite, tmp_path: Path) -> None:
    answers = 'version) echo 2.40.3;; *) echo "services.engine invalid" >&2; exit 15;;'
    compose = _script(tmp_path, f'case "$1" in {answers} esac')
    serving.quick("b")
    untouched = Untouched(serving)
    assert "services.engine invalid" in serving.switch("b", code=1, env={"B70CTL_COMPOSE": compose}).err
    untouched.holds()


def test_without_a_daemon_nothing_is_done_and_the_machine_is_blamed(serving: LiveSite, tmp_path: Path) -> None:
    serving.quick("b")
    untouched = Untouched(serving)
    dead = {"DOCKER_HOST": f"unix://{tmp_path}/no.sock"}
    for words in ("switch b --yes", "rollback --yes", "stop --yes", "restart --yes", "plan b"):
        ran = serving.run(*words.split(), env=dead).exits(3)
        assert "no Docker Engine answers" in ran.err
        assert "hint:" in ran.err
    assert "no Docker Engine answers" in serving.run("status", env=dead).exits(0).out
    serving.run("history", env=dead).exits(0)
    serving.run("render", "a", env=dead).exits(0)
    untouched.holds()


def test_two_sites_cannot_have_one_card(new_site: NewSite, tmp_path: Path) -> None:
    make_dri(tmp_path / "dri")
    keys = {"dri": str(tmp_path / "dri")}
    first, second = new_site(**keys), new_site(**keys)
    first.quick("a", cards=1)
    second.quick("b", cards=1)
    first.switch("a")
    container = first.engine()
    assert container.labels["b70ctl.cards"] == "0000:03:00.0"
    assert "992" in container.attrs["HostConfig"]["GroupAdd"]
    ran = second.switch("b", code=1)
    assert "card 0000:03:00.0 is held" in ran.err
    assert f"site `{first.name}`" in ran.err
    assert first.engine().attrs["State"]["StartedAt"] == container.attrs["State"]["StartedAt"]
    first.assert_serves("a")
    second.assert_nothing_serves()
    first.run("stop", "--yes").exits(0)
    second.switch("b")
    second.assert_serves("b")
    # the other way round: the first one's card is gone now
    assert f"site `{second.name}`" in first.run("start").exits(1).err
    second.assert_serves("b")


def test_two_sites_of_one_name_are_told_apart_and_the_second_is_refused_before_it_starts(new_site: NewSite) -> None:
    first, second = new_site(), new_site()
    first.quick("a")
    first.switch("a")
    second.quick("a")
    second.write_site(name=first.name)
    engine, tags = first.engine(), first.tags()
    assert engine.labels["b70ctl.root"] == str(first.root)
    for words in (("plan", "a"), ("switch", "a", "--yes")):
        ran = second.run(*words).exits(1)
        assert f"the site in {first.root} is called `{first.name}` too, and has {engine.name}" in ran.err
        assert f"another `name` in {second.root / 'site.yaml'}" in ran.err
    assert str(first.root) in second.run("status").exits(0).out
    assert second.releases() == {}
    assert first.tags() == tags
    assert first.engine().attrs["State"]["StartedAt"] == engine.attrs["State"]["StartedAt"]
    first.assert_serves("a")
    second.write_site()
    second.switch("a")
    second.assert_serves("a")
    first.assert_serves("a")


def test_a_site_that_was_moved_keeps_its_engine(site: LiveSite) -> None:
    site.quick("a")
    site.switch("a")
    moved = dataclasses.replace(site, root=site.root.with_name("moved"))
    site.root.rename(moved.root)
    moved.run("stop", "--yes").exits(0)
    assert "was not made from this directory" not in moved.run("status").exits(0).out


def test_a_card_is_leased_while_a_command_of_another_site_runs(new_site: NewSite, tmp_path: Path) -> None:
    make_dri(tmp_path / "dri")
    keys = {"dri": str(tmp_path / "dri")}
    first, second = new_site(**keys), new_site(**keys)
    first.quick("a", cards=1, env={"STANDIN_STAGE_SECONDS": "weights=4"})
    second.quick("b", cards=1)
    with first.begin("switch", "a", "--yes") as child:
        until(lambda: first.begun("await"), "the first site waits for its engine")
        ran = second.switch("b", code=7)
        assert "card 0000:03:00.0" in ran.err
        assert f"pid {child.pid}" in ran.err
        assert child.wait(60) == 0
    first.assert_serves("a")
    second.assert_nothing_serves()


def test_two_cards_serve_two_sites(new_site: NewSite, tmp_path: Path) -> None:
    make_dri(tmp_path / "dri", cards=2)
    sites = [new_site(dri=str(tmp_path / "dri"), cards=[card]) for card in ("0000:03:00.0", "0000:07:00.0")]
    for site in sites:
        site.quick("a", cards=1)
        site.switch("a")
    masks = []
    for site in sites:
        site.assert_serves("a")
        masks += [each for each in site.engine().attrs["Config"]["Env"] if each.startswith("ZE_AFFINITY_MASK")]
    assert masks == ["ZE_AFFINITY_MASK=0", "ZE_AFFINITY_MASK=1"]


def test_a_process_that_has_the_card_open_is_named(site: LiveSite, tmp_path: Path) -> None:
    (card,) = make_dri(tmp_path / "dri")
    site.write_site(dri=str(tmp_path / "dri"))
    site.quick("a", cards=1)
    with card.render.open("rb"):
        ran = site.switch("a", code=1)
        assert "card 0000:03:00.0 is held by" in ran.err
        assert f"process {os.getpid()}" in ran.err
    site.assert_nothing_serves()


def test_a_rejected_or_unknown_name_is_a_usage_error_with_what_is_close(serving: LiveSite) -> None:
    untouched = Untouched(serving)
    serving.profile("qwen-big")
    assert "did you mean qwen-big" in serving.switch("qwen-bgi", code=2).err
    assert "cannot be a profile's name" in serving.switch("../a", code=2).err
    untouched.holds()
