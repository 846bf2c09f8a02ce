"""A wish to stop is answered at a moment when it can be, and once."""

import asyncio
import os
import signal

import pytest

from b70ctl.edge.signals import ASKED, Interrupts, held_back
from b70ctl.errors import Exit, Interrupted

HANG_UPS = [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture
def said():
    return []


def interrupts(said, *, terminal=True, working=True):
    found = Interrupts(terminal=terminal, warn=said.append)
    if working:
        found.begin()
    return found


def test_on_a_terminal_the_first_ctrl_c_only_says_what_a_second_would_do(said):
    with interrupts(said).watched():
        press()
        assert len(said) == 1
        assert "again" in said[0]
        with pytest.raises(Interrupted) as stopped:
            press()
    assert stopped.value.exit_code is Exit.INTERRUPTED


def test_before_a_plan_was_begun_one_ctrl_c_is_enough(said):
    with interrupts(said, working=False).watched(), pytest.raises(Interrupted):
        press()
    assert said == []


def test_without_a_terminal_the_first_ctrl_c_stops(said):
    with interrupts(said, terminal=False).watched(), pytest.raises(Interrupted):
        press()
    assert said == []


@pytest.mark.parametrize("number", HANG_UPS)
@pytest.mark.parametrize("terminal", [True, False])
def test_the_system_asks_once(said, number, terminal):
    with interrupts(said, terminal=terminal).watched(), pytest.raises(Interrupted, match=number.name):
        press(number)


def test_a_shielded_block_is_finished_first(said):
    found = interrupts(said, terminal=False)
    reached = []
    with found.watched(), pytest.raises(Interrupted):
        with found.shielded():
            press()
            with found.shielded():
                press(signal.SIGTERM)
            reached.append("the end of the block")
        reached.append("never")
    assert reached == ["the end of the block"]


def test_a_shield_without_a_signal_is_nothing(said):
    found = interrupts(said)
    with found.watched(), found.shielded():
        pass
    assert said == []


def test_an_error_in_a_shielded_block_is_not_hidden_by_the_signal(said):
    found = interrupts(said, terminal=False)
    with found.watched(), pytest.raises(ValueError, match="disk"), found.shielded():
        press()
        raise ValueError("disk")


@pytest.mark.parametrize("number", HANG_UPS)
def test_on_the_way_back_the_system_is_not_listened_to(said, number):
    found = interrupts(said)
    with found.watched():
        found.begin_undo()
        press(number)
        press(number)
    assert said == []


def test_the_third_press_stops_the_waiting(said):
    found = interrupts(said)
    with found.watched():
        press()
        with pytest.raises(Interrupted):
            press()
        found.begin_undo()
        with pytest.raises(Interrupted):
            press()


def test_on_the_way_back_from_a_failure_a_person_is_told_and_then_obeyed(said):
    found = interrupts(said)
    with found.watched():
        found.begin_undo()
        press()
        assert "recover" in said[-1]
        with pytest.raises(Interrupted):
            press()


def test_on_the_way_back_without_a_terminal_one_ctrl_c_stops_the_waiting(said):
    found = interrupts(said, terminal=False)
    with found.watched():
        found.begin_undo()
        with pytest.raises(Interrupted):
            press()


def test_what_was_asked_before_the_way_back_is_answered_by_it(said):
    found = interrupts(said, terminal=False)
    with found.watched():
        with pytest.raises(ValueError, match="x"), found.shielded():
            press()
            raise ValueError("x")
        found.begin_undo()
        with found.shielded():
            pass


def test_afterwards_signals_mean_what_they_meant_before(said):
    before = [signal.getsignal(number) for number in ASKED]
    with interrupts(said).watched():
        assert [signal.getsignal(number) for number in ASKED] != before
    assert [signal.getsignal(number) for number in ASKED] == before


@pytest.mark.parametrize("number", ASKED)
def test_a_result_that_is_recorded_stands_whatever_comes_afterwards(said, number):
    found = interrupts(said, terminal=False)
    with found.watched():
        with found.shielded():
            press(number)
            found.end()
        press(number)
    press(number)
    assert Interrupts.heard is number
    assert said == []


def test_a_result_is_one_of_its_command_and_who_called_that_is_asked_to_stop(said):
    outer, inner = interrupts(said, terminal=False), interrupts(said, terminal=False)
    with outer.watched(), pytest.raises(Interrupted):
        with inner.watched():
            inner.end()
        press()
    inner.begin()
    with inner.watched(), pytest.raises(Interrupted):
        press()


def test_inside_a_callback_of_an_event_loop_a_signal_is_answered_at_once(said):
    async def wait():
        asyncio.get_running_loop().call_soon(press, signal.SIGTERM)
        await asyncio.sleep(20)
        said.append("it waited to the end")

    with interrupts(said).watched(), pytest.raises(Interrupted, match="SIGTERM"):
        asyncio.run(wait())
    assert said == []


def test_a_signal_that_is_ignored_stays_ignored(said):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts(said, terminal=False).watched():
            press(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_while_a_persons_command_runs_ctrl_c_is_said_to_be_its_own(said):
    found = interrupts(said)
    with found.watched(), found.attended():
        press()
    assert "what served is put back" in said[0]
    assert "again undoes" not in said[0]


@pytest.mark.parametrize("number", ASKED)
def test_what_comes_while_it_is_held_back_is_answered_at_the_end(said, number):
    reached = []
    with interrupts(said, terminal=False).watched(), pytest.raises(Interrupted):
        with held_back():
            press(number)
            reached.append("the end of the block")
        reached.append("never")
    assert reached == ["the end of the block"]


def test_nothing_is_left_of_a_block_that_held_signals_back(said):
    before = [signal.getsignal(number) for number in ASKED]
    with pytest.raises(ValueError, match="x"), held_back():
        raise ValueError("x")
    assert [signal.getsignal(number) for number in ASKED] == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
