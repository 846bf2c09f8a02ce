"""Each release is asked in processes of its own, once for all tests: alone, with our plugin, and with our patches."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from b70_kernels.plugin.proven import ACCEPT, is_proven

from b70ctl.core.patch import Patch, patched
from tests.vllm.config.checkpoints import checkpoint
from tests.vllm.config.commands import Asked, read, shipped, words
from tests.vllm.places import CHECKOUT, cache_dir
from tests.vllm.sdist import sources
from tests.vllm.versions import CHOSEN, environment, plugin_folder, run

SCRIPT = Path(__file__).parent / "inside" / "asking.py"
MARK = "=> "
DTYPES = ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")
NATIVE = ("auto", "fp8")
LAYERS = 8
BRIEFLY = CHOSEN or ("0.19.0", "0.20.2", "0.23.0", "0.33.0")
"""Where a law is one of ours and not of the release, four of them are enough."""
ANY = "qwen3-30b-w4a16"
"""A profile that every release takes, to change one thing of."""

WRONG = (
    Asked(ANY, ("engine.flags={no-such-flag: true}",)),
    Asked(ANY, ("engine.flags={scheduling-policy: nonsense}",)),
    Asked(ANY, ("engine.kv_cache_dtype=fp9",)),
    Asked(ANY, ("engine.kv_cache_dtype=turboquant_bogus",)),
    Asked(ANY, ("engine.kv_cache_dtype=turboquant_bogus", "kernels=b70")),
    Asked(ANY, ("engine.quantization=nonsense",)),
    Asked(ANY, ("speculative={method: nonsense, num_speculative_tokens: 2}",)),
    Asked(ANY, ("speculative={method: eagle3, num_speculative_tokens: 2}",)),
    Asked(ANY, ("speculative={method: ngram, num_speculative_tokens: 2, options: {nonsense: 1}}",)),
)  # fmt: skip
"""What no release may take."""
CHANGING = (
    Asked(ANY, ("speculative={method: ngram, num_speculative_tokens: 2, options: {prompt_lookup_max: 3}}",
                "engine.flags={async-scheduling: true}")),
    Asked(ANY, ("engine.kv_cache_dtype=turboquant_k3v4_nc",)),
    Asked(ANY, ("engine.kv_cache_dtype=int8_per_token_head",)),
    Asked(ANY, ("engine.kv_cache_dtype=nvfp4_ds_mla",)),
    Asked(ANY, ("engine.flags={calculate-kv-scales: true}",)),
    Asked(ANY, ("engine.flags={linear-backend: auto}",)),
    Asked(ANY, ("speculative={method: ngram, num_speculative_tokens: 2, options: {speculative_token_tree: '[]'}}",)),
    Asked("qwen3.5-35b-gptq", ("engine.kv_cache_dtype=turboquant_k8v4",)),
)  # fmt: skip
"""What some releases take and others do not: lint has to know which."""
SUFFIX = Asked("qwen3-30b-fp16")
"""Drafts from a package that no published image has."""


def cases() -> tuple[Asked, ...]:
    """Every command line that is tried with every release."""
    return (*map(Asked, shipped()), *WRONG, *CHANGING)


def asked_how(asked: Asked) -> str:
    """With our plugin where the profile wants our kernels, and alone otherwise."""
    return "plugin" if read(asked).kernels == "b70" else "alone"


@functools.cache
def answers(version: str, how: str) -> dict[str, Any]:
    """What a release says to every question, by name.

    `alone`, with the `plugin`, with it `off`, `refused` (a second copy), `raising`, in a `strange` version that nobody
    or a person `accepted`, and with our changed files but without arctic-inference (`patched`).
    """
    job = _job(version, how)
    place = cache_dir() / "jobs"
    place.mkdir(exist_ok=True)
    file = place / f"{version}-{how.replace(' ', '-')}.json"
    file.write_text(json.dumps(job), encoding="utf-8")
    done = run(SCRIPT, [str(file)], _variables(version, how))
    file.with_suffix(".log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode and how != "raising":
        raise AssertionError(f"vLLM {version} {how}: exit {done.returncode}: {done.stderr[-1500:]}")
    said = (json.loads(line.removeprefix(MARK)) for line in done.stdout.splitlines() if line.startswith(MARK))
    return {each["name"]: each["answer"] for each in said} | {"log": done.stdout + done.stderr}


def _job(version: str, how: str) -> dict[str, Any]:
    base = [
        str(checkpoint("qwen3-30b", {"num_hidden_layers": LAYERS})),
        "--max-model-len",
        "4096",
        "--dtype",
        "float16",
    ]
    attention = [(dtype, [*base, "--kv-cache-dtype", dtype]) for dtype in (*NATIVE, *DTYPES)]
    if how == "alone":
        return {"cases": _words("alone"), "attention": attention, "weights": base}
    if how == "plugin":
        return {"cases": _words("plugin"), "attention": attention}
    if how == "patched":
        return {"replaced": patched_files(version), "weights": base, "cases": [(SUFFIX.name, words(SUFFIX))]}
    return {"attention": attention[2:3]}


def _words(how: str) -> list[tuple[str, list[str]]]:
    return [(asked.name, words(asked)) for asked in cases() if asked_how(asked) == how]


def _variables(version: str, how: str) -> dict[str, str]:
    plugged = how in ("plugin", "off", "refused", "strange", "strange, accepted")
    further = [plugin_folder()] if plugged else [_raising()] if how == "raising" else []
    if how != "patched":
        further.append(_arctic())
    own = {"VLLM_LOGGING_LEVEL": "INFO"}
    if how == "plugin" and not is_proven(version):
        # it is being proven now
        own[ACCEPT] = version
    if how == "off":
        own["B70_KERNELS"] = "off"
    if how == "refused":
        further.append(_second_copy())
    if how.startswith("strange"):
        own["PRETENDED"] = f"{version}.dev7"
    if how == "strange, accepted":
        own[ACCEPT] = own["PRETENDED"]
    return environment(version, *further, **own)


def _arctic() -> Path:
    """The package that suffix decoding looks for, as vLLM looks for it: whether it is there."""
    folder = cache_dir() / "arctic"
    module = folder / "arctic_inference" / "__init__.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.touch()
    return folder


def _raising() -> Path:
    """A plugin that raises when vLLM calls it."""
    folder = cache_dir() / "raising"
    described = folder / "raising-1.dist-info"
    described.mkdir(parents=True, exist_ok=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: raising\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[vllm.general_plugins]\nraising = raising:register\n")
    (folder / "raising.py").write_text('def register():\n    raise RuntimeError("raised on purpose")\n')
    return folder


def _second_copy() -> Path:
    """Our package a second time, which importlib never looks at."""
    folder = cache_dir() / "second-copy"
    module = folder / "b70_kernels" / "__init__.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.touch()
    return folder


def patches() -> dict[str, Patch]:
    """The shipped patches that we make ourselves."""
    found = {}
    for path in sorted((CHECKOUT / "patches").glob("*/patch.yaml")):
        patch = Patch.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        if patch.edits:
            found[path.parent.name] = patch
    return found


def patched_files(version: str) -> dict[str, str]:
    """Module to changed file, of every patch of ours; its base is accepted, so that one that harms can be seen too."""
    found = {}
    for name, patch in patches().items():
        for file in _files(patch):
            base = sources(version) / file
            if base.exists():
                text = base.read_text(encoding="utf-8")
                if any(text.count(edit.old) != 1 for edit in patch.edits if edit.file == file):
                    continue
                known = frozenset({hashlib.sha256(base.read_bytes()).hexdigest()})
                made = cache_dir() / "patched" / version / name / file
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(patched(name, patch, file, text, known), encoding="utf-8")
                found[file.removesuffix(".py").replace("/", ".")] = str(made)
    return found


def _files(patch: Patch) -> Iterable[str]:
    return dict.fromkeys(edit.file for edit in patch.edits)
