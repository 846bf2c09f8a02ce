"""What no container starts with is refused where it is written."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.sizes import LONGEST_WORD, bytes_of, size_of
from b70ctl.errors import UsageError
from tests.making import a_profile, a_site, resolved


@pytest.mark.parametrize("target", ["/", "//", "/.", "/x/..", "/proc", "/proc/sys", "/x/../proc/1"])
def test_a_mount_that_no_container_starts_with_is_refused_when_the_profile_is_read(target):
    with pytest.raises(ValidationError, match="nothing can be mounted on"):
        a_profile(mounts=[{"source": "/s", "target": target}])


@pytest.mark.parametrize("target", ["/x", "/processes", "/opt/proc", "/etc/hosts"])
def test_a_mount_elsewhere_is_taken_as_it_stands(target):
    assert a_profile(mounts=[{"source": "/s", "target": target}]).mounts[0].target == target


@given(st.lists(st.sampled_from(["a", "..", ".", "", "b.c"]), max_size=6).map("/".join))
def test_a_target_is_kept_in_its_one_plain_spelling(rest):
    try:
        [mount] = a_profile(mounts=[{"source": "/s", "target": f"/{rest}"}]).mounts
    except ValidationError:
        return
    assert mount.target == posixpath.abspath(f"/{rest}").replace("//", "/")
    assert mount.target.startswith("/")
    assert not mount.target.endswith("/")


@pytest.mark.parametrize("name", ["x" * 249, "é" * 124])
def test_a_name_that_a_release_could_not_number_is_refused_when_the_profile_is_read(name):
    assert a_profile(mounts=[{"source": f"a/{name}", "target": "/x"}]).mounts[0].source == f"a/{name}"
    with pytest.raises(ValidationError, match=r"has 25\d bytes; 249 at most are carried"):
        a_profile(mounts=[{"source": f"a/{name}xx", "target": "/x"}])
    for as_it_is in ({"source": f"/a/{name}xx"}, {"source": f"a/{name}xx", "read_only": False}):
        assert a_profile(mounts=[{"target": "/x"} | as_it_is])


@pytest.mark.parametrize("size", ["0g", "0k", "1023k", "1025g", "99999999999999g", "1" * 4000 + "g"])
def test_shared_memory_out_of_all_reason_is_refused_when_the_profile_is_read(size):
    with pytest.raises(ValidationError, match="of shared memory is not between 1m and 1024g"):
        a_profile(resources={"shm_size": size})


@pytest.mark.parametrize("size", ["1m", "1024k", "8g", "1024g"])
def test_shared_memory_in_reason_is_taken_as_it_stands(size):
    assert a_profile(resources={"shm_size": size}).resources.shm_size == size


@given(st.integers(0, 2**50))
def test_a_size_in_words_is_the_same_size(count):
    words = size_of(count)
    assert (int(words) if words.isdigit() else bytes_of(words)) == count


@pytest.mark.parametrize(("count", "words"), [(8589934592, "8g"), (67108864, "64m"), (1025, "1025"), (0, "0")])
def test_a_size_is_said_in_its_largest_unit(count, words):
    assert size_of(count) == words


@pytest.mark.parametrize("name", ["V", "LONG_NAME"])
def test_a_variable_that_linux_would_not_give_to_a_program_is_refused(name):
    longest = "x" * (LONGEST_WORD - len(name) - 1)
    assert resolved(a_profile(env={name: longest})).env[name] == longest
    with pytest.raises(UsageError, match=f"variable `{name}` has 131,072 bytes"):
        resolved(a_profile(env={name: longest + "x"}))


def test_an_argument_that_linux_would_not_give_to_a_program_is_refused():
    longest = "é" * (LONGEST_WORD // 2)
    assert longest in resolved(a_profile(engine={"flags": {"chat-template": longest}})).argv
    with pytest.raises(UsageError, match="argument `éé") as refused:
        resolved(a_profile(engine={"flags": {"chat-template": longest + "é"}}))
    assert len(refused.value.what) < 200


LONG = ["a" * 256, "a/" + "b" * 256, "\u00fc" * 128, "/".join(["a" * 200] * 21), "a\0b"]


@pytest.mark.parametrize("path", LONG)
@pytest.mark.parametrize(
    "where",
    [
        lambda path: {"model": {"path": path}},
        lambda path: {"model": {"path": None, "hub": path}},
        lambda path: {"model": {"revision": path}},
        lambda path: {"speculative": {"method": "eagle3", "num_speculative_tokens": 1, "draft": {"path": path}}},
        lambda path: {"speculative": {"method": "eagle3", "num_speculative_tokens": 1, "draft": {"hub": path}}},
        lambda path: {
            "speculative": {"method": "eagle3", "num_speculative_tokens": 1, "draft": {"hub": "a/b", "revision": path}}
        },
        lambda path: {"mounts": [{"source": path, "target": "/x"}]},
        lambda path: {"mounts": [{"source": "/x", "target": f"/{path}"}]},
    ],
    ids=["path", "hub", "revision", "draft path", "draft hub", "draft revision", "source", "target"],
)
def test_a_path_that_no_file_system_has_is_refused_when_the_profile_is_read(where, path):
    with pytest.raises(ValidationError, match=r"no file system has more|NUL|should match pattern"):
        a_profile(where(path))


@pytest.mark.parametrize("key", ["models", "hf_cache"])
@pytest.mark.parametrize("path", LONG)
def test_a_path_that_no_file_system_has_is_refused_when_the_site_is_read(key, path):
    with pytest.raises(ValidationError, match=r"no file system has more|NUL"):
        a_site(**{key: path})


@pytest.mark.parametrize("path", ["a" * 255, "/".join(["a" * 254] * 16)])
def test_the_longest_path_that_there_is_is_taken(path):
    assert a_profile({"model": {"path": path}}).model.path == path


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    "where",
    [
        lambda number: {"engine": {"flags": {"a": number}}},
        lambda number: {"engine": {"flags": {"a": [1, number]}}},
        lambda number: {"engine": {"flags": {"a": {"b": {"c": number}}}}},
        lambda number: {"engine": {"gpu_memory_utilization": number}},
        lambda number: {
            "speculative": {"method": "ngram", "num_speculative_tokens": 1, "options": {"a": number}}
        },
        lambda number: {
            "speculative": {"method": "eagle3", "num_speculative_tokens": 1,
                            "draft": {"path": "d", "overrides": {"a": number}}}
        },
    ],
)  # fmt: skip
def test_a_number_that_is_not_finite_is_refused_when_the_profile_is_read(where, number):
    with pytest.raises(ValidationError, match="finite number"):
        a_profile(where(number))
