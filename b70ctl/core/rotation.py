"""In and out of a router's rotation: how the site's owner says it is done, and what is to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from b70ctl.core.strict import Strict, Text

Url = Annotated[str, StringConstraints(pattern=r"^https?://\S+$")]
WorkerUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#&]+$")]


class Action(StrEnum):
    """What the router is asked for."""

    REMOVE = "remove"
    ADD = "add"


class HttpCall(Strict):
    """One request; `{url}` in it becomes the engine's URL as the router knows it."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    """The method."""
    url: Url
    """Where it goes."""
    body: str | None = None
    """What is sent with it, as JSON."""


class HttpRouter(Strict):
    """The two requests that a router is asked with; any answer below 300 is a yes."""

    remove: HttpCall
    """Takes the engine out of rotation."""
    add: HttpCall
    """Takes it back in."""


class Router(Strict):
    """The site's router hook, in one of three forms; asked twice it must not mind."""

    command: Annotated[list[Text], Field(min_length=1)] | None = None
    """A program of your own, with `ACTION` (`remove`, `add`) and `URL` in its environment, and for `{action}` and
    `{url}` among its words; it starts in the site's directory and must end with 0."""
    http: HttpRouter | None = None
    """Two HTTP requests."""
    vllm_router: WorkerUrl | None = None
    """The address of a vllm-router, which is asked to remove and to add the engine as a worker."""
    worker: WorkerUrl | None = None
    """The URL under which the router knows this engine; left out, its address as this host sees it."""

    @model_validator(mode="after")
    def _one_form(self) -> Router:
        if sum(form is not None for form in (self.command, self.http, self.vllm_router)) != 1:
            raise ValueError("give one of `command`, `http` and `vllm_router`")
        return self

    @property
    def form(self) -> str:
        """What will be asked, for a plan's reason."""
        if self.command:
            return f"`{self.command[0]}`"
        return f"vllm-router at {self.vllm_router}" if self.vllm_router else "the router's HTTP interface"


class Drain(Strict):
    """How the site is drained, and when it counts as quiet."""

    limit: Annotated[int, Field(ge=0, le=86400)] = 120
    """Seconds that `drain` waits for requests to end before the engine is told to stop. What is in flight then has the
    engine's own grace, and is cut off after that."""
    companions: list[Text] | Literal["all"] = Field(default_factory=list)
    """Services of the companions that stop with the engine and start again with `restore`; `all` for every one."""
    load: Annotated[float, Field(gt=0, le=10000)] | None = None
    """The one-minute load average that a quiet box stays under; left out, half of the box's cores."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run."""

    argv: tuple[str, ...]
    env: dict[str, str]


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request to send."""

    method: str
    url: str
    body: str | None = None
    already: str | None = None
    """Words of a refusal that says that it is so already."""


def asked(router: Router, action: Action, engine: str) -> Command | Call:
    """What takes an engine out of rotation, or back in; `engine` is its URL as this host sees it."""
    worker = router.worker or engine
    if router.command:
        words = {"{action}": str(action), "{url}": worker}
        argv = tuple(_filled(word, words) for word in router.command)
        return Command(argv, {"ACTION": str(action), "URL": worker})
    if router.http:
        call = router.http.remove if action is Action.REMOVE else router.http.add
        body = None if call.body is None else call.body.replace("{url}", worker)
        return Call(call.method, call.url.replace("{url}", worker), body)
    url = f"{str(router.vllm_router).rstrip('/')}/{action}_worker?url={worker}"
    return Call("POST", url, already="already exists" if action is Action.ADD else None)


def _filled(word: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        word = word.replace(name, value)
    return word
