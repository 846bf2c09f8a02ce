"""Every process of vLLM has to say that our kernels are in use, whatever its lines look like."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from b70ctl.core.bootlog import BootLog, Stage

NAME = "b70_kernels 0.1.0"
USED = f"{NAME}: in use with vLLM 0.30.0, TURBOQUANT is b70_kernels.plugin.backend.B70TurboQuantBackend"
LOGS = Path(__file__).parent / "bootlogs"
REAL = sorted(path.name for path in LOGS.glob("vllm-*-cpu*.log"))
TAG = re.compile(r"^\((\w+)[^ ]* pid=(\d+)\)")


def said(text, tag="", level="INFO", prefix=""):
    """A record as vLLM's processes write it; `tag` as in `APIServer pid=1`."""
    before = f"({tag}) " if tag else ""
    return f"{before}{prefix}{level} 11-30 10:00:00 [__init__.py:70] {text}"


def named(tag):
    """Any line by which a process is known."""
    return said("Starting", tag)


def used(pid, text=USED):
    """Our own line, as the process with this id writes it."""
    return f"{text} (pid {pid})"


def heard(*lines):
    log = BootLog()
    for line in lines:
        log.feed(line)
    return log.plugin


API, CORE, ONE, TWO = "APIServer pid=1", "EngineCore pid=97", "Worker_TP0 pid=140", "Worker_TP1 pid=141"
EARLY = [said(used(1)), named(API), said(used(97), CORE)]
"""With one card: the API server speaks before it has a name."""
TP2 = [*EARLY, said(used(141)), said(used(140)), named("Worker pid=140"), named(ONE), named(TWO)]
"""Until 0.30 workers have no name either."""
LATE = [*EARLY, said(used(140), "VllmWorker-0 pid=140"), named(ONE)]
"""From 0.31 on a worker's early lines have a name, Python's own."""


@pytest.mark.parametrize(
    ("lines", "processes"),
    [
        (EARLY, ("APIServer", "EngineCore")),
        (TP2, ("APIServer", "EngineCore", "Worker_TP0", "Worker_TP1")),
        (LATE, ("APIServer", "EngineCore", "Worker_TP0")),
        ([said(used(1), API), said(used(174), "EngineCore_DP0 pid=174")], ("APIServer", "EngineCore_DP0")),
        ([said(USED, API), said(USED, CORE)], ("APIServer", "EngineCore")),
        ([*EARLY, said(used(300))], ("APIServer", "EngineCore")),
    ],
    ids=["one card", "two cards", "since 0.31", "0.19", "by vLLM's prefix alone",
         "a subprocess that looks models up"],
)  # fmt: skip
def test_processes_that_all_say_it_are_proven_and_known_by_name(lines, processes):
    log = heard(*lines)
    assert log.fault(NAME) is None
    assert (log.name, log.processes) == (NAME, processes)


@pytest.mark.parametrize(
    ("lines", "blamed"),
    [
        ([named(API), said(used(97), CORE)], "APIServer did not say"),
        ([said(used(1)), named(API), named(CORE)], "EngineCore did not say"),
        ([*EARLY, named(ONE), named(TWO)], "Worker_TP0, Worker_TP1 did not say"),
        ([*EARLY, said(used(140)), named(ONE), named(TWO)], "Worker_TP1 did not say"),
        ([*EARLY, said(used(300)), said(used(301)), named(ONE), named(TWO)], "Worker_TP0, Worker_TP1 did not say"),
        ([*LATE, named(TWO)], "Worker_TP1 did not say"),
        ([named(API), named(CORE), named(ONE)], "APIServer, EngineCore, Worker_TP0 did not say"),
        ([], "no process said"),
        (["INFO: 1.2.3.4"], "no process said"),
    ],
)
def test_a_process_that_says_nothing_is_named(lines, blamed):
    fault = heard(*lines).fault(NAME)
    assert fault is not None
    assert fault.startswith(blamed)
    assert fault.endswith(f"that {NAME} is in use")


REFUSED = f"{NAME}: refused: vLLM 0.34.0 is not one that it was proven with"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (said(REFUSED, ONE, "WARNING"), f"Worker_TP0 says that {NAME} is refused: vLLM 0.34.0 is not one that"),
        (said(used(140, REFUSED), "", "WARNING"), f"Worker_TP0 says that {NAME} is refused: vLLM 0.34.0 is not one"),
        (said(used(300, REFUSED), "", "WARNING"), f"a process without a name says that {NAME} is refused: vLLM 0.34.0"),
        (said(f"{NAME}: off: B70_KERNELS=off", ONE), f"Worker_TP0 says that {NAME} is off: B70_KERNELS=off"),
        (said("Failed to load plugin b70_kernels", ONE, "ERROR"), f"Worker_TP0 could not load the plugin {NAME}"),
        (said(USED.replace("0.1.0", "0.2.0"), ONE), f"Worker_TP0 uses b70_kernels 0.2.0, and not {NAME}, which"),
    ],
    ids=["refused", "refused before it is named", "refused without a name", "off", "not loaded", "another version"],
)
def test_a_wrong_word_of_one_process_is_told_whatever_the_others_say(line, told):
    fault = heard(*EARLY, line, named(ONE)).fault(NAME)
    assert fault is not None
    assert fault.startswith(told)


def test_of_processes_that_all_fail_one_with_a_name_is_blamed():
    failed = "Failed to load plugin b70_kernels"
    fault = heard(said(failed, level="ERROR"), named(API), said(failed, CORE, "ERROR")).fault(NAME)
    assert fault == f"EngineCore could not load the plugin {NAME}"


def test_another_plugin_that_fails_is_not_ours():
    assert heard(*EARLY, said("Failed to load plugin b70_kernels_of_mine", CORE, "ERROR")).fault(NAME) is None


REFUSED = f"{NAME}: refused: of another time"


@pytest.mark.parametrize(
    "lines",
    [
        [said(used(7))],
        [*EARLY, said(REFUSED, API)],
        [*EARLY, said(REFUSED), said(used(1), API)],
        [said(used(9), API), named(CORE)],
        [*EARLY, *(said(used(number)) for number in range(1000, 1400)), said(f"{REFUSED} (pid 2000)")],
        [named(API), said(f"non-default args: {{'served_model_name': ['x {USED}']}}", API)],
        [named(API), f"({API}) INFO served: '{USED}'"],
    ],
    ids=["nobody has a name", "another word after it", "another word before it", "a word for another process",
         "after too many", "a name in the arguments", "a quoted name"],
)  # fmt: skip
def test_a_word_that_was_not_meant_proves_nothing(lines):
    assert heard(*lines).fault(NAME) is not None


def test_a_process_that_loads_no_plugins_need_not_speak():
    assert heard(*EARLY, named("DPCoordinator pid=50"), named("MainProcess pid=60")).fault(NAME) is None


@pytest.mark.parametrize(
    "dress",
    [
        lambda tag, text: said(text, tag, prefix="[box 1] "),
        lambda tag, text: f"[box 1] {said(text, tag)}",
        lambda tag, text: f"\x1b[0;36m({tag})\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-30 10:00:00\x1b[0m {text}",
        lambda tag, text: f"2026-11-30T10:00:00.123456789Z {said(text, tag)}",
        lambda tag, text: f"({tag}) {text}",
        lambda tag, text: f"({tag}) INFO {text}",
    ],
    ids=["a prefix behind the name", "a prefix before it", "colours", "Docker's times", "bare", "without a date"],
)
def test_a_line_is_read_in_every_dress(dress):
    lines = [dress(tag, USED) for tag in (API, CORE, ONE)]
    assert heard(*lines).processes == ("APIServer", "EngineCore", "Worker_TP0")
    assert heard(*lines).fault(NAME) is None
    assert "Worker_TP0" in str(heard(*lines[:2], dress(ONE, "Starting")).fault(NAME))


def with_lines(lines, *, without=""):
    """A real log with our line where each process writes it, in all but those whose name begins so."""
    seen = set()
    names = {found[2]: found[1] for found in map(TAG.match, lines) if found}
    for line in lines:
        found = TAG.match(line)
        if found and found[2] not in seen:
            seen.add(found[2])
            # the last name that a process has is the one that it is known by
            if not without or not names[found[2]].startswith(without):
                yield said(used(found[2]))
        yield line


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("without", ["", "APIServer", "EngineCore", "Worker"])
def test_in_a_real_log_each_process_is_found_and_missed(name, without):
    log = heard(*with_lines((LOGS / name).read_text().splitlines(), without=without))
    if not without:
        assert log.fault(NAME) is None
        assert log.processes == ("APIServer", "EngineCore", "Worker")
    else:
        assert log.fault(NAME) == f"{without} did not say that {NAME} is in use"


def test_a_line_that_comes_after_the_engine_serves_still_counts_and_is_a_fact():
    log = BootLog()
    for line in [*EARLY[1:], said("Starting vLLM server on http://0.0.0.0:8000", API), said(used(1))]:
        log.feed(line)
    assert log.stage is Stage.SERVING
    assert (log.facts().kernels, log.facts().kernels_in) == (NAME, ("APIServer", "EngineCore"))
    assert type(log.facts()).from_dict(log.facts().to_dict()) == log.facts()


def test_a_log_that_never_ends_is_not_kept():
    log = heard(*(said(USED, f"Worker_TP{number} pid={number}") for number in range(2000)), *[said(USED)] * 2000)
    assert len(log.processes) <= 256


@given(st.lists(st.text(max_size=80) | st.sampled_from([*TP2, *LATE, said(REFUSED)]), max_size=12))
def test_no_log_breaks_it_and_whoever_is_in_use_was_heard(lines):
    log = heard(*lines)
    fault = log.fault(NAME)
    assert fault is None or (fault and "\n" not in fault)
    assert (log.name is not None) is any("in use" in line for line in lines)
    if fault is None:
        assert log.name == NAME
