"""What runs is what Docker says runs; what is recorded only says which of it is meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.plan import Plan
from b70ctl.core.release import Container, Drained, Observed, State
from b70ctl.core.standing import (
    after,
    called_otherwise,
    down,
    incumbent,
    leaving,
    leftovers,
    paused,
    resting,
    serves_already,
)
from b70ctl.core.window import plan_window
from tests.making import a_profile, a_release, a_verdict, resolved

ONE, TWO = a_release(1, "one"), a_release(2, "two")
ADOPTED = a_release(3, "by-hand", kind="adopted", container="hand")
KEPT = {release.id: release for release in (ONE, TWO, ADOPTED)}
RUNNING = ("running", "restarting", "paused")
STATES = (*RUNNING, "created", "exited", "dead")


def container(release, state="running", **more):
    return Container(
        id=release.container or f"c-{release.id}", name=release.id, release=release.id, state=state, **more
    )


def observed(*containers):
    return Observed(containers=containers)


@pytest.mark.parametrize(("state", "told", "typed"), [
    ("exited", "has ended, with exit 3", "b70ctl start"), ("dead", "has ended", "b70ctl start"),
    ("restarting", "ends over and over, with exit 3", "b70ctl restart"),
])  # fmt: skip
def test_an_engine_that_is_down_is_told_with_how_it_ended_and_what_starts_it(state, told, typed):
    what, start = down(ONE.id, observed(container(ONE, state, exit_code=3), container(TWO)))
    assert (f"{ONE.id} {told}" in what, start) == (True, typed)


def test_an_engine_whose_container_is_gone_or_anothers_is_down_and_one_that_is_paused_is_not():
    assert down(ONE.id, observed(container(TWO)))[0] == f"the container of {ONE.id} is gone"
    assert "is gone" in down(ONE.id, observed(container(ONE, foreign=True)))[0]
    assert down(ONE.id, observed(container(ONE, "paused"))) is None
    assert down(ONE.id, observed(container(ONE))) is None


@pytest.mark.parametrize("state", STATES)
def test_only_a_container_that_is_paused_is_gone_on_with(state):
    found = paused(ONE.id, observed(container(ONE, state), container(TWO, "paused")))
    assert found == ((f"{ONE.id} is paused, so it answers nobody", f"docker unpause {ONE.id}")
                     if state == "paused" else None)  # fmt: skip


# -- the incumbent ----------------------------------------------------------------------------------------------------


def test_the_recorded_release_is_the_incumbent_where_it_runs():
    both = observed(container(TWO), container(ONE))
    assert incumbent(State(serving=ONE.id), both) == ONE.id


@pytest.mark.parametrize("serving", [None, ONE.id, "0009-forgotten"])
def test_another_of_ours_that_runs_is_the_incumbent_where_the_recorded_one_does_not(serving):
    assert incumbent(State(serving=serving), observed(container(ONE, "exited"), container(TWO))) == TWO.id


def test_a_container_that_we_did_not_make_is_no_incumbent():
    assert incumbent(State(serving=ONE.id), observed(container(ONE, foreign=True))) is None


@given(st.sampled_from(STATES), st.booleans(), st.sampled_from([None, ONE.id, TWO.id]))
def test_the_incumbent_always_runs_and_is_ours(state, foreign, serving):
    found = incumbent(State(serving=serving), observed(container(ONE, state, foreign=foreign)))
    assert found == (ONE.id if state in RUNNING and not foreign else None)


# -- what is left over, and what leaves -------------------------------------------------------------------------------


def test_containers_beside_the_incumbents_are_left_over_but_not_those_made_by_hand_or_by_others():
    seen = observed(container(ONE, "exited"), container(TWO), container(ADOPTED, "exited"))
    assert leftovers(KEPT, seen, TWO.id) == (ONE.id,)
    assert leftovers(KEPT, seen, None) == (ONE.id, TWO.id)
    assert leftovers(KEPT, observed(container(ONE, foreign=True)), None) == ()


def test_a_foreign_container_of_a_release_that_is_not_kept_is_in_nobodys_way():
    stranger = Container(id="x", name="x", release="0099-unknown", state="running", foreign=True)
    assert leftovers(KEPT, observed(stranger), None) == ()
    assert incumbent(State(), observed(stranger)) is None


def test_the_containers_of_the_releases_that_leave_are_known_by_id():
    seen = observed(
        container(ONE), container(TWO, "exited"), container(ONE, foreign=True).model_copy(update={"id": "x"})
    )
    assert leaving(seen, ONE) == {f"c-{ONE.id}"}
    assert leaving(seen, ONE, None, TWO) == {f"c-{ONE.id}", f"c-{TWO.id}"}
    assert leaving(seen) == leaving(seen, None) == set()


def test_a_container_that_is_about_to_be_adopted_leaves_too():
    assert leaving(observed(), ADOPTED) == {"hand"}


# -- whether anything needs to change ---------------------------------------------------------------------------------


def test_what_runs_proven_and_is_wanted_again_needs_no_change():
    assert serves_already(ONE, ONE.deployment, observed(container(ONE)), a_verdict())


@pytest.mark.parametrize(
    ("release", "seen", "verdict"),
    [
        (None, observed(container(ONE)), a_verdict()),
        (ONE, observed(), a_verdict()),
        (ONE, observed(container(ONE, "restarting")), a_verdict()),
        (ONE, observed(container(ONE, "exited")), a_verdict()),
        (ONE, observed(container(ONE, foreign=True)), a_verdict()),
        (ONE, observed(container(ONE)), None),
        (ONE, observed(container(ONE)), a_verdict("failed")),
        (ONE, observed(container(ONE)), a_verdict("interrupted")),
    ],
    ids=["no release", "gone", "restarts", "exited", "foreign", "never proven", "failed", "interrupted"],
)
def test_what_does_not_run_or_was_not_proven_does_not_serve_already(release, seen, verdict):
    assert not serves_already(release, ONE.deployment, seen, verdict)


def test_another_deployment_does_not_serve_already():
    other = resolved(a_profile(engine={"max_model_len": 4096}), name="one")
    assert not serves_already(ONE, other, observed(container(ONE)), a_verdict())


def test_a_changed_file_of_the_host_is_another_deployment():
    carried = ONE.deployment.model_copy(update={"contents": {"secrets.env": "0123"}})
    assert not serves_already(ONE, carried, observed(container(ONE)), a_verdict())


# -- whether it is to be followed --------------------------------------------------------------------------------------


def test_a_site_that_its_owner_took_out_of_service_is_left_alone():
    assert resting(State(serving="r")) is None
    assert resting(State()) is not None
    assert "stopped" in str(resting(State(serving="r", stopped=True)))
    assert "since now" in str(resting(State(serving="r", drained=Drained(at="now", release="r"))))


# -- a site that was renamed ------------------------------------------------------------------------------------------

PAST = a_release(4, "past", resolved().model_copy(update={"site": "before"}))
SINCE = Drained(at="t", release=PAST.id)


@pytest.mark.parametrize(
    ("state", "cut", "noticed"),
    [
        (State(serving=PAST.id), None, True),
        (State(serving=PAST.id, stopped=True), None, False),
        (State(serving=PAST.id, stopped=True, drained=SINCE), None, True),
        (State(serving=PAST.id, stopped=True), Plan(command="start"), True),
        (State(), Plan(command="switch", wanted=PAST.id), True),
        (State(), Plan(command="switch", incumbent=PAST.id), True),
        (State(), Plan(command="window", tried=(PAST.id,)), True),
        (State(), None, False),
        (State(serving="gone"), None, False),
    ],
)
def test_a_site_is_not_renamed_while_its_engine_is_at_work(state, cut, noticed):
    kept = {PAST.id: PAST}
    assert called_otherwise(state, cut, kept, "now") is (PAST if noticed else None)
    assert called_otherwise(state, cut, kept, "before") is None


def test_after_a_recovery_the_dark_engine_is_gone_and_what_served_runs():
    seen = Observed(containers=tuple(
        Container(id=f"c-{name}", name=name, release=name, state=state)
        for name, state in (("prod", "exited"), ("dark", "running"))
    ))  # fmt: skip
    undo = plan_window(["dark"], "prod", does="x", port=8001, limit=0).undo
    found = after(undo, seen)
    assert found.runs("prod")
    assert not found.runs("dark")
    assert incumbent(State(serving="prod"), found) == "prod"
