"""What a name means, and what may be forgotten."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.history import before, meant, prunable
from b70ctl.core.release import Observed, State, release_id
from b70ctl.errors import Exit, Refused, UsageError
from tests.making import a_release, a_verdict

RELEASES = [a_release(number, profile) for number, profile in enumerate(["eagle3", "eagle3-tq", "ngram", "eagle3"], 1)]
KEPT = {release.id: release for release in RELEASES}
EAGLE, TQ, NGRAM, EAGLE2 = KEPT
PROVEN = dict.fromkeys(KEPT, a_verdict())


def state(serving=EAGLE2, **snapshots):
    return State(serving=serving, snapshots=snapshots)


def test_a_snapshot_is_meant_before_a_profile_of_that_name():
    assert meant("ngram", state(ngram=EAGLE), KEPT, PROVEN) == EAGLE


def test_a_release_is_meant_by_its_own_name_even_unproven():
    assert meant(TQ, state(), KEPT, {}) == TQ


def test_a_profile_means_its_newest_proven_release_that_does_not_serve():
    assert meant("eagle3", state(serving=NGRAM), KEPT, PROVEN) == EAGLE2
    assert meant("eagle3", state(serving=EAGLE2), KEPT, PROVEN) == EAGLE
    assert meant("eagle3", state(serving=NGRAM), KEPT, PROVEN | {EAGLE2: a_verdict("failed")}) == EAGLE


def test_part_of_a_name_is_enough_where_it_is_one_name():
    assert meant("tq", state(), KEPT, PROVEN) == TQ
    assert meant("gra", state(), KEPT, PROVEN) == NGRAM


def test_a_whole_name_is_not_ambiguous_because_a_longer_one_holds_it():
    assert meant("eagle3", state(serving=NGRAM), KEPT, PROVEN) in (EAGLE, EAGLE2)


def test_part_of_several_names_is_a_usage_error_that_lists_them():
    with pytest.raises(UsageError, match="eagle3, eagle3-tq") as refused:
        meant("eagle", state(), KEPT, PROVEN)
    assert refused.value.exit_code is Exit.USAGE


def test_a_snapshot_and_its_profile_are_one_thing():
    assert meant("gram", state(my_ngram=NGRAM), KEPT, PROVEN) == NGRAM


def test_our_own_names_are_not_words_that_a_person_chose():
    with pytest.raises(UsageError, match="nothing in history"):
        meant("before", state(**{f"before-{EAGLE2}": EAGLE}), KEPT, PROVEN)


@pytest.mark.parametrize("name", ["nothing", "EAGLE3", "0009-x"])
def test_a_name_that_nothing_has_is_a_usage_error(name):
    with pytest.raises(UsageError, match="nothing in history"):
        meant(name, state(), KEPT, PROVEN)


def test_a_snapshot_whose_release_is_gone_is_refused_and_said_so():
    with pytest.raises(Refused, match="folder is gone"):
        meant("s", state(s="0009-gone"), KEPT, PROVEN)


@pytest.mark.parametrize(
    ("name", "serving", "verdicts", "said"),
    [("ngram", NGRAM, PROVEN, "no other release"), ("ngram", EAGLE, {}, "1 other release"),
     ("ngram", EAGLE, {NGRAM: a_verdict("failed")}, "none proven")],
)  # fmt: skip
def test_a_profile_without_a_proven_release_is_refused(name, serving, verdicts, said):
    with pytest.raises(Refused, match=said):
        meant(name, state(serving=serving), KEPT, verdicts)


@pytest.mark.parametrize(
    ("served", "serving", "expected"),
    [
        ([EAGLE, TQ], TQ, EAGLE),
        ([EAGLE, TQ, EAGLE], EAGLE, TQ),
        ([EAGLE, TQ, NGRAM], NGRAM, TQ),
        ([EAGLE, TQ, TQ], TQ, EAGLE),
        ([EAGLE, "0009-gone", TQ], TQ, EAGLE),
        ([EAGLE, TQ], None, TQ),
        ([EAGLE, TQ], EAGLE, TQ),
    ],
    ids=["the one before", "back and forth", "of three the last", "after a restart", "not one that is gone",
         "nothing serves", "the oldest serves again"],
)  # fmt: skip
def test_before_is_the_release_that_served_before_the_serving_one(served, serving, expected):
    assert before(State(serving=serving), served, KEPT) == expected


@pytest.mark.parametrize("served", [[], [EAGLE], ["0009-gone", EAGLE]])
def test_where_nothing_served_before_there_is_nothing_to_go_back_to(served):
    with pytest.raises(Refused, match="nothing served before"):
        before(State(serving=EAGLE), served, KEPT)


@given(st.lists(st.sampled_from(list(KEPT)), max_size=8), st.sampled_from([*KEPT, None]))
def test_before_is_never_the_serving_one(served, serving):
    try:
        assert before(State(serving=serving), served, KEPT) != serving
    except Refused:
        assert set(served) <= {serving}


MANY = {release.id: release for release in (a_release(number) for number in range(1, 13))}
names = st.sampled_from(list(MANY))


@given(
    st.none() | names, st.dictionaries(st.sampled_from(["a", "b", "before-x"]), names), st.lists(names, max_size=6),
    st.integers(0, 12),
)  # fmt: skip
def test_what_serves_what_served_before_and_what_has_a_name_is_never_forgotten(serving, snapshots, served, keep):
    gone = prunable(State(serving=serving, snapshots=snapshots), MANY, served, keep)
    assert serving not in gone
    assert not gone.keys() & {release for name, release in snapshots.items() if not name.startswith("before-")}
    if served and serving in served:
        with contextlib.suppress(Refused):
            assert before(State(serving=serving), served, MANY) not in gone


@given(st.none() | names, st.integers(0, 12))
def test_the_newest_are_kept_and_the_oldest_are_forgotten_first(serving, keep):
    gone = list(prunable(State(serving=serving), MANY, [], keep))
    rest = [name for name in MANY if name != serving]
    assert gone == rest[: max(len(rest) - keep, 0)]


@given(st.lists(st.sampled_from(["proven", "failed", "interrupted", None]), max_size=12), st.integers(0, 6))
def test_releases_that_were_not_proven_take_no_others_place_when_old_ones_are_forgotten(states, keep):
    releases = {a_release(number).id: state for number, state in enumerate(states, 1)}
    verdicts = {name: a_verdict(state) if state else None for name, state in releases.items()}
    gone = prunable(State(), {name: MANY[name] for name in releases}, [], keep, verdicts)
    for proven in (True, False):
        names = [name for name, state in releases.items() if (state == "proven") is proven]
        assert [name for name in gone if name in names] == names[: max(len(names) - keep, 0)]
        said = "proven ones" if proven else "that were not proven"
        assert all(said in gone[name] for name in names if name in gone)


def test_release_names_sort_by_age_up_to_ten_thousand():
    names = [release_id(number, "p", "abcdef") for number in (1, 2, 10, 999, 9999)]
    assert names == sorted(names)


@pytest.mark.parametrize("state", ["created", "exited", "dead"])
def test_a_container_that_does_not_run_serves_nothing(state):
    seen = Observed.model_validate({"containers": [{"id": "c", "name": "n", "release": EAGLE, "state": state}]})
    assert seen.of(EAGLE) is not None
    assert not seen.runs(EAGLE)
    assert not seen.runs(None)


BROKEN = ["0013-p-abcdef", "0014-p-abcdef", "0015-p-abcdef", "0016-p-abcdef"]


def test_a_release_that_cannot_be_read_may_go_unless_a_person_may_want_it_mended():
    serving, named, before_it, nobodys = BROKEN
    state = State(serving=serving, snapshots={"good": named, "before-x": nobodys})
    gone = prunable(state, {}, [before_it, serving], 5, {}, BROKEN)
    assert list(gone) == [nobodys]
    assert "cannot be read" in gone[nobodys]


def test_the_way_back_is_the_one_that_can_be_read():
    good, last = list(MANY)[:2]
    gone = prunable(State(serving=last), MANY, [good, BROKEN[0], last], 0, {}, BROKEN)
    assert good not in gone
    assert gone.keys() & {*BROKEN} == {*BROKEN[1:]}
