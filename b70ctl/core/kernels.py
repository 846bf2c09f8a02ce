"""Runs of the programs that come with the attention kernels: the container, what was said, what is kept of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from b70ctl.core import serving
from b70ctl.core.compose import LABEL
from b70ctl.core.deployment import Deployment
from b70ctl.core.image import ImageFacts
from b70ctl.core.preflight import CardHolder
from b70ctl.core.release import Observed
from b70ctl.core.sizes import bytes_of
from b70ctl.errors import B70Error, MachineError, Refused, UsageError

PACKAGE = "b70_kernels"
FOLDER = "/opt/b70"
"""Where a container has the package; it holds nothing else, so that it can be on Python's path."""
OUT = "/opt/b70-out"
TABLE = "tuning.json"
TABLE_PLACE = f"/opt/{TABLE}"
"""Where a container has the site's table."""
TABLE_VARIABLE = "B70_KERNELS_TUNING"
"""Names such a table to the kernels."""
MASK = "ZE_AFFINITY_MASK"
FORMAT = 1
MOST_LINES = 2000
"""Lines of each stream that a report keeps."""

TRACEBACK = "Traceback (most recent call last):"
MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
USAGE = re.compile(r"python3? -m [\w.]+: error: (.+)")
NO_DEVICE = re.compile(r"argument --device: (torch \S+ has no device .+)")
"""Nobody types that argument: it is the program's own choice, and the machine that has none."""
OF_TORCH = frozenset({"torch", "triton"})
FOR_XPU = "a torch built for XPU, with its Triton, in the environment that is active; or leave out --here"


@dataclass(frozen=True, slots=True)
class Program:
    """One of the package's programs, and what it is told."""

    name: str
    """`check`, `bench` or `tune`."""
    words: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        """Whether it leaves a table of tile sizes; the others run with the one that the site has."""
        return self.name == "tune"

    def argv(self, python: str, out: str, *, json: bool = False) -> tuple[str, ...]:
        """Its whole command; `out` is the folder that it may write into."""
        told = ("--out", f"{out}/{TABLE}") if self.writes else ("--json",) if json else ()
        return (python, "-m", f"{PACKAGE}.{self.name}", *self.words, *told)


def on_one_card(deployment: Deployment) -> Deployment:
    """A deployment with the first of its cards alone; UsageError for one that has none."""
    if not deployment.card_count:
        raise UsageError(f"profile `{deployment.profile}` uses no card, and the kernels are for one",
                         hint="b70ctl profiles list")  # fmt: skip
    first = {MASK: deployment.env[MASK].split(",")[0]} if MASK in deployment.env else {}
    changed = {"cards": deployment.cards[:1], "card_count": 1, "env": deployment.env | first}
    return deployment.model_copy(update=changed)


def container(
    deployment: Deployment,
    facts: ImageFacts,
    argv: Sequence[str],
    *,
    package: str,
    out: str,
    root: str,
    table: str | None = None,
) -> dict[str, Any]:
    """What Docker is asked to make, in its API's own words: the engine's card and environment, and no network.

    `package` and `out` are folders of the host, `table` a site's own tile sizes, `root` the site that it runs for.
    """
    before = serving.entrypoint(facts, ())
    return {
        "Image": deployment.image,
        "Entrypoint": list(before or argv[:1]),
        "Cmd": list(argv if before else argv[1:]),
        "Env": [f"{name}={value}" for name, value in _environment(deployment, facts, table).items()],
        "WorkingDir": "/",
        "Labels": {
            f"{LABEL}.probe": "1", f"{LABEL}.root": root, f"{LABEL}.cards": ",".join(deployment.cards),
        },
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "Devices": [
                {"PathOnHost": source, "PathInContainer": target, "CgroupPermissions": "rwm"}
                for source, target in deployment.devices
            ],
            "GroupAdd": [str(gid) for gid in deployment.groups],
            "Mounts": [
                _bind(package, f"{FOLDER}/{PACKAGE}", read_only=True),
                _bind(out, OUT, read_only=False),
                *([_bind(table, TABLE_PLACE, read_only=True)] if table else []),
                *(_bind(f"{source}/by-path", f"{target}/by-path", read_only=True)
                  for source, target in deployment.devices),
            ],
            "IpcMode": deployment.ipc,
            "ShmSize": bytes_of(deployment.shm_size),
            "Ulimits": [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in deployment.ulimits.items()],
            "SecurityOpt": ["no-new-privileges:true"],
        },
    }  # fmt: skip


def _environment(deployment: Deployment, facts: ImageFacts, table: str | None) -> dict[str, str]:
    # the image's own path may carry the vLLM that upstream's kernels are imported from
    path = deployment.env.get("PYTHONPATH") or facts.pythonpath
    # what a release carries is not mounted here: neither its plugin nor the table that it would name
    rest = {name: value for name, value in deployment.env.items() if name != TABLE_VARIABLE}
    own = {TABLE_VARIABLE: TABLE_PLACE} if table else {}
    return rest | {"PYTHONPATH": f"{path}:{FOLDER}" if path else FOLDER} | own


def _bind(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


def card_is_held(holder: CardHolder, observed: Observed) -> Refused:
    """The refusal of a card that somebody has, with the command that frees it."""
    ours = [item.name for item in observed.containers if observed.runs(item.release) and not item.foreign]
    hint = "b70ctl verify"
    if any(name in holder.who for name in ours):
        hint = "b70ctl drain; b70ctl kernels …; b70ctl restore"
    elif holder.container:
        hint = f"docker stop {holder.container}"
    return Refused(f"card {holder.card} is held by {holder.who}, and the kernels need it to themselves", hint=hint)


# --- what was said ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Heard:
    """What a program said, line by line; from a traceback or a usage line on, stderr is kept and not shown."""

    out: list[str] = field(default_factory=list)
    err: list[str] = field(default_factory=list)
    held: bool = False

    def take(self, line: str, *, aside: bool) -> bool:
        """Keep a line of stdout, or of stderr (`aside`); whether somebody should see it."""
        (self.err if aside else self.out).append(line)
        self.held = self.held or (aside and line.startswith((TRACEBACK, "usage: ")))
        return not (aside and self.held)

    @property
    def broken(self) -> bool:
        """Whether there was a traceback."""
        return any(line.startswith(TRACEBACK) for line in self.err)

    @property
    def last(self) -> str:
        """The last line of stderr that says something."""
        return next((line.strip() for line in reversed(self.err) if line.strip()), "nothing was said")

    @property
    def missing(self) -> str | None:
        """The module that its Python does not have."""
        found = MISSING.search(self.last)
        return found[1] if found else None

    @property
    def worth_keeping(self) -> bool:
        """Whether a report of it tells more than the error does."""
        return bool(self.out or self.err) and not (self.missing or USAGE.search(self.last))

    def result(self) -> Any:
        """The JSON object that it printed, where it was asked for one."""
        for line in reversed(self.out):
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except (ValueError, RecursionError):
                    return None
        return None


def trouble(program: Program, heard: Heard, code: int, image: str | None) -> B70Error | None:
    """Why a program did not come to its result; None where it did, good or bad. `image` is where it ran, if in one."""
    if code == 0:
        return None
    if heard.missing and image:
        return Refused(f"the image {image} has no {heard.missing}: its python3 finds no such module",
                       hint=f"b70ctl images probe {image}")  # fmt: skip
    if heard.missing:
        own = f"pip install {heard.missing}, in the environment that is active; or leave out --here"
        way = FOR_XPU if heard.missing in OF_TORCH else own
        return MachineError(f"the Python here has no {heard.missing}", hint=way)
    if lacks := NO_DEVICE.search(heard.last):
        return MachineError(f"{lacks[1]}, in the image {image}" if image else f"the Python here: {lacks[1]}",
                            hint="b70ctl doctor" if image else FOR_XPU)  # fmt: skip
    if told := USAGE.search(heard.last):
        return UsageError(told[1])
    if heard.broken:
        return B70Error(f"{PACKAGE}.{program.name} broke off: {heard.last}")
    how = " (killed: out of memory, most often)" if code == 137 else ""
    return None if code == 1 else B70Error(f"{PACKAGE}.{program.name} ended with exit {code}{how}: {heard.last}")


def said(program: Program, heard: Heard, code: int | None, seconds: float) -> dict[str, Any]:
    """The part of a report that tells what a program found; `code` is None where it was cut off."""
    return {
        "kernels report": FORMAT,
        "program": " ".join([program.name, *program.words]),
        "exit": code,
        "seconds": round(seconds, 1),
        "result": heard.result(),
        "lines": heard.out[-MOST_LINES:],
        "stderr": heard.err[-MOST_LINES:],
    }


def described(deployment: Deployment, facts: ImageFacts) -> dict[str, Any]:
    """The part of a report that tells which image it was, and which card."""
    image = facts.model_dump(mode="json", exclude={"files", "groups", "entrypoint", "workdir", "setvars"})
    return {"profile": deployment.profile, "image": image | {"ref": deployment.image_ref}, "cards": deployment.cards}
