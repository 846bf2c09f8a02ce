"""An incident shows what happened, and nothing that is secret."""

import json

from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.incident import hidden, incident_name, limited, secrets_of, shown, surplus, tail

SECRET = 'p4ss-\u00e4"\\w0rd'
ABOUT = {
    "Config": {
        "Env": ["PATH=/bin", f"HF_TOKEN={SECRET}", "MAX_TOKENS=5", "API_KEY=x"],
        "Cmd": ["vllm", "serve", "/models/x", "--api-key", SECRET, "--port", "8000"],
        "Labels": {"b70ctl.key": "0123456789", "b70ctl.site": "b70", "note": f"it is {SECRET}"},
    },
    "Args": [],
    "State": {"Pid": 5, "Running": True, "Error": f"cannot use {SECRET}"},
}


def test_secrets_stand_nowhere_in_what_docker_says_of_a_container():
    known = secrets_of(ABOUT)
    assert known == [SECRET]
    text = json.dumps(shown(ABOUT, known))
    assert json.dumps(SECRET)[1:-1] not in text
    assert "0123456789" not in text
    assert "API_KEY=x" not in text


def test_what_is_no_secret_stays():
    found = shown(ABOUT, [SECRET])
    assert found["Config"]["Env"][0] == "PATH=/bin"
    assert "MAX_TOKENS=5" in found["Config"]["Env"]
    assert found["Config"]["Labels"]["b70ctl.site"] == "b70"
    assert found["State"]["Pid"] == 5
    assert found["Config"]["Cmd"][-1] == "8000"


@given(st.text(), st.lists(st.text(min_size=1, alphabet="abc!\u00e4$"), max_size=4))
def test_no_known_value_is_left_in_a_text(text, known):
    found = hidden(text + "".join(known), known)
    assert not any(value in found for value in known)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3), max_leaves=9,
)  # fmt: skip


@given(json_values, st.text(min_size=1, alphabet="xyz"))
def test_what_is_shown_has_the_same_shape_and_no_secret(value, secret):
    found = shown({"a": value, "b": [{"c": f"-{secret}-"}]}, [secret])
    assert found.keys() == {"a", "b"}
    assert secret not in found["b"][0]["c"]
    json.dumps(found)


@given(st.binary(max_size=300), st.integers(1, 100))
def test_of_what_is_too_long_the_end_is_kept_and_that_is_said(raw, most):
    found = limited(raw, most)
    if len(raw) <= most:
        assert found == raw
    else:
        said, _, rest = found.partition(b"\n")
        assert rest == raw[-most:]
        assert said == f"({len(raw) - most} bytes before this are left out)".encode()


def test_the_end_of_a_text_ends_with_a_line():
    assert tail("a\nb\nc\n", 2) == tail("a\nb\nc", 2) == "b\nc\n"


@given(st.sets(st.sampled_from([f"20261129T22120{n}Z-wedge" for n in range(9)])), st.integers(0, 12))
def test_the_newest_incidents_stay(names, keep):
    gone = surplus(names, keep)
    assert len(names) - len(gone) == min(keep, len(names))
    assert max(gone, default="") < min(names - set(gone), default="~")


def test_two_incidents_of_one_second_have_two_names_in_order():
    first = incident_name("2026-11-29T22:12:04Z", "wedge", [])
    second = incident_name("2026-11-29T22:12:04Z", "wedge", [first])
    assert first == "20261129T221204Z-wedge" < second < incident_name("2026-11-29T22:12:05Z", "gone", [])
