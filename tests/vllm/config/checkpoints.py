"""Checkpoints without weights, for the models of the shipped profiles: a config is all that vLLM reads before it loads.

Shapes are the models' own where vLLM looks at them: layers, heads, head size, experts, positions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.vllm.places import cache_dir

POSITIONS = 262_144
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False, "lm_head": False}
W4A16 = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"],
    "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "weights": {
        "num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}}},
}  # fmt: skip
QWEN3_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "torch_dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768, "decoder_sparse_step": 1, "norm_topk_prob": True, "vocab_size": 151_936,
    "max_position_embeddings": POSITIONS, "eos_token_id": 151_645, "rope_theta": 10_000_000,
}  # fmt: skip
EAGLE3 = {
    "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 2048, "intermediate_size": 12_288, "num_hidden_layers": 1, "num_attention_heads": 32,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151_936, "draft_vocab_size": 32_000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10_000_000, "tie_word_embeddings": False,
}  # fmt: skip
QWEN35_MOE = {
    "architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 256, "num_experts": 256, "num_experts_per_tok": 8,
        "moe_intermediate_size": 512, "vocab_size": 248_320, "max_position_embeddings": POSITIONS,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 10, "mtp_num_hidden_layers": 1,
    },
    "vision_config": {"model_type": "qwen3_5_moe", "depth": 2, "hidden_size": 64, "num_heads": 2},
}  # fmt: skip
GEMMA4 = {
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "gemma4_text", "num_hidden_layers": 60, "max_position_embeddings": POSITIONS,
        "head_dim": 256, "global_head_dim": 256,
    },
    "vision_config": {"model_type": "gemma4_vision", "num_hidden_layers": 2},
}  # fmt: skip

MARKS = ("<unk>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>")
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": None,
    "post_processor": None, "decoder": None,
    "added_tokens": [
        {"id": number, "content": mark, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for number, mark in enumerate(MARKS)
    ],
    "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {mark: number for number, mark in enumerate(MARKS)}},
}  # fmt: skip
"""No words: only the marks that parsers of answers look for."""

SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "qwen3-30b-gptq": (QWEN3_MOE, GPTQ),
    "qwen3-30b-w4a16": (QWEN3_MOE, W4A16),
    "qwen3.5-gptq": (QWEN35_MOE, GPTQ),
    "qwen3.5-w4a16": (QWEN35_MOE, W4A16),
    "gemma4-gptq": (GEMMA4, GPTQ),
    "eagle3": (EAGLE3, None),
    "qwen3-30b": (QWEN3_MOE, None),
}


def standing_in(model: str) -> str:
    """Which of them has the shape of a model that a profile names."""
    name = model.lower()
    if "eagle3" in name:
        return "eagle3"
    family = next((family for family, words in (
        ("qwen3.5", ("qwen3.5", "qwen3.6")), ("gemma4", ("gemma-4", "gemma4")), ("qwen3-30b", ("qwen3-30b",)),
    ) if any(word in name for word in words)), None)  # fmt: skip
    found = f"{family}-{'gptq' if 'gptq' in name else 'w4a16'}"
    if found not in SHAPES:
        raise LookupError(f"no checkpoint has the shape of {model}: add one to {__file__}")
    return found


def checkpoint(name: str, overrides: dict[str, Any] | None = None) -> Path:
    """Its folder, with some keys of its config changed as a release would change them."""
    shape, quantization = SHAPES[name]
    config = {**shape, **({"quantization_config": quantization} if quantization else {}), **(overrides or {})}
    text = json.dumps(config, indent=1, sort_keys=True)
    tail = "-".join(f"{key}-{value}" for key, value in sorted((overrides or {}).items()))
    folder = cache_dir() / "checkpoints" / "-".join(filter(None, (name, tail)))
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in (("config.json", text), ("tokenizer.json", json.dumps(TOKENIZER)),
                          ("tokenizer_config.json", '{"tokenizer_class": "PreTrainedTokenizerFast"}')):  # fmt: skip
        (folder / file).write_text(content, encoding="utf-8")
    return folder
