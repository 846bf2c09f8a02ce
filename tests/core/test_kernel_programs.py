"""The container that a program of the kernels gets, what its words mean, and how tables are put together."""

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.kernels import (
    Heard,
    Program,
    card_is_held,
    container,
    described,
    on_one_card,
    said,
    trouble,
)
from b70ctl.core.kernelwords import in_one_line, refuse_unknown
from b70ctl.core.preflight import CardHolder
from b70ctl.core.release import Container, Observed
from b70ctl.errors import MachineError, Refused, UsageError
from tests.making import ADDRESS, SECOND, a_host, a_profile, a_site, resolved, some_facts

CHECK = Program("check", ("--full",))
TUNE = Program("tune", ("--workers", "8"))
SETVARS = {"entrypoint": ("/bin/bash", "-c", "source /opt/intel/oneapi/setvars.sh && exec $@", "--"), "setvars": True}


def a_deployment(**profile):
    site = a_site(cards=[ADDRESS, SECOND])
    return resolved(a_profile(**profile), site=site, host=a_host(ADDRESS, SECOND))


def made(deployment=None, argv=("python3", "-m", "b70_kernels.check"), table=None, **facts):
    return container(deployment or on_one_card(a_deployment()), some_facts(**facts), argv, package="/k/b70_kernels",
                     out="/s/.b70ctl/.check-1", root="/s", table=table)  # fmt: skip


# -- argv and container -----------------------------------------------------------------------------------------------


def test_a_program_is_the_packages_own_with_the_words_that_were_typed():
    assert CHECK.argv("python3", "/out") == ("python3", "-m", "b70_kernels.check", "--full")
    assert CHECK.argv("python3", "/out", json=True)[-1] == "--json"
    assert TUNE.argv("p", "/out") == ("p", "-m", "b70_kernels.tune", "--workers", "8", "--out", "/out/tuning.json")
    assert TUNE.argv("p", "/out", json=True) == TUNE.argv("p", "/out")


def test_the_container_is_the_engines_card_and_environment_without_a_network():
    found = made()
    host = found["HostConfig"]
    assert (found["Image"], found["Entrypoint"], found["Cmd"]) == (
        "example/vllm:1", ["python3"], ["-m", "b70_kernels.check"],
    )  # fmt: skip
    assert found["WorkingDir"] == "/"
    assert (found["NetworkDisabled"], host["NetworkMode"]) == (True, "none")
    assert found["Labels"] == {"b70ctl.probe": "1", "b70ctl.root": "/s", "b70ctl.cards": ADDRESS}
    assert host["Devices"] == [{"PathOnHost": "/dev/dri", "PathInContainer": "/dev/dri", "CgroupPermissions": "rwm"}]
    assert host["GroupAdd"] == ["992"]
    assert [(each["Source"], each["Target"], each["ReadOnly"]) for each in host["Mounts"]] == [
        ("/k/b70_kernels", "/opt/b70/b70_kernels", True),
        ("/s/.b70ctl/.check-1", "/opt/b70-out", False),
        ("/dev/dri/by-path", "/dev/dri/by-path", True),
    ]
    assert (host["IpcMode"], host["ShmSize"]) == ("private", 8 << 30)
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert not {"Privileged", "CapAdd"} & set(host)


def test_the_container_has_the_sites_own_tile_sizes_and_is_told_where():
    found = made(table="/s/tuning.json")
    mounts = [(each["Source"], each["Target"], each["ReadOnly"]) for each in found["HostConfig"]["Mounts"]]
    assert ("/s/tuning.json", "/opt/tuning.json", True) in mounts
    assert "B70_KERNELS_TUNING=/opt/tuning.json" in found["Env"]
    assert not [each for each in made()["Env"] if each.startswith("B70_KERNELS_TUNING")]


def test_oneapi_is_prepared_where_the_images_own_entrypoint_does_it():
    found = made(**SETVARS)
    assert found["Entrypoint"][:2] == ["/bin/bash", "-c"]
    assert "setvars.sh" in found["Entrypoint"][2]
    assert found["Cmd"] == ["python3", "-m", "b70_kernels.check"]


@pytest.mark.process
def test_a_containers_command_is_shown_in_one_line_that_a_shell_takes_apart_again():
    shown = in_one_line(made(**SETVARS))
    assert "\n" not in shown
    shell, flag, text, *rest = shlex.split(shown)
    assert (shell, flag, rest) == ("/bin/bash", "-c", ["--", "python3", "-m", "b70_kernels.check"])
    ran = subprocess.run([shell, flag, text, "--", "printf", "%s|", "a b"], capture_output=True, text=True, check=False)
    assert ran.stdout == "a b|"


@pytest.mark.parametrize(
    ("image", "profile", "path"),
    [
        (None, None, "/opt/b70"),
        ("/x", None, "/x:/opt/b70"),
        ("/x", "/y", "/y:/x:/opt/b70"),
        (None, "/y", "/y:/opt/b70"),
    ],
)
def test_the_kernels_come_last_on_pythons_path_and_nothing_is_lost_from_it(image, profile, path):
    facts = some_facts(pythonpath=image)
    env = {"env": {"PYTHONPATH": profile}} if profile else {}
    deployment = resolved(a_profile(**env), host=a_host(ADDRESS), facts=facts)
    assert f"PYTHONPATH={path}" in made(deployment, pythonpath=image)["Env"]


def test_a_table_that_only_a_release_has_is_not_named_to_a_container_without_it():
    serving = a_deployment(env={"B70_KERNELS_TUNING": "/opt/b70ctl/tuning.json", "A": "1"})
    names = {each.partition("=")[0] for each in made(serving)["Env"]}
    assert "A" in names
    assert "B70_KERNELS_TUNING" not in names


def test_of_several_cards_the_first_is_used():
    several = a_deployment(engine={"tensor_parallel_size": 2})
    assert several.env["ZE_AFFINITY_MASK"] == "0,1"
    one = on_one_card(several)
    assert (one.cards, one.card_count, one.env["ZE_AFFINITY_MASK"]) == ((ADDRESS,), 1, "0")


def test_a_profile_without_a_card_is_refused():
    with pytest.raises(UsageError, match="uses no card") as told:
        on_one_card(resolved(a_profile(cards="none")))
    assert told.value.hint == "b70ctl profiles list"


def test_limits_of_the_profile_hold_for_the_kernels_too():
    limited = on_one_card(a_deployment(resources={"ipc": "host", "shm_size": "1g", "ulimits": {"memlock": -1}}))
    host = made(limited)["HostConfig"]
    assert (host["IpcMode"], host["ShmSize"]) == ("host", 1 << 30)
    assert host["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]


# -- a card that is held ----------------------------------------------------------------------------------------------

ENGINE = Container(id="1", name="b70-1-engine", release="1", state="running")


@pytest.mark.parametrize(
    ("who", "container", "hint"),
    [
        ("container b70-1-engine of site `b70`", None, "b70ctl drain"),
        ("process 7 (vllm) in container b70-1-engine", "b70-1-engine", "b70ctl drain"),
        ("container other of site `x`", None, "b70ctl verify"),
        ("container mine", "mine", "docker stop mine"),
        ("process 7 (python3)", None, "b70ctl verify"),
    ],
)
def test_whoever_holds_the_card_is_named_with_the_command_that_frees_it(who, container, hint):
    refused = card_is_held(CardHolder(ADDRESS, who, container), Observed(containers=(ENGINE,)))
    assert who in refused.what
    assert str(refused.hint).startswith(hint)


# -- what was said ----------------------------------------------------------------------------------------------------

NO_TORCH = ["Traceback (most recent call last):", '  File "x"', "ModuleNotFoundError: No module named 'torch'"]
CRASH = ["Traceback (most recent call last):", '  File "x"', "RuntimeError: no device"]
USAGE = ["usage: python -m b70_kernels.bench [-h]", "   [--json]", "python -m b70_kernels.bench: error: no preset x"]


WITHOUT = "torch 2.9.1+cu128 has no device xpu: Torch not compiled with XPU enabled"
NO_XPU = [USAGE[0], f"python -m b70_kernels.check: error: argument --device: {WITHOUT}"]


def heard(*err, out=()):
    found = Heard()
    for line in out:
        found.take(line, aside=False)
    for line in err:
        found.take(line, aside=True)
    return found


def test_a_traceback_is_kept_and_not_shown_and_everything_else_is_shown():
    found = Heard()
    shown = [line for line in ("a warning", *CRASH) if found.take(line, aside=True)]
    assert shown == ["a warning"]
    assert found.take("a result", aside=False)
    assert found.err == ["a warning", *CRASH]


@pytest.mark.parametrize(
    ("err", "code", "image", "kind", "told"),
    [
        (NO_TORCH, 1, "a/b:1", Refused, "the image a/b:1 has no torch"),
        (NO_TORCH, 1, None, MachineError, "the Python here has no torch"),
        (CRASH, 1, "a/b:1", Exception, "b70_kernels.check broke off: RuntimeError: no device"),
        (USAGE, 2, "a/b:1", UsageError, "no preset x"),
        (NO_XPU, 2, None, MachineError, f"the Python here: {WITHOUT}"),
        (NO_XPU, 2, "a/b:1", MachineError, f"{WITHOUT}, in the image a/b:1"),
        ([], 137, "a/b:1", Exception, "exit 137 (killed"),
        (["oops"], 3, "a/b:1", Exception, "exit 3: oops"),
    ],
)
def test_why_a_program_came_to_no_result_is_told(err, code, image, kind, told):
    found = trouble(CHECK, heard(*err), code, image)
    assert isinstance(found, kind)
    assert told in str(found)


@pytest.mark.parametrize("err", [NO_TORCH, NO_XPU])
def test_a_python_that_cannot_use_the_card_is_pointed_at_a_torch_that_can(err):
    found = trouble(CHECK, heard(*err), 2, None)
    assert "a torch built for XPU" in found.hint
    assert "--device" not in f"{found.what} {found.hint}"


@pytest.mark.parametrize("flag", ["--presets", "--head-sizes"])
@pytest.mark.parametrize("word", ["foo", "96", "", "k8v4,128"])
def test_a_word_that_no_program_takes_is_refused_with_those_that_it_does(flag, word):
    with pytest.raises(UsageError, match=r"there is no .*; there are (k8v4, 4bit_nc, |64, 128, )") as told:
        refuse_unknown(Program("tune", (flag, word, "--workers", "3")))
    assert told.value.hint == f"b70ctl kernels tune {flag} {'k8v4,4bit_nc' if flag == '--presets' else '64,128'}"


@pytest.mark.parametrize("words", [("--presets", "k8v4,3bit_nc"), ("--head-sizes", "64,256"), ("--full",), ()])
def test_words_that_a_program_takes_are_not_refused(words):
    refuse_unknown(Program("tune", words))


@pytest.mark.parametrize("code", [0, 1])
def test_a_result_is_no_trouble_be_it_good_or_bad(code):
    assert trouble(CHECK, heard("a warning", out=["WRONG x"]), code, "a/b:1") is None


def test_a_report_of_what_the_error_tells_already_is_not_kept():
    kept = [heard(), heard(*NO_TORCH), heard(*USAGE), heard(*CRASH), heard(out=["ok"])]
    assert [each.worth_keeping for each in kept] == [False, False, False, True, True]


def test_the_last_object_on_stdout_is_the_result_and_other_lines_are_none():
    assert heard(out=[":: banner ::", '{"passed": true}', ""]).result() == {"passed": True}
    assert heard(out=["ok x", "{not json"]).result() is None
    assert heard(out=['{"a":' * 100_000]).result() is None


@given(st.lists(st.tuples(st.booleans(), st.text())))
def test_whatever_is_said_a_report_holds_it_and_is_json(lines):
    found = Heard()
    for aside, line in lines:
        found.take(line, aside=aside)
    told = said(CHECK, found, 1, 2.25)
    assert json.loads(json.dumps(told)) == told
    assert [*told["lines"], *told["stderr"]] == [*(x for a, x in lines if not a), *(x for a, x in lines if a)]
    assert trouble(CHECK, found, 3, None) is not None


def test_a_report_says_which_image_it_was_by_identity_and_version():
    told = described(on_one_card(a_deployment()), some_facts(digest="a/b@sha256:" + "1" * 64, torch="2.11"))
    assert told["image"]["digest"].endswith("1" * 64)
    assert (told["image"]["vllm"], told["image"]["torch"], told["profile"]) == ("0.21.0", "2.11", "p")
