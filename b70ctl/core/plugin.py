"""The attention kernels as a plugin of vLLM: what a release carries, and which versions they are proven with."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from b70ctl.core.deployment import OWN, Order
from b70ctl.core.image import is_version
from b70ctl.core.kernels import PACKAGE, TABLE, TABLE_VARIABLE
from b70ctl.core.place import Place
from b70ctl.core.profile import Profile
from b70ctl.core.sizes import plain
from b70ctl.core.tuning import fault
from b70ctl.errors import Refused, to_type

FOLDER = f"{OWN}/plugin"
"""Where the engine finds the plugin; the last entry of its PYTHONPATH."""
TUNED = f"{OWN}/{TABLE}"
SWITCH = "B70_KERNELS"
ACCEPT = "B70_KERNELS_UNPROVEN"
GROUP = "vllm.general_plugins"
VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+!_-]{0,59}")
"""Of the kernels and of vLLM: it names a folder of the release, and stands in a label and in a line of the log."""
MOST_SOURCE = 1_000_000
"""Bytes of one Python file that are parsed."""
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)
"""What Python's own parser raises at a source that it does not take, nested too deep among others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """A package of kernels that can be carried into a release."""

    folder: str
    """On this host."""
    origin: str
    """`site` or `shipped`."""
    version: str
    digest: str
    """Of every file that is carried."""
    proven: tuple[str, ...]
    """The vLLM versions that the plugin was proven with."""
    full_graphs: bool = False
    """Whether its backend verifies drafts inside full graphs."""
    table: str | None = None
    """The site's own tile sizes, a file of this host."""
    tuned_on: str | None = None
    """The device that they were measured on."""
    rivals: tuple[str, ...] = ()
    """Other packages of the same name that the profile mounts where Python looks for them."""
    archives: tuple[str, ...] = ()
    """Files that the profile mounts where Python looks for packages; what they hold is not known."""

    @property
    def name(self) -> str:
        """As its own log line begins."""
        return f"{PACKAGE} {self.version}"

    def accepts(self, vllm: str, unproven: str | None) -> bool:
        """Whether the plugin will be used with a version, by its own rule: proven, or taken on by a person."""
        return vllm.partition("+")[0] in self.proven or vllm == unproven


def device_of(table: bytes | None) -> str | None:
    """The device that a table of tile sizes was measured on; None where it says nothing of it."""
    try:
        found = json.loads(table or b"")
    except (ValueError, RecursionError):
        return None
    device = found.get("device") if isinstance(found, dict) else None
    return device if isinstance(device, str) else None


def label(name: str, digest: str) -> str:
    """What a deployment says of the kernels that it carries."""
    return f"{name}, files {digest[:12]}"


def spoken(told: str) -> str:
    """The beginning of the log line that the kernels of a deployment must write, from its label."""
    return told.partition(",")[0]


def read_kernels(folder: str, origin: str, files: Mapping[str, bytes], digest: str) -> Kernels:
    """A package from the files that would be carried; Refused when it is none that vLLM could load."""
    gone = f"{to_type('rm', '-r', folder)}, and the shipped ones are used; or kernels: image"
    hint = gone if origin == "site" else None
    if "plugin/__init__.py" not in files or "plugin/proven.py" not in files:
        raise Refused(f"the {origin} kernels in {folder} have no plugin for vLLM", hint=hint)
    version = _assigned(files.get("__init__.py", b""), "__version__")
    proven = _assigned(files["plugin/proven.py"], "VERSIONS")
    if not _is_version(version) or not _are_versions(proven):
        lacks = "table of versions in plugin/proven.py" if _is_version(version) else "__version__"
        raise Refused(f"the {origin} kernels in {folder} have no {lacks} that can be read", hint=hint)
    backend = [content for name, content in files.items() if name.startswith("plugin/") and name.endswith(".py")]
    return Kernels(folder=folder, origin=origin, version=version, digest=digest, proven=proven,
                   full_graphs=_verifies_in_graphs(backend))  # fmt: skip


def _assigned(source: bytes, name: str) -> Any:
    """The literal that a module gives to a name at its top level; None where there is none. Nothing is executed."""
    for statement in _statements(source):
        if not isinstance(statement, ast.Assign):
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in statement.targets):
            try:
                return ast.literal_eval(statement.value)
            except UNREADABLE:
                return None
    return None


def _statements(source: bytes) -> list[ast.stmt]:
    """A module's top level; nothing of one that Python does not read."""
    try:
        return ast.parse(source).body if len(source) <= MOST_SOURCE else []
    except UNREADABLE:
        return []


def _is_version(found: object) -> bool:
    return isinstance(found, str) and bool(VERSION.fullmatch(found))


def _are_versions(found: object) -> bool:
    return isinstance(found, tuple) and bool(found) and all(_is_version(each) and is_version(each) for each in found)


def _verifies_in_graphs(sources: Iterable[bytes]) -> bool:
    """Whether a backend says to vLLM that verified drafts count as decodes, and that graphs of such batches are right.

    Upstream's says the second without the first, which is what went wrong there.
    """
    said: set[str] = set()
    for node in (node for source in sources for node in _nodes(source)):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "_cudagraph_support" for target in targets):
                said |= {getattr(node.value, "attr", "")}
        elif isinstance(node, ast.keyword) and node.arg == "supports_spec_as_decode":
            said |= {"decode"} if isinstance(node.value, ast.Constant) and node.value.value is True else set()
    return "decode" in said and not said.isdisjoint({"UNIFORM_BATCH", "ALWAYS"})


def _nodes(source: bytes) -> Iterator[ast.AST]:
    for statement in _statements(source):
        yield from ast.walk(statement)


def refuse_bad_table(path: str, content: bytes) -> None:
    """Raise for a table of tile sizes at which the kernels would stop the engine."""
    if why := fault(content):
        raise Refused(f"{path} is no table of tile sizes, and `kernels: b70` would carry it to the engine: {why}",
                      hint=f"{to_type('rm', path)}, or: b70ctl kernels tune")  # fmt: skip


# --- what a release carries -------------------------------------------------------------------------------------------


def orders(kernels: Kernels | None) -> tuple[Order, ...]:
    """What a release has to bring so that vLLM finds the plugin, and the plugin the site's own tile sizes."""
    if kernels is None:
        return ()
    found = [Order(kind="plugin", to="files/plugin", target=FOLDER, name=kernels.name, source=kernels.folder,
                   texts=metadata(kernels.version))]  # fmt: skip
    if kernels.table:
        found.append(Order(kind="tree", to=f"files/{TABLE}", target=TUNED, name=PACKAGE, source=kernels.table))
    return tuple(found)


def environment(kernels: Kernels | None) -> dict[str, str]:
    """Variables that come with the plugin; a profile's own go before them."""
    return {TABLE_VARIABLE: TUNED} if kernels and kernels.table else {}


def metadata(version: str) -> dict[str, str]:
    """What makes a folder on Python's path an installed distribution, by path below that folder."""
    folder = f"{PACKAGE}-{version}.dist-info"
    name = PACKAGE.replace("_", "-")
    return {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{folder}/entry_points.txt": f"[{GROUP}]\n{PACKAGE} = {PACKAGE}.plugin:register\n",
    }


# --- the plugin twice -------------------------------------------------------------------------------------------------


_MODULE = re.compile(rf"{PACKAGE}(\.pyc?|(\.[\w-]+)?\.so)?")
_METADATA = re.compile(r"b70[-_.]kernels(-.*)?\.(dist|egg)-info", re.IGNORECASE)


def is_ours(name: str) -> bool:
    """Whether a file or folder on Python's path is the package, or says that it is installed."""
    return bool(_MODULE.fullmatch(name) or _METADATA.fullmatch(name))


def searched(profile: Profile, paths: Iterable[str | None], place: Place) -> list[tuple[str, str]]:
    """Where Python would look for packages in what a profile mounts: the container's folder, and this host's.

    `paths` are the image's own: its PYTHONPATH, its site-packages.
    """
    own = str(profile.env.get("PYTHONPATH", ""))
    entries = [plain(entry) for each in (own, *paths) for entry in (each or "").split(":") if entry]
    found = []
    for entry in dict.fromkeys(entries):
        for mount in profile.mounts:
            if f"{entry}/".startswith(f"{mount.target}/"):
                below = posixpath.relpath(entry, mount.target)
                found.append((entry, posixpath.normpath(posixpath.join(place.path(mount.source), below))))
    return found
