"""A site in a scratch directory on a real daemon: writes profiles, runs the command line, looks at what is there."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import docker.errors
import warm
import yaml

from tests.rig.image_files import INTEL, OPENAI

CHECKOUT = Path(__file__).resolve().parents[2]
CUT = Path(__file__).with_name("cut.py")
ROOMY = Path(__file__).with_name("roomy.py")
LATE = Path(__file__).with_name("late.py")
MARK = "b70ctl.test"
QUICK = {"STANDIN_BOOT_SECONDS": "0.05", "STANDIN_TOKENS_PER_SECOND": "20000"}
FAST_PROBES = dict.fromkeys(("arithmetic", "counting", "prose", "json", "long-prompt"), "asked elsewhere")


class _Quoting(yaml.SafeDumper):
    """Text in double quotes: what is text in YAML 1.1 (`1e3`) may be a number in 1.2."""


_Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))


@dataclass(frozen=True)
class Ran:
    """What a command said."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"{' '.join(self.argv)} -> {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def data(self) -> Any:
        """stdout as one JSON value."""
        return json.loads(self.out)

    def exits(self, code: int) -> Ran:
        """Itself, when it ended as it should; no command may ever end in a traceback."""
        assert self.code == code, str(self)
        assert "Traceback" not in self.err, str(self)
        assert "this is a fault of b70ctl" not in self.err, str(self)
        return self


@dataclass
class LiveSite:
    """One site, its containers and its files."""

    root: Path
    name: str
    port: int
    host: str
    client: docker.DockerClient
    env: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ("-m", "b70ctl")
    """What Python runs."""

    # -- writing ------------------------------------------------------------------------------------------------------

    def write_site(self, **more: Any) -> None:
        """site.yaml, with keys beyond name, models and port."""
        data = {"name": self.name, "models": "models", "port": self.port, **more}
        (self.root / "site.yaml").write_text(yaml.safe_dump(data))

    def model(self, name: str = "tiny") -> Path:
        """A directory that looks like a model's."""
        folder = self.root / "models" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text('{"architectures": ["Qwen3MoeForCausalLM"]}')
        return folder

    def profile(self, name: str, *, intel: bool = False, env: Mapping[str, str] | None = None, **more: Any) -> None:
        """A profile of a quick stand-in; keys given as None are left out."""
        family = INTEL if intel else OPENAI
        data: dict[str, Any] = {
            "summary": f"a stand-in called {name}",
            "status": "production",
            "image": {"ref": family.ref, "vllm": family.vllm},
            "model": {"path": "tiny", "served_names": [name]},
            "engine": {"max_model_len": 4096},
            "cards": "none",
            "env": {**QUICK, **(env or {})},
            "boot": {"budget": 60, "stall": 30},
            **more,
        }
        kept = {key: value for key, value in data.items() if value is not None}
        self.write_profile(name, yaml.dump(kept, Dumper=_Quoting, allow_unicode=False))

    def quick(self, name: str, **more: Any) -> None:
        """A profile whose probes are down to two, for tests that switch often."""
        self.profile(name, probes={"skip": FAST_PROBES}, **more)

    def triggered(self, name: str, *, env: Mapping[str, str] | None = None, **more: Any) -> None:
        """A quick profile whose engine takes its faults from `fault`."""
        folder = self.root / "trigger"
        folder.mkdir(exist_ok=True)
        self.quick(name, env={"STANDIN_TRIGGER": "/trigger/faults", **(env or {})},
                   mounts=[{"source": str(folder), "target": "/trigger"}], **more)  # fmt: skip

    def fault(self, names: str) -> None:
        """What is wrong with such engines from now on; nothing, when it is empty."""
        (self.root / "trigger" / "faults").write_text(names)

    def write_profile(self, name: str, text: str | bytes) -> Path:
        """A profile's file, as it stands."""
        path = self.root / "profiles" / f"{name}.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    # -- running ------------------------------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """What a command gets to see."""
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "B70CTL_COMPOSE") if key in os.environ}
        home = {"HOME": str(self.root / "home"), "B70CTL_LEASES": str(self.root.parent / "leases")}
        return kept | home | {"DOCKER_HOST": self.host, "PYTHONPATH": str(CHECKOUT)} | self.env | more

    def argv(self, *args: str) -> tuple[str, ...]:
        """The command line's own words."""
        return (sys.executable, *self.program, "--site", str(self.root), *args)

    def run(self, *args: str, timeout: float = 150, env: Mapping[str, str] | None = None) -> Ran:
        """The command line, to its end."""
        return self._run(self.program, args, timeout, env)

    def cut(self, when: str, line: int, *args: str, env: Mapping[str, str] | None = None) -> Ran:
        """The command line, killed at one line of its journal."""
        return self._run((str(CUT), when, str(line)), args, 150, env)

    def _run(self, program: Sequence[str], args: Sequence[str], timeout: float, env: Mapping[str, str] | None) -> Ran:
        words = ("--site", str(self.root), *args)
        done = warm.run(program, words, self.root, self.environment(**(env or {})), timeout)
        return Ran((*program, *words), done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def begin(self, *args: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """The command line, begun; ended at the end of the block when it still runs."""
        child = subprocess.Popen(
            self.argv(*args), cwd=self.root, env=self.environment(**(env or {})), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=heard,
        )  # fmt: skip
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
            child.communicate()

    def switch(self, profile: str, *args: str, code: int = 0, env: Mapping[str, str] | None = None) -> Ran:
        """A switch that must end with this code."""
        return self.run("switch", profile, "--yes", *args, env=env).exits(code)

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def store(self) -> Path:
        """The site's memory."""
        return self.root / ".b70ctl"

    def state(self) -> dict[str, Any]:
        """The state file."""
        path = self.store / "state.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def serving(self) -> str:
        """The release that the state file names."""
        return str(self.state()["serving"])

    def journal(self) -> list[dict[str, Any]]:
        """The journal's lines."""
        path = self.store / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def begun(self, verb: str) -> bool:
        """Whether the last command has begun a step of this kind and not ended it."""
        lines = self.journal()
        return bool(lines) and lines[-1]["event"] == "before" and lines[-1]["what"].split()[0] == verb

    def releases(self) -> dict[str, dict[str, Any]]:
        """Every release's record, oldest first."""
        found = sorted(self.store.glob("releases/[0-9]*/release.json"))
        return {path.parent.name: json.loads(path.read_text()) for path in found}

    def release(self, profile: str) -> str:
        """The newest release of a profile."""
        return [name for name, each in self.releases().items() if each["deployment"]["profile"] == profile][-1]

    def folder(self, release: str) -> Path:
        """A release's folder."""
        return self.store / "releases" / release

    def verdict(self, release: str) -> dict[str, Any]:
        """What became of a release."""
        found: dict[str, Any] = json.loads((self.folder(release) / "verdict.json").read_text())
        return found

    def history(self) -> list[dict[str, Any]]:
        """Every command that changed something."""
        found: list[dict[str, Any]] = self.run("history", "--json", "--limit", "10000").exits(0).data()
        return found

    def containers(self) -> list[Any]:
        """The site's containers, whatever their state."""
        return list(
            self.client.containers.list(all=True, ignore_removed=True, filters={"label": f"b70ctl.site={self.name}"})
        )

    def engine(self) -> Any:
        """The site's one and only container."""
        (found,) = self.containers()
        return found

    def tags(self) -> set[str]:
        """The releases whose images are kept under a name."""
        names = [tag for image in self.client.images.list(f"b70ctl/{self.name}") for tag in image.tags]
        return {name.rpartition(":")[2] for name in names if name.startswith(f"b70ctl/{self.name}:")}

    def get(self, path: str, *, key: str | None = None, port: int | None = None) -> tuple[int, Any]:
        """A GET of the engine: status and JSON (or nothing)."""
        return self._ask(urllib.request.Request(self._url(path, port)), key)

    def ask(self, model: str, question: str, *, key: str | None = None) -> tuple[int, str]:
        """One question of the engine: status and text."""
        body = {"model": model, "messages": [{"role": "user", "content": question}], "max_tokens": 32}
        request = urllib.request.Request(self._url("/v1/chat/completions", None), json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        status, answer = self._ask(request, key)
        return status, answer["choices"][0]["message"]["content"] if status == 200 else str(answer)

    def _url(self, path: str, port: int | None) -> str:
        return f"http://127.0.0.1:{port or self.port}{path}"

    def _ask(self, request: urllib.request.Request, key: str | None) -> tuple[int, Any]:
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                raw = answer.read()
                return answer.status, json.loads(raw) if raw else None
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    # -- laws ---------------------------------------------------------------------------------------------------------

    def assert_serves(self, profile: str, release: str | None = None) -> str:
        """This profile, and nothing else of the site, runs, is recorded, is proven, and answers."""
        serving = self.serving()
        assert release in (None, serving)
        assert self.releases()[serving]["deployment"]["profile"] == profile
        self.assert_whole()
        container = self.engine()
        assert container.labels["b70ctl.release"] == serving
        assert container.status == "running"
        assert container.attrs["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped"
        assert self.verdict(serving)["state"] == "proven"
        status, said = self.ask(profile, "What is the capital of France?")
        assert status == 200, said
        assert "Paris" in said
        assert not self.state()["stopped"]
        return serving

    def assert_nothing_serves(self) -> None:
        """No container of the site is left and none is recorded as serving."""
        assert self.containers() == []
        assert self.state().get("serving") is None
        self.assert_whole()

    def assert_whole(self) -> None:
        """No command is open, and nothing in the store is half of something."""
        lines = self.journal()
        assert not lines or lines[-1]["event"] == "end", lines[-1]
        litter = [str(path) for path in self.store.rglob("*")
                  if path.name.startswith((".partial-", ".check-")) or path.name.endswith(".new")]  # fmt: skip
        assert litter == []
        for folder in (self.store / "releases").glob("*"):
            assert {"release.json", "deployment.json"} <= {path.name for path in folder.iterdir()}, folder
        assert self.tags() <= set(self.releases())

    def tree(self) -> dict[str, tuple[int, str]]:
        """Every path of the site with its time of change and a hash of its content."""
        return {
            str(path.relative_to(self.root)): (path.lstat().st_mtime_ns, _hash(path))
            for path in sorted(self.root.rglob("*"))
        }

    def docker_state(self) -> dict[str, Any]:
        """What of this site is in Docker: containers with their states, networks, volumes, image names."""
        every = self.client.api.containers(all=True)
        return {
            "containers": sorted(
                (row["Id"], row["State"]) for row in every
                if self.name in (row["Labels"].get("b70ctl.site"), row["Labels"].get(MARK))
            ),
            "networks": sorted(each.id for each in self.client.networks.list() if self.name in each.name),
            "volumes": sorted(each.name for each in self.client.volumes.list() if self.name in each.name),
            "images": sorted(tag for each in self.client.images.list() for tag in each.tags if self.name in tag),
        }  # fmt: skip

    def by_hand(self, name: str, *, port: int, policy: str = "always", env: Mapping[str, str] | None = None,
                served: str = "hand-made", **more: Any) -> Any:  # fmt: skip
        """A container as people start one, serving a stand-in on a port."""
        container = self.client.containers.run(
            OPENAI.ref, ["/models/x", "--served-model-name", served, "--max-model-len", "4096"],
            name=f"{self.name}-{name}", detach=True, ports={"8000/tcp": ("127.0.0.1", port)},
            restart_policy={"Name": policy}, environment={**QUICK, **(env or {})},
            labels={MARK: self.name, **more.pop("labels", {})}, **more,
        )  # fmt: skip
        until(lambda: self.get("/health", port=port)[0] == 200, "the container made by hand serves")
        container.reload()
        return container

    def remove(self) -> None:
        """Take everything of the site out of Docker."""
        ours = (f"b70ctl-{self.name}", f"{self.name}-")
        for container in self.client.containers.list(all=True, ignore_removed=True):
            labels = container.labels
            project = labels.get("com.docker.compose.project", "")
            if self.name in (labels.get("b70ctl.site"), labels.get(MARK)) or project.startswith(ours[1]):
                until(lambda each=container: _removed(each), f"container {container.name} is removed")
        for network in self.client.networks.list():
            if network.name.startswith(ours):
                _gone(network.remove)
        for volume in self.client.volumes.list():
            if volume.name.startswith(ours):
                _gone(volume.remove, force=True)
        for tag in [tag for image in self.client.images.list() for tag in image.tags if self.name in tag]:
            _gone(self.client.images.remove, tag, noprune=True)


def heard() -> None:
    """Signals mean what they mean on a terminal, also where the tests were started in the background."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _removed(container: Any) -> bool:
    """Whether a container is gone; a busy daemon may refuse to kill one, and must be asked again.

    One that were left would hold its card and its port against every test to come.
    """
    try:
        container.remove(force=True, v=True)
    except docker.errors.NotFound:
        return True
    except docker.errors.APIError:
        return False
    return True


def _gone(remove: Callable[..., object], *args: object, **how: object) -> None:
    with contextlib.suppress(docker.errors.APIError):
        remove(*args, **how)


NewSite = Callable[..., LiveSite]
"""Makes a site; its keys go into site.yaml."""


def until(holds: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Poll until something holds; fails with its name."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody has on loopback; below the range that outgoing connections take theirs from."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(18000 + 5000 * worker + os.getpid() % 4000, 32000):
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
    raise AssertionError("no free port")


_given: set[int] = set()


@contextlib.contextmanager
def listening(port: int) -> Iterator[None]:
    """Take a port as another process would."""
    with contextlib.closing(socket.socket()) as taker:
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taker.bind(("127.0.0.1", port))
        taker.listen()
        yield


def _hash(path: Path) -> str:
    if path.is_symlink():
        return str(path.readlink())
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def with_port(site: LiveSite, port: int) -> LiveSite:
    """The same site, asked at another port."""
    return dataclasses.replace(site, port=port)
