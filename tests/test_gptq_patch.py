"""The GPTQ patch hands its kernel the numbers that the checkpoint means, or refuses the checkpoint.

Its own functions are run as they stand in patch.yaml; `make test-vllm-config` runs them inside vLLM.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch.nn.parameter import Parameter

from b70ctl.edge.catalog import open_catalog
from tests.vllm.config.inside.gptq_layer import GROUP, INPUTS, OUTPUTS, checkpoint, int4_gemm

PATCH = open_catalog(None).patch("gptq-xpu")
CLOSE = 1e-3


class Config(SimpleNamespace):
    """What the kernel is told."""


@dataclass
class Kernel:
    """What XPUwNa16LinearKernel of 0.19 to 0.21 does with a layer."""

    config: Config
    weight: str
    scale: str

    def process_weights_after_loading(self, layer):
        layer.weight_scale.data = layer.weight_scale.t().contiguous()
        layer.zero = torch.tensor([8], dtype=torch.int8)
        layer.g_idx = None

    def apply_weights(self, layer, x, bias):
        return int4_gemm(x, layer.weight_packed.t(), bias, layer.weight_scale, layer.zero, self.config.group_size)


def functions():
    """The functions that the patch brings, with a kernel in the place of vLLM's."""
    text = next(edit.new for edit in PATCH.edits if "def _b70_prepare" in edit.new)
    scope = {
        "torch": torch, "Parameter": Parameter, "scalar_types": SimpleNamespace(uint4b8="uint4b8"),
        "MPLinearLayerConfig": Config, "choose_mp_linear_kernel": lambda _: Kernel, "Enum": object,
    }  # fmt: skip
    exec(f"{text}    pass\n", scope)
    return scope


FUNCTIONS = functions()


def loaded(held):
    layer = torch.nn.Module()
    for name in ("qweight", "qzeros", "scales", "g_idx"):
        layer.register_parameter(name, Parameter(held[name], requires_grad=False))
    return layer


def prepared(group=GROUP, *, bits=4, act_order=False, second=False, zero=None):
    zero = (8 if second else 7) if zero is None else zero
    held = checkpoint(INPUTS if group == -1 else group, act_order=act_order, zero=zero)
    layer = loaded(held)
    config = SimpleNamespace(weight_bits=bits, group_size=group, desc_act=act_order)
    FUNCTIONS["_b70_prepare"](layer, config, second)
    return layer, held["meant"]


@pytest.mark.parametrize("act_order", [False, True])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("group", [-1, 32, GROUP, 128])
def test_a_layer_answers_what_its_checkpoint_means(group, act_order, second):
    layer, meant = prepared(group, act_order=act_order, second=second)
    x = torch.randn((2, 3, INPUTS), generator=torch.Generator().manual_seed(1)).half()
    bias = torch.randn(OUTPUTS, generator=torch.Generator().manual_seed(2)).half()
    for given in (None, bias):
        found = FUNCTIONS["_b70_apply"](layer, x, given).double()
        wanted = x.double() @ meant + (0 if given is None else bias.double())
        assert found.shape == (2, 3, OUTPUTS)
        assert (found - wanted).norm() < CLOSE * wanted.norm()


def test_what_was_loaded_is_not_kept_twice():
    layer, _ = prepared()
    assert {name for name, _ in layer.named_parameters()} == {"weight_packed", "weight_scale"}


@pytest.mark.parametrize(
    "settings", [{"zero": 5}, {"zero": 8}, {"second": True, "zero": 7}, {"bits": 8}, {"bits": 2}], ids=str
)
def test_what_the_kernel_cannot_take_is_refused(settings):
    with pytest.raises(ValueError, match="4 bits and symmetric"):
        prepared(**settings)


def test_one_odd_zero_point_is_enough():
    held = checkpoint(GROUP, act_order=False, zero=7)
    held["qzeros"][1, 2] ^= 1 << 12
    with pytest.raises(ValueError, match="symmetric"):
        FUNCTIONS["_b70_prepare"](loaded(held), SimpleNamespace(weight_bits=4, group_size=GROUP, desc_act=False), False)


def test_a_part_of_an_act_order_layer_is_refused():
    held = checkpoint(GROUP, act_order=True, zero=7)
    held["qweight"] = held["qweight"][: INPUTS // 16]
    with pytest.raises(ValueError, match="split over cards"):
        FUNCTIONS["_b70_prepare"](loaded(held), SimpleNamespace(weight_bits=4, group_size=GROUP, desc_act=True), False)


def test_groups_of_two_sizes_are_refused():
    held = checkpoint(GROUP, act_order=True, zero=7)
    held["g_idx"][held["g_idx"] == 0] = 1
    with pytest.raises(ValueError, match="one size"):
        FUNCTIONS["_b70_prepare"](loaded(held), SimpleNamespace(weight_bits=4, group_size=GROUP, desc_act=True), False)
