"""Each rule fires on what it is for and is silent beside it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import b70ctl
from b70ctl.core.draft import Reach
from b70ctl.core.image import ImageFacts
from b70ctl.core.inherit import merge
from b70ctl.core.lint import RULES, FlagTable, lint
from b70ctl.core.plugin import Kernels
from b70ctl.core.profile import Profile
from b70ctl.errors import UsageError
from tests.making import a_patch

TABLE = json.loads((Path(b70ctl.__file__).parent / "data" / "vllm-flags.json").read_text(encoding="utf-8"))
FLAGS = FlagTable(TABLE)

PINNED = "example/vllm@sha256:" + "1" * 64
SITE_PACKAGES = "/opt/venv/lib/python3.12/site-packages"
QUIET = {
    "summary": "a profile with nothing wrong",
    "status": "production",
    "image": {"ref": PINNED, "vllm": "0.21.0"},
    "model": {"path": "Qwen3-30B-A3B-W4A16", "served_names": ["m"]},
    "engine": {"dtype": "float16", "max_model_len": 8192, "max_num_seqs": 4},
    "evidence": [{"what": "w", "value": "1", "conditions": "c", "source": "s"}],
}


def stacked(below, above):
    """Like `merge`, and a null stays: the one that removes comes last."""
    known = {key: stacked(below.get(key) or {}, value) if isinstance(value, dict) else value
             for key, value in above.items()}  # fmt: skip
    return {**below, **known}


def at(version, **more):
    return stacked({"image": {"vllm": version}}, more)


def engine(**keys):
    return {"engine": keys}


def flags(**values):
    return {"engine": {"flags": {name.replace("_", "-"): value for name, value in values.items()}}}


def env(**values):
    return {"env": values}


def spec(method, tokens=4, **more):
    return {"speculative": {"method": method, "num_speculative_tokens": tokens, **more}}


def mounted(target):
    return {"mounts": [{"source": "x", "target": target}]}


def method(name):
    return {"speculative": {"method": name}}


def both(*changes):
    merged = {}
    for change in changes:
        merged = stacked(merged, change)
    return merged


def found(change, *, facts=None, draft=None):
    profile = Profile.model_validate(merge(QUIET, change))
    ours = KERNELS if profile.kernels == "b70" else None
    return lint(profile, facts=facts, flags=FLAGS, draft=draft, kernels=ours, gates=GATES)


def severities(rule, change, **given):
    return [finding.severity for finding in found(change, **given) if finding.rule == rule]


def facts(**more):
    return ImageFacts(
        **{"ref": "example/vllm:1", "vllm": "0.21.0", "source": "probe", "id": "sha256:" + "2" * 64} | more
    )


KERNELS = Kernels(folder="/k", origin="shipped", version="0.1.0", digest="a" * 64, proven=("0.19.0", "0.20.2", "0.21.0",
                  "0.22.1", "0.24.0", "0.26.0", "0.31.0"), full_graphs=True, rivals=())  # fmt: skip
GATES = {"B70_MTP_BF16_DRAFT": ["mtp-nightly"], "MY_GATE": ["mine", "other"]}
EAGLE = spec("eagle3", draft={"path": "head"})
HUB_EAGLE = spec("eagle3", draft={"hub": "owner/head"})
HUB_LIFTED = spec("eagle3", draft={"hub": "owner/head", "overrides": {"max_position_embeddings": 8192}})
LIFTED = spec("eagle3", draft={"path": "head", "overrides": {"max_position_embeddings": 8192}})
TQ = engine(kv_cache_dtype="turboquant_k3v4_nc")
OVERLAY = {
    "mounts": [
        {"source": "x", "target": f"{SITE_PACKAGES}/vllm/{file}"}
        for file in (
            "config/cache.py",
            "v1/attention/backends/registry.py",
            "v1/attention/backends/turboquant_attn.py",
        )
    ]
}
OURS = both(TQ, {"kernels": "b70"})
EAGER = engine(enforce_eager=True)
PIECEWISE = flags(compilation_config={"cudagraph_mode": "PIECEWISE"})
GRAPH = env(VLLM_XPU_ENABLE_XPU_GRAPH="1")
NO_ASYNC = flags(async_scheduling=False)
HYBRID = {"model": {"path": "Qwen/Qwen3.5-35B-A3B"}}
GPTQ = {"model": {"path": "Qwen3-30B-GPTQ-Int4"}}
TWO = engine(tensor_parallel_size=2)
CACHED = engine(enable_prefix_caching=True)


OWN_FOLDER = ("/opt", "/opt/", "//opt", "/opt/b70ctl", "/opt/b70ctl/plugin", "/opt/b70ctl/plugin/more",
              "/opt/b70ctl/tuning.json", "/opt/b70ctl/start", "/opt/b70ctl/done/", "/opt/b70ctl/mine",
              "//opt/b70ctl", "/opt/./b70ctl", "/opt/x/../b70ctl", "/opt//b70ctl/done", "/../opt/b70ctl")  # fmt: skip


IN_PACKAGES = ("vllm/", "./vllm", "/vllm", "vllm/.", "vllm/../vllm")
IN_OVERLAY = ("config/cache.py", "config/./cache.py", ".//config//cache.py", "x/../config/cache.py/")


def cards(count, **more):
    return {"cards": count, **more}


FIRES = [
    ("unknown-flag", "error", flags(max_num_seqz=1)),
    ("unknown-flag", "error", at("0.21.1.dev17", **flags(enable_chunked_prefil=True))),
    ("unknown-flag", "warning", at("0.21.1.dev17", **flags(linear_backend="auto"))),
    ("unknown-flag", "warning", at("0.34.0", **flags(something_new=1))),
    ("unknown-flag", "error", flags(disable_log_requests=True)),
    ("flag-value", "error", flags(enable_chunked_prefill=1)),
    ("flag-value", "error", flags(block_size=True)),
    ("flag-value", "error", flags(scheduling_policy="random")),
    ("owned-flag", "error", flags(port=8000)),
    ("owned-flag", "error", flags(max_model_len=4096)),
    ("owned-flag", "error", flags(no_enable_prefix_caching=True)),
    ("secret-flag", "error", flags(api_key="k")),
    ("secret-flag", "error", flags(hf_token="k")),
    ("kv-cache-dtype", "error", engine(kv_cache_dtype="fp9")),
    ("kv-cache-dtype", "error", engine(kv_cache_dtype="octave_k3v4")),
    ("kv-cache-dtype", "error", at("0.19.0", **engine(kv_cache_dtype="turboquant_bogus"), kernels="b70")),
    ("turboquant-overlay", "error", at("0.19.0", **TQ)),
    ("turboquant-overlay", "error", both(OVERLAY)),
    ("turboquant-hybrid", "error", at("0.20.2", **both(TQ, HYBRID))),
    ("turboquant-hybrid", "error", at("0.19.0", **both(OURS, HYBRID))),
    ("turboquant-overlay", "error", at("0.19.0", **both(OURS, OVERLAY))),
    ("kernels-unused", "warning", {"kernels": "b70"}),
    ("kernels-unused", "warning", both({"kernels": "b70"}, engine(kv_cache_dtype="fp8"))),
    ("kernels-cardless", "warning", both(OURS, {"cards": "none"})),
    ("kernels-twice", "error", both(OURS, mounted("/opt/mine/b70_kernels"))),
    ("kernels-twice", "error", both(OURS, mounted("/opt/mine/b70_kernels-0.2.dist-info/"))),
    ("kernels-twice", "error", both(OURS, mounted("/opt/mine/b70_kernels.py"))),
    ("kernels-twice", "error", both(OURS, mounted("/opt/mine/b70_kernels/plugin"))),
    ("kernels-twice", "error", both(OURS, mounted("/opt//mine/../b70_kernels"))),
    ("kernels-left-out", "error", both(OURS, env(B70_KERNELS="off"))),
    ("kernels-left-out", "error", both(OURS, env(B70_KERNELS="OFF"))),
    ("kernels-left-out", "error", both(OURS, env(VLLM_PLUGINS="mine"))),
    ("kernels-left-out", "error", both(OURS, env(VLLM_PLUGINS="mine, b70_kernels"))),
    ("kernels-unheard", "error", both(OURS, env(VLLM_LOGGING_LEVEL="warning"))),
    ("kernels-unheard", "error", both(OURS, env(VLLM_CONFIGURE_LOGGING="0"))),
    ("kernels-unheard", "error", both(OURS, env(VLLM_LOGGING_CONFIG_PATH="/x.json"))),
    ("kernels-unproven", "error", at("0.34.0", **OURS)),
    ("kernels-unproven", "error", at("0.21.1.dev17+g0a", **OURS)),
    ("kernels-unproven", "warning", at("0.34.0", **both(OURS, env(B70_KERNELS_UNPROVEN="0.34.0")))),
    ("kernels-unproven", "error", at("0.21.1.dev17+g0a", **both(OURS, env(B70_KERNELS_UNPROVEN="0.21.1.dev17")))),
    ("quantization", "error", at("0.33.0", **engine(quantization="gguf"))),
    ("quantization", "warning", at("0.26.0", **engine(quantization="gguf"))),
    ("parser", "error", engine(tool_call_parser="muse_glimmer")),
    ("parser", "error", engine(reasoning_parser="qwen33")),
    ("parser", "warning", at("0.26.0", **engine(tool_call_parser="muse_glimmer"))),
    ("speculative-words", "error", at("0.33.0", **spec("medusa"))),
    ("speculative-words", "error", spec("ngram", options={"prompt_lookup_maximum": 4})),
    ("kv-scales", "error", at("0.28.0", **flags(calculate_kv_scales=True))),
    ("turboquant-graphs", "error", at("0.31.0", **both(TQ, EAGLE))),
    ("turboquant-graphs", "error", at("0.26.0", **both(TQ, EAGLE, GRAPH))),
    ("turboquant-async", "error", both(TQ, EAGLE)),
    ("turboquant-async", "error", at("0.33.0", **both(TQ, spec("mtp")))),
    ("turboquant-workspace", "error", both(TQ, GRAPH)),
    ("turboquant-rows", "warning", at("0.19.0", **both(TQ, engine(max_model_len=262144, max_num_seqs=4)))),
    ("turboquant-rows", "warning", at("0.19.0", **both(TQ, engine(max_model_len=262144, max_num_seqs=None)))),
    ("suffix-package", "error", both(spec("suffix"), {"image": {"ref": "intel/vllm:latest"}})),
    ("suffix-package", "note", spec("suffix")),
    ("suffix-rows", "error", both(spec("suffix"), engine(max_num_seqs=16))),
    ("suffix-rows", "warning", both(spec("suffix"), engine(max_num_seqs=None))),
    ("ngram-rows", "warning", both(spec("ngram"), engine(max_num_seqs=5))),
    ("ngram-rows", "warning", both(spec("ngram"), engine(max_num_seqs=None))),
    ("asked-async", "error", both(spec("ngram"), flags(async_scheduling=True))),
    ("draft-given", "error", spec("eagle3")),
    ("draft-given", "warning", spec("ngram", draft={"path": "head"})),
    ("draft-limit", "note", EAGLE),
    ("draft-limit", "warning", both(LIFTED, engine(max_model_len=8193))),
    ("draft-limit", "warning", both(LIFTED, engine(max_model_len=None))),
    ("draft-limit", "note", at("0.30.0", **LIFTED)),
    ("draft-limit", "warning", at("0.27.1", **both(LIFTED, engine(max_model_len=8193), method("dflash")))),
    ("draft-limit", "note", at("0.33.0", **both(LIFTED, method("dflash")))),
    ("draft-limit", "warning", at("0.33.0", **both(LIFTED, engine(max_model_len=8193), method("draft_model")))),
    ("draft-length", "warning", spec("eagle3", draft={"path": "head"}, options={"max_model_len": 8191})),
    ("moving-draft", "note", HUB_EAGLE),
    ("fetched-draft", "note", both(HUB_LIFTED, {"boot": {"download": True}})),
    ("measured-depth", "note", both(spec("mtp"), {"evidence": []})),
    ("measured-depth", "note", both(spec("qwen3_5_mtp"), {"evidence": []})),
    ("capture-sizes", "warning", both(spec("mtp", 3), flags(cudagraph_capture_sizes=[4, 6]))),
    ("memory-share", "error", engine(gpu_memory_utilization=0.98)),
    ("memory-share", "warning", engine(gpu_memory_utilization=0.97)),
    ("step-size", "error", engine(max_num_batched_tokens=2, max_num_seqs=4)),
    ("step-size", "error", both(flags(enable_chunked_prefill=False), engine(max_num_batched_tokens=8191))),
    ("step-size", "note", engine(max_num_batched_tokens=65536)),
    ("aligned-step", "error", at("0.30.0", **both(HYBRID, CACHED, engine(max_num_batched_tokens=1599)))),
    ("gptq-dtype", "error", both(GPTQ, engine(dtype="bfloat16"))),
    ("gptq-dtype", "error", engine(quantization="gptq", dtype="bfloat16")),
    ("gptq-dtype", "warning", both(GPTQ, engine(dtype=None))),
    ("hybrid-prefix-caching", "error", both(HYBRID, CACHED)),
    ("hybrid-compile", "warning", HYBRID),
    ("hybrid-turboquant", "error", at("0.20.2", **both(HYBRID, TQ))),
    ("sleep-mode", "warning", at("0.31.0", **flags(enable_sleep_mode=True))),
    ("moving-image", "warning", {"image": {"ref": "intel/vllm:latest"}}),
    ("moving-image", "warning", {"image": {"ref": "intel/vllm"}}),
    ("moving-model", "note", {"model": {"path": None, "hub": "a/b"}}),
    ("moving-model", "warning", both({"model": {"path": None, "hub": "a/b"}}, engine(trust_remote_code=True))),
    ("secret", "error", env(HF_TOKEN="x")),
    ("secret", "error", env(VLLM_API_KEY="x")),
    ("secret", "error", env(MY_PASSWORD="x")),
    ("empty-value", "error", env(CCL_WORKER_COUNT="")),
    ("variable", "warning", env(VLLM_XPU_USE_SAMPLE_KERNEL="1")),
    ("graph-variable", "warning", at("0.31.0", **GRAPH)),
    ("fork", "error", env(VLLM_WORKER_MULTIPROC_METHOD="fork")),
    ("device-mask", "error", env(ZE_AFFINITY_MASK="0")),
    ("device-mask", "warning", env(ONEAPI_DEVICE_SELECTOR="level_zero:0")),
    ("python-path", "note", env(PYTHONPATH="/x")),
    ("gate", "error", env(B70_MTP_BF16_DRAFT="1")),
    ("gate", "note", env(MY_GATE="1")),
    ("gate", "warning", env(B70_FP8_MODE="hybrid")),
    ("gate", "warning", env(TQ_USE_FUSED_SPEC="0")),
    ("package-mount", "error", {"mounts": [{"source": "x", "target": f"{SITE_PACKAGES}/vllm"}]}),
    ("package-mount", "warning", {"mounts": [{"source": "x", "target": f"{SITE_PACKAGES}/vllm/envs.py"}]}),
    *(("package-mount", "error", mounted(f"{SITE_PACKAGES}/{rest}")) for rest in IN_PACKAGES),
    *(("turboquant-overlay", "error", both(TQ, mounted(f"/x/vllm/{rest}"))) for rest in IN_OVERLAY),
    *(("own-folder", "error", both(which, mounted(target))) for which in ({}, OURS) for target in OWN_FOLDER),
    ("card-count", "error", both(TWO, cards(1))),
    ("card-count", "error", both(TWO, cards("none"))),
    ("card-count", "warning", cards(2)),
    ("card-count", "error", flags(pipeline_parallel_size=2)),
    ("forbidden-allreduce", "error", env(CCL_ALLREDUCE="ring")),
    ("forbidden-allreduce", "error", env(CCL_ALLREDUCE="direct")),
    ("mixed-collectives", "error", both(TWO, {"collectives": "host-staged"}, env(CCL_WORKER_COUNT="1"))),
    ("mixed-collectives", "error", both(TWO, {"collectives": "host-staged"}, env(SYCL_UR_USE_LEVEL_ZERO_V2="1"))),
    ("chosen-collectives", "warning", TWO),
    ("chosen-collectives", "warning", {"collectives": "host-staged"}),
    ("chosen-collectives", "warning", both(TWO, {"collectives": "lumnus-tp4"})),
    ("peer-access", "warning", both(TWO, {"collectives": "simple-p2p"})),
    ("peer-access", "warning", both(TWO, env(CCL_TOPO_P2P_ACCESS="1"))),
]

SILENT = [
    ("unknown-flag", flags(enable_chunked_prefill=True, block_size=64)),
    ("unknown-flag", flags(enable_chunked_prefill=False)),
    ("unknown-flag", at("0.22.1", **flags(linear_backend="auto"))),
    ("unknown-flag", flags(calculate_kv_scales=True)),
    ("flag-value", flags(enable_chunked_prefill=True, block_size=64, scheduling_policy="fcfs")),
    ("flag-value", flags(compilation_config={"cudagraph_mode": "NONE"}, cudagraph_capture_sizes=[1, 2])),
    ("owned-flag", flags(block_size=64)),
    ("secret-flag", flags(block_size=64)),
    ("kv-cache-dtype", engine(kv_cache_dtype="fp8")),
    ("kv-cache-dtype", TQ),
    ("kv-cache-dtype", at("0.19.0", **TQ)),
    ("kv-cache-dtype", at("0.33.0", **engine(kv_cache_dtype="octave_k3v4"))),
    ("turboquant-overlay", at("0.19.0", **both(TQ, OVERLAY))),
    ("turboquant-overlay", TQ),
    ("turboquant-hybrid", at("0.21.0", **both(TQ, HYBRID))),
    ("turboquant-hybrid", at("0.20.2", **TQ)),
    ("turboquant-overlay", at("0.19.0", **OURS)),
    ("kernels-unused", OURS),
    ("kernels-cardless", OURS),
    ("kernels-cardless", {"cards": "none"}),
    ("kernels-tuned-elsewhere", OURS),
    ("kernels-unused", engine(kv_cache_dtype="fp8")),
    ("kernels-twice", both(OURS, mounted("/opt/mine/kernels"))),
    ("kernels-twice", both(TQ, mounted("/opt/mine/b70_kernels"))),
    ("kernels-left-out", both(OURS, env(B70_KERNELS="on", VLLM_PLUGINS="mine,b70_kernels"))),
    ("kernels-left-out", both(TQ, env(B70_KERNELS="off"))),
    ("kernels-unheard", both(OURS, env(VLLM_LOGGING_LEVEL="DEBUG"))),
    ("kernels-unheard", both(TQ, env(VLLM_LOGGING_LEVEL="ERROR"))),
    ("kernels-unproven", OURS),
    ("kernels-unproven", at("0.24.0+xpu", **OURS)),
    ("kernels-unproven", at("0.34.0", **TQ)),
    ("gate", both(OURS, env(B70_KERNELS_UNPROVEN="0.34.0", B70_KERNELS="off"))),
    ("turboquant-async", both(OURS, EAGLE)),
    ("turboquant-graphs", at("0.31.0", **both(OURS, EAGLE))),
    ("turboquant-workspace", both(OURS, GRAPH)),
    ("quantization", engine(quantization="gptq")),
    ("parser", engine(tool_call_parser="hermes", reasoning_parser="qwen3")),
    ("parser", both(engine(tool_call_parser="mine"), flags(tool_parser_plugin="/x.py"))),
    ("speculative-words", spec("medusa")),
    ("speculative-words", spec("ngram", options={"prompt_lookup_max": 4})),
    ("kv-scales", flags(calculate_kv_scales=True)),
    ("turboquant-graphs", at("0.31.0", **both(TQ, EAGLE, EAGER))),
    ("turboquant-graphs", at("0.31.0", **both(TQ, EAGLE, PIECEWISE))),
    ("turboquant-graphs", at("0.31.0", **TQ)),
    ("turboquant-graphs", at("0.31.0", **EAGLE)),
    ("turboquant-graphs", at("0.26.0", **both(TQ, EAGLE))),
    ("turboquant-async", both(TQ, EAGLE, NO_ASYNC)),
    ("turboquant-async", both(TQ, EAGLE, flags(no_async_scheduling=True))),
    ("turboquant-async", both(TQ, spec("ngram"))),
    ("turboquant-async", at("0.20.2", **both(TQ, EAGLE))),
    ("turboquant-async", TQ),
    ("turboquant-workspace", TQ),
    ("turboquant-workspace", at("0.24.0", **both(TQ, GRAPH))),
    ("turboquant-rows", at("0.19.0", **both(TQ, engine(max_model_len=262144, max_num_seqs=1)))),
    ("suffix-package", spec("ngram")),
    ("suffix-rows", both(spec("suffix"), engine(max_num_seqs=15))),
    ("ngram-rows", both(spec("ngram"), engine(max_num_seqs=4))),
    ("asked-async", both(EAGLE, flags(async_scheduling=True))),
    ("draft-given", EAGLE),
    ("draft-given", spec("mtp")),
    ("draft-limit", LIFTED),
    ("draft-limit", at("0.33.0", **both(EAGLE, method("dflash")))),
    ("draft-length", spec("eagle3", draft={"path": "head"}, options={"max_model_len": 8192})),
    ("moving-draft", HUB_LIFTED),
    ("moving-draft", EAGLE),
    ("fetched-draft", HUB_LIFTED),
    ("draft-limit", at("0.30.0", **EAGLE)),
    ("draft-limit", at("0.32.0", **both(LIFTED, env(VLLM_USE_V2_MODEL_RUNNER="0")))),
    ("draft-limit", spec("mtp")),
    ("measured-depth", spec("mtp")),
    ("capture-sizes", both(spec("mtp", 3), flags(cudagraph_capture_sizes=[4, 8]))),
    ("capture-sizes", flags(cudagraph_capture_sizes=[3])),
    ("memory-share", engine(gpu_memory_utilization=0.95)),
    ("step-size", engine(max_num_batched_tokens=16384)),
    ("aligned-step", at("0.30.0", **both(HYBRID, CACHED, engine(max_num_batched_tokens=2048)))),
    ("gptq-dtype", GPTQ),
    ("gptq-dtype", at("0.22.1", **both(GPTQ, engine(dtype="bfloat16")))),
    ("gptq-dtype", engine(dtype="bfloat16")),
    ("hybrid-prefix-caching", CACHED),
    ("hybrid-prefix-caching", both(HYBRID, engine(enable_prefix_caching=False))),
    ("hybrid-prefix-caching", at("0.26.0", **both(HYBRID, CACHED))),
    ("hybrid-compile", both(HYBRID, EAGER)),
    ("hybrid-turboquant", both(HYBRID, TQ)),
    ("sleep-mode", flags(enable_sleep_mode=True)),
    ("moving-image", {}),
    ("moving-model", {"model": {"path": None, "hub": "a/b", "revision": "c"}}),
    ("secret", env(TOKENIZERS_PARALLELISM="false", MONKEY="1", TRITON_CACHE_KEYS="1")),
    ("empty-value", env(CCL_WORKER_COUNT="1")),
    ("variable", env(VLLM_XPU_USE_SAMPLER_KERNEL="1", OMP_NUM_THREADS=8)),
    ("graph-variable", GRAPH),
    ("fork", env(VLLM_WORKER_MULTIPROC_METHOD="spawn")),
    ("device-mask", both(cards("none"), env(ONEAPI_DEVICE_SELECTOR="opencl:cpu"))),
    ("gate", both(at("0.19.0"), TQ, OVERLAY, env(TQ_USE_FUSED_SPEC="0"))),
    ("package-mount", {"mounts": [{"source": "x", "target": "/opt/vllm/chat.jinja"}]}),
    ("package-mount", mounted(f"{SITE_PACKAGES}/vllm/../../chat.jinja")),
    ("own-folder", mounted("/opt/b70ctl2/plugin")),
    ("own-folder", mounted("/opt/mine/b70ctl")),
    ("own-folder", mounted("/opt/b70ctl/../mine")),
    ("card-count", both(TWO, cards(2))),
    ("card-count", cards("none")),
    ("card-count", both(flags(pipeline_parallel_size=2), cards(2))),
    ("forbidden-allreduce", env(CCL_ALLREDUCE="topo")),
    ("mixed-collectives", both(TWO, {"collectives": "host-staged"}, env(OMP_NUM_THREADS=8))),
    ("mixed-collectives", both(TWO, env(CCL_WORKER_COUNT="1"))),
    ("chosen-collectives", both(TWO, {"collectives": "host-staged"})),
    ("chosen-collectives", both(TWO, env(CCL_ENABLE_SYCL_KERNELS="0"))),
    ("peer-access", both(TWO, {"collectives": "host-staged"})),
]


@pytest.mark.parametrize("target", [SITE_PACKAGES, "/opt/venv", "//opt/venv/lib/", "/opt"])
def test_a_mount_that_holds_the_images_packages_hides_vllm_too(target):
    facts = ImageFacts(ref=PINNED, vllm="0.21.0", site_packages=SITE_PACKAGES, source="probe")
    assert severities("package-mount", mounted(target), facts=facts) == ["error"]
    assert severities("package-mount", mounted("/opt/venv2"), facts=facts) == []


@pytest.mark.parametrize(("allowed", "plugins"), [
    ("", "b70_kernels"), ("x", "x,b70_kernels"), ("x, b70_kernels", "x,b70_kernels"),
    (" b70_kernels ,,y", "y,b70_kernels"),
])  # fmt: skip
def test_what_is_told_to_write_lets_the_kernels_in_and_keeps_the_others(allowed, plugins):
    [told] = [each for each in found(both(OURS, env(VLLM_PLUGINS=allowed))) if each.rule == "kernels-left-out"]
    assert told.hint == f"VLLM_PLUGINS: {plugins}; or VLLM_PLUGINS: null, for all of them"
    assert not [each for each in found(both(OURS, env(VLLM_PLUGINS=plugins))) if each.rule == "kernels-left-out"]


def test_a_profile_with_nothing_wrong_has_no_finding():
    assert found({}) == ()


@pytest.mark.parametrize(("rule", "severity", "change"), FIRES)
def test_a_rule_fires_on_what_it_is_for(rule, severity, change):
    assert severity in severities(rule, change)


@pytest.mark.parametrize(("rule", "change"), SILENT)
def test_a_rule_is_silent_beside_it(rule, change):
    assert severities(rule, change) == []


def test_every_rule_is_tried_both_ways():
    names = {rule.name for rule in RULES}
    # they need facts, or a site's table, and have tests of their own below
    apart = {"image-version", "broken-tensor-parallel", "kernels-tuned-elsewhere"}
    assert {rule for rule, *_ in FIRES} | apart == names
    assert {rule for rule, _ in SILENT} | apart | {"python-path"} == names


def test_rules_have_different_names_and_a_reason_each():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.why and rule.check.__doc__ for rule in RULES)


@pytest.mark.parametrize(("rule", "severity", "change"), FIRES)
def test_a_finding_names_a_key_and_says_something(rule, severity, change):
    for finding in found(change):
        assert finding.where.split(".")[0] in {*Profile.model_fields}
        assert finding.message
        assert finding.hint != ""


def test_the_worst_comes_first():
    order = [finding.severity for finding in found(env(PYTHONPATH="/x", CCL_ALLREDUCE="ring", B70_X="1"))]
    assert order == sorted(order, key=["error", "warning", "note"].index)
    assert set(order) == {"error", "warning", "note"}


def test_an_image_that_was_read_goes_before_what_the_profile_expects():
    change = both(at("0.22.1"), flags(linear_backend="auto"))
    assert severities("unknown-flag", change) == []
    assert severities("unknown-flag", change, facts=facts(vllm="0.21.0")) == ["error"]


def test_an_image_with_another_vllm_is_an_error():
    assert severities("image-version", {}, facts=facts(vllm="0.22.1")) == ["error"]
    assert severities("image-version", {}, facts=facts(vllm="0.21.0")) == []
    dev = at("0.21.1.dev17")
    assert severities("image-version", dev, facts=facts(vllm="0.21.1.dev17+g0a4756bb5")) == []


def test_an_image_whose_identity_is_known_does_not_move():
    change = {"image": {"ref": "example/vllm:1"}}
    assert severities("moving-image", change, facts=facts()) == []
    assert severities("moving-image", change, facts=facts(id=None, source="catalog")) == ["warning"]


@pytest.mark.parametrize(("limit", "said"), [(2048, ["warning"]), (8192, []), (40960, [])])
def test_the_drafts_own_limit_counts_where_it_is_known(limit, said):
    assert severities("draft-limit", EAGLE, draft=Reach(limit)) == said


def test_an_override_goes_before_the_drafts_own_limit():
    assert severities("draft-limit", LIFTED, draft=Reach(2048)) == []


@pytest.mark.parametrize(("version", "said"), [("0.26.0", ["warning"]), ("0.29.0", ["warning"]), ("0.30.0", []),
                                               ("0.32.0", []), ("0.33.0", [])])  # fmt: skip
def test_a_short_draft_is_a_fault_where_vllm_does_not_lift_it(version, said):
    assert severities("draft-limit", at(version, **EAGLE), draft=Reach(2048, frozenset({"llama3"}))) == said


@pytest.mark.parametrize("version", ["0.27.1", "0.32.0", "0.33.0"])
def test_the_v1_runner_stops_at_the_drafts_limit_in_every_version(version):
    change = both(EAGLE, env(VLLM_USE_V2_MODEL_RUNNER="0"))
    (finding,) = (each for each in found(at(version, **change), draft=Reach(2048)) if each.rule == "draft-limit")
    assert (finding.severity, "whole batch" in finding.message) == ("warning", True)
    assert "V2" not in finding.message


@pytest.mark.parametrize(("version", "said"), [("0.32.0", []), ("0.33.0", ["warning"])])
def test_an_encoding_that_cannot_be_made_longer_is_not_lifted_any_more(version, said):
    # 0.33 serves the model no further than such a draft
    assert severities("draft-limit", at(version, **EAGLE), draft=Reach(2048, frozenset({"yarn"}))) == said


def test_a_nested_limit_is_named_by_the_key_that_lifts_it():
    key = "transformer_layer_config.max_position_embeddings"
    (finding,) = (each for each in found(EAGLE, draft=Reach(2048, key=key)) if each.rule == "draft-limit")
    assert (finding.where, finding.hint) == (f"speculative.draft.overrides.{key}", f"{key}: 8192")


def test_an_override_of_a_key_that_the_config_has_not_lifts_nothing():
    nested = Reach(2048, key="transformer_layer_config.max_position_embeddings")
    assert severities("draft-limit", LIFTED, draft=nested) == ["warning"]


@pytest.mark.parametrize(("version", "word"), [("0.21.0", "whole batch"), ("0.26.0", "V2 model runner"),
                                               ("0.33.0", "no further")])  # fmt: skip
def test_what_becomes_of_a_longer_request_is_told_by_version(version, word):
    change = at(version, **both(EAGLE, method("draft_model")))
    (finding,) = (each for each in found(change, draft=Reach(2048)) if each.rule == "draft-limit")
    assert word in finding.message


@pytest.mark.parametrize(
    ("version", "change", "said"),
    [
        ("0.32.0", spec("ngram"), ["error"]),
        ("0.33.0", spec("ngram"), []),
        ("0.33.0", both(spec("ngram"), env(VLLM_USE_V2_MODEL_RUNNER="0")), ["error"]),
        ("0.33.0", spec("suffix"), ["error"]),
        ("0.21.0", both(EAGLE, {"speculative": {"options": {"disable_padded_drafter_batch": True}}}), ["error"]),
        ("0.33.0", both(EAGLE, {"speculative": {"options": {"disable_padded_drafter_batch": True}}}), []),
        ("0.21.0", spec("ngram_gpu"), []),
    ],
)
def test_asking_for_asynchronous_scheduling_is_an_error_where_vllm_refuses_it(version, change, said):
    assert severities("asked-async", at(version, **both(change, flags(async_scheduling=True)))) == said


@pytest.mark.parametrize(("version", "said"), [("0.32.0", []), ("0.33.0", ["error"])])
def test_prompt_lookup_schedules_ahead_from_033_on_and_turboquant_must_not(version, said):
    assert severities("turboquant-async", at(version, **both(TQ, spec("ngram")))) == said


@pytest.mark.parametrize(("arctic", "said"), [("absent", ["error"]), ("0.1.1", []), (None, ["note"])])
def test_an_image_that_was_asked_knows_whether_it_can_decode_by_suffix(arctic, said):
    assert severities("suffix-package", spec("suffix"), facts=facts(arctic_inference=arctic)) == said


@pytest.mark.parametrize(("runtime", "said"), [("26.27.39122.11", ["error"]), ("26.35.39758.10", []), (None, [])])
def test_sycl_kernels_need_a_driver_that_does_not_hang(runtime, said):
    change = both(TWO, {"collectives": "sycl-26.35"})
    assert severities("chosen-collectives", change, facts=facts(compute_runtime=runtime)) == said


def test_an_image_that_hangs_with_two_cards_is_known_by_digest():
    digest = "intel/llm-scaler-vllm@sha256:52218ad85513ab6686d4c090c83c2bd8c5b02423c63aa4dabd41837fe641fe3b"
    assert severities("broken-tensor-parallel", TWO, facts=facts(digest=digest)) == ["error"]
    assert severities("broken-tensor-parallel", {}, facts=facts(digest=digest)) == []
    assert severities("broken-tensor-parallel", TWO, facts=facts()) == []


def test_an_unknown_set_of_collectives_is_a_usage_error():
    with pytest.raises(UsageError, match="host-staged"):
        found(both(TWO, {"collectives": "host-stagd"}))


def test_a_slip_of_the_pen_gets_the_right_word():
    finding = next(finding for finding in found(flags(enable_chunked_prefil=True)) if finding.rule == "unknown-flag")
    assert "`enable-chunked-prefill`" in finding.message


def test_a_version_between_tables_says_which_tables_differ():
    change = at("0.26.0", **engine(tool_call_parser="muse_glimmer"))
    message = next(finding.message for finding in found(change) if finding.rule == "parser")
    assert all(word in message for word in ("0.23.0 has no", "0.32.0 has", "0.26.0 lies between"))


@pytest.mark.parametrize("found", ["rivals", "archives"])
def test_another_package_on_pythons_path_or_what_may_be_one_is_told_with_its_place(found):
    profile = Profile.model_validate(merge(QUIET, OURS))
    told = lint(profile, facts=None, flags=FLAGS, kernels=replace(KERNELS, **{found: ("/opt/mine",)}))
    assert [(each.rule, each.severity) for each in told] == [("kernels-twice", "error")]
    assert "/opt/mine" in told[0].message


@pytest.mark.parametrize(
    ("device", "said"), [("NVIDIA H200", ["warning"]), ("Intel(R) Arc(TM) Pro B70 Graphics", []), (None, [])]
)
def test_a_table_of_another_maker_is_told_before_the_kernels_refuse_it(device, said):
    ours = replace(KERNELS, table="/s/tuning.json", tuned_on=device)
    remarks = lint(Profile.model_validate(merge(QUIET, OURS)), facts=None, flags=FLAGS, kernels=ours)
    told = [each for each in remarks if each.rule == "kernels-tuned-elsewhere"]
    assert [each.severity for each in told] == said
    assert all(f"/s/tuning.json was measured on {device}" in each.message for each in told)


def test_a_backend_that_does_not_say_that_it_verifies_in_full_graphs_is_doubted():
    profile = Profile.model_validate(merge(QUIET, at("0.31.0", **both(OURS, LIFTED))))
    told = lint(profile, facts=None, flags=FLAGS, kernels=replace(KERNELS, full_graphs=False))
    assert {(each.rule, each.severity) for each in told} == {("turboquant-graphs", "warning"), ("draft-limit", "note")}


def test_dollars_and_braces_in_values_are_nobodys_business():
    assert found(env(GREETING="${HOME} $x {}")) == ()


@pytest.mark.parametrize("index", range(len(TABLE["versions"])), ids=TABLE["versions"])
def test_a_tabled_release_is_answered_from_its_table(index):
    version = TABLE["versions"][index]
    answers = {name: FLAGS.flag(name, version).answer for name in TABLE["flags"]}
    assert answers == {name: "yes" if mask >> index & 1 else "no" for name, mask in TABLE["flags"].items()}


@pytest.mark.parametrize("index", range(len(TABLE["versions"])), ids=TABLE["versions"])
def test_a_build_of_a_release_counts_as_the_release(index):
    version = TABLE["versions"][index]
    assert FLAGS.flag("no-such-thing", f"{version}+cpu").answer == "no"


@given(
    name=st.sampled_from(sorted(TABLE["flags"])) | st.from_regex(r"[a-z0-9][a-z0-9.-]{0,30}", fullmatch=True),
    minor=st.integers(0, 60), patch=st.integers(0, 5), dev=st.sampled_from(["", ".dev17", "rc1.dev457+gc810e5ee9"]),
)  # fmt: skip
def test_any_name_has_an_answer_for_any_version(name, minor, patch, dev):
    verdict = FLAGS.flag(name, f"0.{minor}.{patch}{dev}")
    assert verdict.answer in ("yes", "perhaps", "no")
    assert bool(verdict.because) is (verdict.answer != "yes")


@given(st.sampled_from(sorted(TABLE["flags"])))
def test_what_every_table_has_is_accepted_everywhere(name):
    everywhere = TABLE["flags"][name] == (1 << len(FLAGS.versions)) - 1
    versions = ("0.18.0", "0.21.1.dev17", "0.26.1rc1.dev457", "0.40.0")
    assert all(FLAGS.flag(name, version).answer == "yes" for version in versions) or not everywhere


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True),
                       st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())))  # fmt: skip
def test_no_flags_make_the_rules_fail(given_flags):
    assert isinstance(found({"engine": {"flags": given_flags}}), tuple)


def patched(change, **variables):
    profile = Profile.model_validate(merge(QUIET, both(change, {"patches": ["one", "two"]})))
    patches = {"one": a_patch(env={"A": "1"}), "two": a_patch(env=variables)}
    return lint(profile, facts=None, flags=FLAGS, kernels=KERNELS if profile.kernels == "b70" else None,
                patches=patches)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "variables", "rule"),
    [
        (OURS, {"B70_KERNELS": "off"}, "kernels-left-out"),
        (OURS, {"VLLM_PLUGINS": "other"}, "kernels-left-out"),
        (OURS, {"VLLM_LOGGING_LEVEL": "ERROR"}, "kernels-unheard"),
        (OURS, {"VLLM_CONFIGURE_LOGGING": "0"}, "kernels-unheard"),
        ({}, {"VLLM_WORKER_MULTIPROC_METHOD": "fork"}, "fork"),
        ({}, {"ONEAPI_DEVICE_SELECTOR": "level_zero:0"}, "device-mask"),
        ({}, {"HF_TOKEN": "x"}, "secret"),
        (TWO, {"CCL_ALLREDUCE": "ring"}, "forbidden-allreduce"),
        (both(TWO, {"collectives": "host-staged"}), {"CCL_ATL_SHM": "1"}, "mixed-collectives"),
    ],
)
def test_a_patchs_variable_goes_past_no_rule_and_the_patch_is_what_is_told(change, variables, rule):
    [variable] = variables
    [told] = [finding for finding in patched(change, **variables) if finding.rule == rule]
    assert (told.where, told.hint) == ("patches", "drop `two` from the profile's patches")
    assert told.message.startswith(f"patch `two` comes with {variable}: ")
    own = [finding for finding in found(both(change, env(**variables))) if finding.where == f"env.{variable}"]
    assert told.severity in [finding.severity for finding in own if finding.rule == rule]


def test_what_a_patch_brings_for_itself_to_read_is_no_concern():
    known = {finding.rule for finding in patched({})}
    for variable in ("B70_MINE", "TQ_MINE", "VLLM_MINE", "MINE"):
        assert {finding.rule for finding in patched({}, **{variable: "1"})} == known


def test_a_profile_that_says_another_thing_of_a_patchs_variable_is_told():
    with pytest.raises(UsageError, match="patch `two` comes with 1"):
        patched(env(MINE="0"), MINE="1")


@pytest.mark.parametrize(
    ("proven", "told"),
    [
        (("0.30.0",), "0.30.0"),
        (("0.19.0", "0.19.1", "0.20.0"), "0.19.0 to 0.20.0"),
        (("0.19.1", "0.25.1", "0.27.1", "0.28.0"), "0.19.1 to 0.28.0 without 0.25.0 and 0.27.0"),
        (("0.19.0", "0.20.2"), "0.19.0 to 0.20.2 without 0.20.0 and 0.20.1"),
    ],
)
def test_the_versions_that_are_proven_are_told_by_their_ends_and_their_gaps(proven, told):
    profile = Profile.model_validate(merge(QUIET, at("0.40.0", **OURS)))
    [finding] = [each for each in lint(profile, facts=None, flags=FLAGS, kernels=replace(KERNELS, proven=proven))
                 if each.rule == "kernels-unproven"]  # fmt: skip
    assert f"(proven: {told})" in finding.message
    assert "env.B70_KERNELS_UNPROVEN: 0.40.0" in str(finding.hint)
