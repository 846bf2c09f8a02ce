"""`watch --install` writes one unit, its own, which systemd takes; other uses are refused with what to type."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from b70ctl.core.unit import MARK
from b70ctl.edge import places

HOSTILE = (
    "a b", "100%h %% %", "$HOME ${X} $$", "it's", '"quoted"', "back\\slash\\n", "\u00fcn\u00ef\u4e2d", "; x", "#c",
    "\ttab", "a\nb", "-x", "\u0085\u2028", "\x01\x7f", "{}[]*?",
)  # fmt: skip


@pytest.fixture
def units(tmp_path, monkeypatch):
    """The user's units."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "systemd" / "user"


def install(b70ctl, site, *words):
    return b70ctl("--site", site, "watch", "--install", "--user", *words)


def test_a_unit_is_written_and_what_to_type_next_is_said(b70ctl, site, units):
    said = install(b70ctl, site)
    assert said.code == 0
    text = (units / "b70ctl-watch-b70.service").read_text()
    assert f'"--site" "{site}" "watch"' in text
    assert "systemctl --user daemon-reload" in said.err
    assert "systemctl --user enable --now b70ctl-watch-b70.service" in said.err
    assert install(b70ctl, site, "--json").data["path"] == str(units / "b70ctl-watch-b70.service")


def test_a_dry_run_shows_the_unit_and_writes_nothing(b70ctl, site, units):
    shown = install(b70ctl, site, "-n")
    assert shown.code == 0
    assert not units.exists()
    install(b70ctl, site)
    assert (units / "b70ctl-watch-b70.service").read_text() == shown.out


def test_a_unit_that_somebody_else_wrote_stays_as_it_is(b70ctl, site, units):
    units.mkdir(parents=True)
    path = units / "b70ctl-watch-b70.service"
    path.write_text("[Service]\nExecStart=/bin/true\n")
    said = install(b70ctl, site)
    assert said.code == 1
    assert "was not written by b70ctl" in said.error
    assert f"mv {path} {path}.mine" in said.err
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_its_own_unit_is_replaced_but_not_that_of_another_site_of_this_name(b70ctl, site, units, tmp_path):
    install(b70ctl, site)
    path = units / "b70ctl-watch-b70.service"
    path.write_text(path.read_text().replace("RestartSec=30", "RestartSec=7"))
    assert install(b70ctl, site).code == 0
    assert "RestartSec=30" in path.read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "site.yaml").write_text("models: m\n")
    said = install(b70ctl, other)
    assert said.code == 1
    assert "another site of this name" in said.error
    assert f'"{site}"' in path.read_text()


def test_a_unit_of_the_machine_runs_as_the_sites_owner(b70ctl, site):
    said = b70ctl("--site", site, "watch", "--install", "--system", "--dry-run")
    assert f"\nUser={places.owner(site)}\n" in said.out
    assert "WantedBy=multi-user.target" in said.out


def test_a_unit_gets_the_variables_that_say_where_docker_is_and_no_others(b70ctl, site, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/my docker/100%.sock")
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    text = install(b70ctl, site, "-n").out
    assert 'Environment="DOCKER_HOST=unix:///run/my docker/100%%.sock"' in text
    assert "secret" not in text
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.delenv("B70CTL_LEASES")
    assert "Environment=" not in install(b70ctl, site, "-n").out


def test_a_folder_that_cannot_be_written_is_told_with_the_way_around(b70ctl, site, units):
    units.parent.mkdir(parents=True)
    units.symlink_to("/proc/nothing")
    said = install(b70ctl, site)
    assert said.code == 3
    assert "sudo b70ctl watch --install --system" in said.err


def test_a_link_that_leads_nowhere_is_somebody_elses_and_stays(b70ctl, site, units, tmp_path):
    units.mkdir(parents=True)
    path = units / "b70ctl-watch-b70.service"
    path.symlink_to(tmp_path / "absent")
    said = install(b70ctl, site)
    assert said.code == 1
    assert f"is a link to {tmp_path / 'absent'}, which is not there" in said.error
    assert path.is_symlink()
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("base", ["config", "../config", ""])
def test_a_relative_place_for_units_is_ignored(b70ctl, site, tmp_path, monkeypatch, base):
    monkeypatch.setenv("XDG_CONFIG_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = tmp_path / "home" / ".config" / "systemd" / "user" / "b70ctl-watch-b70.service"
    assert install(b70ctl, site, "--json").data["path"] == str(path)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("more", [(), ("-n",)])
def test_a_password_does_not_go_into_a_unit(b70ctl, site, units, monkeypatch, more):
    monkeypatch.setenv("DOCKER_HOST", "tcp://me:s3cr:et@127.0.0.1:2375")
    said = install(b70ctl, site, *more)
    assert said.code == 2
    assert "DOCKER_HOST holds a password" in said.error
    assert "s3cr" not in said.out + said.err
    assert not units.exists()
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@127.0.0.1:2222")
    assert '"DOCKER_HOST=ssh://me@127.0.0.1:2222"' in install(b70ctl, site, "-n").out


@pytest.mark.process
def test_systemd_takes_the_unit_of_any_site_and_reads_it_as_it_was_meant(b70ctl, units, tmp_path, monkeypatch):
    if shutil.which("systemd-analyze") is None:
        if os.environ.get("CI"):
            pytest.fail("systemd-analyze is not installed, and CI must not go without this test")
        pytest.skip("systemd-analyze is not installed")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    program = tmp_path / "bin" / "b70ctl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for number, name in enumerate(HOSTILE):
        site = tmp_path / "sites" / name
        site.mkdir(parents=True)
        (site / "site.yaml").write_text(f"name: s{number}\nmodels: m\n")
        variable = f"unix://{''.join(filter(str.isprintable, name))}"
        monkeypatch.setenv("DOCKER_HOST", variable)
        for whose in ("--system", "--user"):
            unit = units / f"b70ctl-watch-s{number}.service"
            unit.parent.mkdir(parents=True, exist_ok=True)
            unit.write_text(b70ctl("--site", site, "watch", "--install", whose, "-n").out)
            assert variable in verified(unit, whose, tmp_path)


def verified(unit: Path, whose: str, runtime: Path) -> list[str]:
    """The unit's variables as systemd itself reads them; it must have nothing to say against it."""
    env = os.environ | {"XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_LOG_LEVEL": "debug"}
    ran = subprocess.run(["systemd-analyze", whose, "verify", str(unit)], capture_output=True, text=True, env=env,
                         check=False)  # fmt: skip
    complaints = [line for line in ran.stderr.splitlines() if unit.name in line and "ignoring" in line]
    assert (ran.returncode, complaints) == (0, []), ran.stderr
    found = re.findall(r"^\s*Environment: DOCKER_HOST=(.*)$", ran.stdout, re.MULTILINE)
    assert found, ran.stdout
    return found


# --- uses that cannot be meant ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [("--system",), ("--user",), ("-n",), ("--once", "--every", "5"), ("--install", "--once"),
     ("--install", "--every", "5"), ("--every", "0"), ("--every", "soon")],
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(b70ctl, site, words):
    assert b70ctl("--site", site, "watch", *words).code == 2


@pytest.mark.parametrize("words", [(), ("--once",), ("--install",)])
def test_without_a_site_there_is_nothing_to_watch(b70ctl, words):
    said = b70ctl("watch", *words).exits(2)
    assert "b70ctl init" in said.error + said.err


def test_a_site_where_nothing_has_served_is_told_apart(b70ctl, site):
    b70ctl("--site", site, "watch", "--once").refused(1, "nothing has served at this site yet")


def test_the_mark_is_the_first_line(b70ctl, site):
    assert install(b70ctl, site, "-n").out.splitlines()[0] == MARK
