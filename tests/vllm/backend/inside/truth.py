"""What attention has to come to, in float64, from the bytes in the cache and from the prompt at hand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from b70_kernels import reference
from b70_kernels.cache import Cache

FUSED = 3e-4
"""Row error of what is computed over the quantised cache, before it is cast: the kernels' own gate."""
JOINED = 1.5e-3
"""Row error of long continuations. They attend over tokens that were dequantised into two bytes: 2**-11 of every value,
and of every score 2**-11 times its size, which was up to 4 here. Measured: 6.5e-4 at most. bfloat16 keeps three bits
less."""
STORED = 0.5
"""Row error of what a step stored, against the keys and values at hand: 3 bits leave 0.2 to 0.3, another token 1.4."""
PLAIN = 1e-6
"""Row error of a prompt's first tokens: the function that computes them here is the law itself."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One request's positions in a step."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    length: int
    table: torch.Tensor


def expected(rows: Rows, cache: Cache, *, own: bool, scale: float, window: int, softcap: float) -> torch.Tensor:
    """Attention of the positions; `own`: over their own keys and values as they are, else all as they were stored."""
    keys, values = reference.dequantise(cache, rows.table, rows.length)
    if own:
        before = rows.length - rows.query.shape[0]
        keys = torch.cat([keys[:before], rows.key.double()])
        values = torch.cat([values[:before], rows.value.double()])
    return reference.attend_plain(rows.query, keys, values, scale=scale, window=window, softcap=softcap)


def stored_error(rows: Rows, cache: Cache) -> float:
    """How far a step's tokens are from what was made of them, in the places where they belong."""
    keys, values = reference.dequantise(cache, rows.table, rows.length)
    count = rows.key.shape[0]
    return max(row_error(keys[-count:], rows.key.double()), row_error(values[-count:], rows.value.double()))


def row_error(out: torch.Tensor, truth: torch.Tensor) -> float:
    """The largest relative error of any row of any head; infinite where anything is not finite."""
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    return float(((out.double() - truth).norm(dim=-1) / truth.norm(dim=-1)).max())


def varlen_attention(
    *, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int, max_seqlen_k: int, softmax_scale: float, causal: bool, window_size: list[int], softcap: float,
    out: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """`flash_attn_varlen_func` as it is documented: causal from the end, a window that does not count its own token."""
    assert causal
    assert window_size[1] in (-1, 0)
    q_starts, k_starts = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for request in range(len(q_starts) - 1):
        rows = slice(q_starts[request], q_starts[request + 1])
        tokens = slice(k_starts[request], k_starts[request + 1])
        assert rows.stop - rows.start <= max_seqlen_q
        assert tokens.stop - tokens.start <= max_seqlen_k
        found = reference.attend_plain(
            q[rows], k[tokens], v[tokens], scale=softmax_scale, window=window_size[0] + 1, softcap=softcap
        )
        out[rows] = found.to(out.dtype)
    return out
