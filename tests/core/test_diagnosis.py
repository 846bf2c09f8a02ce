"""A log's cause is named, and nothing else is."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from b70ctl.core.bootlog import Stage
from b70ctl.core.cause import Cause
from b70ctl.core.diagnosis import Reader, State, diagnose_text
from b70ctl.core.suspect import atoms
from b70ctl.edge.catalog import open_catalog
from b70ctl.edge.diagnoses import read_causes

CAUSES = read_causes(None)
KINDS = {cause.id: cause.kind for cause in CAUSES}
TESTS = Path(__file__).parent.parent
LOGS = sorted((TESTS / "diagnoses").glob("*.log"))
BOOTLOGS = sorted((TESTS / "core" / "bootlogs").glob("vllm-*.log"))
HEALTHY = {path.name: path.read_bytes().decode().removesuffix("\n").split("\n") for path in BOOTLOGS}
BANNER = "(APIServer pid=1) INFO 07-04 12:00:00 [utils.py:286] vLLM server version {}, serving model /models/m"
SERVING = "(APIServer pid=1) INFO:     Application startup complete."


def made(**fields):
    basis = {
        "id": "made", "title": "made", "patterns": ["symptom"], "cause": "a reason", "fix": "a fix", "source": "us",
        "confidence": "certain", "examples": ["symptom"],
    }  # fmt: skip
    return Cause.model_validate(basis | fields)


def ids(found):
    return [finding.cause.id for finding in found.findings]


def told(causes, *lines, **options):
    return diagnose_text(lines, causes, **options)


# --- what is shipped --------------------------------------------------------------------------------------------------


def test_there_are_more_than_eighty_causes_and_each_is_one():
    assert len(CAUSES) >= 80
    assert len({cause.title for cause in CAUSES}) == len(CAUSES)


EXAMPLES = [(cause.id, number, text) for cause in CAUSES for number, text in enumerate(cause.examples)]


@pytest.mark.parametrize(("cause", "text"), [pytest.param(i, t, id=f"{i}-{n}") for i, n, t in EXAMPLES])
def test_each_example_is_found_to_be_its_own_cause_before_all_others(cause, text):
    assert ids(diagnose_text(text.splitlines(), CAUSES))[:1] == [cause]


def test_a_script_that_does_not_fit_is_answered_without_the_ranges_of_others():
    # it may be one of the owner's own
    [cause] = [cause for cause in CAUSES if cause.id == "anchor-not-found"]
    assert [name for name in open_catalog(None).patches() if name in cause.fix] == []


@pytest.mark.parametrize(
    ("cause", "text"), [pytest.param(c.id, t, id=c.id) for c in CAUSES for t in c.not_examples]
)  # fmt: skip
def test_what_looks_alike_is_not_taken_for_it(cause, text):
    assert cause not in ids(diagnose_text(text.splitlines(), CAUSES))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_whole_log_tells_its_cause_first(path):
    found = diagnose_text(path.read_text().splitlines(), CAUSES)
    wanted = path.name.split(".")[0]
    if wanted in {state.value for state in State}:
        assert (found.state.value, ids(found)) == (wanted, [])
    elif KINDS[wanted] == "warning":
        assert (found.state, ids(found)) == (State.HEALTHY, [wanted])
    else:
        assert (found.state, ids(found)[0]) == (State.EXPLAINED, wanted)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_boot_has_no_cause_of_anything(name):
    found = diagnose_text(HEALTHY[name], CAUSES)
    assert (found.state, found.findings, found.first_error) == (State.HEALTHY, (), None)
    assert found.stage is Stage.SERVING


@given(st.data())
def test_a_boot_that_goes_on_is_not_ill_wherever_one_looks(data):
    lines = data.draw(st.sampled_from(list(HEALTHY.values())))
    found = diagnose_text(lines[: data.draw(st.integers(0, len(lines)))], CAUSES, over=False)
    assert found.findings == ()
    assert found.state in (State.BOOTING, State.HEALTHY)


def test_a_stop_that_is_seen_only_in_passing_still_explains_what_follows_it():
    lines = HEALTHY["vllm-0.32.0-cpu.log"]
    busy = ['INFO:     127.0.0.1:4000 - "POST /v1/chat/completions HTTP/1.1" 200 OK'] * 30_000
    stop = next(at for at, line in enumerate(lines) if "shutdown triggered" in line)
    found = diagnose_text([*lines[:stop], *busy, *lines[stop:]], CAUSES)
    assert (found.state, found.findings, found.first_error) == (State.HEALTHY, (), None)
    found = diagnose_text([*lines[:stop], *busy, *(line for line in lines[stop:] if "hutdown]" not in line)], CAUSES)
    assert found.first_error is not None


def test_a_long_healthy_access_log_has_no_cause_of_anything():
    lines = [
        f'(APIServer pid=1) INFO:     172.18.0.1:{1024 + n % 60000} - "POST /v1/chat/completions HTTP/1.1" '
        f"{(200, 200, 200, 400)[n % 4]} OK"
        for n in range(20_000)
    ]
    found = diagnose_text([*HEALTHY["vllm-0.30.0-colour.log"], *lines], CAUSES)
    assert (found.state, found.findings) == (State.HEALTHY, ())


def test_every_pattern_of_a_shipped_cause_says_in_its_text_what_to_type_or_do():
    for cause in CAUSES:
        assert len(cause.fix) > 20, cause.id
        assert not cause.title.endswith("."), cause.id


# --- conditions -------------------------------------------------------------------------------------------------------


def test_what_must_stand_near_counts_before_and_after_and_only_near():
    cause = made(also=["beside it"], within=2)
    assert ids(told([cause], "beside it", "x", "symptom")) == ["made"]
    assert ids(told([cause], "symptom", "x", "beside it")) == ["made"]
    assert ids(told([cause], "symptom beside it")) == ["made"]
    assert ids(told([cause], "symptom", "x", "x", "beside it")) == []
    assert ids(told([cause], "beside it", "x", "x", "symptom")) == []
    assert ids(told([cause], "symptom")) == []


def test_all_that_must_stand_near_has_to_and_its_lines_are_shown():
    cause = made(also=["one thing", "another thing"], within=3)
    assert ids(told([cause], "one thing", "symptom")) == []
    [finding] = told([cause], "one thing", "symptom", "x", "another thing").findings
    assert [line.number for line in finding.lines] == [1, 2, 4]


def test_what_must_not_stand_near_speaks_against_it_before_and_after():
    cause = made(unless=["harmless"], within=2)
    assert ids(told([cause], "harmless", "symptom")) == []
    assert ids(told([cause], "symptom", "x", "harmless")) == []
    assert ids(told([cause], "symptom harmless")) == []
    assert ids(told([cause], "symptom", "x", "x", "harmless")) == ["made"]


def test_on_its_own_line_alone_when_nothing_is_near():
    cause = made(unless=["harmless"], within=0)
    assert ids(told([cause], "symptom harmless", "symptom")) == ["made"]


def test_what_must_stand_before_is_looked_for_in_this_boot_only():
    cause = made(after=["startup complete"], not_after=["several cards"])
    assert ids(told([cause], "symptom")) == []
    assert ids(told([cause], SERVING, "symptom")) == ["made"]
    assert ids(told([cause], "several cards", SERVING, "symptom")) == []
    assert ids(told([cause], SERVING, BANNER.format("0.21.0"), "symptom")) == []
    assert ids(told([cause], "several cards", SERVING, BANNER.format("0.21.0"), SERVING, "symptom")) == ["made"]


def test_silence_counts_only_at_the_end_of_a_log_that_is_over_and_tells_no_fault():
    cause = made(at_end=True, unless=["done with it"])
    start = BANNER.format("0.21.0")
    assert ids(told([cause], start, "symptom")) == ["made"]
    assert ids(told([cause], start, "symptom", over=False)) == []
    assert ids(told([cause], start, "symptom", *["x"] * 30)) == []
    assert ids(told([cause], start, "symptom", "x", "done with it")) == []
    assert ids(told([cause], start, "symptom", SERVING)) == []
    assert ids(told([cause], start, "symptom", "Traceback (most recent call last):", "ValueError: x")) == []


def test_a_version_out_of_range_is_not_it_and_an_unknown_one_is_less_sure():
    cause = made(versions="<0.23")
    [finding] = told([cause], BANNER.format("0.21.1.dev17+g0a4756bb5"), "symptom").findings
    assert finding.confidence == "certain"
    assert ids(told([cause], BANNER.format("0.33.0"), "symptom")) == []
    [finding] = told([cause], "symptom").findings
    assert finding.confidence == "likely"
    assert ids(told([cause], "symptom", vllm="0.23.0")) == []


def test_a_version_that_the_engine_tells_later_counts_too():
    line = (
        "(EngineCore pid=133) INFO 07-04 12:00:19 [core.py:109] Initializing a V1 LLM engine (v0.33.0) with config: x"
    )
    assert ids(told([made(versions="<0.23")], "symptom", line)) == []


# --- many of them -----------------------------------------------------------------------------------------------------


def test_a_repeated_symptom_is_counted_and_shown_a_few_times():
    [finding] = told([made()], *["symptom"] * 500).findings
    assert finding.count == 500
    assert [line.number for line in finding.lines] == [1, 2, 3]


def test_the_first_fault_comes_first_and_warnings_last():
    causes = [
        made(id="late", patterns=["late one"]),
        made(id="warning", patterns=["mere warning"], kind="warning"),
        made(id="early", patterns=["early one"], confidence="possible"),
    ]
    assert ids(told(causes, "mere warning", "early one", "late one")) == ["early", "late", "warning"]


def test_on_the_same_line_the_surer_one_is_left():
    causes = [made(id="vague", confidence="possible"), made(id="sure", patterns=["symptom of it"])]
    assert ids(told(causes, "symptom of it")) == ["sure"]
    assert ids(told(causes, "symptom of it", "symptom")) == ["sure", "vague"]


def test_the_last_boot_that_failed_comes_before_earlier_ones():
    causes = [made(id="first", patterns=["first one"]), made(id="second", patterns=["second one"])]
    start = BANNER.format("0.21.0")
    crash = "Traceback (most recent call last):"
    found = told(causes, start, crash, "ValueError: first one", start, crash, "ValueError: second one")
    assert ids(found) == ["second", "first"]
    assert found.first_error.number == 6


def test_lines_of_the_last_boot_that_had_it_are_shown():
    start = BANNER.format("0.21.0")
    [finding] = told([made()], start, SERVING, "symptom", start, SERVING, "symptom").findings
    assert (finding.count, [line.number for line in finding.lines]) == (2, [6])


# --- the state of a log -----------------------------------------------------------------------------------------------

TRACE = ("(EngineCore pid=2) Traceback (most recent call last):", '(EngineCore pid=2)   File "x", line 1, in y')


def test_an_unknown_failure_is_unknown_and_shows_its_root_and_the_last_lines():
    lines = [*HEALTHY["vllm-0.28.0.log"], *TRACE, "(EngineCore pid=2) FunnyError: nobody knows", *["x"] * 30]
    found = told(CAUSES, *lines)
    assert (found.state, found.findings) == (State.UNKNOWN, ())
    assert "FunnyError" in found.first_error.text
    assert [line.number for line in found.tail] == list(range(len(lines) - 19, len(lines) + 1))


def test_the_root_is_told_and_not_what_followed_from_it():
    lines = [
        *TRACE, "(EngineCore pid=2) FunnyError: nobody knows",
        "(APIServer pid=1) Traceback (most recent call last):",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ]  # fmt: skip
    assert told(CAUSES, *lines).first_error.number == 3


def test_a_crash_that_no_cause_explains_is_unknown_though_an_earlier_boot_is_explained():
    start = BANNER.format("0.21.0")
    found = told([made()], start, SERVING, "symptom", start, *TRACE, "(EngineCore pid=2) FunnyError: x")
    assert (found.state, ids(found)) == (State.UNKNOWN, ["made"])


def test_an_error_far_from_every_found_cause_is_pointed_out():
    far = told([made()], *TRACE, "(EngineCore pid=2) FunnyError: x", *["x"] * 200, "symptom")
    assert (far.state, far.unexplained.number) == (State.EXPLAINED, 3)
    near = told([made()], *TRACE, "(EngineCore pid=2) FunnyError: symptom")
    assert near.unexplained is None


def test_an_error_that_was_only_logged_does_not_make_a_serving_engine_ill():
    line = "(APIServer pid=1) ERROR 07-04 12:01:10 [serving.py:320] Error in preprocessing prompt inputs"
    assert told(CAUSES, BANNER.format("0.21.0"), SERVING, line).state is State.HEALTHY
    assert told(CAUSES, BANNER.format("0.21.0"), line).state is State.UNKNOWN


def test_a_boot_that_just_ends_is_cut_and_one_that_goes_on_is_booting():
    lines = HEALTHY["vllm-0.21.1.dev17.log"][:12]
    assert told(CAUSES, *lines).state is State.CUT
    assert told(CAUSES, *lines, over=False).state is State.BOOTING


def test_what_people_wrote_in_their_requests_is_no_symptom():
    line = "(APIServer pid=1) INFO 07-04 12:01:00 [logger.py:40] Received request chatcmpl-1: prompt: 'symptom'"
    assert told([made()], SERVING, line).findings == ()


@pytest.mark.parametrize(
    "line",
    [
        "symptom",
        "2026-09-10T18:00:00.100000000Z symptom",
        "(Worker_TP0 pid=140) symptom",
        "(Worker_TP0 pid=140) ERROR 09-10 18:01:10 [multiproc_executor.py:870] symptom",
        "\x1b[0;36m(EngineCore pid=8)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m10-17 00:00:16\x1b[0m [c.py:1] symptom",
        "[rank1]: symptom",
        "engine-1  | (EngineCore pid=88) symptom",
        "[ 8123.482211] symptom",
        "[Tue Sep 15 10:00:00 2026] symptom",
        "Sep 15 10:00:00 box kernel: [ 8123.482211] symptom",
        "working:  10%|#\rsymptom",
    ],
)  # fmt: skip
def test_a_pattern_is_anchored_past_stamps_tags_and_colours(line):
    assert ids(told([made(patterns=["^symptom$"])], line)) == ["made"]


# --- reading ----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(LOGS), st.lists(st.integers(1, 4000), max_size=12))
def test_a_log_says_the_same_however_it_is_cut_into_blocks(path, cuts):
    # not splitlines: a progress bar's carriage returns are no ends of lines
    lines = [line + b"\n" for line in path.read_bytes().removesuffix(b"\n").split(b"\n")]
    reader = Reader(CAUSES)
    start = 0
    for cut in sorted({min(cut % (len(lines) + 1), len(lines)) for cut in cuts} | {len(lines)}):
        if cut > start:
            reader.feed(b"".join(lines[start:cut]))
        start = cut
    assert reader.finish() == diagnose_text([line.decode().rstrip("\n") for line in lines], CAUSES)


@given(st.lists(st.binary(max_size=60), max_size=30))
def test_no_bytes_make_it_fail(pieces):
    reader = Reader(CAUSES)
    for piece in pieces:
        reader.feed(piece)
    assert reader.finish().lines == sum(piece.removesuffix(b"\n").count(b"\n") + 1 for piece in pieces)


def test_a_crash_loop_is_read_to_its_end():
    boot = [BANNER.format("0.21.0"), *TRACE, "(EngineCore pid=2) FunnyError: symptom"]
    reader = Reader([made()])
    block = "".join(f"{line}\n" for line in boot).encode()
    for _ in range(200):
        reader.feed(block * 30)
    found = reader.finish()
    assert (found.state, found.findings[0].count, found.lines) == (State.EXPLAINED, 6000, 24_000)
    assert found.first_error.number == 24_000


def test_a_fault_that_comes_with_the_banner_of_the_next_boot_in_one_block_is_seen():
    lines = [*TRACE, "(EngineCore pid=2) FunnyError: x", BANNER.format("0.21.0"), SERVING, *["x"] * 5]
    lines += [*TRACE, "(EngineCore pid=2) OtherError: y"]
    reader = Reader(CAUSES)
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    assert "OtherError" in reader.finish().first_error.text


# --- what a cause may say ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"patterns": ["a(b"]}, "is not a regular expression"),
        ({"patterns": ["x*"]}, "matches an empty line"),
        ({"patterns": [r"\d+ \w+"]}, "plain characters in a row"),
        ({"patterns": []}, "at least 1 item"),
        ({"examples": []}, "at least 1 item"),
        ({"title": "two\nlines"}, "should match pattern"),
        ({"confidence": "sure"}, "'certain', 'likely' or 'possible'"),
        ({"versions": "about 0.21"}, "Invalid specifier"),
        ({"at_end": True, "also": ["something"]}, "nothing follows the end"),
        ({"pattern": "x"}, "Extra inputs"),
    ],
)
def test_a_cause_that_could_not_be_found_is_refused(fields, said):
    with pytest.raises((ValidationError, ValueError), match=said):
        made(**fields)


def test_every_role_of_a_pattern_is_one_that_is_looked_for():
    cause = made(also=["also one"], unless=["unless one"], after=["after one"], not_after=["not after"])
    assert {atom.role for atom in atoms(cause)} == {"patterns", "also", "unless", "after", "not_after"}
