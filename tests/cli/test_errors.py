"""An error says what happened and what to type, has its exit status, and is never a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from b70ctl import __main__ as entry
from b70ctl import cli
from b70ctl.errors import Exit

CHANGING = [("switch", "mine"), ("rollback",), ("stop",), ("restart",), ("prune",)]
NO_DAEMON = [("switch", "mine", "--yes"), ("switch", "mine", "-n"), ("plan", "mine"), ("images", "probe", "a/b:1"),
             ("images", "pin", "a/b:1"), ("start",)]  # fmt: skip
WITH_JSON = [("plan", "nobody"), ("profiles", "show", "nobody"), ("profiles", "lint", "nobody"),
             ("switch", "nobody", "--yes"), ("images", "probe", "Not An Image"), ("rollback", "-n")]  # fmt: skip
MEANINGLESS = [("plan",), ("nonsense",), ("status", "--nonsense"), ("logs", "--tail", "x"),
               ("watch", "--once", "--every", "3"), ("profiles", "nonsense")]  # fmt: skip


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_a_change_that_nobody_confirms_is_a_usage_error_before_any_work(b70ctl, site, words):
    before = sorted(site.rglob("*"))
    b70ctl("--site", site, *words).refused(2, "nobody can be asked here", "hint: run it again with --yes")
    assert sorted(site.rglob("*")) == before


@pytest.mark.parametrize("words", NO_DAEMON, ids=" ".join)
def test_a_daemon_that_does_not_answer_is_what_the_machine_lacks(b70ctl, site, words):
    (site / ".b70ctl").mkdir()
    (site / ".b70ctl" / "state.json").write_text('{"serving": "0001-mine-abcdef"}')
    said = b70ctl("--site", site, *words).exits(3)
    assert "hint: " in said.err
    assert said.error


@pytest.mark.parametrize("words", WITH_JSON, ids=" ".join)
def test_with_json_an_error_is_json_on_stdout_and_nothing_else(b70ctl, site, words):
    said = b70ctl("--site", site, *words, "--json")
    found = said.data
    assert found["event"] == "error"
    assert set(found["error"]) == {"code", "message", "hint"}
    assert found["error"]["code"] == said.code != 0
    assert "error:" not in said.err


@pytest.mark.parametrize("words", MEANINGLESS, ids=" ".join)
def test_with_json_words_that_cannot_be_meant_are_json_too(b70ctl, site, words):
    said = b70ctl("--site", site, *words, "--json")
    assert said.code == said.data["error"]["code"] == 2
    assert said.data["event"] == "error"
    assert said.data["error"]["hint"]
    assert said.err == ""


def test_a_json_that_is_the_windows_commands_own_is_not_ours(b70ctl, site):
    said = b70ctl("--site", site, "window", "--nonsense", "--", "bench", "--json")
    assert (said.code, said.out) == (2, "")
    assert "No such option" in said.err


def test_no_site_is_a_usage_error_that_says_how_to_make_one(b70ctl):
    said = b70ctl("status").exits(2)
    assert "hint: b70ctl init" in said.err


def test_a_site_that_is_none_is_a_usage_error_with_its_path(b70ctl, tmp_path):
    said = b70ctl("--site", tmp_path, "profiles", "list").exits(2)
    assert f"hint: b70ctl init {tmp_path}" in said.err


def test_a_site_that_the_environment_names_is_used_and_one_that_is_given_goes_before(
    b70ctl, site, tmp_path, monkeypatch
):
    monkeypatch.setenv("B70CTL_SITE", str(site))
    assert "mine" in b70ctl("profiles", "list").out
    monkeypatch.setenv("B70CTL_SITE", str(tmp_path / "nothing"))
    assert b70ctl("profiles", "list").code == 2
    assert "mine" in b70ctl("--site", site, "profiles", "list").out


def test_a_site_is_found_upwards_like_a_git_root(b70ctl, site, monkeypatch):
    (site / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(site / "a" / "b")
    assert "mine" in b70ctl("profiles", "list").out


def test_an_unknown_profile_is_told_with_what_is_close(b70ctl, site):
    b70ctl("--site", site, "profiles", "show", "qwen3-30b-eagle").refused(
        2, "did you mean qwen3-30b-eagle3", "hint: b70ctl profiles list"
    )


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 11))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"summary: [\n", "mine.yaml:2"),
        (b"summary: a\nsummary: b\n", "mine.yaml:2: `summary` stands here twice"),
        ("summary: é\n".encode("latin-1"), "mine.yaml:1: byte 0xe9 is not UTF-8"),
        ("summary: é\n".encode("utf-16"), "is not UTF-8"),
        (b"#" * 1_000_001, "1,000,001 bytes"),
        (BOMB.encode(), "alias"),
        (b"a: &a [*a]\n", "alias"),
        (b"1: x\n", "mine.yaml:1: a key is text"),
        (b"- a\n", "is a list"),
        (b"", "`summary` is missing"),
        (b"extends: mine\n", "mine -> mine"),
        (b"extends: nobody\n", "there is no profile `nobody`"),
        (b"extends: [a]\n", "names one profile"),
        (b"+patches: x\n", "must be a list"),
        (b"\x00\x01\x02", "mine.yaml"),
    ],
)
def test_a_profile_that_cannot_be_read_is_told_with_its_place(b70ctl, site, content, said):
    (site / "profiles" / "mine.yaml").write_bytes(content)
    for words in (("profiles", "show", "mine"), ("render", "mine")):
        found = b70ctl("--site", site, *words).refused(2, said)
        assert len(found.err) < 1000
    linted = b70ctl("--site", site, "profiles", "lint", "mine").exits(2).out
    assert linted.startswith("mine: error: ")
    assert said in linted
    assert len(linted) < 1000


def test_one_broken_profile_is_in_nobody_elses_way(b70ctl, site):
    (site / "profiles" / "broken.yaml").write_text("summary: [\n")
    said = b70ctl("--site", site, "profiles", "list").exits(0)
    assert "broken" in said.out
    assert "gemma4" in said.out
    everything = b70ctl("--site", site, "render", "--all", "--check")
    assert everything.code == 1
    assert "broken: " in everything.error
    assert "1 of" not in everything.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "said"),
    [("engine.max_modle_len=5", "did you mean `max_model_len`"), ("engine", "is not key=value"),
     ("engine.max_model_len=[", "--set"),
     ("model.path=../../etc", "below the site's"), ("env.A=''", "`env.A` is empty")],
)  # fmt: skip
def test_a_wrong_set_is_a_usage_error(b70ctl, site, given, said):
    b70ctl("--site", site, "render", "mine", "--set", given).refused(2, said)


def test_a_state_file_that_was_spoilt_is_told_with_a_way_out(b70ctl, site):
    (site / ".b70ctl").mkdir()
    (site / ".b70ctl" / "state.json").write_text("{")
    b70ctl("--site", site, "status").refused(1, "state.json is damaged", "hint: mv ")


@pytest.mark.process
@pytest.mark.parametrize("words", [("profiles", "list"), ("render", "--all")], ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_error_to_shout_about(site, words):
    command = [sys.executable, "-m", "b70ctl", "--site", str(site), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        child.stdout.close()
        said = child.stderr.read()
    assert "Traceback" not in said
    assert "fault of b70ctl" not in said


@pytest.mark.process
def test_the_program_itself_ends_with_its_errors_status(site):
    ran = subprocess.run([sys.executable, "-m", "b70ctl", "--site", str(site), "profiles", "show", "nobody", "--json"],
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["error"]["code"] == 2


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_cannot_show_a_character_still_gets_the_rest(site, encoding):
    (site / "profiles" / "mine.yaml").write_text(
        "summary: naïve 中文\n" + (site / "profiles" / "mine.yaml").read_text()[14:]
    )
    ran = subprocess.run([sys.executable, "-m", "b70ctl", "--site", str(site), "profiles", "list"],
                         capture_output=True, check=False, env={"PYTHONIOENCODING": encoding, "PATH": ""})  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert b"na" in ran.stdout


@pytest.mark.process
@pytest.mark.parametrize("words", [("render", "mine"), ("profiles", "schema"), ("profiles", "list")])
def test_data_that_could_not_be_written_is_no_success(site, words):
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "b70ctl", "--site", str(site), *words]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 3
    assert "stdout cannot be written" in ran.stderr


@pytest.mark.process
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_is_nobody_listening(site, closed):
    shell = f'exec "$0" -m b70ctl --site "$1" profiles show mine {closed}'
    ran = subprocess.run(["sh", "-c", shell, sys.executable, str(site)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_an_empty_name_to_go_back_to_is_a_usage_error(b70ctl, site):
    assert b70ctl("--site", site, "rollback", "", "--yes").code == 2


def test_ctrl_c_before_a_command_has_begun_is_no_traceback(monkeypatch):
    def pressed(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", pressed)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == Exit.INTERRUPTED
