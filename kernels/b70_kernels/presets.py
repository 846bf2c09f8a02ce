"""The four TurboQuant presets of vLLM, and how many bytes each keeps."""

from __future__ import annotations

from dataclasses import dataclass

SCALE_BYTES = 2
"""Every scale is an fp16."""


@dataclass(frozen=True, slots=True)
class Preset:
    """How one token's key and value are kept for one KV head."""

    name: str
    key_bits: int
    """8: fp8 e4m3, as it is. 4 or 3: Lloyd-Max codes of the rotated key, with its norm."""
    value_bits: int
    """Uniform between the token's smallest and largest value."""

    @property
    def rotated(self) -> bool:
        """Whether keys are kept rotated by a Hadamard matrix, and queries have to be."""
        return self.key_bits != 8

    @property
    def scales(self) -> int:
        """fp16 numbers beside the codes: the key's scale where it has one, the value's scale and zero."""
        return 3 if self.rotated else 2

    def slot_bytes(self, head_size: int) -> int:
        """Bytes of one token of one KV head, as vLLM counts them (k8v4 at 128: 196, 3bit_nc: 102)."""
        return head_size * (self.key_bits + self.value_bits) // 8 + self.scales * SCALE_BYTES


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("k8v4", key_bits=8, value_bits=4),
        Preset("4bit_nc", key_bits=4, value_bits=4),
        Preset("k3v4_nc", key_bits=3, value_bits=4),
        Preset("3bit_nc", key_bits=3, value_bits=3),
    )
}
"""By name; vLLM's `--kv-cache-dtype` says `PREFIX` before it."""

PREFIX = "turboquant_"
CACHE_TYPES = tuple(PREFIX + name for name in PRESETS)
"""The presets as vLLM calls them: types of a cache, not of a tensor."""

HEAD_SIZES = (64, 128, 256)
PAGE_SIZES = (16, 32, 64)
