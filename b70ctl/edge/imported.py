"""Asks a Python like the engine's, in the engine's container, which files it would import."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from b70ctl.core import imported
from b70ctl.core.progress import Probed
from b70ctl.core.release import Release
from b70ctl.edge.files import read_bytes
from b70ctl.edge.world import World
from b70ctl.errors import EngineError, Unpatched

# runs in the container, in any python from 3.10 on: finds the engine's process, and runs the other program as that
# process was started, by its interpreter, in its directory, with its environment (an entrypoint may have changed it)
AS_THE_ENGINE = r"""
import os, re, shutil, subprocess, sys
def text(pid, name): return open(f"/proc/{pid}/{name}", "rb").read().decode(errors="surrogateescape")
def engine():
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            words = text(pid, "cmdline").split("\0")[:-1]
            if pid == os.getpid() or not words or not os.path.basename(words[0]).startswith("python"): continue
            env = dict(item.split("=", 1) for item in text(pid, "environ").split("\0") if "=" in item)
            return words, env, os.readlink(f"/proc/{pid}/cwd")
        except OSError: pass
    return [sys.executable, shutil.which("vllm") or ""], dict(os.environ), os.getcwd()
words, env, here = engine()
flags, rest = [], words[1:]
while rest and re.fullmatch("-[sSIEPBOu]+", rest[0]): flags.append(rest.pop(0))
script = rest[0] if rest and not rest[0].startswith("-") else ""
folder = os.path.dirname(os.path.realpath(os.path.join(here, script))) if script else here
sys.exit(subprocess.run([words[0], *flags, "-c", sys.argv[1], folder, sys.argv[2]], env=env, cwd=here).returncode)
"""

# walks the packages as an import would, and executes none of them
LOOK = r"""
import hashlib, importlib.util, json, marshal, os, sys
from importlib.machinery import PathFinder
folder, files, here = sys.argv[1], json.loads(sys.argv[2]), os.getcwd()
# python -c puts the directory it stands in first; a script's own folder stands there for a script
bare = getattr(sys.flags, "safe_path", False) or sys.flags.isolated
rest = sys.path[1:] if sys.path[:1] == [""] else sys.path[:]
ways = {"serve": rest if bare else [folder, *rest], "module": rest if bare else [here, *rest]}
def top(name):
    return next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, None, None))), None)
def imported(parts, path):
    sys.path[:] = path
    spec = top(parts[0])
    for depth in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None: return None
        spec = PathFinder.find_spec(".".join(parts[:depth]), list(spec.submodule_search_locations))
    return os.path.realpath(spec.origin) if spec and spec.origin else None
def stale(path, source):
    try:
        kept = importlib.util.cache_from_source(path)
        data, stat = open(kept, "rb").read(), os.stat(path)
        if data[:4] != importlib.util.MAGIC_NUMBER: return None
        kind = int.from_bytes(data[4:8], "little")
        if kind == 1: return None if data[8:16] == importlib.util.source_hash(source) else kept
        stamp = [int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF]
        if kind or data[8:16] != b"".join(each.to_bytes(4, "little") for each in stamp): return None
        return None if marshal.loads(data[16:]) == compile(source, path, "exec", dont_inherit=True) else kept
    except (OSError, NotImplementedError, SyntaxError, ValueError): return None
def look(file, target, markers):
    place = os.path.realpath(target)
    parts = file[:-3].split("/") if file.endswith(".py") else [""]
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    module = bool(parts) and all(part.isidentifier() for part in parts)
    found = {way: imported(parts, path) for way, path in ways.items()} if module else {}
    try: source = open(target, "rb").read()
    except OSError: return dict(file=file, place=place, imports=found)
    return dict(file=file, place=place, imports=found, sha256=hashlib.sha256(source).hexdigest(),
                stale=stale(place, source) if module else None,
                missing=[each for each in markers if each.encode() not in source])
print(json.dumps([look(**each) for each in files]))
"""


def prove_files(release: Release, world: World) -> tuple[dict[str, Any], ...]:
    """The finding of a release whose patches change files of the image; none where no patch does.

    Raises EngineError when Python imports another file than the release's, or a script has left its marker nowhere; a
    script that names no marker is told of in the finding, and stops nothing.
    """
    changed = release.deployment.changed
    if not changed:
        return ()
    container = world.container(release.id)
    if container is None:
        raise EngineError("the engine's container is gone")
    words = ["python3", "-c", AS_THE_ENGINE, LOOK, json.dumps(imported.question(changed))]
    answer = world.daemon.ask(container.id, words)
    try:
        seen = [
            imported.Seen.model_validate(each)
            for each in json.loads([line for line in answer.splitlines() if line.startswith("[")][-1])
        ]
    except (ValueError, IndexError, TypeError, RecursionError, ValidationError) as error:
        raise EngineError(f"the engine's container did not say which files Python imports: {answer[-200:]}") from error
    finding = imported.judged(changed, _digests(release, world), seen)
    world.tell(Probed(release.id, finding.probe, finding.passed, finding.detail))
    found = (asdict(finding),)
    if finding.passed is False:
        world.findings[release.id] = found
        what = f"the engine was not proven: {finding.probe}: {finding.detail}"
        unmarked = {each.file for each in seen if each.missing}
        for each in changed:
            if each.file in unmarked:
                raise Unpatched(what, hint=f"b70ctl patches show {each.patch}")
        raise EngineError(what)
    return found


def _digests(release: Release, world: World) -> dict[str, str]:
    """Of the files that were mounted: what was written, and for a release that does not know, what lies there now."""
    folder = world.store.release_folder(release.id)
    names = [each.to for each in release.deployment.changed if each.to]
    return {name: release.contents.get(name) or hashlib.sha256(read_bytes(folder / name)).hexdigest() for name in names}
