"""Settings become vLLM's own words, and nothing that is a value is read as a flag."""

import hashlib
import json
import posixpath
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.diagnosis import State, diagnose_text
from b70ctl.core.serving import (
    DONE,
    MODELS,
    RUN_ONCE,
    argv,
    before_the_command,
    engine_flags,
    entrypoint,
    environment,
    flag,
    mark,
    model_argument,
    speculative_config,
)
from b70ctl.edge.diagnoses import read_causes
from b70ctl.errors import UsageError
from tests.making import a_profile, some_facts

SETVARS = ("/bin/bash", "-c", 'source /opt/intel/oneapi/setvars.sh --force && exec "$@"', "--")
FAMILIES = {
    "self-built": some_facts(entrypoint=()),
    "intel": some_facts(entrypoint=SETVARS, setvars=True),
    "vllm-openai": some_facts(entrypoint=("vllm", "serve"), setvars=True),
}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, ["--x"]),
        (True, ["--x"]),
        (False, ["--no-x"]),
        (5, ["--x", "5"]),
        (-1, ["--x=-1"]),
        (0.95, ["--x", "0.95"]),
        ("fp8", ["--x", "fp8"]),
        ("-O3", ["--x=-O3"]),
        ("", ["--x", ""]),
        ([1, "a", True], ["--x", "1", "a", "true"]),
        ({"a": {"b": [1]}, "c": "ü"}, ["--x", '{"a":{"b":[1]},"c":"ü"}']),
    ],
)
def test_a_flag_is_the_words_that_vllm_reads(value, words):
    assert flag("x", value) == words


@given(st.text())
def test_text_stays_one_value_whatever_it_begins_with(value):
    words = flag("x", value)
    assert words in (["--x", value], [f"--x={value}"])
    assert len(words) == 1 or not words[1].startswith("-")


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans()))
def test_a_mapping_is_one_word_of_json_that_says_the_same(value):
    name, word = flag("x", value)
    assert (name, json.loads(word)) == ("--x", value)


@pytest.mark.parametrize("value", [["-a"], [-1], ["ok", "--host"]])
def test_a_list_item_that_looks_like_a_flag_is_refused(value):
    with pytest.raises(UsageError, match="as a flag"):
        flag("x", value)


@pytest.mark.parametrize("names", [["-m"], ["m", "--api-key"]])
def test_a_served_name_that_looks_like_a_flag_is_refused(names):
    with pytest.raises(UsageError, match="as a flag"):
        argv(a_profile(model={"served_names": names}))


def test_the_program_comes_first_and_the_engine_listens_inside_its_container():
    words = argv(a_profile())
    assert words[:3] == ("vllm", "serve", f"{MODELS}/some-model")
    assert words[words.index("--host") + 1] == "0.0.0.0"
    assert words[words.index("--shutdown-timeout") + 1] == "30"


def test_what_a_profile_leaves_out_is_left_to_vllm():
    assert engine_flags(a_profile().engine) == {}


def test_one_card_is_not_spelt_out_and_two_are():
    assert "tensor-parallel-size" not in engine_flags(a_profile().engine)
    assert engine_flags(a_profile(engine={"tensor_parallel_size": 2}).engine)["tensor-parallel-size"] == 2


def test_a_tool_parser_turns_tool_choice_on():
    assert engine_flags(a_profile(engine={"tool_call_parser": "hermes"}).engine) == {
        "tool-call-parser": "hermes", "enable-auto-tool-choice": True,
    }  # fmt: skip


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc", ".", "", "a/..", "//etc", "./../x"])
def test_no_model_path_leaves_the_models_directory(path):
    drafting = {"method": "eagle3", "num_speculative_tokens": 1, "draft": {"path": path}}
    for key in ({"model": {"path": path}}, {"speculative": drafting}):
        with pytest.raises(ValidationError, match=r"below the site's|at least 1 character"):
            a_profile(key)


@given(st.text(alphabet="./ab", min_size=1, max_size=12))
def test_every_model_path_is_refused_or_below_the_models(path):
    try:
        model = a_profile(model={"path": path}).model
    except ValidationError:
        return
    found = model_argument(model)
    assert found.startswith(f"{MODELS}/")
    assert found == posixpath.normpath(found)


@pytest.mark.parametrize("path", ["a", "a/b", "./a", "a//b", "a/../b", "..a", "...", "a..b"])
def test_a_directory_below_the_models_is_found(path):
    assert model_argument(a_profile(model={"path": path}).model) == f"{MODELS}/{posixpath.normpath(path)}"


@pytest.mark.parametrize("hub", ["a/b", "gpt2", "Qwen/Qwen3-30B.A3B_x"])
def test_a_hub_id_is_passed_on(hub):
    assert model_argument(a_profile(model={"path": None, "hub": hub}).model) == hub


@pytest.mark.parametrize("hub", ["-a/b", "/etc/passwd", "../x", "a/b/c", "a b", "a/", "--trust-remote-code", "a/é"])
def test_what_is_no_hub_id_is_refused(hub):
    with pytest.raises(UsageError, match="Hugging Face id"):
        model_argument(a_profile(model={"path": None, "hub": hub}).model)


def test_a_speculative_config_names_the_draft_by_the_containers_path():
    spoken = a_profile(speculative={"method": "eagle3", "num_speculative_tokens": 5, "draft": {"path": "d"}})
    assert speculative_config(spoken.speculative) == {
        "method": "eagle3", "model": f"{MODELS}/d", "num_speculative_tokens": 5,
    }  # fmt: skip


@pytest.mark.parametrize("key", ["method", "num_speculative_tokens"])
def test_an_option_may_not_contradict_a_key_of_its_own(key):
    spoken = a_profile(speculative={"method": "ngram", "num_speculative_tokens": 5, "options": {key: "x"}})
    with pytest.raises(UsageError, match=f"speculative.{key}"):
        speculative_config(spoken.speculative)


def test_an_empty_variable_is_refused_since_empty_is_not_unset():
    with pytest.raises(UsageError, match=r"env.CCL_X.*empty"):
        environment(a_profile(env={"CCL_X": ""}), some_facts(), {}, [])


def test_pythonpath_is_put_before_the_images_own():
    env = environment(a_profile(env={"PYTHONPATH": "/mine"}), some_facts(pythonpath="/theirs"), {}, [])
    assert env["PYTHONPATH"] == "/mine:/theirs"
    assert "PYTHONPATH" not in environment(a_profile(), some_facts(pythonpath="/theirs"), {}, [])


def test_the_mask_names_cards_and_is_absent_without_one():
    assert environment(a_profile(), some_facts(), {}, [0, 2])["ZE_AFFINITY_MASK"] == "0,2"
    assert "ZE_AFFINITY_MASK" not in environment(a_profile(), some_facts(), {}, [])


def test_the_hub_is_left_alone_unless_a_download_was_asked_for():
    assert environment(a_profile(), some_facts(), {}, [])["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(a_profile(boot={"download": True}), some_facts(), {}, [])


def test_a_patchs_variables_come_last_and_numbers_become_text():
    env = environment(a_profile(env={"A": 1, "B": "profile"}), some_facts(), {"B": "patch"}, [])
    assert (env["A"], env["B"]) == ("1", "patch")
    assert list(env) == sorted(env)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_scripts_only_an_image_that_prepares_oneapi_gets_an_entrypoint(family):
    assert bool(entrypoint(FAMILIES[family], ())) is (family == "intel")


def started(family, folder, *scripts):
    """The entrypoint with these scripts, in a container whose marks lie in a folder of this host."""
    shell, flag, text, *rest = entrypoint(FAMILIES[family], tuple(map(str, scripts)))
    return [shell, flag, text.replace(DONE, str(folder / "done")), *rest]


@pytest.mark.process
@pytest.mark.parametrize("family", FAMILIES)
def test_the_command_is_run_word_for_word_in_every_family_of_images(family, tmp_path):
    script = tmp_path / "a script's.py"
    script.write_text("print('script')")
    words = ["printf", "%s|", "a b", "$HOME", "it's", "--", "-x"]
    start = started(family, tmp_path, script)
    ran = subprocess.run([*start, *words], capture_output=True, text=True, check=False)
    assert ran.stdout == "script\na b|$HOME|it's|--|-x|"


@pytest.mark.process
@pytest.mark.parametrize("family", FAMILIES)
def test_a_start_script_that_fails_stops_the_start(family, tmp_path):
    bad, good = tmp_path / "bad.py", tmp_path / "good.py"
    bad.write_text("raise SystemExit(7)")
    good.write_text("print('not reached')")
    ran = subprocess.run(
        [*started(family, tmp_path, bad, good), "echo", "served"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (7, "")


def a_script(folder, name, then):
    """A script that edits its file once and fails where it finds no more to edit; `then` is done in between."""
    edited, script = folder / f"edited-{name}", folder / f"{name}.py"
    script.write_text(f"open({str(edited)!r}, 'x').close()\n{then}\nprint({name!r})\n")
    return script


@pytest.mark.process
def test_a_start_script_that_came_to_its_end_is_not_run_again_in_its_container(tmp_path):
    start = started("vllm-openai", tmp_path, a_script(tmp_path, "one", ""), a_script(tmp_path, "a two's", ""))
    first, again = (subprocess.check_output([*start, "echo", "served"], text=True) for _ in range(2))
    assert first == "one\na two's\nserved\n"
    assert again.splitlines()[-1] == "served"
    assert again.count("was run in this container before") == 2
    names = {mark(str(file), hashlib.sha256(file.read_bytes()).hexdigest()) for file in tmp_path.glob("*.py")}
    assert {file.name for file in (tmp_path / "done").iterdir()} == names


@pytest.mark.process
def test_two_start_scripts_of_the_same_content_are_both_run(tmp_path):
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text("import sys\nprint(sys.argv[0].rpartition('/')[2])\n")
    start = started("vllm-openai", tmp_path, tmp_path / "one.py", tmp_path / "two.py")
    assert subprocess.check_output([*start, "echo", "served"], text=True) == "one.py\ntwo.py\nserved\n"


@pytest.mark.process
def test_a_start_script_that_was_cut_off_is_run_again_and_may_stop_the_start(tmp_path):
    cut = "import os, pathlib; pathlib.Path(__file__).with_name('cut').exists() and os.kill(os.getpid(), 9)"
    start = started("vllm-openai", tmp_path, a_script(tmp_path, "whole", ""), a_script(tmp_path, "cut", cut))
    (tmp_path / "cut").touch()
    for said in ("whole\n", f"b70ctl: {tmp_path / 'whole.py'} was run in this container before\n"):
        ran = subprocess.run([*start, "echo", "served"], capture_output=True, text=True, check=False)
        assert ran.returncode != 0
        assert ran.stdout == said


@pytest.mark.process
def test_a_start_script_whose_hash_cannot_be_told_stops_the_start(tmp_path):
    start = started("vllm-openai", tmp_path, tmp_path / "gone.py")
    ran = subprocess.run([*start, "echo", "served"], capture_output=True, text=True, check=False)
    assert (ran.returncode != 0, ran.stdout) == (True, "")


@pytest.mark.process
def test_an_image_that_cannot_hash_a_start_script_is_told_by_what_its_shell_says(tmp_path):
    (tmp_path / "one.py").write_text("print('not reached')")
    start = started("vllm-openai", tmp_path, tmp_path / "one.py")
    ran = subprocess.run(
        [*start, "echo", "served"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (127, "")
    found = diagnose_text(ran.stderr.splitlines(), read_causes(None))
    assert [finding.cause.id for finding in found.findings] == ["no-sha256sum"]
    assert found.first_error is not None


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "said"),
    [("raise SystemExit('no anchor here')", "no anchor here"), ("1 / 0", "ZeroDivisionError: division by zero")],
)
def test_a_start_script_that_fails_is_named_and_the_cause_is_known(tmp_path, script, said):
    bad = tmp_path / "my_script.py"
    bad.write_text(script)
    ran = subprocess.run([*started("vllm-openai", tmp_path, bad), "true"], capture_output=True, text=True, check=False)
    lines = ran.stderr.splitlines()
    assert lines[-2:] == [said, f"b70ctl: start script {bad} ended with exit status 1; the engine is not started"]
    found = diagnose_text(lines, read_causes(None))
    assert ([finding.cause.id for finding in found.findings], found.state) == (["start-script-failed"], State.EXPLAINED)
    assert found.first_error is not None


BEFORE_ONCE = 'set -e\nrun_once() {\n  python3 "$1"\n}\nrun_once /s/a.py\nexec "$@"'


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (entrypoint(FAMILIES["intel"], ()), "setvars.sh before the command"),
        (entrypoint(FAMILIES["intel"], ("/s/a.py", "/s/b.py")), "setvars.sh, /s/a.py, /s/b.py before the command"),
        (entrypoint(FAMILIES["vllm-openai"], ("/s/a two's.py",)), "/s/a two's.py before the command"),
        (("/bin/bash", "-c", BEFORE_ONCE, "--"), "/s/a.py before the command (as written by an earlier b70ctl)"),
        (("/bin/bash", "-c", 'set -e\nexec "$@"', "--"), None),
        (("/bin/bash", "-c", "run_once x", "--"), None),
        (("python3",), None),
        ((), None),
    ],
)
def test_what_runs_before_the_command_is_told_in_short_and_of_no_entrypoint_but_ours(words, told):
    assert before_the_command(words) == told


@given(st.text(alphabet="ab '\"$`;&|\n/", min_size=1))
def test_a_script_of_any_name_is_told_by_its_name(name):
    assert before_the_command(entrypoint(some_facts(), (name,))) == f"{name} before the command"


@given(st.text())
def test_no_entrypoint_is_too_strange_to_be_told(text):
    told = before_the_command(("/bin/bash", "-c", f'set -e\nrun_once() {{{text}\nexec "$@"', "--"))
    assert told is None or "before the command" in told


@given(st.text(alphabet="ab '\"$`;&|\n/", min_size=1))
def test_a_scripts_name_cannot_become_a_command(name):
    line = entrypoint(some_facts(), (name,))[2].removeprefix(f"{RUN_ONCE}\n").removesuffix('\nexec "$@"')
    assert shlex.split(line) == ["run_once", name]
