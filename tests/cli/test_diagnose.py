"""diagnose: the log that is meant is read, and what it told is said with its exit status."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from b70ctl.cli.diagnosing import MOST_FINDINGS, Explanation, explain
from b70ctl.core.release import State
from b70ctl.edge import logsource, process
from b70ctl.edge.store import FAILED_LOG, PROVEN_LOG, Store
from tests.making import a_release, a_verdict
from tests.rig.engine_process import Process, eventually, free_port
from tests.rig.image_files import ENGINE

TESTS = Path(__file__).parent.parent
LOGS = TESTS / "diagnoses"
CRASH = (LOGS / "ptr-overflow.serving.log").read_text()
HEALTHY = (LOGS / "healthy.stopped.log").read_text()
UNKNOWN = (LOGS / "unknown.triton.log").read_text()


@pytest.fixture
def store(site):
    """A site whose first release serves and whose second one failed."""
    kept = Store(site / ".b70ctl")
    for number, verdict, name, log in (
        (1, a_verdict("proven", 1), PROVEN_LOG, HEALTHY),
        (2, a_verdict("failed", 2), FAILED_LOG, CRASH),
    ):
        release = a_release(number)
        with kept.writing(release):
            pass
        kept.save_verdict(release.id, verdict)
        kept.keep_log(release.id, name, log)
    kept.save_state(State(serving=a_release(1).id, next=3))
    return kept


# --- what is said -----------------------------------------------------------------------------------------------------


def test_a_found_cause_is_told_with_its_lines_its_reason_and_what_to_type(b70ctl):
    said = b70ctl("diagnose", LOGS / "ptr-overflow.serving.log").exits(0)
    assert said.out.splitlines()[0] == (
        "An address above 2^63 does not fit into the number that it is put into  (certain) [ptr-overflow]"
    )
    assert "  line 12: (EngineCore pid=133) ERROR 08-14 09:10:00 [core.py:1100] RuntimeError: Overflow" in said.out
    assert "  fix:    vLLM 0.29 or newer" in said.out
    assert "17 lines, vLLM 0.26.1rc1.dev457" in said.err


@pytest.mark.parametrize("name", ["x" * 5000, "/" + "x" * 5000, "/dev/zero"])
def test_what_can_be_no_log_is_a_usage_error(b70ctl, site, name):
    said = b70ctl("--site", site, "diagnose", name).exits(2)
    assert said.error


def test_a_healthy_log_says_so(b70ctl):
    said = b70ctl("diagnose", LOGS / "healthy.stopped.log")
    assert (said.code, said.out) == (0, "healthy: it came to serve, and nothing failed\n")


def test_an_unknown_failure_says_so_and_shows_the_first_error_and_the_last_lines(b70ctl):
    said = b70ctl("diagnose", LOGS / "unknown.triton.log").exits(1)
    head, error, tail, *lines = said.out.splitlines()
    assert head == "unknown: the log shows a failure that no known cause explains"
    assert error.startswith("first error, line 6: ")
    assert "Triton Error [ZE]: 0x78000011" in error
    assert (tail, len(lines)) == ("the last 9 lines:", 9)


def test_a_log_that_just_ends_is_a_failure_that_is_not_known(b70ctl):
    said = b70ctl("diagnose", LOGS / "cut.loading.log").exits(1)
    assert "the log ends at `loading`, before the engine served, and tells no error" in said.out


def test_a_repeated_symptom_is_counted_and_not_repeated(b70ctl, tmp_path):
    log = tmp_path / "log"
    log.write_text("OSError: [Errno 28] No space left on device\n" * 400)
    said = b70ctl("diagnose", log)
    assert "(certain, 400 times) [disk-full]" in said.out
    assert said.out.count("No space left on device") == 3


def test_at_most_a_few_causes_are_told(b70ctl, tmp_path):
    texts = [path.read_text() for path in sorted(LOGS.glob("*.log")) if "healthy" not in path.name]
    texts += ["exec: --: invalid option", "KeyError: 'turboquant_k3v4_nc'", "arange's range must be a power of 2"]
    log = tmp_path / "log"
    log.write_text("\n".join(texts))
    said = b70ctl("diagnose", log)
    assert said.out.count("  cause:  ") == MOST_FINDINGS
    assert "more; --json tells all" in said.out
    assert len(b70ctl("diagnose", log, "--json").data["findings"]) > MOST_FINDINGS


def test_json_tells_everything_in_one_object(b70ctl):
    said = b70ctl("diagnose", LOGS / "ptr-overflow.serving.log", "--json").exits(0)
    [finding] = said.data["findings"]
    assert (said.data["state"], said.data["vllm"], said.data["lines"]) == ("explained", "0.26.1rc1.dev457", 17)
    assert (finding["id"], finding["confidence"], finding["count"]) == ("ptr-overflow", "certain", 1)
    assert [line["line"] for line in finding["lines"]] == [12]
    assert said.data["first_error"]["line"] == 12
    assert said.err == ""


def test_json_of_an_unknown_failure_has_the_last_lines(b70ctl):
    said = b70ctl("diagnose", LOGS / "unknown.triton.log", "--json")
    assert (said.code, said.data["state"], said.data["findings"]) == (1, "unknown", [])
    assert [line["line"] for line in said.data["tail"]] == list(range(1, 10))


# --- which log --------------------------------------------------------------------------------------------------------


def test_stdin_is_read(b70ctl, monkeypatch):
    monkeypatch.setattr(logsource, "of_stdin", lambda: iter([CRASH.encode()]))
    assert "[ptr-overflow]" in b70ctl("diagnose", "-").out


def test_the_kernels_log_is_read(b70ctl, monkeypatch):
    dmesg = (LOGS / "engine-reset.dmesg.log").read_text()
    monkeypatch.setattr(process, "run", lambda argv, *, timeout: process.Ran(tuple(argv), 0, dmesg, ""))
    assert "[engine-reset]" in b70ctl("diagnose", "--dmesg").out


def test_without_a_target_the_release_that_failed_last_is_meant(b70ctl, site, store):
    said = b70ctl("--site", site, "diagnose")
    assert "[ptr-overflow]" in said.out
    assert a_release(2).id in said.err


def test_without_a_target_the_serving_release_is_meant_once_it_is_newer(b70ctl, site, store):
    store.save_verdict(a_release(1).id, a_verdict("proven", 3))
    said = b70ctl("--site", site, "diagnose")
    assert (said.code, a_release(1).id in said.err) == (0, True)
    assert said.out.startswith("healthy")


@pytest.mark.parametrize("name", ["0002", a_release(2).id])
def test_a_release_can_be_named_by_its_number(b70ctl, site, store, name):
    assert "[ptr-overflow]" in b70ctl("--site", site, "diagnose", name).out


def test_the_releases_own_version_decides_what_is_possible(b70ctl, site, store):
    store.keep_log(
        a_release(2).id,
        FAILED_LOG,
        "AttributeError: '_OpNamespace' '_C' object has no attribute 'gptq_marlin_repack'\n",
    )
    assert "(certain) [marlin-repack]" in b70ctl("--site", site, "diagnose", "0002").out


def test_a_site_where_nothing_happened_has_nothing_to_diagnose(b70ctl, site):
    b70ctl("--site", site, "diagnose").refused(1, "nothing has served or failed")


def test_without_a_site_a_log_has_to_be_named(b70ctl):
    b70ctl("diagnose").refused(2, "b70ctl diagnose FILE")


def test_what_is_neither_release_nor_file_is_a_usage_error(b70ctl, site, store):
    b70ctl("--site", site, "diagnose", "0009").refused(2, "there is no release and no file `0009`")


def test_one_log_at_a_time(b70ctl):
    b70ctl("diagnose", LOGS / "healthy.middle.log", "--dmesg").refused(2, "one log at a time")


def test_a_container_needs_a_daemon(b70ctl):
    assert b70ctl("diagnose", "--container", "engine").code == 3


def test_a_sites_own_cause_is_found_too(b70ctl, site):
    (site / "diagnoses").mkdir()
    (site / "diagnoses" / "mine.yaml").write_text(
        "causes:\n  - {id: mine, title: Ours, patterns: ['Triton Error'], cause: a reason, fix: a fix, source: us, "
        "confidence: certain, examples: [Triton Error]}\n"
    )
    said = b70ctl("--site", site, "diagnose", LOGS / "unknown.triton.log")
    assert (said.code, said.out.splitlines()[0]) == (0, "Ours  (certain) [mine]")


def test_a_fault_in_a_sites_own_cause_is_told_with_file_and_line(b70ctl, site):
    (site / "diagnoses").mkdir()
    (site / "diagnoses" / "mine.yaml").write_text("causes:\n  - id: mine\n    patterns: ['a(b']\n")
    b70ctl("--site", site, "diagnose", LOGS / "unknown.triton.log").refused(2, "mine.yaml:")


# --- what is no engine's log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "state", "told"),
    [
        ("", "cut", "the log is empty, so it ended before vLLM said a word"),
        ("hello\n", "other", "this does not look like vLLM's log"),
        ("# Title\n\nSome words, and *more* of them.\n", "other", "this does not look like vLLM's log"),
    ],
)
def test_what_does_not_look_like_vllms_log_is_not_called_well(b70ctl, tmp_path, text, state, told):
    log = tmp_path / "log"
    log.write_text(text)
    said = b70ctl("diagnose", log)
    assert (said.code, told in said.out) == (1, True)
    assert "nothing failed" not in said.out
    assert b70ctl("diagnose", log, "--json").data["state"] == state


@pytest.mark.parametrize(
    "line",
    [
        "[    5.881200] usb 1-1: new device",
        "[Sun Nov 29 10:00:00 2026] usb 1-1: new device",
        "Nov 29 10:00:00 box kernel: usb 1-1: new device",
    ],
)
def test_a_kernels_log_without_a_fault_is_well_and_is_not_asked_to_be_vllms(b70ctl, tmp_path, line):
    log = tmp_path / "log"
    log.write_text(f"{line}\n")
    said = b70ctl("diagnose", log)
    assert (said.code, said.out) == (0, "nothing failed\n")


# --- what the command found that started it ---------------------------------------------------------------------------


GARBAGE = {"probe": "capital", "passed": False, "detail": "`!!!!` and not Paris"}


def refuse(store, why, log, *findings):
    """The second release was not proven."""
    store.save_verdict(a_release(2).id, a_verdict("failed", 2).model_copy(update={"why": why, "findings": findings}))
    store.keep_log(a_release(2).id, FAILED_LOG, log)


@pytest.mark.parametrize(
    ("why", "log"),
    [
        ("the engine was not proven: capital: `!!!!` and not Paris", HEALTHY),
        ("the engine's log has been silent for 2 s while compiling", (LOGS / "cut.loading.log").read_text()),
        ("the engine did not serve within 15 s; its log says that it does", HEALTHY),
        ("the engine ended with exit 1 while created", ""),
    ],
)
def test_a_release_that_was_not_proven_is_told_first_and_never_called_well(b70ctl, site, store, why, log):
    refuse(store, why, log)
    said = b70ctl("--site", site, "diagnose", "0002")
    assert (said.code, said.out.splitlines()[0]) == (1, f"failed: {why}")
    assert "nothing failed" not in said.out
    told = b70ctl("--site", site, "diagnose", "0002", "--json")
    assert (told.code, told.data["verdict"]) == (1, {"state": "failed", "why": why})


def test_a_probe_that_failed_is_told_with_the_verdict(b70ctl, site, store):
    refuse(store, "the engine was not proven", HEALTHY, GARBAGE)
    assert "  probe capital: `!!!!` and not Paris" in b70ctl("--site", site, "diagnose", "0002").out


def test_a_cause_that_was_found_is_told_after_the_verdict_and_is_no_failure_to_find_one(b70ctl, site, store):
    refuse(store, "the engine ended with exit 1", CRASH)
    said = b70ctl("--site", site, "diagnose", "0002")
    assert (said.code, said.out.splitlines()[0]) == (0, "failed: the engine ended with exit 1")
    assert "[ptr-overflow]" in said.out


def test_a_proven_release_has_its_log_speak_for_itself(b70ctl, site, store):
    store.save_verdict(a_release(1).id, a_verdict("proven", 3))
    assert b70ctl("--site", site, "diagnose", "0001").out.startswith("healthy")


# --- for the command that failed --------------------------------------------------------------------------------------


def test_a_failed_release_is_explained_in_at_most_six_lines(store):
    lines = explain(store, a_release(2).id).lines
    assert len(lines) <= 6
    assert lines[0] == (
        "diagnosis: An address above 2^63 does not fit into the number that it is put into (certain) [ptr-overflow]"
    )
    assert lines[1].startswith("  line 12: ")
    assert f"  fix: {explain(store, a_release(2).id).fix}" in lines


def test_an_unknown_failure_is_explained_by_its_first_error_alone(store):
    store.keep_log(a_release(2).id, FAILED_LOG, UNKNOWN)
    head, error, more = explain(store, a_release(2).id).lines
    assert head == "diagnosis: no known cause; the first error is"
    assert error.startswith("  line 6: ")
    assert more == f"  b70ctl diagnose {a_release(2).id}"
    assert explain(store, a_release(2).id).fix is None


def test_a_plugin_that_failed_where_nothing_else_did_is_the_cause_that_is_told(store):
    failed = "(EngineCore pid=97) ERROR 11-30 12:00:00 [__init__.py:61] Failed to load plugin b70_kernels"
    store.keep_log(a_release(2).id, FAILED_LOG, failed)
    head, error, *_ = explain(store, a_release(2).id).lines
    assert head.endswith("[plugin-failed]")
    assert error == f"  line 1: {failed}"


def test_a_release_without_a_kept_log_is_not_explained(store):
    assert explain(store, a_release(1).id) == Explanation()


def test_a_diagnosis_that_cannot_be_made_hides_no_failure(site, store):
    (site / "diagnoses").mkdir()
    (site / "diagnoses" / "mine.yaml").write_text("nonsense: 1\n")
    [line] = explain(store, a_release(2).id).lines
    assert line.startswith("no diagnosis: ")


# --- the stand-in's own words -----------------------------------------------------------------------------------------


def booted(tmp_path, version, fault=""):
    """The log of a stand-in engine that booted, or died of it."""
    out = tmp_path / f"{version}.log"
    port = free_port()
    words = f"serve /models/Qwen3-30B-A3B-W4A16 --host 127.0.0.1 --port {port} --kv-cache-dtype fp8".split()
    env = os.environ | {"STANDIN_VLLM_VERSION": version, "STANDIN_BOOT_SECONDS": "0.05", "STANDIN_FAULT": fault}
    with out.open("wb") as file:
        popen = subprocess.Popen((sys.executable, str(ENGINE), *words), env=env, stdout=file, stderr=subprocess.STDOUT)
    engine = Process(popen, port, out)
    try:
        eventually(lambda: popen.poll() is not None or "startup complete" in engine.log, "the stand-in booted or died")
    finally:
        popen.terminate()
        popen.wait()
    return engine.log


@pytest.mark.process
@pytest.mark.parametrize(
    "version",
    [
        "0.19.0", "0.20.2", "0.21.1.dev17", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0", "0.27.1", "0.28.0",
        "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
    ],
)  # fmt: skip
def test_no_version_of_the_stand_in_that_boots_has_a_cause_of_anything(b70ctl, tmp_path, version):
    log = tmp_path / "log"
    log.write_text(booted(tmp_path, version))
    said = b70ctl("diagnose", log, "--json")
    assert (said.data["state"], said.data["findings"], said.data["vllm"]) == ("healthy", [], version)


@pytest.mark.process
@pytest.mark.parametrize(
    ("stage", "cause"),
    [("download", "hub-offline"), ("weights", "oom-at-load"), ("kv", "no-kv-blocks"), ("graphs", "device-lost")],
)
def test_each_death_of_the_stand_in_that_is_known_is_named(b70ctl, tmp_path, stage, cause):
    log = tmp_path / "log"
    log.write_text(booted(tmp_path, "0.33.0", f"crash-at:{stage}"))
    said = b70ctl("diagnose", log, "--json")
    assert (said.code, said.data["findings"][0]["id"]) == (0, cause)
