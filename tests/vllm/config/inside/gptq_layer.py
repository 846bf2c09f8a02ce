"""A GPTQ linear layer of this vLLM, changed by our patch, beside the numbers that its checkpoint means.

gptq_layer.py PATCHED     the patched gptq.py; one JSON object a line on stdout: case, relative error or what was raised

The layer, its loading and the kernel that is chosen for it are vLLM's own. What an Intel card would compute is computed
here from what the kernel is given, as its own documentation of the operands says: nibbles from low to high along the
inputs, groups of neighbours, one zero point for all.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch

INPUTS, OUTPUTS, GROUP = 256, 96, 64
SEED = 20
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one group": {"group": -1},
    "groups of 32": {"group": 32},
    "act-order": {"act_order": True},
    "act-order, one group": {"act_order": True, "group": -1},
    "second format": {"second": True},
    "asymmetric": {"zero": 5},
    "first format's zero in the second": {"second": True, "zero": 7},
}


def int4_gemm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, scale: torch.Tensor, zero: torch.Tensor,
    group: int, order: torch.Tensor | None = None,
) -> torch.Tensor:  # fmt: skip
    """Intel's int4 matrix product: `weight` [inputs/8, outputs] with the inputs side by side in memory."""
    assert weight.stride(0) == 1
    assert order is None
    assert zero.tolist() == [8]
    shifts = torch.arange(0, 32, 4, dtype=torch.int32).view(1, 8, 1)
    numbers = (weight.unsqueeze(1) >> shifts & 15).reshape(-1, weight.shape[1]) - 8
    assert scale.shape == (numbers.shape[0] // group, numbers.shape[1])
    assert scale.is_contiguous()
    made = x.double() @ (numbers * scale.double().repeat_interleave(group, 0))
    return (made if bias is None else made + bias.double()).to(x.dtype)


def checkpoint(group: int, *, act_order: bool, zero: int) -> dict[str, torch.Tensor]:
    """What a GPTQ checkpoint holds of one layer, and the weights that it means."""
    generator = torch.Generator().manual_seed(SEED)
    groups = INPUTS // group
    numbers = torch.randint(0, 16, (INPUTS, OUTPUTS), generator=generator, dtype=torch.int32)
    scales = (torch.rand((groups, OUTPUTS), generator=generator) * 0.02 + 0.01).half()
    index = torch.arange(INPUTS, dtype=torch.int32) // group
    if act_order:
        index = index[torch.randperm(INPUTS, generator=generator)]
    return {
        "qweight": packed(numbers.view(-1, 8, OUTPUTS), 1),
        "qzeros": packed(torch.full((groups, OUTPUTS // 8, 8), zero, dtype=torch.int32), 2),
        "scales": scales,
        "g_idx": index,
        "meant": (numbers - 8) * scales.double()[index.long()],
    }


def packed(numbers: torch.Tensor, along: int) -> torch.Tensor:
    """Eight nibbles to a word, the first one lowest."""
    shape = [8 if axis == along else 1 for axis in range(3)]
    shifts = torch.arange(0, 32, 4, dtype=torch.int32).view(shape)
    return (numbers << shifts).sum(dim=along, dtype=torch.int32)


def served(gptq: Any, config: Any, held: dict[str, torch.Tensor], x: torch.Tensor, bias: torch.Tensor) -> Any:
    """What the layer answers, from empty weights on."""
    method = gptq.GPTQLinearMethod(config)
    layer = torch.nn.Module()
    method.create_weights(layer, INPUTS, [OUTPUTS], INPUTS, OUTPUTS, torch.half, weight_loader=lambda *_: None)
    for name in ("qweight", "qzeros", "scales", "g_idx"):
        getattr(layer, name).data.copy_(held[name])
    method.process_weights_after_loading(layer)
    return method.apply(layer, x, bias), type(layer.b70_kernel).__name__


def case(gptq: Any, *, bits: int = 4, group: int = GROUP, act_order: bool = False, second: bool = False,
         zero: int | None = None) -> dict[str, Any]:  # fmt: skip
    """One kind of checkpoint: the error relative to the weights that it means, or what was raised."""
    form = "gptq_v2" if second else "gptq"
    config = gptq.GPTQConfig(bits, group, act_order, False, {}, checkpoint_format=form)
    held = checkpoint(INPUTS if group == -1 else group, act_order=act_order,
                      zero=(8 if second else 7) if zero is None else zero)  # fmt: skip
    x = torch.randn((2, 3, INPUTS), generator=torch.Generator().manual_seed(SEED + 1)).half()
    bias = torch.randn(OUTPUTS, generator=torch.Generator().manual_seed(SEED + 2)).half()
    try:
        found, kernel = served(gptq, config, held, x, bias)
    except ValueError as error:
        return {"raised": str(error)}
    wanted = x.double() @ held["meant"] + bias.double()
    error = ((found.double() - wanted).norm() / wanted.norm()).item()
    return {"error": error, "kernel": kernel, "shape": list(found.shape)}


def main() -> None:
    """Every case, in words."""
    import cardless

    cardless.intel()
    # the kernel asks for a card by name; here its memory is the machine's
    to = torch.Tensor.to
    torch.Tensor.to = lambda self, *args, **more: self if args[:1] == ("xpu",) else to(self, *args, **more)
    torch.ops._xpu_C.int4_gemm_w4a16 = int4_gemm
    import vllm.model_executor.layers.quantization
    import vllm.model_executor.parameter as parameter

    parameter.get_tensor_model_parallel_rank = lambda: 0
    parameter.get_tensor_model_parallel_world_size = lambda: 1
    spec = importlib.util.spec_from_file_location("vllm.model_executor.layers.quantization.gptq", Path(sys.argv[1]))
    gptq = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = vllm.model_executor.layers.quantization.gptq = gptq
    spec.loader.exec_module(gptq)
    for name, settings in CASES.items():
        sys.stdout.write(f"=> {json.dumps({'case': name} | case(gptq, **settings))}\n")


if __name__ == "__main__":
    main()
