"""A language model of two layers with random weights, whose attention is the store kernel and the attention kernel.

Everything but attention is float64, alike whatever the batch: what two runs differ in comes from the kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from kernel_cases import Kit, Shape, config, whole
from kernel_scope import DEVICE

VOCABULARY = 97
WIDTH = 96
LAYERS = 2
Draft = Callable[[list[int]], list[int]]


def weights(*size: int, seed: int) -> torch.Tensor:
    """A matrix that keeps lengths."""
    return (torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / size[0] ** 0.5).to(
        DEVICE
    )


@dataclass
class Layer:
    """One attention layer with its cache; `splits` of None leaves the tiles to what is chosen for the device."""

    kit: Kit
    shape: Shape
    capacity: int
    seed: int
    splits: int | None
    cache: Any = field(init=False)

    def __post_init__(self) -> None:
        size = self.shape.head_size
        self.to_query = weights(WIDTH, self.shape.heads * size, seed=self.seed)
        self.to_key = weights(WIDTH, self.shape.kv_heads * size, seed=self.seed + 1)
        self.to_value = weights(WIDTH, self.shape.kv_heads * size, seed=self.seed + 2)
        self.back = weights(self.shape.heads * size, WIDTH, seed=self.seed + 3)
        self.cache = self.kit.cache.empty_cache(
            self.capacity // self.shape.page + 1,
            self.kit.presets.PRESETS[self.shape.preset],
            size,
            self.shape.kv_heads,
            self.shape.page,
            self.kit.cache.Layout(self.shape.layout),
            DEVICE,
        )
        self.table = torch.arange(self.cache.pages.shape[0] - 1, -1, -1, dtype=torch.int32, device=DEVICE)[None]

    def __call__(self, hidden: torch.Tensor, begin: int) -> torch.Tensor:
        """Attention of positions `begin` and on, which are stored first, so that all of them read quantised tokens."""
        rows, size = hidden.shape[0], self.shape.head_size
        heads = [(hidden @ matrix).reshape(rows, -1, size).to(self.shape.torch_dtype)
                 for matrix in (self.to_query, self.to_key, self.to_value)]  # fmt: skip
        at = torch.arange(begin, begin + rows, device=DEVICE)
        slots = self.table[0, at // self.shape.page].long() * self.shape.page + at % self.shape.page
        self.kit.store.store(heads[1], heads[2], self.cache, slots)
        out = torch.empty(heads[0].shape, dtype=torch.float32, device=DEVICE)
        self.kit.attention.attend(heads[0] * 3, self.cache, self.table, whole([begin + rows]), whole([0, rows]), rows,
                                  config=self.splits and config(self.kit, self.splits), out=out)  # fmt: skip
        return out.reshape(rows, -1).double() @ self.back


class Model:
    """Greedy generation, with or without a draft."""

    def __init__(self, kit: Kit, shape: Shape, capacity: int, splits: int | None = 1) -> None:
        self.embedding = weights(VOCABULARY, WIDTH, seed=1) * VOCABULARY**0.5
        # without places a model of random weights soon goes round in a circle
        self.places = weights(capacity, WIDTH, seed=3) * capacity**0.5
        self.head = weights(WIDTH, VOCABULARY, seed=2)
        self.layers = [Layer(kit, shape, capacity, 10 * (layer + 1), splits) for layer in range(LAYERS)]
        self.closest = float("inf")
        """The smallest difference between the best and the second best token that was ever decided."""
        self.accepted = self.rejected = 0

    def next_tokens(self, tokens: list[int], begin: int) -> list[int]:
        """After every one of these tokens, the first of which is at position `begin`, the most likely next one."""
        hidden = self.embedding[tokens] + self.places[begin : begin + len(tokens)]
        for layer in self.layers:
            normed = hidden / hidden.pow(2).mean(-1, keepdim=True).sqrt()
            hidden = hidden + layer(normed, begin)
        scores = hidden @ self.head
        assert bool(scores.isfinite().all()), "a score is not finite"
        best = scores.topk(2, -1).values
        self.closest = min(self.closest, float((best[:, 0] - best[:, 1]).min()))
        return scores.argmax(-1).tolist()

    def generate(self, prompt: list[int], count: int, draft: Draft | None = None) -> list[int]:
        """The next `count` tokens; a draft proposes some, and every proposal is verified in one call."""
        tokens = [*prompt, self.next_tokens(prompt, 0)[-1]]
        while len(tokens) < len(prompt) + count:
            proposed = draft(tokens) if draft else []
            answers = self.next_tokens([tokens[-1], *proposed], len(tokens) - 1)
            taken = next((at for at, guess in enumerate(proposed) if guess != answers[at]), len(proposed))
            self.accepted += taken
            self.rejected += len(proposed) - taken
            # what the rejected ones stored is overwritten by what comes in their place
            tokens += [*proposed[:taken], answers[taken]]
        return tokens[len(prompt) : len(prompt) + count]


def noisy_copy(known: list[int], prompt: int, longest: int, chance: float, seed: int) -> Draft:
    """Proposes what is known to come, and now and then something else."""
    noise = random.Random(seed)

    def propose(tokens: list[int]) -> list[int]:
        coming = known[len(tokens) - prompt :][: noise.randint(0, longest)]
        return [noise.randrange(VOCABULARY) if noise.random() < chance else token for token in coming]

    return propose


def runs(tokens: list[int], of: int) -> Iterator[int]:
    """The lengths of every run of one token."""
    length = 0
    for token in [*tokens, -1]:
        if token == of:
            length += 1
        elif length:
            yield length
            length = 0
