"""A site: the directory that owns one engine, as its owner described it in site.yaml."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator, model_validator

from b70ctl.core.rotation import Drain, Router
from b70ctl.core.strict import AbsolutePath, EnvName, PathText, Strict
from b70ctl.core.watch import Watch

PciAddress = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
SiteName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9_-]{0,29}[a-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=65535)]

API_KEY = "VLLM_API_KEY"


class Secret(Strict):
    """Where a secret is read when a release is written; its value never stands in a file that is rendered."""

    file: PathText | None = None
    """A file with the value, its last line end not counted; a relative path starts at the site."""
    env: EnvName | None = None
    """A variable of the shell that runs b70ctl."""

    @model_validator(mode="after")
    def _one_source(self) -> Secret:
        if (self.file is None) == (self.env is None):
            raise ValueError("give either `file` or `env`")
        return self


class Site(Strict):
    """One engine's place on one box."""

    name: SiteName = "b70"
    """Prefix of everything that b70ctl makes in Docker; two sites on one box need two names."""
    models: PathText | None = None
    """The directory with the models; profiles name directories below it."""
    hf_cache: PathText | None = None
    """A Hugging Face cache, for models given by hub id."""
    bind: str = "127.0.0.1"
    """Address that the engine's port is published on; anything but loopback needs an API key."""
    port: Port = 8000
    """Port that clients use."""
    dri: AbsolutePath = "/dev/dri"
    """The directory with the cards' device nodes."""
    gids: list[Annotated[int, Field(ge=0)]] | None = None
    """Numeric groups that own the render nodes; left out they are read off the nodes."""
    cards: list[PciAddress] | None = None
    """The cards that this site may use, in PCI order; left out they are discovered."""
    secrets: dict[EnvName, Secret] = Field(default_factory=dict)
    """Variables for the engine whose values nobody may see; `VLLM_API_KEY` turns authentication on."""
    companions: list[PathText] = Field(default_factory=list)
    """Compose files of your own that run beside the engine; it answers to `engine:8000` on their network."""
    router: Router | None = None
    """How `drain` takes this engine out of a router's rotation, and `restore` back in."""
    feeders: list[str] = Field(default_factory=list)
    """Addresses of clients that must have no connection for the box to be quiet, e.g. 192.168.1.62."""
    drain: Drain = Field(default_factory=Drain)
    """How the site is drained, and when it counts as quiet."""
    watch: Watch = Field(default_factory=Watch)
    """How `b70ctl watch` follows the engine, and how often it may restart it."""
    defaults: dict[str, Any] = Field(default_factory=dict)
    """Part of a profile that every profile of this site starts from."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 5
    """Releases that `prune` keeps beside the serving one, the one before it and the named ones."""

    @field_validator("cards")
    @classmethod
    def _each_once(cls, cards: list[str] | None) -> list[str] | None:
        if cards is not None and len(set(cards)) < len(cards):
            raise ValueError("a card is named twice")
        return cards

    @field_validator("bind")
    @classmethod
    def _an_address(cls, bind: str) -> str:
        ipaddress.ip_address(bind)
        return bind

    @field_validator("feeders")
    @classmethod
    def _addresses(cls, feeders: list[str]) -> list[str]:
        # as the kernel writes them, so that they are found in its tables
        return [str(ipaddress.ip_address(feeder)) for feeder in feeders]

    @model_validator(mode="after")
    def _halts_what_there_is(self) -> Site:
        if self.drain.companions and not self.companions:
            raise ValueError("`drain.companions` names services, and the site has no `companions`")
        return self

    @model_validator(mode="after")
    def _not_open_to_all(self) -> Site:
        if not ipaddress.ip_address(self.bind).is_loopback and API_KEY not in self.secrets:
            raise ValueError(f"`bind: {self.bind}` is not loopback, so an API key is needed: secrets.{API_KEY}")
        return self

    @property
    def network(self) -> str:
        """The Docker network that engine and companions share."""
        return f"b70ctl-{self.name}"
