"""The steps' tests can fail: backends with one fault each, and the steps that find it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from b70_kernels.plugin import backend_metadata, backend_plan
from b70_kernels.plugin.backend_plan import Kind
from engine import Shape, layer
from world import Outcome, Request, Turn, World

pytestmark = pytest.mark.feature("faults in all this are found out")


class HostLengths:
    """Lengths from the host, as vLLM's own TurboQuant takes them from 0.21 on."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def build(self, prefix: int, batch: Any) -> Any:
        batch.seq_lens = backend_metadata.longest_lengths(batch)
        return self.real.build(prefix, batch)


class FreshByTheLongest:
    """Prompts are taken for new when the longest of them is as long as the longest context, as vLLM's own does."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def build(self, prefix: int, batch: Any) -> Any:
        if batch.max_query_len == batch.max_seq_len:
            batch = batch.replace() if hasattr(batch, "replace") else batch
            lengths = batch.query_start_loc_cpu[1:] - batch.query_start_loc_cpu[:-1]
            for name in ("seq_lens_cpu_upper_bound", "_seq_lens_cpu"):
                if getattr(batch, name, None) is not None:
                    setattr(batch, name, lengths)
        return self.real.build(prefix, batch)


def rejected_drafts(here: World, builder: Any) -> Outcome:
    request, other = Request(30), Request(17)
    here.step([Turn(request, 30), Turn(other, 17)])
    here.step([Turn(request, 4), Turn(other, 4)])
    here.reject(request, 2)
    return here.step([Turn(request, 4), Turn(other, 4)], builder=builder)


def old_and_new(here: World, builder: Any) -> Outcome:
    old = Request(200)
    here.step([Turn(old, 90)])
    return here.step([Turn(old, 20), Turn(Request(110), 110)], builder=builder)


def continued(here: World, _: Any) -> Outcome:
    request = Request(200)
    here.step([Turn(request, 90)])
    return here.step([Turn(request, 80)])


@pytest.mark.parametrize(
    ("fault", "steps"), [(HostLengths, rejected_drafts), (FreshByTheLongest, old_and_new)], ids=["lengths", "fresh"]
)
def test_a_builder_that_believes_the_host_is_found_out(fault: type, steps: Callable[..., Outcome]) -> None:
    here = World(layer(Shape(), 40, 3))
    assert steps(here, None).within_gates()
    here = World(layer(Shape(), 40, 3))
    assert not steps(here, fault(here.layer.builder)).within_gates()


def test_a_prefix_that_is_left_out_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_metadata, "parts_after", fresh_parts)
    assert not continued(World(layer(Shape(), 40)), None).within_gates()


def fresh_parts(*given: Any) -> Any:
    for part in backend_plan.parts_after(*given):
        yield backend_plan.Part(Kind.FRESH, part.first, part.last, part.begin, part.end, part.longest, 0, 0)


def test_a_slot_that_is_one_off_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    here = World(layer(Shape(), 40))
    store = here.layer.impl.do_kv_cache_update
    swapped = lambda module, key, value, cache, slots: store(module, key, value, cache, slots ^ 1)  # noqa: E731
    monkeypatch.setattr(here.layer.impl, "do_kv_cache_update", swapped)
    assert not here.step([Turn(Request(22), 22)]).within_gates()
