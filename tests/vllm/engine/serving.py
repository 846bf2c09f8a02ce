"""A site whose engine is a real vLLM, switched by the command line, and measured with b70ctl's own code."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from livesite import LiveSite, Ran, until

from b70ctl.core.metrics import acceptance
from b70ctl.edge.endpoint import Endpoint
from tests.vllm.engine.image import Environment
from tests.vllm.lesson import COUNTED, DRAFT_LIMIT, LENGTH, count_after
from tests.vllm.places import cache_dir
from tests.vllm.record import Row

TOKENS = 3
"""Guessed in one step."""
BOOT = {"budget": 1200, "stall": 900}
"""One busy processor core may be all that there is."""
VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": 1, "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": 1,
             "TORCHDYNAMO_DISABLE": 1, "VLLM_USE_V2_MODEL_RUNNER": "0"}  # fmt: skip
"""V2 needs Triton, which a processor has not: said, so that lint knows as well."""
ANSWER = 240
"""Tokens that the answer by which acceptance is measured may have."""
WORDS_BELOW, WORDS_BEYOND = 50, 700
"""Lengths of a text before the question, on either side of the draft's limit."""
TARGET, DRAFT = "tiny-target", "tiny-draft"


@dataclass(frozen=True)
class Measured:
    """What one question showed."""

    accepted: float | None
    """Tokens accepted per draft; None when nothing was drafted."""
    prompt: int
    """Tokens of the prompt."""
    text: str

    @property
    def right(self) -> bool:
        """Whether it counted as it was taught: a draft never changes an answer."""
        return self.text.strip() == COUNTED


@dataclass(frozen=True)
class Served:
    """One site with one release of vLLM."""

    site: LiveSite
    found: Environment
    rows: list[Row] = field(default_factory=list)
    """What was proven."""

    def write(
        self, name: str, speculative: dict[str, Any] | None = None, kernels: str = "image", **engine: Any
    ) -> None:
        """A profile of the tiny target; with a draft it must answer as `plain` did without."""
        data: dict[str, Any] = {
            "summary": f"a tiny model on a processor: {name}",
            "status": "production",
            "image": {"ref": self.found.ref, "vllm": self.found.version},
            "model": {"path": TARGET, "served_names": [name]},
            "engine": {
                "dtype": "bfloat16", "max_model_len": LENGTH, "max_num_seqs": 4, "max_num_batched_tokens": LENGTH,
                "enforce_eager": True, "tool_call_parser": "hermes", **engine,
            },
            "kernels": kernels,
            "cards": "none",
            "env": VARIABLES,
            "boot": BOOT,
            "mounts": self.found.mounts(),
        }  # fmt: skip
        if speculative:
            data |= {"speculative": speculative, "probes": {"agree_with": "plain"}}
        self.site.write_profile(name, yaml.safe_dump(data))

    def switch(self, name: str) -> Ran:
        """A switch that must end proven; two engines never boot at once on one machine."""
        with (cache_dir() / "boot.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return self.site.run("switch", name, "--yes", timeout=1500).exits(0)

    def proven(self, name: str) -> dict[str, Any]:
        """How the engine that serves was proven; it must be this one, and every probe must have been asked."""
        verdict = self.site.verdict(self.site.serving())
        assert self.site.releases()[self.site.serving()]["deployment"]["profile"] == name
        assert verdict["state"] == "proven"
        assert {finding["probe"]: finding["passed"] for finding in verdict["findings"]} == dict.fromkeys(
            (finding["probe"] for finding in verdict["findings"]), True
        )
        return verdict

    def note(self, feature: str, note: str = "", outcome: str = "ok") -> None:
        """Keep what was proven for the table."""
        self.rows.append(Row(self.found.version, feature, outcome, "engine", note))

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> Endpoint:
        """The engine, as b70ctl asks it."""
        return Endpoint(f"http://127.0.0.1:{self.site.port}")

    def counted(self, model: str, question: str) -> Measured:
        """What the engine accepts while it counts."""
        before = self.endpoint.metrics()
        answer = self.endpoint.ask(_body(model, question), timeout=600)
        return Measured(acceptance(before, self.endpoint.metrics()), answer.prompt_tokens or 0, answer.text)

    def below(self, model: str) -> Measured:
        """The same within the draft's limit, its answer included."""
        found = self.counted(model, count_after(WORDS_BELOW))
        assert found.prompt + ANSWER < DRAFT_LIMIT
        return found

    def beyond(self, model: str) -> Measured:
        """The same past the draft's limit from the first token on."""
        found = self.counted(model, count_after(WORDS_BEYOND))
        assert found.prompt > DRAFT_LIMIT
        return found

    @contextmanager
    def beside_a_long_one(self, model: str) -> Iterator[None]:
        """A block during which a request past the draft's limit runs from beginning to end."""
        body = _body(model, count_after(WORDS_BEYOND)) | {"max_tokens": 900, "ignore_eos": True}
        long = threading.Thread(target=lambda: self.endpoint.ask(body, timeout=900))
        long.start()
        try:
            until(lambda: (self.endpoint.metrics().running or 0) > 0, "the long request runs")
            yield
            assert long.is_alive(), "the long request ended first"
        finally:
            long.join()


def _body(model: str, question: str) -> dict[str, Any]:
    said = [{"role": "user", "content": question}]
    return {"model": model, "messages": said, "max_tokens": ANSWER, "temperature": 0}


def eagle3(draft: dict[str, Any]) -> dict[str, Any]:
    """Speculation with a draft."""
    return {"method": "eagle3", "num_speculative_tokens": TOKENS, "draft": draft}


def models() -> Path:
    """Where the tiny models lie."""
    return cache_dir() / "models"
