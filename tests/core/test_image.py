"""What versions and references mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.image import check_reference, is_moving, parsed_version, same_version, sources_setvars, within
from b70ctl.errors import UsageError
from tests.making import some_facts

DIGEST = "sha256:" + "a" * 64
small = st.integers(0, 40)


@pytest.mark.parametrize(
    ("version", "ranges", "inside"),
    [
        ("0.21.0", ">=0.19,<0.23", True),
        ("0.21.1.dev17+g0a4756bb5", ">=0.19,<0.23", True),
        ("0.21.1.dev17+g0a4756bb5", ">0.21.0", True),
        ("0.21.1.dev17+g0a4756bb5", ">=0.21.1", False),
        ("0.23.0", ">=0.19,<0.23", False),
        ("0.23.0rc1", "<0.23", False),
        ("0.26.1rc1.dev457+gc810e5ee9", ">=0.26.1rc1.dev457,<0.34", True),
        ("0.26.1rc1.dev457+gc810e5ee9", ">0.26.0,<0.27", True),
        ("0.19.0", "==0.19.*", True),
    ],
)
def test_a_development_build_lies_between_the_releases_around_it(version, ranges, inside):
    assert within(version, ranges) is inside


@given(small, small, small, st.integers(1, 500))
def test_a_development_build_is_before_what_it_leads_to_and_after_what_came_before(major, minor, patch, build):
    version = f"{major}.{minor}.{patch + 1}.dev{build}+gabcdef012"
    assert within(version, f">{major}.{minor}.{patch}")
    assert not within(version, f">={major}.{minor}.{patch + 1}")


@pytest.mark.parametrize("version", ["", "latest", "0.21-nightly-x", "v", "9" * 10_000, "1." * 60 + "1"])
def test_what_is_not_a_version_is_said_so_in_few_words(version):
    with pytest.raises(UsageError, match="is not a version") as told:
        parsed_version(version)
    assert len(told.value.what) < 100


@pytest.mark.parametrize("ranges", ["0.19", "newer", ">=0.19;<0.23", ">>1"])
def test_what_is_not_a_range_is_said_so(ranges):
    with pytest.raises(UsageError, match="range of versions"):
        within("0.21.0", ranges)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("0.21.0", "0.21.0", True),
        ("0.21", "0.21.0", True),
        ("0.21.1.dev17", "0.21.1.dev17+g0a4756bb5", True),
        ("0.21.1.dev17+gaaaaaaaaa", "0.21.1.dev17+gbbbbbbbbb", False),
        ("0.21.1.dev17", "0.21.1.dev18", False),
        ("0.21.0", "0.21.0rc1", False),
    ],
)
def test_a_commit_counts_only_where_both_name_one(left, right, same):
    assert same_version(left, right) is same
    assert same_version(right, left) is same


@pytest.mark.parametrize(
    "ref",
    ["vllm", "intel/vllm:latest", "localhost:5000/a/b:1", f"a/b@{DIGEST}", f"a/b:tag@{DIGEST}", DIGEST,
     "docker.io/intel/llm-scaler-vllm:0.14.0-b8", "a__b/c--d"],
)  # fmt: skip
def test_what_docker_understands_is_a_reference(ref):
    assert check_reference(ref) == ref


@pytest.mark.parametrize(
    "ref", ["", "Upper/case", "a b", "a:", "a@sha256:12", "a:tag@", "-a", "a//b", "$(x)", "a:b\n", "a;b"]
)
def test_what_docker_does_not_understand_is_refused(ref):
    with pytest.raises(UsageError, match="image reference"):
        check_reference(ref)


def test_only_a_digest_stands_still():
    assert is_moving("a/b:1")
    assert not is_moving(f"a/b:1@{DIGEST}")
    assert not is_moving(DIGEST)


def test_an_identity_is_the_name_that_moves_least():
    assert some_facts(digest=f"a@{DIGEST}", id=DIGEST).identity == f"a@{DIGEST}"
    assert some_facts(id=DIGEST).identity == DIGEST
    assert some_facts().identity == "example/vllm:1"


@pytest.mark.parametrize(
    ("setvars", "entrypoint", "sources"),
    [
        (True, ("/bin/bash", "-c", "source /opt/intel/oneapi/setvars.sh --force && exec \"$@\"", "--"), True),
        (True, ("vllm", "serve"), False),
        (False, ("/bin/bash", "-c", "source /opt/intel/oneapi/setvars.sh"), False),
    ],
)  # fmt: skip
def test_oneapi_is_prepared_only_where_the_image_itself_would(setvars, entrypoint, sources):
    assert sources_setvars(some_facts(setvars=setvars, entrypoint=entrypoint)) is sources
