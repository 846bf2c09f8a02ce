"""An EAGLE-3 head, as vLLM's `LlamaForCausalLMEagle3` computes it, small enough to be taught on a processor."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Rotary(nn.Module):
    """Rotation by position, the two halves of a head apart, as Llama has it."""

    def __init__(self, size: int, base: float) -> None:
        super().__init__()
        self.register_buffer("steps", base ** (-torch.arange(0, size, 2) / size), persistent=False)

    def forward(self, heads: Tensor, positions: Tensor) -> Tensor:
        angles = positions[:, :, None] * self.steps
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        one, two = heads.chunk(2, dim=-1)
        return torch.cat((one * cos - two * sin, two * cos + one * sin), dim=-1)


class Attention(nn.Module):
    """Grouped-query attention over the embedding beside the hidden state."""

    def __init__(self, hidden: int, heads: int, kv_heads: int, size: int, base: float) -> None:
        super().__init__()
        self.q_proj = nn.Linear(2 * hidden, heads * size, bias=False)
        self.k_proj = nn.Linear(2 * hidden, kv_heads * size, bias=False)
        self.v_proj = nn.Linear(2 * hidden, kv_heads * size, bias=False)
        self.o_proj = nn.Linear(heads * size, hidden, bias=False)
        self.size, self.group, self.rotary = size, heads // kv_heads, Rotary(size, base)

    def forward(self, both: Tensor, positions: Tensor) -> Tensor:
        q, k, v = (self._heads(each(both)) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.rotary(q, positions), self.rotary(k, positions)
        k, v = (each.repeat_interleave(self.group, dim=1) for each in (k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (-1, self.size)).transpose(1, 2)


class Mlp(nn.Module):
    """Llama's feed-forward part."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """The one layer of the head."""

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        self.hidden_norm, self.input_layernorm = nn.RMSNorm(hidden, 1e-6), nn.RMSNorm(hidden, 1e-6)
        self.post_attention_layernorm = nn.RMSNorm(hidden, 1e-6)
        self.self_attn = Attention(
            hidden, config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"], 10_000.0
        )
        self.mlp = Mlp(hidden, config["intermediate_size"])

    def forward(self, embedded: Tensor, state: Tensor, positions: Tensor) -> Tensor:
        both = torch.cat((self.input_layernorm(embedded), self.hidden_norm(state)), dim=-1)
        state = state + self.self_attn(both, positions)
        return state + self.mlp(self.post_attention_layernorm(state))


class Eagle3(nn.Module):
    """Guesses the token after the next from three of the target's hidden states and the next token."""

    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        self.fc = nn.Linear(3 * hidden, hidden, bias=False)
        self.midlayer = Layer(config)
        self.norm = nn.RMSNorm(hidden, 1e-6)
        self.lm_head = nn.Linear(hidden, config["vocab_size"], bias=False)

    def forward(self, embedded: Tensor, state: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the state that a further guess begins with."""
        state = self.midlayer(embedded, state, positions)
        return self.lm_head(self.norm(state)), state
