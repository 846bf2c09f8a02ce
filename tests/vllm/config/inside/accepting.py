"""Would this vLLM take a command line? Its real argument parser and its real config; no engine."""

from __future__ import annotations

import contextlib
import importlib
import io
from typing import Any

PARSERS = tuple(f"vllm.entrypoints.{where}.cli_args" for where in ("common", "launchers", "openai"))


class Serve:
    """`vllm serve` up to the point where it would start an engine."""

    def __init__(self) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.model_executor.models import registry
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        # a model's class is looked at in a process of its own, which imports everything once more
        registry._run_in_subprocess = lambda look: look()
        self._arguments = AsyncEngineArgs
        self._module = _parser_module()
        self._parser = self._module.make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))

    def config(self, words: list[str]) -> Any:
        """The config that a command line comes to; vLLM's own errors where it comes to none."""
        parsed = self._parser.parse_args(words)
        # as `vllm serve` itself does
        if getattr(parsed, "model_tag", None):
            parsed.model = parsed.model_tag
        self._module.validate_parsed_serve_args(parsed)
        return self._arguments.from_cli_args(parsed).create_engine_config()

    def judged(self, words: list[str]) -> dict[str, Any]:
        """Which stage refuses a command line and why, or what it comes to."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                config = self.config(words)
        except SystemExit:
            return {"stage": "argparse", "why": said.getvalue().strip().splitlines()[-1][-300:]}
        except Exception as error:  # noqa: BLE001 - whatever it is, vLLM would have ended with it
            return {"stage": "config", "why": f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]}
        return {"stage": "accepted", **_outcome(config)}


def _parser_module() -> Any:
    for name in PARSERS:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise SystemExit("this vLLM has no module with the parser of `vllm serve`")


def _outcome(config: Any) -> dict[str, Any]:
    """What a config has come to, where releases and flags make a difference."""
    speculative, cache = config.speculative_config, config.cache_config
    draft = getattr(speculative, "draft_model_config", None)
    graphs = config.compilation_config.cudagraph_mode
    return {
        "async": config.scheduler_config.async_scheduling,
        "method": speculative and speculative.method,
        "draft_limit": draft and getattr(draft.hf_text_config, "max_position_embeddings", None),
        "kv_cache_dtype": cache.cache_dtype,
        "block_size": cache.block_size,
        "skipped": list(cache.kv_cache_dtype_skip_layers),
        "quantization": config.model_config.quantization,
        "graphs": getattr(graphs, "name", str(graphs)),
    }
