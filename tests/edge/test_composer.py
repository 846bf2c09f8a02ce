"""The machine's Compose is found, is new enough, and reads what was rendered as it was meant."""

import itertools
import json

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from b70ctl.core.compose import OLDEST_COMPOSE, document, missing, render
from b70ctl.edge import places
from b70ctl.edge.composer import find_composer
from b70ctl.edge.filling import fill
from b70ctl.errors import EngineError, MachineError, Refused
from tests.hostile import PIECES, hostile
from tests.making import ADDRESS, a_host, a_profile, a_site, resolved

pytestmark = pytest.mark.process

TEMPLATE = (places.shipped("templates") / "vllm.compose.yaml.j2").read_text(encoding="utf-8")
RELEASE, KEY = "0001-p-abcdef", "k" * 32
DEPLOYMENT = resolved(
    a_profile(env={"A": "1"}, resources={"ulimits": {"memlock": -1, "nofile": 1024}, "cap_add": ["IPC_LOCK"]}),
    a_site(secrets={"VLLM_API_KEY": {"env": "K"}}), a_host(ADDRESS),
)  # fmt: skip


@pytest.fixture(scope="session")
def composer():
    return find_composer()


def program(tmp_path, monkeypatch, answer, code=0):
    path = tmp_path / "docker-compose"
    path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
    path.chmod(0o755)
    monkeypatch.setenv("B70CTL_COMPOSE", str(path))
    return str(path)


def accepted(composer, folder, deployment, secrets=None):
    text = render(TEMPLATE, document(deployment, RELEASE, KEY))
    fill(folder, {}, text, {"VLLM_API_KEY": "hidden"} if secrets is None else secrets)
    return composer.accepts(folder)


def undollared(value):
    """Compose writes its answer so that it can be read again: `$` is doubled."""
    return json.loads(json.dumps(value).replace("$$", "$"))


@pytest.mark.parametrize(
    ("answer", "version"),
    [("2.30.0", (2, 30, 0)), ("v2.40.3", (2, 40, 3)), ("5.1.2", (5, 1, 2)), ("2.35.1-desktop.1", (2, 35, 1))],
)
def test_a_compose_that_is_new_enough_is_used(tmp_path, monkeypatch, answer, version):
    path = program(tmp_path, monkeypatch, answer)
    found = find_composer([7])
    assert (found.binary, found.version, found.hold) == (path, version, (7,))


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [("2.29.7", 0, "2.29.7"), ("v2.5", 0, "2.5"), ("1.29.2", 0, "Compose v1"), ("what?", 0, "does not run"),
     ("2.40.3", 1, "does not run")],
)  # fmt: skip
def test_a_compose_that_is_too_old_is_told_with_what_was_found(tmp_path, monkeypatch, answer, code, said):
    program(tmp_path, monkeypatch, answer, code)
    with pytest.raises(MachineError, match=said) as missing_program:
        find_composer()
    assert ".".join(map(str, OLDEST_COMPOSE)) in missing_program.value.what
    assert "docker-compose-plugin" in str(missing_program.value.hint)


def test_a_compose_that_was_named_and_is_not_there_is_not_replaced_by_another(tmp_path, monkeypatch):
    monkeypatch.setenv("B70CTL_COMPOSE", str(tmp_path / "nothing"))
    with pytest.raises(MachineError, match="nothing"):
        find_composer()


def test_compose_accepts_a_release_and_reads_it_as_it_was_meant(composer, tmp_path):
    read = accepted(composer, tmp_path, DEPLOYMENT)
    engine = read["services"]["engine"]
    assert engine["command"] == list(DEPLOYMENT.argv)
    assert engine["environment"] == {**DEPLOYMENT.env, "VLLM_API_KEY": "hidden"}
    assert engine["ports"] == [
        {"mode": "ingress", "host_ip": "127.0.0.1", "target": 8000, "published": "8000", "protocol": "tcp"}
    ]
    assert engine["group_add"] == ["992"]
    assert engine["ulimits"] == {"memlock": -1, "nofile": 1024}
    assert read["name"] == "b70-0001-p-abcdef"


# each example is a process, so few are tried and none is made smaller
few = settings(max_examples=6, phases=[Phase.generate])
HOSTILE = [*PIECES, *("".join(pair) for pair in itertools.pairwise(PIECES))]


@few
@given(st.lists(hostile, min_size=100, max_size=150))
def test_compose_gives_hostile_text_on_unchanged(composer, tmp_path_factory, more):
    words = (*HOSTILE, *more)
    deployment = DEPLOYMENT.model_copy(
        update={"argv": words, "env": {f"V{number}": word for number, word in enumerate(words)}, "secrets": ()}
    )
    engine = undollared(accepted(composer, tmp_path_factory.mktemp("r"), deployment, {})["services"]["engine"])
    assert engine["command"] == list(words)
    assert engine["environment"] == deployment.env


one_line = st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1)


@few
@given(st.lists(one_line, min_size=50, max_size=80))
def test_compose_gives_secrets_on_unchanged(composer, tmp_path_factory, more):
    values = [*PIECES, *more]
    secrets = {f"S{number}": value for number, value in enumerate(values) if not set(value) & set("\r\n")}
    deployment = DEPLOYMENT.model_copy(update={"secrets": tuple(secrets)})
    engine = undollared(accepted(composer, tmp_path_factory.mktemp("r"), deployment, secrets)["services"]["engine"])
    assert {name: value for name, value in engine["environment"].items() if name in secrets} == secrets


def test_nothing_of_the_persons_shell_gets_into_a_release(composer, tmp_path, monkeypatch):
    monkeypatch.setenv("X", "from the shell")
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "another")
    monkeypatch.setenv("COMPOSE_FILE", "/nonexistent")
    (tmp_path / ".env").write_text("X=from a file\n")
    deployment = DEPLOYMENT.model_copy(update={"env": {"A": "${X}", "B": "$X", "C": "$${X}"}})
    read = accepted(composer, tmp_path, deployment)
    assert read["name"] == "b70-0001-p-abcdef"
    environment = {
        name: yaml.safe_load(json.dumps(value)) for name, value in read["services"]["engine"]["environment"].items()
    }
    assert environment == {"A": "$${X}", "B": "$$X", "C": "$$$${X}", "VLLM_API_KEY": "hidden"}


@pytest.mark.parametrize(
    "text", ["services: {engine: {image: x, nonsense: 1}}", "services: [", "services: {e: {image: '${'}}"]
)
def test_what_compose_refuses_is_refused_with_its_own_words(composer, tmp_path, text):
    (tmp_path / "compose.yaml").write_text(text)
    with pytest.raises(Refused, match=f"Compose {composer.text} refuses"):
        composer.accepts(tmp_path)


def test_a_release_without_its_secrets_is_refused(composer, tmp_path):
    with pytest.raises(Refused, match=r"secrets\.env"):
        accepted(composer, tmp_path, DEPLOYMENT, {})


def test_a_start_that_fails_says_what_compose_complained_of(tmp_path, monkeypatch):
    path = tmp_path / "docker-compose"
    path.write_text('#!/bin/sh\n[ "$1" = version ] && echo 2.40.3 && exit\n'
                    "echo ' Container x  Creating' >&2\n"
                    "echo 'Error response from daemon: taken: tcp://u:QQ@h:1' >&2; exit 1\n")  # fmt: skip
    path.chmod(0o755)
    monkeypatch.setenv("B70CTL_COMPOSE", str(path))
    with pytest.raises(EngineError) as failed:
        find_composer().up(tmp_path)
    assert failed.value.what == "Docker could not start the engine: Error response from daemon: taken: tcp://…@h:1"


def test_what_compose_reads_back_lacks_nothing_that_was_decided(composer, tmp_path):
    deployment = DEPLOYMENT.model_copy(update={"secrets": ()})
    read = accepted(composer, tmp_path, deployment, {})["services"]["engine"]
    wanted = document(deployment, RELEASE, KEY)["services"]["engine"]
    same = {key: wanted[key] for key in ("image", "entrypoint", "command", "environment", "labels", "restart", "ipc",
                                         "security_opt", "cap_add", "working_dir", "pull_policy")}  # fmt: skip
    assert missing(same, read) == []


def speaking(tmp_path, monkeypatch, out):
    path = tmp_path / "docker-compose"
    path.write_text('#!/bin/sh\n[ "$1" = version ] && echo 2.30.1 && exit\n'
                    "echo 'services.engine.volumes: items at 1 and 2 are equal' >&2\n"
                    f"printf '%s' '{out}'\n")  # fmt: skip
    path.chmod(0o755)
    monkeypatch.setenv("B70CTL_COMPOSE", str(path))
    return find_composer()


@pytest.mark.parametrize("out", ["", "null", "[]", "{", "no json"])
def test_a_compose_that_complains_and_ends_well_has_refused(tmp_path, monkeypatch, out):
    composer = speaking(tmp_path, monkeypatch, out)
    for read in (lambda: composer.accepts(tmp_path), lambda: composer.companions(tmp_path / "more.yaml", "p")):
        with pytest.raises(Refused, match="items at 1 and 2 are equal"):
            read()
