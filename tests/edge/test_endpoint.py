"""An endpoint gives back what came, and says how far it came when it did not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from b70ctl.edge.endpoint import Endpoint
from b70ctl.errors import EngineError, EngineSilent

KEY = "sk-secret-4711"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**BODY, "stream": True}
Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers each path with the reply that a test gave it."""

    protocol_version = "HTTP/1.1"
    server: Engine

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers), None))
        self.server.replies[self.path](self)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), json.loads(sent)))
        self.server.replies[self.path](self)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def push(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.server.gone.set()


class Engine(ThreadingHTTPServer):
    """A server on loopback whose every reply a test decides."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: dict[str, Reply] = {}
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        # set when a test is over, so that a reply that hangs on purpose ends
        self.over = threading.Event()
        self.gone = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def chat(self, reply: Reply) -> None:
        self.replies["/v1/chat/completions"] = reply

    def says(self, path: str, value: object, status: int = 200, kind: str = "application/json") -> None:
        body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.replies[path] = lambda handler: handler.send(status, kind, body)


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def endpoint(engine: Engine) -> Endpoint:
    return Endpoint(engine.url, KEY, timeout=10)


@pytest.fixture
def impatient(engine: Engine) -> Endpoint:
    return Endpoint(engine.url, KEY, silence=0.3)


def event(delta: dict[str, Any] | None = None, **choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta or {}, **choice}]}).encode() + b"\n\n"


def streams(*pieces: bytes) -> Reply:
    def reply(handler: Handler) -> None:
        handler.begin_stream()
        for piece in pieces:
            handler.push(piece)

    return reply


def hangs_after(*pieces: bytes, drip: bytes = b"") -> Reply:
    def reply(handler: Handler) -> None:
        handler.begin_stream()
        for piece in pieces:
            handler.push(piece)
        while not (handler.server.over.wait(0.02) or handler.server.gone.is_set()):
            handler.push(drip)

    return reply


FINISHED = (event({}, finish_reason="stop"), b"data: [DONE]\n\n")


# --- the small requests


def test_health_is_what_health_says(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/health", "")
    assert endpoint.healthy()
    engine.says("/health", "", status=503)
    assert not endpoint.healthy()


def test_nobody_there_is_not_healthy() -> None:
    server = Engine()
    server.server_close()
    assert not Endpoint(server.url, timeout=2).healthy()


def test_a_health_that_drips_for_ever_is_not_healthy(engine: Engine) -> None:
    engine.replies["/health"] = hangs_after(b"o", drip=b"k")
    assert not Endpoint(engine.url, timeout=0.2).healthy()


def test_models_are_read(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/v1/models", {"object": "list", "data": [{"id": "qwen"}, {"id": "default"}]})
    assert endpoint.models() == ("qwen", "default")


@pytest.mark.parametrize("body", ["<html>", "[]", '"text"', "{}", '{"data": 1}', "[" * 100_000])
def test_models_from_something_that_is_no_engine_are_an_engine_error(
    engine: Engine, endpoint: Endpoint, body: str
) -> None:
    engine.says("/v1/models", body)
    with pytest.raises(EngineError):
        endpoint.models()


def test_metrics_are_read(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/metrics", 'vllm:num_requests_running{engine="0"} 2.0\n', kind="text/plain; version=0.0.4")
    assert endpoint.metrics().running == 2


def test_refused_metrics_are_an_engine_error(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/metrics", {"error": "Unauthorized"}, status=401)
    with pytest.raises(EngineError, match="HTTP 401: Unauthorized"):
        endpoint.metrics()


# --- questions


def test_a_whole_answer_is_read(engine: Engine, endpoint: Endpoint) -> None:
    message = {"role": "assistant", "content": "Paris.", "reasoning_content": "France…"}
    usage = {"prompt_tokens": 14, "completion_tokens": 3}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    engine.says("/v1/chat/completions", body)
    answer = endpoint.ask(BODY)
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("Paris.", "France…", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens, answer.chunks) == (14, 3, 0)
    assert engine.seen[0][2] == BODY


def test_a_completion_is_read_from_its_own_path(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/v1/completions", {"choices": [{"text": " Paris", "finish_reason": "length"}]})
    answer = endpoint.ask({"prompt": "France"}, path="/v1/completions")
    assert (answer.text, answer.finish_reason, answer.prompt_tokens) == (" Paris", "length", None)


def test_a_tool_call_is_read_whole_and_from_a_stream(engine: Engine, endpoint: Endpoint) -> None:
    call = {"type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    whole = {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    engine.says("/v1/chat/completions", whole)
    first = endpoint.ask(BODY)
    pieces = [
        {"index": 0, "id": "x", "function": {"name": "get_weather", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"city": '}},
        {"index": 0, "function": {"arguments": '"Paris"}'}},
    ]
    events = [event({"tool_calls": [piece]}) for piece in pieces]
    engine.chat(streams(*events, event({}, finish_reason="tool_calls"), b"data: [DONE]\n\n"))
    second = endpoint.ask(STREAM)
    assert first.tool_calls == second.tool_calls
    assert json.loads(second.tool_calls[0].arguments) == {"city": "Paris"}


def test_a_stream_is_put_together_wherever_the_network_cuts_it(engine: Engine, endpoint: Endpoint) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}\r\n\r\n'
    said = [event({"role": "assistant", "content": ""}), event({"reasoning": "hm"}), event({"content": "één"})]
    whole = b": keep-alive\n\n" + b"".join(said) + event({"content": ", two"}) + FINISHED[0] + usage + FINISHED[1]
    whole = whole.replace(b"\\u00e9", "é".encode())
    engine.chat(streams(*(whole[at : at + 7] for at in range(0, len(whole), 7))))
    answer = endpoint.ask(STREAM)
    assert (answer.text, answer.reasoning, answer.finish_reason) == ("één, two", "hm", "stop")
    assert (answer.chunks, answer.prompt_tokens, answer.completion_tokens) == (3, 9, 4)
    assert answer.first_token_seconds is not None
    assert 0 <= answer.first_token_seconds <= answer.seconds


def test_an_engine_that_hangs_after_the_first_token_is_noticed_by_silence(engine: Engine, impatient: Endpoint) -> None:
    engine.chat(hangs_after(event({"content": "one"})))
    with pytest.raises(EngineSilent, match=r"silent for \d+\.\d s after 1 chunks in \d+\.\d s"):
        impatient.ask(STREAM, timeout=30)


@pytest.mark.parametrize("drip", [b": keep-alive\n\n", event({"content": ""}), b"."])
def test_bytes_that_carry_nothing_do_not_hide_a_hang(engine: Engine, impatient: Endpoint, drip: bytes) -> None:
    engine.chat(hangs_after(event({"content": "one"}), event({"content": " two"}), drip=drip))
    with pytest.raises(EngineSilent, match=r"silent for \d+\.\d s after 2 chunks") as silent:
        impatient.ask(STREAM, timeout=30)
    assert silent.value.chunks == 2
    assert silent.value.quiet > 0


def test_a_slow_drip_of_tokens_meets_the_deadline(engine: Engine, endpoint: Endpoint) -> None:
    engine.chat(hangs_after(drip=event({"content": "x"})))
    with pytest.raises(EngineSilent, match=r"no complete answer after 1\.5 s \(after \d+ chunks"):
        endpoint.ask(STREAM, timeout=1.5)


def test_a_prompt_may_be_silent_for_longer_than_a_stream(engine: Engine, impatient: Endpoint) -> None:
    def reply(handler: Handler) -> None:
        handler.begin_stream()
        handler.server.over.wait(0.6)
        streams(event({"content": "late"}), *FINISHED)(handler)

    engine.chat(reply)
    assert impatient.ask(STREAM, timeout=30).text == "late"


def test_an_engine_that_accepts_and_says_nothing_meets_the_deadline(engine: Engine, endpoint: Endpoint) -> None:
    engine.chat(lambda handler: handler.server.over.wait(20) or None)
    with pytest.raises(EngineSilent, match=r"no complete answer after 0\.3 s \(before the first token\)") as silent:
        endpoint.ask(BODY, timeout=0.3)
    assert silent.value.chunks == 0


def test_the_connection_is_given_up_with_the_question(engine: Engine, impatient: Endpoint) -> None:
    engine.chat(hangs_after(event({"content": "one"}), drip=b": still here\n\n"))
    with pytest.raises(EngineError):
        impatient.ask(STREAM, timeout=30)
    assert engine.gone.wait(10)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "the engine died", "code": 500}}, "HTTP 500: the engine died"),
        ({"object": "error", "message": "old shape"}, "HTTP 500: old shape"),
        ({"detail": "from the framework"}, "HTTP 500: from the framework"),
        ("Internal Server Error", "HTTP 500: Internal Server Error"),
        ("", "HTTP 500: an empty body"),
        ([1, 2], r"HTTP 500: \[1, 2\]"),
    ],
)
@pytest.mark.parametrize("asked", [BODY, STREAM])
def test_a_refusal_carries_status_and_message(
    engine: Engine, endpoint: Endpoint, asked: dict[str, Any], body: object, told: str
) -> None:
    engine.says("/v1/chat/completions", body, status=500)
    with pytest.raises(EngineError, match=told) as caught:
        endpoint.ask(asked)
    assert caught.value.hint


def test_an_error_in_the_middle_of_a_stream_is_an_error(engine: Engine, endpoint: Endpoint) -> None:
    failed = b'data: {"error": {"message": "EngineCore encountered an issue", "code": 500}}\n\n'
    engine.chat(streams(event({"content": "one"}), failed, b"data: [DONE]\n\n"))
    with pytest.raises(EngineError, match=r"middle \(after 1 chunks.*EngineCore encountered an issue"):
        endpoint.ask(STREAM)


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n"])
def test_a_stream_that_never_says_why_it_stopped_is_an_error(engine: Engine, endpoint: Endpoint, tail: bytes) -> None:
    engine.chat(streams(event({"content": "one"}), tail))
    with pytest.raises(EngineError, match=r"ended before the answer did \(after 1 chunks"):
        endpoint.ask(STREAM)


@pytest.mark.parametrize("broken", [b"data: {nonsense\n\n", b"data: " + b"[" * 100_000 + b"\n\n", b"data: 7\n\n"])
def test_an_event_that_is_no_json_object_is_an_error(engine: Engine, endpoint: Endpoint, broken: bytes) -> None:
    engine.chat(streams(event({"content": "one"}), broken))
    with pytest.raises(EngineError, match="after 1 chunks"):
        endpoint.ask(STREAM)


@pytest.mark.parametrize("body", ["{nonsense", "[]", ""])
def test_a_whole_answer_that_is_no_json_object_is_an_error(engine: Engine, endpoint: Endpoint, body: str) -> None:
    engine.says("/v1/chat/completions", body)
    with pytest.raises(EngineError, match="no JSON object"):
        endpoint.ask(BODY)


@pytest.mark.parametrize("asked", [BODY, STREAM])
def test_another_program_on_the_port_is_known_by_its_content_type(
    engine: Engine, endpoint: Endpoint, asked: dict[str, Any]
) -> None:
    engine.says("/v1/chat/completions", "<html>welcome</html>", kind="text/html")
    with pytest.raises(EngineError, match="answered with text/html"):
        endpoint.ask(asked)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": "none"},
        {"choices": [None]},
        {"choices": [{"delta": 3, "message": 3}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, {"function": 1}, {"index": "x"}]}}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}}}], "usage": {"prompt_tokens": "many"}},
    ],
)
def test_odd_shapes_do_not_raise_anything_else(engine: Engine, endpoint: Endpoint, odd: dict[str, Any]) -> None:
    engine.chat(streams(b"data: " + json.dumps(odd).encode() + b"\n\n", *FINISHED))
    assert endpoint.ask(STREAM).text == ""
    engine.says("/v1/chat/completions", odd)
    assert endpoint.ask(BODY).prompt_tokens is None


def test_nobody_there_is_said_so() -> None:
    server = Engine()
    server.server_close()
    with pytest.raises(EngineError, match="nothing answers there"):
        Endpoint(server.url, timeout=2).ask(BODY)


# --- the key


def test_the_key_is_sent(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/health", "")
    endpoint.healthy()
    assert engine.seen[0][1]["Authorization"] == f"Bearer {KEY}"
    Endpoint(engine.url).healthy()
    assert "Authorization" not in engine.seen[1][1]


def test_the_key_is_never_told_even_when_the_server_echoes_it(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/v1/chat/completions", {"error": {"message": f"wrong key {KEY}"}}, status=401)
    with pytest.raises(EngineError, match=r"wrong key \*\*\*") as caught:
        endpoint.ask(BODY)
    assert KEY not in f"{caught.value!r}{caught.value.__cause__!r}{endpoint!r}"


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\nX-Evil: 1", "sk-trailing ", "sk-\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_without_quoting_it(engine: Engine, key: str) -> None:
    engine.says("/v1/models", {"data": []})
    with pytest.raises(EngineError, match="API key has characters") as caught:
        Endpoint(engine.url, key).models()
    assert key not in str(caught.value)
    assert engine.seen == []


def test_a_proxy_in_the_environment_does_not_come_between(
    engine: Engine, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    engine.says("/health", "")
    assert endpoint.healthy()


def test_an_engine_that_is_not_well_says_why(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/health", "")
    assert endpoint.unwell() is None
    engine.says("/health", "", status=503)
    assert endpoint.unwell() == f"{engine.url}: /health says 503"
    assert Endpoint("http://127.0.0.1:1").unwell() == "http://127.0.0.1:1: nothing answers there"


def test_an_error_status_is_no_silence(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/v1/chat/completions", {"error": {"message": "no"}}, status=500)
    with pytest.raises(EngineError, match="HTTP 500: no") as refused:
        endpoint.ask(BODY)
    assert not isinstance(refused.value, EngineSilent)


def test_the_page_of_figures_is_given_as_it_is_written(engine: Engine, endpoint: Endpoint) -> None:
    engine.says("/metrics", "vllm:num_requests_running 2.0\n", kind="text/plain")
    assert endpoint.metrics_page() == "vllm:num_requests_running 2.0\n"
