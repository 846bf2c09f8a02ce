"""Where something is to run."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from b70ctl.core.host import Host
from b70ctl.core.site import Site
from b70ctl.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where it is to run: the site with its paths made absolute, and the box."""

    site: Site
    root: str
    """The site's directory; relative paths start here."""
    host: Host = field(default_factory=Host)
    draft_commit: str | None = None
    """What the profile's hub draft stands for in the site's cache, where it is there."""

    def path(self, path: str) -> str:
        """A path as this host sees it; a relative one starts at the site."""
        return posixpath.normpath(posixpath.join(self.root, path))

    def model(self, path: str | None) -> str | None:
        """The host directory of a model that is given by path; UsageError where the site has no models."""
        if path is None:
            return None
        if self.site.models is None:
            raise UsageError("the profile names a model directory, and site.yaml has no `models`",
                             hint="add to site.yaml: models: /path/to/your/models")  # fmt: skip
        return posixpath.normpath(posixpath.join(self.path(self.site.models), path))
