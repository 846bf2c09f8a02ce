"""An engine that a watch looks at: it answers as a test says."""

from dataclasses import dataclass, field
from typing import Any

from b70ctl.core.answer import Answer
from b70ctl.core.metrics import Metrics
from b70ctl.errors import EngineError

COUNTED = "one, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, \
sixteen, seventeen, eighteen, nineteen, twenty, twenty-one, twenty-two, twenty-three, twenty-four, twenty-five, \
twenty-six, twenty-seven, twenty-eight, twenty-nine, thirty"


@dataclass
class Engine:
    """The calls of an Endpoint, answered as a test says."""

    answer: Answer | EngineError = field(
        default_factory=lambda: Answer(text=COUNTED, completion_tokens=101, seconds=3.0, first_token_seconds=1.0,
                                       finish_reason="stop"))  # fmt: skip
    pages: list[Metrics | None] = field(default_factory=list)
    ill: str | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    length: int | None = 4096

    def unwell(self) -> str | None:
        return self.ill

    def metrics(self) -> Metrics:
        page = self.pages.pop(0) if self.pages else None
        if page is None:
            raise EngineError("no page")
        return page

    def max_model_len(self, name: str) -> int | None:
        if self.length is None:
            raise EngineError("/v1/models lists no models")
        return self.length

    def ask(self, body: dict[str, Any], *, path: str, timeout: float) -> Answer:
        self.asked.append({"path": path, "timeout": timeout, **body})
        if isinstance(self.answer, EngineError):
            raise self.answer
        return self.answer


def idle(tokens: int) -> Metrics:
    return Metrics(running=0, waiting=0, generation_tokens=tokens)
