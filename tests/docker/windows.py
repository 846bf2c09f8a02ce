"""What the tests of windows share: the command line of one, and a command that looks around."""

import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from livesite import LiveSite, free_port

CALM = {"load": 10000, "limit": 5}
ELSEWHERE = "127.0.0.2"
AWAITS_FEEDER: dict[str, Any] = {
    "feeders": [ELSEWHERE], "router": {"command": ["sh", "-c", "until [ -e fed ]; do sleep 0.1; done"]},
}  # fmt: skip
"""Keys of a site whose router does not answer before the file `fed` is there: time for a feeder to come late."""
LOOK = """
import json, os, sys, urllib.request
import docker

def models(url):
    try:
        with urllib.request.urlopen(url + "/models", timeout=5) as answer:
            return [each["id"] for each in json.load(answer)["data"]]
    except OSError as error:
        return str(error)

site, production = sys.argv[1:]
running = docker.from_env().containers.list(filters={"label": "b70ctl.site=" + site})
seen = {
    "env": {name: value for name, value in os.environ.items() if name.startswith(("B70CTL_", "OPENAI_"))},
    "models": models(os.environ["OPENAI_BASE_URL"]),
    "production": models(production),
    "running": [each.labels["b70ctl.profile"] for each in running],
    "networks": [name for each in running for name in each.attrs["NetworkSettings"]["Networks"]],
    "policies": [each.attrs["HostConfig"]["RestartPolicy"]["Name"] for each in running],
    "published": [each.attrs["HostConfig"]["PortBindings"] for each in running],
}
print(json.dumps(seen), flush=True)
"""


class Dark:
    """A site, and the dark port of its windows."""

    def __init__(self, site: LiveSite) -> None:
        self.site = site
        self.port = free_port()

    def words(self, *profiles: str, command: tuple[str, ...] = ("true",)) -> tuple[str, ...]:
        """The words of a window for these profiles (and options)."""
        return ("window", *profiles, "--port", str(self.port), "--yes", "--", *command)

    def look(self) -> tuple[str, ...]:
        """A command that tells what it sees, one JSON object for each turn."""
        path = self.site.root / "look.py"
        path.write_text(LOOK)
        return (sys.executable, str(path), self.site.name, f"http://127.0.0.1:{self.site.port}/v1")

    def free(self) -> bool:
        """Whether nothing answers on the dark port."""
        return self.site.get("/health", port=self.port)[0] == 0


def serving_site(site: LiveSite, **more: Any) -> Dark:
    """A site that serves `a` and has `b` and `c` to try."""
    site.write_site(drain=CALM, **more)
    for name in "abc":
        site.quick(name)
    site.switch("a")
    return Dark(site)


def seen(out: str) -> list[dict[str, Any]]:
    """What the command that looks around told."""
    return [json.loads(line) for line in out.splitlines()]


def pids(folder: Path) -> list[int]:
    """The processes that a command said it has started."""
    return [int(path.read_text()) for path in folder.glob("*.pid")]


@contextlib.contextmanager
def fed() -> Iterator[socket.socket]:
    """A connection from a feeder, to somewhere on this host."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as feeder:
        feeder.bind((ELSEWHERE, 0))
        feeder.connect(server.getsockname())
        with server.accept()[0]:
            yield feeder
