"""Questions to one vLLM release, each answered by its own code for an Intel card; no engine starts.

asking.py JOB.json      one answer a line on stdout, `=> {"name": …}`, among whatever vLLM itself says there

The job: `cases` [[name, words after `vllm serve`], …]; `replaced` {module: file}, as a file mounted over vLLM's own;
`attention` [[name, words], …], of which each gets real layers; `weights` whether those are asked about.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import accepting
import attending
import cardless
import quantising

LAYERS = 8


class Mounted(importlib.abc.MetaPathFinder):
    """Finds a module's other file before vLLM's own, as the engine does that has it mounted."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Only of those that are replaced."""
        return importlib.util.spec_from_file_location(name, self.files[name]) if name in self.files else None


def tell(name: str, answer: Any) -> None:
    """One line, which begins like none of vLLM's own."""
    # whoever wrote before may not have ended their line
    sys.stdout.write(f"\n=> {json.dumps({'name': name, 'answer': answer})}\n")
    sys.stdout.flush()


def ask(name: str, question: Callable[[], Any]) -> None:
    """An answer, or the error that vLLM would have ended with."""
    try:
        answer = question()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what vLLM says
        answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]}
    tell(name, answer)


def about_attention(name: str, words: list[str], serve: accepting.Serve, platform: Any) -> None:
    """Where layers go with one command line, and what they ask for."""
    config = serve.config(words)
    dtype = config.cache_config.cache_dtype
    ask(f"{name} route", lambda: attending.routed(platform, config, dtype))
    made: dict[str, Any] = {}
    ask(f"{name} made", lambda: made.update(attending.layers(config, LAYERS)))
    ask(f"{name} layers", lambda: {number: attending.described(layer, config) for number, layer in made.items()})
    ask(f"{name} pool", lambda: attending.pool(made, config))


def main() -> None:
    """Answer everything in the job."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.meta_path.insert(0, Mounted(job.get("replaced", {})))
    platform = cardless.intel()
    tell("platform", platform.__name__)
    serve = accepting.Serve()
    plugin = sys.modules.get("b70_kernels.plugin")
    tell("plugin", plugin and plugin._said)
    for name, words in job.get("cases", ()):
        tell(name, serve.judged(words))
    for name, words in job.get("attention", ()):
        try:
            about_attention(name, words, serve, platform)
        except (SystemExit, Exception) as error:  # noqa: BLE001 - the config was refused
            tell(f"{name} route", {"error": f"{type(error).__name__}: {error}"[:400]})
    if job.get("weights"):
        about_weights(job["weights"], serve)


def about_weights(words: list[str], serve: accepting.Serve) -> None:
    """Who computes what is quantised."""
    from vllm.config import set_current_vllm_config

    config = serve.config(words)
    with set_current_vllm_config(config):
        ask("marlin takes experts", quantising.marlin_takes)
        ask("experts", quantising.experts)
        ask("int4 experts", quantising.int4_experts)
        ask("gptq linear", quantising.gptq_linear)


main()
