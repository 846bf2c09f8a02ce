"""The stand-in against the product's own readers: sound, it passes every probe; broken, it fails the right one."""

import httpx
import pytest

from b70ctl.core.answer import Answer, ToolCall
from b70ctl.core.bootlog import BootLog, Stage
from b70ctl.core.probes import Probe, ProbeTarget, probes_for
from tests.rig.engine_process import Process, Start

FLAGS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")


def answer_of(process: Process, probe: Probe) -> Answer:
    body = {key: value for key, value in probe.body.items() if key not in ("stream", "stream_options")}
    reply = httpx.post(process.url(probe.path), json=body, timeout=30).json()
    choice = reply["choices"][0]
    message = choice.get("message") or {"content": choice.get("text")}
    calls = (call["function"] for call in message.get("tool_calls") or ())
    return Answer(
        text=message["content"] or "",
        tool_calls=tuple(ToolCall(name=call["name"], arguments=call["arguments"]) for call in calls),
        finish_reason=choice["finish_reason"],
        prompt_tokens=reply["usage"]["prompt_tokens"],
        completion_tokens=reply["usage"]["completion_tokens"],
    )


def failures(process: Process, *, chat: bool = True) -> set[str]:
    target = ProbeTarget(model="stand-in", max_model_len=32768, tools=True, speculative=True, chat=chat)
    return {probe.name for probe in probes_for(target) if not probe.find(answer_of(process, probe)).passed}


@pytest.mark.parametrize("chat", [True, False], ids=["chat", "plain"])
def test_a_sound_engine_passes_every_probe(start: Start, chat: bool) -> None:
    assert failures(start(*FLAGS).ready(), chat=chat) == set()


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        ("garbage-spec", {"counting"}),
        ("lost-kv", {"long-prompt"}),
        ("long-prompt-garbage", {"long-prompt"}),
        ("no-tool-calls", {"tool-call"}),
        ("bad-json", {"json", "tool-call"}),
    ],
)
def test_each_fault_is_caught_by_the_probe_that_is_for_it(start: Start, fault: str, caught: set[str]) -> None:
    assert failures(start(*FLAGS, FAULT=fault).ready()) == caught


def test_garbage_passes_no_probe_at_all(start: Start) -> None:
    process = start(*FLAGS, FAULT="garbage").ready()
    target = ProbeTarget(model="stand-in", max_model_len=32768, tools=True)
    assert failures(process) == {probe.name for probe in probes_for(target)}


@pytest.mark.parametrize("played", ["0.19.0", "0.21.1.dev17+g0a4756bb5", "0.28.0", "0.30.0", "0.33.0"])
def test_boot_facts_can_be_read_from_the_log_of_every_version(start: Start, played: str) -> None:
    flags = ("--kv-cache-dtype", "fp8", "--max-model-len", "131072")
    process = start(*flags, model="/models/moe-w4a16", VLLM_VERSION=played).ready()
    log = BootLog()
    for line in process.log.splitlines():
        log.feed(line)
    facts = log.facts()
    assert log.stage is Stage.SERVING
    assert (facts.vllm_version, facts.kv_tokens, facts.max_concurrency) == (played, 270_592, 2.06)
    assert (facts.attention_backend, facts.kv_cache_dtype, facts.first_error) == ("Flash Attention", "fp8", None)
