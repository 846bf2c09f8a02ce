"""A profile's engine settings as vLLM's own words: argv, environment, entrypoint."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from b70ctl.core.deployment import CONTAINER_PORT, OWN
from b70ctl.core.image import ImageFacts, sources_setvars
from b70ctl.core.profile import Draft, Engine, ModelSpec, Profile, Speculative
from b70ctl.errors import UsageError

MODELS = "/models"
HF_CACHE = "/root/.cache/huggingface"
CACHE = "/var/cache/b70ctl"
SCRIPTS = f"{OWN}/start"
DONE = f"{OWN}/done"
"""Where a container keeps which start scripts have come to their end in it: a file each, as `mark` names it."""
SHUTDOWN_TIMEOUT = 30
"""Seconds in which vLLM finishes running requests after SIGTERM; its own default is 0, or 5 on XPU from 0.25.1."""

OURS = frozenset({"HF_HUB_OFFLINE", "PYTHONPATH", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT", "VLLM_NO_USAGE_STATS",
                  "ZE_AFFINITY_MASK"})  # fmt: skip
"""Variables that `environment` sets or puts together."""

SETVARS = "source /opt/intel/oneapi/setvars.sh --force"
_SHELL = ("/bin/bash", "-c")
_COMMAND = 'exec "$@"'
RUN_ONCE = f"""\
set -e
run_once() {{
  sum=$(sha256sum < "$1")
  mark={DONE}/${{sum%% *}}-${{1##*/}}
  if [ -e "$mark" ]; then
    echo "b70ctl: $1 was run in this container before"
    return
  fi
  python3 "$1" || {{
    code=$?
    echo "b70ctl: start script $1 ended with exit status $code; the engine is not started" >&2
    exit $code
  }}
  mkdir -p {DONE}
  : > "$mark"
}}"""
"""What runs a start script where it has not come to its end in this container; one that fails stops the start."""
_WRAPPED = RUN_ONCE.partition("{")[0]


def mark(script: str, sha256: str) -> str:
    """The name of a start script's mark; two of the same content, as programs for two places may be, have two."""
    return f"{sha256}-{posixpath.basename(script)}"


HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?", re.ASCII)


def argv(profile: Profile, draft: str | None = None) -> tuple[str, ...]:
    """The engine's whole command, program first: some images' entrypoints execute the command as it stands.

    `draft` is the revision of the draft that it is to load.
    """
    words = ["vllm", "serve", model_argument(profile.model), "--host", "0.0.0.0", "--port", str(CONTAINER_PORT)]  # noqa: S104 - inside the container; Docker publishes on the site's address
    if profile.model.revision:
        words += flag("revision", profile.model.revision)
    words += ["--served-model-name", *map(plain, profile.model.served_names)]
    for name, value in engine_flags(profile.engine).items():
        words += flag(name, value)
    if profile.speculative:
        words += flag("speculative-config", speculative_config(profile.speculative, draft))
    words += flag("shutdown-timeout", SHUTDOWN_TIMEOUT)
    return tuple(words)


def engine_flags(engine: Engine) -> dict[str, Any]:
    """Every engine setting under vLLM's name for it; settings that were left out are not there."""
    named = engine.model_dump(exclude={"flags"}, exclude_none=True)
    if named["tensor_parallel_size"] == 1:
        del named["tensor_parallel_size"]
    flags = {name.replace("_", "-"): value for name, value in named.items()}
    if engine.tool_call_parser:
        flags["enable-auto-tool-choice"] = True
    return flags | engine.flags


def flag(name: str, value: Any) -> list[str]:
    """One flag as words; a value that looks like a flag is joined with `=` so that it stays a value."""
    if value is None or value is True:
        return [f"--{name}"]
    if value is False:
        return [f"--no-{name}"]
    if isinstance(value, Mapping):
        return [f"--{name}", json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    if isinstance(value, list):
        return [f"--{name}", *(plain(_word(item)) for item in value)]
    word = _word(value)
    return [f"--{name}={word}"] if word.startswith("-") else [f"--{name}", word]


def _word(value: bool | float | str) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def plain(word: str) -> str:
    """`word` itself, unless vLLM would take it for a flag."""
    if word.startswith("-"):
        raise UsageError(f"`{word}` begins with `-`, so vLLM would read it as a flag")
    return word


def below_models(path: str) -> str:
    """A directory below the models directory, in the container's words."""
    return f"{MODELS}/{path}"


def model_argument(model: ModelSpec | Draft) -> str:
    """What `vllm serve` is told to load."""
    if model.path is not None:
        return below_models(model.path)
    hub = str(model.hub)
    if not HUB_ID.fullmatch(hub):
        raise UsageError(f"`{hub}` is not a Hugging Face id", hint="owner/name")
    return hub


def speculative_config(speculative: Speculative, draft: str | None = None) -> dict[str, Any]:
    """vLLM's speculative config; keys of one's own may not contradict the named ones."""
    config: dict[str, Any] = {"method": speculative.method}
    if speculative.draft:
        config["model"] = model_argument(speculative.draft)
    if draft:
        config["revision"] = draft
    config["num_speculative_tokens"] = speculative.num_speculative_tokens
    twice = sorted(config.keys() & speculative.options.keys())
    if twice:
        key = f"draft.{twice[0]}" if twice[0] == "revision" else twice[0]
        raise UsageError(f"`speculative.options.{twice[0]}` has a key of its own: `speculative.{key}`")
    return config | speculative.options


def environment(
    profile: Profile, facts: ImageFacts, patch_env: Mapping[str, str], cards: Iterable[int], plugin: str | None = None
) -> dict[str, str]:
    """The engine's variables: ours, then the profile's, then those that come with a patch.

    Python looks in the profile's folders first, then in the image's own, and in `plugin` last.
    """
    env = {
        "VLLM_CACHE_ROOT": f"{CACHE}/vllm",
        "TRITON_CACHE_DIR": f"{CACHE}/triton",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if not profile.boot.download:
        env["HF_HUB_OFFLINE"] = "1"
    mask = ",".join(map(str, cards))
    if mask:
        env["ZE_AFFINITY_MASK"] = mask
    env |= {name: str(value) for name, value in profile.env.items()} | dict(patch_env)
    empty = sorted(name for name, value in env.items() if value == "")
    if empty:
        raise UsageError(f"`env.{empty[0]}` is empty, and empty is not unset: oneCCL, for one, dies of it",
                         hint=f"remove it, or write `{empty[0]}: null` to drop an inherited one")  # fmt: skip
    if "PYTHONPATH" in env or plugin:
        env["PYTHONPATH"] = ":".join(filter(None, (env.get("PYTHONPATH"), facts.pythonpath, plugin)))
    return dict(sorted(env.items()))


def entrypoint(facts: ImageFacts, scripts: Sequence[str]) -> tuple[str, ...]:
    """What runs before the command; empty where the command can be executed as it stands.

    The image's own entrypoint is never relied on: three families of images differ in it. oneAPI's variables are set
    where the image's entrypoint would have set them, and start scripts run under `set -e`, so that one that fails
    stops the start. They edit the container itself, which is started more than once: what they did is still there
    then, and many would stop the start where they find no more to edit.
    """
    lines = []
    if sources_setvars(facts):
        lines.append(SETVARS)
    lines += [RUN_ONCE, *(f"run_once {shlex.quote(script)}" for script in scripts)] if scripts else []
    return (*_SHELL, "\n".join([*lines, _COMMAND]), "--") if lines else ()


def before_the_command(words: Sequence[str]) -> str | None:
    """What an entrypoint of ours runs before the command, in short; None for one that is not ours."""
    text = words[2] if len(words) == 4 and (*words[:2], words[3]) == (*_SHELL, "--") else ""
    rest = text.removeprefix(f"{SETVARS}\n")
    if not text.endswith(f"\n{_COMMAND}") or not rest.startswith((_COMMAND, _WRAPPED)):
        return None
    try:
        scripts = [name for once, name in itertools.pairwise(shlex.split(rest)) if once == "run_once"]
    except ValueError:
        return None
    # releases keep what they were written with
    older = " (as written by an earlier b70ctl)" if scripts and not rest.startswith(RUN_ONCE) else ""
    run = [*(["setvars.sh"] if rest != text else []), *scripts]
    return f"{', '.join(run)} before the command{older}"
