"""Which code this vLLM picks for quantised weights on an Intel card: experts and linear layers."""

from __future__ import annotations

import types

GROUP = 128
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False, "lm_head": False,
        "modules_in_block_to_quantize": ["mlp.up_proj"]}  # fmt: skip
INPUTS, OUTPUTS = 256, 512


class Plain(types.SimpleNamespace):
    """Settings of which those that are not named are off."""

    def __getattr__(self, name: str) -> bool:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


def _activation() -> object:
    try:
        from vllm.model_executor.layers.fused_moe.activation import MoEActivation
    except ImportError:
        return "silu"
    return MoEActivation.SILU


def experts() -> str:
    """Who computes W4A16 experts of a compressed-tensors checkpoint."""
    from vllm.model_executor.layers.quantization.compressed_tensors import compressed_tensors_moe as module
    from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig

    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP}
    config = CompressedTensorsConfig.from_config({
        "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": [],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}},
    })  # fmt: skip
    config._add_fused_moe_to_target_scheme_map()
    named = next((name for name in ("RoutedExperts", "FusedMoE") if name in config.target_scheme_map), "Linear")
    layer = type(named, (types.SimpleNamespace,), {})(**vars(expert_layer()))
    method = module.CompressedTensorsMoEMethod.get_moe_method(config, layer, "model.layers.0.mlp.experts")
    kernel = getattr(method, "wna16_backend", None) or getattr(method, "wna16_moe_backend", None)
    return f"{type(method).__name__} with {getattr(kernel, 'value', None)}"


def expert_layer() -> types.SimpleNamespace:
    """Experts as those of Qwen3-30B-A3B, on one card."""
    moe = Plain(
        hidden_dim=2048, intermediate_size_per_partition_unpadded=768, intermediate_size_per_partition=768,
        moe_backend="auto", is_act_and_mul=True, activation=_activation(), moe_parallel_config=Plain(),
        router_logits_dtype=None, swiglu_limit=None, swiglu_alpha=None, swiglu_beta=None,
    )  # fmt: skip
    return types.SimpleNamespace(
        hidden_size=2048, intermediate_size_per_partition=768, apply_router_weight_on_input=False, moe_config=moe,
        ckpt_gate_proj_name="gate_proj", ckpt_up_proj_name="up_proj", ckpt_down_proj_name="down_proj",
    )  # fmt: skip


def marlin_takes() -> bool:
    """What the one function answers that decides it where Marlin is asked for."""
    from vllm.model_executor.layers.quantization.utils import marlin_utils

    return bool(marlin_utils.check_moe_marlin_supports_layer(expert_layer(), GROUP))


def int4_experts() -> list[str]:
    """The kernels that later releases have for int4 experts on this platform, first choice first."""
    from vllm.model_executor.layers.fused_moe.oracle import int_wna16

    return [backend.value for backend in int_wna16._get_priority_backends()]


def gptq_linear() -> str:
    """Who computes a GPTQ linear layer, after its weights were loaded."""
    import torch
    from vllm.distributed import parallel_state
    from vllm.model_executor.layers.linear import ReplicatedLinear
    from vllm.model_executor.layers.quantization import get_quantization_config

    config = get_quantization_config("gptq").from_config(dict(GPTQ))
    torch.set_default_dtype(torch.float16)
    # one card, without the process group that it would have
    parallel_state._TP = types.SimpleNamespace(world_size=1, rank_in_group=0)
    layer = ReplicatedLinear(
        INPUTS, OUTPUTS, bias=False, quant_config=config, prefix="model.layers.0.mlp.up_proj", disable_tp=True
    )
    method = layer.quant_method
    if hasattr(method, "kernel"):
        return f"{type(method).__name__} with {type(method.kernel).__name__}"
    with torch.no_grad():
        layer.qweight.random_(-(2**31), 2**31 - 1)
        layer.qzeros.fill_(0x77777777)
        layer.scales.fill_(0.01)
        layer.g_idx.copy_(torch.arange(INPUTS) // GROUP)
    method.process_weights_after_loading(layer)
    return f"{type(method).__name__} with {type(layer.b70_kernel).__name__}"
