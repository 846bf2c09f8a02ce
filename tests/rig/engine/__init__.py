"""A stand-in for `vllm serve`: its flags, boot log, HTTP surface and metrics, without a model or a card.

The standard library only, because it also runs inside images that hold little more than Python. It answers simple
questions rightly and always the same way, and fails in stated ways on demand.
Knobs, all environment variables:

  STANDIN_VLLM_VERSION   the version whose log lines and quirks are shown (0.21.0)
  STANDIN_BOOT_SECONDS   how long a boot takes (1)
  STANDIN_STAGE_SECONDS  single stages instead, e.g. "weights=5,compile=2"
  STANDIN_TOKENS_PER_SECOND   decode rate (500); STANDIN_PREFILL_TOKENS_PER_SECOND (0: at once)
  STANDIN_KV_TOKENS      size of the KV pool (by KV dtype, and never under max-model-len)
  STANDIN_STATS_SECONDS  period of the statistics line (10)
  STANDIN_FIRST_TOKEN_SECONDS   delay under `slow-first-token` (30)
  STANDIN_SHUTDOWN_SECONDS   how long requests in flight are waited for at the end (--shutdown-timeout)
  STANDIN_REASONING=1    answers think first, as a reasoning model's do
  STANDIN_CHECK_MODEL=1  refuse to boot when MODEL is an absolute path that does not exist
  STANDIN_MARLIN=crash   a W4A16 MoE dies where the image's Marlin check lets it through, as on real cards
  STANDIN_FAULT          comma list of the faults below
  STANDIN_TRIGGER        a path; once the file exists, its content is read as further faults

Faults: exit-at-start, crash-at:STAGE, stall-at:STAGE (download, weights, compile, kv, graphs),
crash-now (by trigger), never-healthy, garbage, garbage-spec, hang-after-first-token, hang, no-tool-calls,
bad-json, wrong-model-name, ignore-sigterm, long-prompt-garbage (over 2,048 tokens), lost-kv (only the last
64 tokens of a prompt over 96 are seen), slow-first-token, http-500; of our kernels' plugin, in every process or
with `:PROCESS` in that one alone: kernels-silent, kernels-refused, kernels-broken (cannot be loaded).

GET /standin/process tells argv and environment as this process got them.
"""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """`vllm serve MODEL [flags]` or `vllm --version`."""
    from .knobs import version
    from .log import emit

    if argv[:1] in (["--version"], ["-v"]):
        emit(version())
        return 0
    if argv[:1] != ["serve"]:
        emit("usage: vllm [-h] [-v] {serve} ...", error=True)
        return 0 if "--help" in argv or "-h" in argv else 2
    # what only asks for the version need not wait for the rest
    from .flags import parse_flags
    from .process import serve

    return serve(parse_flags(argv[1:]))
