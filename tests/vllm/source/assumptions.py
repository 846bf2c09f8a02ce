"""What b70ctl itself takes for granted about vLLM: the metrics it reads, what its rules say, how the images start."""

from __future__ import annotations

from collections.abc import Iterator

from b70ctl.core import metrics
from tests.vllm.record import Row
from tests.vllm.source.claims import Claim, faults, row
from tests.vllm.source.tree import Tree

XPU, SPECULATIVE, RUNNER = "vllm/platforms/xpu.py", "vllm/config/speculative.py", "vllm/v1/worker/gpu_model_runner.py"
ARGUMENTS, DOCKERFILE = "vllm/engine/arg_utils.py", "docker/Dockerfile.xpu"
TURBOQUANT = "vllm/v1/attention/backends/turboquant_attn.py"

METRICS = (*metrics._COUNTERS.values(), metrics._PER_POSITION, metrics._KV_USAGE)
RULES = {
    "kv-cache-dtype": (Claim(path=TURBOQUANT, versions=">=0.20"),),
    "hybrid-turboquant": (
        Claim(path=ARGUMENTS, words="TurboQuant KV cache is not supported for hybrid", versions=">=0.20,<0.21"),
    ),
    "turboquant-async": (Claim(path=TURBOQUANT, words="seq_lens_cpu_upper_bound", versions=">=0.21"),),
    "turboquant-workspace": (Claim(path=TURBOQUANT, words="_reserve_workspace", versions=">=0.24"),),
    # drafts are left out beyond the limit; who lifts it; whose draft reads past the end
    "draft-limit": (
        Claim(path=RUNNER, words="effective_drafter_max_model_len"),
        Claim(path=SPECULATIVE, words="_maybe_override_draft_max_position_embeddings", versions=">=0.27"),
        Claim(path="vllm/config/vllm.py", words="def use_v2_model_runner(", versions=">=0.22"),
    ),
    "suffix-package": (Claim(path=SPECULATIVE, words="arctic-inference==0.1.1"),),
    "graph-variable": (Claim(path=XPU, words="VLLM_XPU_ENABLE_XPU_GRAPH", versions=">=0.19,<0.31"),),
    "kv-scales": (Claim(path=ARGUMENTS, words="calculate_kv_scales", versions="<0.28"),),
    "kernels-left-out": (Claim(path="vllm/envs.py", words='"VLLM_PLUGINS"'),),
    "kernels-unheard": (Claim(path="vllm/envs.py", words='"VLLM_CONFIGURE_LOGGING"'),),
}
"""What a rule of lint takes for granted, by the rule's name."""
IMAGES = (
    # an engine that is told to stop finishes its requests first
    Claim(words='"--shutdown-timeout"'),
    Claim(path=DOCKERFILE, words='ENTRYPOINT ["vllm", "serve"]'),
    # Python that starts there takes the checkout for the package
    Claim(path=DOCKERFILE, words="WORKDIR /workspace/vllm"),
    Claim(path=DOCKERFILE, words="COPY . ."),
    Claim(path=DOCKERFILE, words="/opt/venv"),
    Claim(path=DOCKERFILE, words="VLLM_WORKER_MULTIPROC_METHOD=spawn"),
)


def rows(tree: Tree) -> Iterator[Row]:
    """A result for each kind of assumption."""
    yield row(tree, "b70ctl: the metrics that it reads", _unnamed(tree))
    said = (claim for claims in RULES.values() for claim in claims)
    yield row(tree, "b70ctl: what its rules say of vLLM", faults(said, tree))
    yield row(tree, "b70ctl: how the published image starts", faults(IMAGES, tree))


def _unnamed(tree: Tree) -> Iterator[str]:
    for name in METRICS:
        if not any(path.startswith("vllm/v1/") for path in tree.containing(f'"{name}"')):
            yield f"there is no metric {name}"
