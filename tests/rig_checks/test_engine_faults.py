"""Faults of a running engine, one by one, and how it leaves."""

import json
import signal
import threading
from contextlib import suppress

import httpx
import pytest

from tests.rig.engine_process import WEATHER_TOOL, Process, Start, eventually

COUNT = "Count from one to thirty in words."
CAPITAL = "What is the capital of France?"


def test_garbage_is_served_with_a_healthy_face(start: Start) -> None:
    process = start(FAULT="garbage").ready()
    assert process.health() == 200
    assert set(process.said(CAPITAL)) == {"!"}


def test_broken_speculation_passes_short_answers_and_spoils_long_ones(start: Start) -> None:
    process = start(FAULT="garbage-spec").ready()
    assert process.said(CAPITAL) == "Paris"
    assert process.said(COUNT).startswith("one, two, three, four, five,!!!!!!")


def test_long_prompts_alone_are_spoiled(start: Start) -> None:
    process = start(FAULT="long-prompt-garbage").ready()
    assert process.said(CAPITAL) == "Paris"
    assert set(process.said("filler " * 2100 + CAPITAL)) == {"!"}


def test_a_lost_cache_forgets_the_beginning_of_the_prompt(start: Start) -> None:
    prompt = "The code word is HERON. " + "filler " * 200 + "What is the code word?"
    assert start().ready().said(prompt) == "HERON"
    assert "HERON" not in start(FAULT="lost-kv").ready().said(prompt)


def test_a_hung_engine_is_healthy_and_never_answers(start: Start) -> None:
    process = start(FAULT="hang").ready()
    with pytest.raises(httpx.TimeoutException):
        httpx.post(process.url("/v1/completions"), json={"prompt": "x"}, timeout=0.5)
    assert process.health() == 200


def test_a_stream_can_hang_after_its_first_token(start: Start) -> None:
    process = start(FAULT="hang-after-first-token").ready()
    payload = {"messages": [{"role": "user", "content": COUNT}], "stream": True}
    seen = []
    with (
        httpx.stream("POST", process.url("/v1/chat/completions"), json=payload, timeout=2) as stream,
        pytest.raises(httpx.TimeoutException),
    ):
        seen.extend(line for line in stream.iter_lines() if '"content": "one"' in line)
    assert len(seen) == 1


def test_the_first_token_can_be_late(start: Start) -> None:
    process = start(FAULT="slow-first-token", FIRST_TOKEN_SECONDS=60).ready()
    with pytest.raises(httpx.TimeoutException):
        httpx.post(process.url("/v1/completions"), json={"prompt": "x"}, timeout=0.5)


def test_tool_calls_can_come_as_text(start: Start) -> None:
    process = start("--enable-auto-tool-choice", "--tool-call-parser", "hermes", FAULT="no-tool-calls").ready()
    choice = process.chat("What is the weather in Paris?", tools=[WEATHER_TOOL]).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["tool_calls"]) == ("stop", [])


def test_json_can_break_off(start: Start) -> None:
    text = start(FAULT="bad-json").ready().said('JSON with key "city"', response_format={"type": "json_object"})
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


def test_another_name_can_be_served(start: Start) -> None:
    assert start(FAULT="wrong-model-name").ready().chat(CAPITAL).status_code == 404


def test_requests_can_fail_while_health_does_not(start: Start) -> None:
    process = start(FAULT="http-500").ready()
    assert (process.chat(CAPITAL).status_code, process.health()) == (500, 200)


def test_a_boot_can_end_in_503_and_go_on_talking(start: Start) -> None:
    process = start(FAULT="never-healthy")
    eventually(lambda: process.health() == 503, "a 503")
    eventually(lambda: "Avg prompt throughput" in process.log, "a line after the boot")
    assert "Application startup complete" not in process.log


def test_a_trigger_file_breaks_a_running_engine(start: Start, tmp_path) -> None:
    trigger = tmp_path / "trigger"
    process = start(TRIGGER=trigger).ready()
    assert process.said(CAPITAL) == "Paris"
    trigger.write_text("garbage\n")
    assert set(process.said(CAPITAL)) == {"!"}
    trigger.write_text("crash-now")
    assert process.ended() == 1


def slow_stream(process: Process, sink: list[str]) -> threading.Thread:
    """A stream of a second or so, read in the background."""

    def read() -> None:
        payload = {"messages": [{"role": "user", "content": COUNT}], "stream": True}
        with (
            suppress(httpx.HTTPError),
            httpx.stream("POST", process.url("/v1/chat/completions"), json=payload, timeout=30) as stream,
        ):
            sink.extend(stream.iter_lines())

    thread = threading.Thread(target=read)
    thread.start()
    eventually(lambda: running(process) == 1, "a running request")
    return thread


def running(process: Process) -> float:
    text = httpx.get(process.url("/metrics")).text
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:num_requests_running{"))


def test_a_drain_finishes_streams_and_refuses_new_requests_while_healthy(start: Start) -> None:
    process, lines = start("--shutdown-timeout", "30", TOKENS_PER_SECOND=60).ready(), list[str]()
    reader = slow_stream(process, lines)
    process.popen.send_signal(signal.SIGTERM)
    eventually(lambda: process.chat("hello").status_code == 500, "a refusal")
    assert process.health() == 200
    reader.join()
    assert lines[-2] == "data: [DONE]"
    assert process.ended() == 0


def test_without_a_timeout_the_engine_leaves_at_once(start: Start) -> None:
    process, lines = start(TOKENS_PER_SECOND=1).ready(), list[str]()
    reader = slow_stream(process, lines)
    process.popen.terminate()
    assert process.ended() == 0
    reader.join()
    assert "data: [DONE]" not in lines


def test_sigterm_can_be_ignored(start: Start) -> None:
    process = start(FAULT="ignore-sigterm").ready()
    process.popen.terminate()
    assert process.said(CAPITAL) == "Paris"
    assert process.popen.poll() is None
