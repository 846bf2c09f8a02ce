"""A mount as a person writes it into a profile."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, model_validator

from b70ctl.core.sizes import mountable, numberable
from b70ctl.core.strict import AbsolutePath, PathText, Strict


class MountSpec(Strict):
    """A file or directory of the user's own inside the container."""

    source: PathText
    """A path on the host. A relative one starts at the site; read-only, it is copied into each release. An absolute
    one is mounted as it is, and a rollback sees it as it is then."""
    target: Annotated[AbsolutePath, AfterValidator(mountable)]
    """Where the container sees it."""
    read_only: bool = True
    """A mount that the engine may write to says so."""

    @model_validator(mode="after")
    def _named(self) -> MountSpec:
        if self.carried:
            numberable(self.source)
        return self

    @property
    def carried(self) -> bool:
        """Whether the release carries the file: what belongs to the site may change under a release that does not."""
        return self.read_only and not self.source.startswith("/")
