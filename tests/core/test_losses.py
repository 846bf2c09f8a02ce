"""Requests that were cut off are never counted as ended, and what is not known is not called none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.losses import FRESH, held_words, lost, lost_words

counts = st.none() | st.integers(0, 1000)
seconds = st.floats(0, 1000)
graces = st.none() | st.integers(1, 600)


@given(counts, seconds, seconds, graces)
def test_none_was_lost_only_where_none_was_left_or_the_grace_was_not_used_up(requests, age, took, grace):
    found = lost(requests, age=age, seconds=took, grace=grace)
    assert (found == 0) is (requests == 0 or (grace is not None and took < grace))


@given(st.integers(1, 1000), seconds, st.floats(30, 100))
def test_what_was_in_flight_when_the_grace_ended_was_cut_off_as_far_as_it_is_known(requests, age, took):
    assert lost(requests, age=age, seconds=took, grace=30) == (requests if age <= FRESH else None)


@given(counts, st.floats(0, FRESH), seconds)
def test_an_engine_whose_grace_is_not_known_lost_what_it_was_last_seen_to_have(requests, age, took):
    assert lost(requests, age=age, seconds=took, grace=None) == requests


@pytest.mark.parametrize(
    ("requests", "words"),
    [(0, None), (1, "1 request was cut off"), (7, "7 requests were cut off"),
     (None, "whether requests were cut off is not known")],
)  # fmt: skip
def test_a_loss_is_told_and_no_loss_is_not(requests, words):
    assert lost_words(requests) == words


def test_figures_that_an_engine_does_not_give_are_not_called_nought():
    assert held_words(3, 1) == "3 running, 1 waiting"
    assert held_words(None, 0) == held_words(0, None) == "it does not say how many requests it has"
