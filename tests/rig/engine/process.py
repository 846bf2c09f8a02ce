"""The engine as a process: boot, serve, say how it goes, drain, leave."""

from __future__ import annotations

import os
import signal
import threading
import time

from .boot import Boot
from .crash import CAUSES, BootFailed, tell_crash
from .flags import Flags
from .knobs import faults, knob, since
from .log import API, CORE
from .metrics import SPEC_COUNTERS
from .routes import Handler, Server
from .serving import Engine


def watch(engine: Engine) -> None:
    """Background: the statistics line, and death by trigger."""
    before, spoken = dict(engine.metrics.counts), time.monotonic()
    while not engine.gone.wait(0.1):
        active = faults()
        if "crash-now" in active:
            CORE.info("core.py:1099", "EngineCore encountered a fatal error.", level="ERROR")
            tell_crash(CAUSES["graphs"])
            os._exit(1)
        period = 1.0 if "never-healthy" in active else knob("STATS_SECONDS", 10)
        if time.monotonic() - spoken < period:
            continue
        now = dict(engine.metrics.counts)
        if now != before or "never-healthy" in active:
            tell_stats(engine, before, now, period)
        before, spoken = now, time.monotonic()


def tell_stats(engine: Engine, before: dict[str, float], now: dict[str, float], period: float) -> None:
    """The periodic line, and the one about drafts where there are any."""
    metrics = engine.metrics
    grown = {name: now.get(name, 0) - before.get(name, 0) for name in now}
    device = "XPU" if since(0, 30) else "GPU"
    hits = 100 * now.get("prefix_cache_hits", 0) / max(1, now.get("prefix_cache_queries", 0))
    API.info(
        "loggers.py:259",
        f"Engine 000: Avg prompt throughput: {grown.get('prompt_tokens', 0) / period:.1f} tokens/s, "
        f"Avg generation throughput: {grown.get('generation_tokens', 0) / period:.1f} tokens/s, "
        f"Running: {metrics.running} reqs, Waiting: {metrics.waiting} reqs, "
        f"{device} KV cache usage: {100 * metrics.held_tokens / engine.kv_tokens:.1f}%, "
        f"Prefix cache hit rate: {hits:.1f}%",
    )
    drafts, drafted, accepted = (grown.get(name, 0) for name in SPEC_COUNTERS)
    if drafts:
        rates = ", ".join(
            f"{metrics.per_position[p] / max(1, now[SPEC_COUNTERS[0]]):.3f}" for p in sorted(metrics.per_position)
        )
        API.info(
            "metrics.py:100",
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, "
            f"Accepted throughput: {accepted / period:.2f} tokens/s, "
            f"Drafted throughput: {drafted / period:.2f} tokens/s, "
            f"Accepted: {accepted:.0f} tokens, Drafted: {drafted:.0f} tokens, "
            f"Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%",
        )


def serve(flags: Flags) -> int:
    """Boot, serve until a stop is asked for, drain, leave; the exit status."""
    stop = threading.Event()

    def asked(number: int, _: object) -> None:
        if not (number == signal.SIGTERM and "ignore-sigterm" in faults()):
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    server = Server((flags.host, flags.port), Handler, bind_and_activate=False)
    try:
        server.server_bind()
        boot = Boot(flags, stop)
        boot.run()
    except BootFailed as failed:
        tell_crash(str(failed))
        return 1
    except KeyboardInterrupt:
        API.plain("KeyboardInterrupt: terminated")
        return 1
    except OSError as error:
        API.plain(f"OSError: {error}")
        return 1
    server.engine = Engine(flags, boot.kv_tokens)
    _serve_until(server, stop)
    return 0


def _serve_until(server: Server, stop: threading.Event) -> None:
    engine = server.engine
    server.server_activate()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    threading.Thread(target=watch, args=(engine,), daemon=True).start()
    if "never-healthy" not in faults():
        API.plain("INFO:     Application startup complete.")
    stop.wait()
    API.info("launcher.py:141", "Shutting down FastAPI HTTP server.")
    engine.drain()
    for line in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
        API.plain(f"INFO:     {line}")
