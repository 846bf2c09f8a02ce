"""The sieve lets no line pass that a pattern could match, and spares the others."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.diagnosis import Reader
from b70ctl.core.suspect import atoms
from b70ctl.core.symptoms import Sieve, needles
from b70ctl.edge.diagnoses import read_causes

CAUSES = read_causes(None)
PATTERNS = sorted({atom.pattern for cause in CAUSES for atom in atoms(cause)})
LOOKING = re.compile(r"\(\?<?[=!]|\\b|\^|\$")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("plain words", ("plain words",)),
        (r"a\.b: \d+ bytes", (" bytes",)),
        ("one|two", ("one", "two")),
        (r"(?:first|second) thing", (" thing",)),
        (r"\w+(?:first|second)", ("first", "second")),
        ("colou?r of it", ("r of it",)),
        ("lots+ of", ("lots",)),
        ("abc{2}def", ("abc",)),
        ("abc{0,2}def", ("def",)),
        ("[wW]ords [^]x]here", ("ords ",)),
        (r"(?!nothing)here", ("here",)),
        (r"some(?:thing)?", ("some",)),
        (r"\(literally\)", ("(literally)",)),
        ("a.*?b|exactly", ValueError),
        (r"\d+|\w*", ValueError),
        ("ab", ValueError),
        ("12345678", ValueError),
        (r"(?i)words", ValueError),
        (r"\x41\x42words", ValueError),
    ],
)
def test_needles_are_what_stands_plain_in_every_alternative(pattern, expected):
    if expected is ValueError:
        with pytest.raises(ValueError, match=r"plain|understood|character"):
            needles(pattern)
    else:
        assert needles(pattern) == expected


@given(st.data())
def test_whatever_a_shipped_pattern_matches_contains_one_of_its_needles(data):
    pattern = data.draw(st.sampled_from(PATTERNS))
    # looking around and at word ends cannot be generated from; what is left of the pattern matches more
    text = data.draw(st.from_regex(re.compile(re.sub(r"\(\?<?[=!][^()]*\)", "", pattern), re.ASCII)))
    assert any(needle in text for needle in needles(pattern)), pattern


LINES = st.lists(st.text(st.sampled_from("ab c12\t-:ü"), max_size=12), max_size=30)
NEEDLES = st.lists(st.text(st.sampled_from("abc :"), min_size=3, max_size=5).filter(str.strip), min_size=1, max_size=4)


@given(st.lists(LINES, max_size=4), NEEDLES)
def test_the_sieve_finds_every_line_with_a_needle_block_after_block(blocks, texts):
    sieve = Sieve(texts)
    for lines in blocks:
        found = sieve([line.encode() for line in lines])
        for index, line in enumerate(lines):
            assert {text for text in texts if text in line} <= set(found.get(index, ()))
        assert list(found) == sorted(found)


@given(LINES)
def test_a_line_is_judged_alike_however_often_it_comes(lines):
    sieve = Sieve(["abc", "a b", ": c"])
    blocks = [line.encode() for line in lines]
    first = sieve(blocks)
    assert sieve(blocks) == first
    assert sieve(blocks * 2) == first | {index + len(lines): texts for index, texts in first.items()}


def test_needles_that_differ_by_digits_are_both_told():
    assert set(Sieve(["line4: abort", "line5: abort"])([b"at line5: abort"])[0]) == {"line4: abort", "line5: abort"}


def test_what_was_seen_is_forgotten_before_it_takes_too_much_memory():
    sieve = Sieve(["needle"])
    for number in range(40):
        filler = [b"x" * 30_000 + b" " + b"y" * (number * 50 + each) for each in range(50)]
        assert sieve([*filler, b"a needle here"]) == {50: ["needle"]}
    # 60 MB went by; one block more than the limit may be kept
    assert sum(map(len, sieve._seen)) < 14_000_000


BUSY = [
    b'(APIServer pid=1) INFO:     172.18.0.1:51010 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    b'(APIServer pid=1) INFO:     127.0.0.1:40000 - "GET /health HTTP/1.1" 200 OK',
    b'(APIServer pid=1) INFO:     127.0.0.1:40000 - "GET /metrics HTTP/1.1" 200 OK',
    (
        b"(APIServer pid=1) INFO 07-04 12:00:10 [loggers.py:257] Engine 000: Avg prompt throughput: 812.4 tokens/s, "
        b"Avg generation throughput: 51.2 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.3%, "
        b"Prefix cache hit rate: 47.3%"
    ),
]


def test_lines_of_a_busy_server_are_none_that_any_shipped_pattern_asks_for():
    assert Reader(CAUSES)._everything(BUSY) == {}
