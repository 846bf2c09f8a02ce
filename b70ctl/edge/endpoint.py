"""The engine's HTTP surface: asks, and gives back what came or an EngineError that says how it failed."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics, read_metrics
from b70ctl.edge.stream import Gathered, events
from b70ctl.errors import EngineError, EngineSilent

_HINT = "b70ctl logs"
_LONGEST_QUOTE = 400


class Endpoint:
    """One engine at one address; its API key is sent, and never shown.

    `timeout` bounds the small requests. A question has a deadline of its own, and `silence` bounds how long a stream
    may say nothing once it has begun.
    """

    def __init__(
        self, base_url: str, api_key: str | None = None, *, timeout: float = 10.0, silence: float = 60.0
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._key = api_key
        self._timeout = timeout
        self._silence = silence

    def healthy(self) -> bool:
        """Whether /health says 200 in time; the engine may be broken all the same."""
        return self.unwell() is None

    def unwell(self) -> str | None:
        """Why /health does not say 200; None when it does."""
        try:
            status = self._get("/health").status_code
        except EngineError as error:
            return error.what
        return None if status == httpx.codes.OK else self._error(f"/health says {status}").what

    def models(self) -> tuple[str, ...]:
        """The names under which the engine serves."""
        served = self._json(self._get("/v1/models")).get("data")
        if not isinstance(served, list):
            raise self._error("/v1/models lists no models")
        return tuple(str(model["id"]) for model in served if isinstance(model, dict) and "id" in model)

    def max_model_len(self, name: str) -> int | None:
        """The longest request of one model as the engine states it; None when it does not."""
        listed = self._json(self._get("/v1/models")).get("data")
        rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
        length = next((row.get("max_model_len") for row in rows if row.get("id") == name), None)
        return length if isinstance(length, int) and not isinstance(length, bool) else None

    def metrics(self) -> Metrics:
        """The engine's own figures."""
        return read_metrics(self.metrics_page())

    def metrics_page(self) -> str:
        """The page with the engine's own figures, as it is written."""
        answer = self._get("/metrics")
        self._accept(answer.status_code, answer.text)
        return answer.text

    def ask(self, body: Mapping[str, Any], *, path: str = "/v1/chat/completions", timeout: float = 120.0) -> Answer:
        """Post one request and wait for the whole answer, `timeout` seconds at the most."""
        # the event loop can end a read at any instant, which a blocking socket with one timeout cannot
        return asyncio.run(self._ask(dict(body), path, timeout))

    async def _ask(self, body: dict[str, Any], path: str, timeout: float) -> Answer:
        gathered = Gathered(began=time.monotonic())
        try:
            async with (
                asyncio.timeout(timeout),
                self._client() as client,
                client.stream("POST", path, json=body, headers=self._headers()) as response,
            ):
                await self._read(response, gathered, streamed=bool(body.get("stream")))
        except TimeoutError:
            raise self._silent(f"no complete answer after {timeout:g} s ({gathered.progress()})", gathered) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error, gathered.progress()) from None
        return gathered.answer(time.monotonic())

    async def _read(self, response: httpx.Response, gathered: Gathered, *, streamed: bool) -> None:
        if not response.is_success:
            self._accept(response.status_code, (await response.aread()).decode(errors="replace"))
        kind = response.headers.get("content-type", "nothing")
        expected = "text/event-stream" if streamed else "application/json"
        if expected not in kind:
            raise self._error(f"answered with {kind} where {expected} was due")
        if not streamed:
            await response.aread()
            gathered.take_whole(self._json(response))
            return
        async for event in events(self._chunks(response, gathered)):
            self._take(event, gathered)
        if not gathered.finished:
            raise self._error(f"the stream ended before the answer did ({gathered.progress()})")

    async def _chunks(self, response: httpx.Response, gathered: Gathered) -> AsyncIterator[bytes]:
        """The body as it comes; silence is measured from the last token, so that keep-alives do not hide a hang."""
        chunks = response.aiter_bytes()
        while True:
            try:
                async with asyncio.timeout_at(self._patience(gathered)):
                    chunk = await anext(chunks, b"")
            except TimeoutError:
                silent = time.monotonic() - (gathered.last_token or gathered.began)
                raise self._silent(f"silent for {silent:.1f} s {gathered.progress()}", gathered) from None
            if not chunk:
                return
            yield chunk

    def _patience(self, gathered: Gathered) -> float | None:
        # before the first token only the deadline counts: a long prompt is silent for minutes
        if gathered.last_token is None:
            return None
        left = gathered.last_token + self._silence - time.monotonic()
        return asyncio.get_running_loop().time() + left

    def _take(self, event: str, gathered: Gathered) -> None:
        try:
            chunk = json.loads(event)
        except (ValueError, RecursionError):
            raise self._error(f"sent an event that is not JSON: {self._quote(event)} ({gathered.progress()})") from None
        if not isinstance(chunk, dict) or "error" in chunk:
            raise self._error(f"failed in the middle ({gathered.progress()}): {self._said(event)}")
        gathered.take_chunk(chunk, time.monotonic())

    def _get(self, path: str) -> httpx.Response:
        return asyncio.run(self._fetch(path))

    async def _fetch(self, path: str) -> httpx.Response:
        # one connection a call: a pool would hold sockets of an engine that is being replaced
        try:
            async with asyncio.timeout(self._timeout), self._client() as client:
                return await client.get(path, headers=self._headers())
        except TimeoutError:
            raise self._error(f"no answer to GET {path} within {self._timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._unreachable(error, f"GET {path}") from None

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.base_url,
            timeout=httpx.Timeout(None, connect=self._timeout),
            trust_env=False,
            verify=_tls(self.base_url),
        )

    def _headers(self) -> dict[str, str]:
        key = self._key or ""
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            # the library's own error for this would quote the key
            raise self._error("the API key has characters that an HTTP header cannot carry")
        return {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {key}"} if key else {})

    def _accept(self, status: int, body: str) -> None:
        if not httpx.codes.is_success(status):
            raise self._error(f"HTTP {status}: {self._said(body)}")

    def _json(self, response: httpx.Response) -> dict[str, Any]:
        self._accept(response.status_code, response.text)
        try:
            value = response.json()
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise self._error(f"answered with what is no JSON object: {self._quote(response.text)}")
        return value

    def _said(self, body: str) -> str:
        """The message in an error body of vLLM's, whichever of its shapes it has."""
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._quote(body)
        inner = value.get("error", value) if isinstance(value, dict) else value
        message = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
        return self._quote(str(message or body))

    def _quote(self, text: str) -> str:
        return " ".join(text.split())[:_LONGEST_QUOTE] or "an empty body"

    def _unreachable(self, error: Exception, doing: str) -> EngineError:
        if isinstance(error, httpx.ConnectError):
            return self._error("nothing answers there")
        said = str(error) or type(error).__name__
        return self._error(f"{said} ({doing})")

    def _silent(self, what: str, gathered: Gathered) -> EngineError:
        quiet = time.monotonic() - (gathered.last_token or gathered.began)
        return EngineSilent(self._error(what).what, hint=_HINT, chunks=gathered.chunks, quiet=quiet)

    def _error(self, what: str) -> EngineError:
        shown = f"{self.base_url}: {what}"
        return EngineError(shown.replace(self._key, "***") if self._key else shown, hint=_HINT)


def _tls(base_url: str) -> ssl.SSLContext:
    # reading the machine's certificates takes longer than a request, and plain HTTP never looks at them
    return ssl.create_default_context() if base_url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
