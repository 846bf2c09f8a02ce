"""What a watch tells: one line for each change, or one JSON object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from b70ctl.cli.console import Console
from b70ctl.edge.files import now


@dataclass
class Lines:
    """The lines of one watch; a condition that lasts is told once."""

    console: Console
    lasting: dict[str, str] = field(default_factory=dict)

    def tell(self, what: str, text: str, **more: Any) -> None:
        """Something happened."""
        if self.console.json:
            self.console.data({"event": what, "at": now(), "text": text, **more})
        else:
            self.console.text(f"{now()}  {what:<14}  {text}")

    def lasts(self, what: str, text: str) -> None:
        """Something is so, and was told already if it is as it was."""
        if self.lasting.get(what) != text:
            self.lasting[what] = text
            self.tell(what, text)

    def over(self, what: str) -> None:
        """It is so no more."""
        if self.lasting.pop(what, None) is not None:
            self.tell(f"{what}-over", "the watch goes on")
