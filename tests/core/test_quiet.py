"""Whether a box is quiet: what is seen is told, and what cannot be seen is never called quiet."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.quiet import Box, CardSeen, Inside, lasting, signs
from b70ctl.core.sockets import ESTABLISHED, SYN_RECV, Socket, read_sockets

GIB = 2**30
TIME_WAIT, LISTEN = 0x06, 0x0A
CARD = CardSeen(address="0000:03:00.0", holders=(), memory=(32 * GIB, 2**20))
CLIENT = Socket("172.18.0.2", 8000, "10.0.0.9", 51234, ESTABLISHED)
QUIET = {
    "port": 8000, "host": (), "inside": None, "running": (), "feeders": ("10.0.0.9",), "load": 0.1, "load_limit": 1.0,
    "cards": (CARD,), "root": True,
}  # fmt: skip
QUESTIONS = ["no client is connected", "no feeder is connected", "the load average is low", "nothing of this site runs",
             "nobody holds the card", "the card's memory is free"]  # fmt: skip


def found(**changes):
    return {sign.question: sign for sign in signs(Box(**QUIET | changes))}


def inside(*sockets, ports=(8000,)):
    return Inside(container="e", ports=ports, sockets=sockets)


def to_port(port, state=ESTABLISHED, remote="10.0.0.5"):
    return Socket("10.0.0.1", port, remote, 40000, state)


def test_a_box_where_nothing_goes_on_is_quiet():
    assert {name: sign.answer for name, sign in found().items()} == dict.fromkeys(QUESTIONS, "yes")


@pytest.mark.parametrize(
    ("changes", "question", "evidence"),
    [
        ({"host": (to_port(8000),)}, QUESTIONS[0], "10.0.0.5:40000 to port 8000"),
        ({"host": (to_port(8000, SYN_RECV),)}, QUESTIONS[0], "10.0.0.5:40000"),
        ({"inside": inside(CLIENT)}, QUESTIONS[0], "10.0.0.9:51234 inside the engine's container"),
        ({"inside": inside(CLIENT), "host": None, "running": None}, QUESTIONS[0], "10.0.0.9"),
        ({"host": (to_port(22, remote="10.0.0.9"),)}, QUESTIONS[1], "10.0.0.9:40000"),
        ({"inside": inside(CLIENT)}, QUESTIONS[1], "10.0.0.9:51234"),
        ({"load": 1.01}, QUESTIONS[2], "1.01 over the last minute, limit 1"),
        ({"running": ("b70-engine",)}, QUESTIONS[3], "b70-engine"),
        ({"cards": (CardSeen(address="a", holders=("process 7 (vllm)",)),)}, QUESTIONS[4], "a: process 7 (vllm)"),
        ({"cards": (CardSeen(address="a", holders=("process 7 (x)",)),), "root": False}, QUESTIONS[4], "process 7"),
        ({"cards": (CardSeen(address="a", holders=(), memory=(32 * GIB, 30 * GIB)),)}, QUESTIONS[5],
         "a: 2048 of 32768 MiB are free"),
    ],
)  # fmt: skip
def test_what_is_seen_is_told(changes, question, evidence):
    sign = found(**changes)[question]
    assert sign.answer == "no"
    assert evidence in sign.evidence


@pytest.mark.parametrize(
    ("changes", "question"),
    [
        ({"host": None}, QUESTIONS[0]),
        ({"running": None}, QUESTIONS[0]),
        ({"inside": Inside(container="e", ports=(8000,), sockets=None)}, QUESTIONS[0]),
        ({"host": None}, QUESTIONS[1]),
        ({"running": None}, QUESTIONS[1]),
        ({"inside": Inside(container="e", ports=(8000,), sockets=None)}, QUESTIONS[1]),
        ({"running": None}, QUESTIONS[3]),
        ({"cards": ()}, QUESTIONS[4]),
        ({"root": False}, QUESTIONS[4]),
        ({"cards": ()}, QUESTIONS[5]),
        ({"cards": (CARD, CardSeen(address="b", holders=()))}, QUESTIONS[5]),
    ],
)
def test_what_cannot_be_seen_is_unknown_and_says_why(changes, question):
    sign = found(**changes)[question]
    assert sign.answer == "unknown"
    assert sign.evidence


@pytest.mark.parametrize(
    "changes",
    [
        {"host": (to_port(8000, TIME_WAIT), to_port(8000, LISTEN))},
        {"host": (to_port(8001),)},
        {"inside": inside(Socket("127.0.0.1", 8000, "127.0.0.1", 40000, ESTABLISHED))},
        {"inside": inside(Socket("172.18.0.2", 40000, "10.0.0.5", 443, ESTABLISHED))},
    ],
    ids=["nobody at the other end", "another port", "its own health check", "it calls out"],
)
def test_what_is_no_client_is_not_told_as_one(changes):
    assert found(**changes)[QUESTIONS[0]].answer == "yes"


@pytest.mark.parametrize(
    ("changes", "questions"),
    [({"feeders": ()}, QUESTIONS[1:2]), ({"cards": (), "cardless": True}, QUESTIONS[4:6])],
)
def test_a_question_about_nothing_is_said_not_to_be_asked_and_disturbs_nobody(changes, questions):
    for question in questions:
        sign = found(**changes)[question]
        assert (sign.answer, sign.quiet) == ("not asked", True)


@pytest.mark.parametrize("root", [False, True])
def test_memory_that_debugfs_does_not_tell_is_put_down_to_the_user_only_where_it_is_his(root):
    sign = found(cards=(CardSeen(address="a", holders=()),), root=root)[QUESTIONS[5]]
    assert (sign.answer, "root" in sign.evidence) == ("unknown", not root)


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ({}, ["yes", "yes"]),
        ({"load": 4.2}, ["yes", "no"]),
        ({"host": (to_port(9100, remote="10.0.0.9"),)}, ["no", "yes"]),
        # these end with the engine
        ({"host": (to_port(8000, remote="10.0.0.9"),)}, ["yes", "yes"]),
        ({"inside": inside(CLIENT), "running": ("e",)}, ["yes", "yes"]),
        ({"feeders": ()}, ["not asked", "yes"]),
        ({"host": None}, ["unknown", "yes"]),
    ],
)
def test_before_a_drain_only_that_counts_which_it_does_not_change(changes, answers):
    assert [sign.answer for sign in lasting(Box(**QUIET | changes))] == answers


def test_a_long_list_is_cut_and_counted():
    sign = found(host=tuple(to_port(8000, remote=f"10.0.0.{last}") for last in range(1, 10)))[QUESTIONS[0]]
    assert sign.evidence.endswith("5 more")


# -- the kernel's tables ---------------------------------------------------------------------------------------------

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(local, local_port, remote, remote_port, state):
    def end(address, port):
        packed = ipaddress.ip_address(address).packed
        words = (packed[at : at + 4][::-1].hex().upper() for at in range(0, len(packed), 4))
        return f"{''.join(words)}:{port:04X}"

    return (
        f"   0: {end(local, local_port)} {end(remote, remote_port)} {state:02X} 00000000:00000000 00:00000000 0 0 0\n"
    )


ports = st.integers(0, 65535)
pairs = st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)) | st.tuples(st.ip_addresses(v=6), st.ip_addresses(v=6))


@given(st.lists(st.tuples(pairs, ports, ports, st.integers(1, 12)), max_size=5))
def test_every_socket_of_a_table_is_read_as_it_was_written(rows):
    text = HEAD + "".join(row(*pair[:1], local, pair[1], remote, state) for pair, local, remote, state in rows)
    plain = [str(getattr(each, "ipv4_mapped", None) or each) for pair, *_ in rows for each in pair]
    read = read_sockets(text)
    assert [end for socket in read for end in (socket.local, socket.remote)] == plain
    assert [(socket.local_port, socket.remote_port, socket.state) for socket in read] == [each[1:] for each in rows]


@given(st.text(max_size=200))
def test_a_table_that_is_none_holds_no_socket_and_breaks_nothing(text):
    read_sockets(text)
    assert read_sockets(HEAD) == ()


def test_a_client_over_ipv4_is_one_in_the_table_of_ipv6_too():
    [socket] = read_sockets("  1: 0000000000000000FFFF00000100007F:1F40 0000000000000000FFFF00000500000A:C822 01 x\n")
    assert (socket.local, socket.remote, socket.peer) == ("127.0.0.1", "10.0.0.5", "10.0.0.5:51234")
