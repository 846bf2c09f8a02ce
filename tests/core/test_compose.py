"""Nothing that a profile says breaks out of its quoting, and a template cannot change a decision."""

import copy

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.compose import document, labels, literal, missing, project, quoted, render
from b70ctl.core.deployment import Deployment
from b70ctl.core.release import release_id
from b70ctl.edge import places, yamlfile
from b70ctl.errors import UsageError
from tests.hostile import PIECES, hostile
from tests.making import ADDRESS, a_host, a_patch, a_profile, a_site, resolved

TEMPLATE = (places.shipped("templates") / "vllm.compose.yaml.j2").read_text(encoding="utf-8")
RELEASE, KEY = "0001-p-abcdef", "k" * 32
FULL = resolved(
    a_profile(
        env={"A": "1"}, patches=["one"], engine={"max_model_len": 8192, "flags": {"x": ["a", "b"]}},
        resources={"ulimits": {"memlock": -1}, "cap_add": ["IPC_LOCK"]}, mounts=[{"source": "/s", "target": "/t"}],
    ),
    a_site(secrets={"VLLM_API_KEY": {"env": "K"}}), a_host(ADDRESS), patches={"one": a_patch()},
)  # fmt: skip
BARE = resolved(a_profile(cards="none"))


def rendered(deployment: Deployment) -> str:
    return render(TEMPLATE, document(deployment, RELEASE, KEY))


def read_back(text: str):
    return literal(yamlfile.parse(text, "text").data)


# -- one scalar -------------------------------------------------------------------------------------------------------


def expected(text):
    return text.replace("$", "$$")


@given(hostile)
def test_any_text_is_read_back_equal_by_both_parsers(text):
    line = f"v: {quoted(text)}\n"
    assert yaml.safe_load(line) == {"v": expected(text)}
    assert yamlfile.parse(line, "f").data == {"v": expected(text)}


@pytest.mark.parametrize("piece", PIECES)
def test_each_known_trap_is_read_back_equal_alone_and_as_a_key(piece):
    assert yaml.safe_load(f"{quoted(piece)}: {quoted(piece)}") == {expected(piece): expected(piece)}


@given(hostile)
def test_quoted_text_is_one_line_of_what_every_reader_prints(text):
    line = quoted(text)
    assert line.isprintable()
    assert len(line.splitlines()) == 1


@given(st.integers(0, 0x10FFFF))
def test_every_character_there_is_goes_through_or_is_refused(code):
    char = chr(code)
    if code == 0 or 0xD800 <= code <= 0xDFFF:
        with pytest.raises(UsageError, match="cannot be part"):
            quoted(char)
    else:
        assert yaml.safe_load(quoted(char)) == expected(char)


def test_characters_that_hide_or_turn_text_are_written_as_escapes():
    assert quoted("\u202e\u200b\ufeff\u0085\u2028\u007f") == r'"\u202e\u200b\ufeff\x85\u2028\x7f"'


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (5, "5"), (-1, "-1"), ("no", '"no"')])
def test_numbers_and_switches_are_not_text(value, text):
    assert quoted(value) == text


@pytest.mark.parametrize("value", [None, 1.5, [], {}])
def test_a_template_may_not_quote_what_has_no_one_spelling(value):
    with pytest.raises(UsageError):
        quoted(value)


# -- a whole file -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", [FULL, BARE], ids=["full", "bare"])
def test_the_shipped_template_says_all_that_was_decided_and_nothing_else(deployment):
    wanted, found = document(deployment, RELEASE, KEY), read_back(rendered(deployment))
    assert missing(wanted, found) == []
    assert missing(found, wanted) == []


@given(hostile, hostile, hostile)
def test_hostile_words_variables_and_paths_stay_what_they_are(word, value, path):
    deployment = FULL.model_copy(
        update={
            "argv": ("vllm", word), "env": {"A": value}, "entrypoint": ("/bin/sh", value),
            "mounts": (FULL.mounts[0].model_copy(update={"source": f"/{path}"}),),
        }
    )  # fmt: skip
    engine = read_back(rendered(deployment))["services"]["engine"]
    assert engine["command"] == ["vllm", word]
    assert engine["environment"] == {"A": value}
    assert engine["entrypoint"] == ["/bin/sh", value]
    assert engine["volumes"][0]["source"] == f"/{path}"


def test_equal_inputs_give_equal_bytes():
    again = Deployment.model_validate_json(FULL.model_dump_json())
    assert rendered(again).encode() == rendered(FULL).encode()


def test_the_rendered_text_is_ascii_where_the_profile_is():
    assert rendered(FULL).isascii()


def test_no_line_ends_in_a_space_and_none_is_empty():
    lines = rendered(FULL).splitlines()
    assert [line for line in lines if line != line.rstrip() or not line] == []


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    else:
        yield path


DECISIONS = list(leaves(document(FULL, RELEASE, KEY)))


def edited(path, change):
    found = copy.deepcopy(document(FULL, RELEASE, KEY))
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    change(inner, path[-1])
    return found


def replace_with_another(inner, key):
    inner[key] = "another"


@pytest.mark.parametrize("path", DECISIONS, ids=".".join)
def test_a_template_that_drops_or_changes_a_decision_is_found_out(path):
    wanted = document(FULL, RELEASE, KEY)
    assert missing(wanted, edited(path, lambda inner, key: inner.pop(key)))
    assert missing(wanted, edited(path, replace_with_another))


@pytest.mark.parametrize(
    "path", [path for path in DECISIONS if path[-1] in ("command", "volumes", "ports", "group_add")]
)
def test_a_template_that_adds_to_a_list_is_found_out(path):
    assert missing(document(FULL, RELEASE, KEY), edited(path, lambda inner, key: inner[key].append("more")))


def test_a_template_may_add_keys_of_its_own():
    found = document(FULL, RELEASE, KEY)
    found["services"]["engine"]["cpuset"] = "0-3"
    found["services"]["beside"] = {"image": "x"}
    assert missing(document(FULL, RELEASE, KEY), found) == []


@pytest.mark.parametrize("found", [None, [], "text", 5])
def test_a_template_that_renders_no_mapping_is_found_out(found):
    assert missing(document(FULL, RELEASE, KEY), found) == ["the file is not a mapping"]


@pytest.mark.parametrize("template", ["{{ nothing }}", "{{ services.engine.nothing | q }}", "{% if %}",
                                      "{{ name | x }}", "{{ services | q }}"])  # fmt: skip
def test_a_template_that_cannot_be_filled_in_is_a_usage_error(template):
    with pytest.raises(UsageError):
        render(template, document(FULL, RELEASE, KEY))


@pytest.mark.parametrize(("text", "is_literal"), [("a$$b", True), ("a$b", False), ("${X}", False), ("$$${X}", False)])
def test_a_variable_left_to_compose_equals_nothing(text, is_literal):
    assert (literal(text) == text.replace("$$", "$")) is is_literal


# -- rules that were paid for -----------------------------------------------------------------------------------------

ENGINE = document(FULL, RELEASE, KEY)["services"]["engine"]


def test_the_container_is_not_privileged_and_starts_only_when_told():
    assert "privileged" not in ENGINE
    assert ENGINE["security_opt"] == ["no-new-privileges:true"]
    assert ENGINE["restart"] == "no"
    assert ENGINE["pull_policy"] == "never"


def test_the_port_is_published_where_the_site_says_and_nowhere_else():
    assert ENGINE["ports"] == [{"target": 8000, "published": "8000", "host_ip": "127.0.0.1", "protocol": "tcp"}]


def test_secrets_are_read_raw_from_a_file_of_their_own():
    assert ENGINE["env_file"] == [{"path": "secrets.env", "format": "raw", "required": True}]
    assert "VLLM_API_KEY" not in rendered(FULL)
    assert document(BARE, RELEASE, KEY)["services"]["engine"]["env_file"] == []


def test_no_mount_makes_a_directory_that_was_not_there():
    binds = [volume for volume in ENGINE["volumes"] if volume["type"] == "bind"]
    assert len(binds) == 4
    assert all(volume["bind"] == {"create_host_path": False} for volume in binds)


def test_a_card_brings_by_path_with_it_and_no_card_nothing():
    targets = [volume["target"] for volume in ENGINE["volumes"]]
    assert "/dev/dri/by-path" in targets
    bare = document(BARE, RELEASE, KEY)["services"]["engine"]
    assert bare["devices"] == bare["group_add"] == []
    assert "/dev/dri" not in rendered(BARE)


def test_docker_waits_longer_than_vllm_and_logs_are_capped():
    assert ENGINE["stop_grace_period"] == "45s"
    assert ENGINE["logging"]["options"] == {"max-size": "50m", "max-file": "3"}
    assert "start_interval" not in ENGINE["healthcheck"]


def test_a_container_says_whose_it_is_and_from_which_release():
    assert labels(FULL, RELEASE, KEY) == {
        "b70ctl.site": "b70", "b70ctl.profile": "p", "b70ctl.release": RELEASE, "b70ctl.key": KEY,
        "b70ctl.digest": FULL.digest, "b70ctl.cards": ADDRESS,
    }  # fmt: skip


@given(st.integers(0, 99999), st.text(min_size=1, max_size=80), st.sampled_from(["b70", "a_b", "x-1"]))
def test_every_release_has_a_project_name_that_compose_takes(number, profile, site):
    name = project(site, release_id(number, profile, FULL.digest))
    assert name[0].isalnum()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
