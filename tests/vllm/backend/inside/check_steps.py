"""What vLLM's scheduler does to requests, step by step: every row equals plain attention over what is in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from b70_kernels.plugin import backend_impl, backend_room
from b70_kernels.plugin.backend_limits import Unsupported
from b70_kernels.plugin.backend_plan import Kind
from b70_kernels.plugin.backend_versions import WINDOWED_PAGES, release
from engine import Shape, layer
from world import Padding, Request, Turn, World

DRAFTS = 3


def world(shape: Shape = Shape(), *, pages: int = 48, drafts: int = 0, seed: int = 0) -> World:  # noqa: B008
    return World(layer(shape, pages, drafts), seed)


@pytest.mark.feature("prompts, whole and in chunks")
def test_prompts_of_any_length_are_attended_to_as_they_are(note: Any) -> None:
    here = world()
    outcome = note(here.step([Turn(Request(5), 5), Turn(Request(70), 70), Turn(Request(33), 33)]))
    assert outcome.kinds == {"prompt"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.parametrize(
    ("dtype", "rounded"), [(torch.float16, 1.0), (torch.bfloat16, 8.0)], ids=["float16", "bfloat16"]
)
@pytest.mark.feature("prompts, whole and in chunks")
def test_a_prompt_read_in_pieces_sees_the_pieces_before(note: Any, dtype: torch.dtype, rounded: float) -> None:
    here = world(Shape(dtype=dtype))
    request = Request(260)
    for positions in (100, 90, 40, 29):
        outcome = note(here.step([Turn(request, positions)]), "" if rounded == 1.0 else " in bfloat16")
        assert outcome.within_gates(rounded=rounded), outcome.errors
    outcome = note(here.step([Turn(request, 1)]))
    assert outcome.kinds == {"decode"}
    assert outcome.within_gates(), outcome.errors


class Unbounded:
    """A runner that says of no request how long it can be."""

    def __init__(self, real: Any, value: Any) -> None:
        self.real, self.value = real, value

    def build(self, prefix: int, batch: Any) -> Any:
        for name in ("seq_lens_cpu_upper_bound", "_seq_lens_cpu"):
            if getattr(batch, name, None) is not None:
                setattr(batch, name, self.value)
        return self.real.build(prefix, batch)


@pytest.mark.feature("prompts, whole and in chunks")
@pytest.mark.parametrize("value", [None, torch.zeros(8, dtype=torch.int32)], ids=["none", "zero"])
def test_a_host_that_knows_no_length_costs_no_row(note: Any, value: Any) -> None:
    here = world()
    builder = Unbounded(here.layer.builder, value)
    one, other = Request(200), Request(90)
    for turns in ([Turn(one, 70)], [Turn(one, 80), Turn(other, 90)], [Turn(other, 1), Turn(one, 20)]):
        outcome = note(here.step(turns, builder=builder))
        assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("decode and verification, drafts rejected")
@pytest.mark.parametrize("preset", ["k8v4", "4bit_nc", "k3v4_nc", "3bit_nc"])
def test_every_preset_decodes(note: Any, preset: str) -> None:
    here = world(Shape(preset))
    requests = [Request(40), Request(7)]
    note(here.step([Turn(each, each.prompt) for each in requests]))
    for _ in range(2):
        outcome = note(here.step([Turn(each, 1) for each in requests]))
        assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("decode and verification, drafts rejected")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
def test_rejected_drafts_are_never_seen_again(note: Any, dtype: torch.dtype) -> None:
    here = world(Shape(dtype=dtype), drafts=DRAFTS)
    requests = [Request(30), Request(17), Request(64)]
    here.step([Turn(each, each.prompt) for each in requests])
    for _ in range(4):
        outcome = note(here.step([Turn(each, 1 + DRAFTS) for each in requests]))
        assert outcome.kinds == {"decode"}
        assert outcome.within_gates(), outcome.errors
        for each in requests:
            here.reject(each, here.chance.randint(0, DRAFTS))


@pytest.mark.feature("decode and verification, drafts rejected")
def test_a_verification_of_any_raggedness_is_one_call(note: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = world(drafts=7)
    requests = [Request(20), Request(35), Request(50), Request(16)]
    here.step([Turn(each, each.prompt) for each in requests])
    calls = []
    attend = backend_impl.attend
    monkeypatch.setattr(backend_impl, "attend", lambda *given, **named: calls.append(1) or attend(*given, **named))
    outcome = note(here.step([Turn(each, count) for each, count in zip(requests, (8, 1, 3, 5), strict=True)]))
    assert len(calls) == 1
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("prefix cache and preemption")
@pytest.mark.parametrize("tail", [1, 10, 80])
def test_a_prefix_from_the_cache_is_read_and_left_as_it_is(note: Any, tail: int) -> None:
    here = world()
    first = Request(70)
    here.step([Turn(first, 70)])
    kept = here.layer.cache[first.table[:4]].clone()
    second = here.share(first, 70, prompt=64 + tail)
    assert second.computed == 64
    outcome = note(here.step([Turn(second, tail), Turn(first, 1)]))
    assert outcome.within_gates(), outcome.errors
    assert torch.equal(here.layer.cache[first.table[:4]], kept)


@pytest.mark.feature("prefix cache and preemption")
def test_a_request_that_was_preempted_starts_again_elsewhere(note: Any) -> None:
    here = world(pages=24, drafts=DRAFTS)
    one, other = Request(60), Request(90)
    here.step([Turn(one, 60), Turn(other, 90)])
    here.step([Turn(one, 4), Turn(other, 4)])
    here.reject(other, 2)
    here.drop(one)
    for _ in range(3):
        # pages that were the first's become the second's
        outcome = note(here.step([Turn(other, 4)]))
        assert outcome.within_gates(), outcome.errors
    resumed = Request(64)
    for positions in (48, 16, 4):
        outcome = note(here.step([Turn(other, 1), Turn(resumed, positions)]))
        assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("mixed and padded batches")
def test_everything_at_once_is_ordered_and_computed(note: Any) -> None:
    here = world(pages=80, drafts=DRAFTS)
    decoding, verifying, short, long = Request(25), Request(41), Request(90), Request(300)
    here.step([Turn(decoding, 25), Turn(verifying, 41), Turn(short, 40), Turn(long, 100)])
    here.step([Turn(decoding, 4), Turn(verifying, 4), Turn(long, 70)])
    here.reject(decoding, 3)
    here.reject(verifying, 1)
    outcome = note(
        here.step([Turn(Request(75), 75), Turn(long, 95), Turn(decoding, 1), Turn(short, 50), Turn(verifying, 4)])
    )
    assert outcome.kinds == {"decode", "prompt", "short", "continuation"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("mixed and padded batches")
def test_the_order_of_requests_changes_no_row(note: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here = world(pages=80, drafts=DRAFTS)
    monkeypatch.setattr(here, "ordered", list)
    one, other, long = Request(25), Request(41), Request(300)
    here.step([Turn(one, 25), Turn(long, 100), Turn(other, 41)])
    outcome = note(here.step([Turn(one, 4), Turn(long, 80), Turn(other, 2), Turn(Request(30), 30)]))
    assert outcome.kinds == {"decode", "continuation", "prompt"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("mixed and padded batches")
def test_a_new_prompt_as_long_as_the_longest_context_hides_no_context(note: Any) -> None:
    here = world()
    old = Request(200)
    here.step([Turn(old, 90)])
    # max_query_len == max_seq_len, and one of the two has a past
    outcome = note(here.step([Turn(old, 20), Turn(Request(110), 110)]))
    assert outcome.batch.max_query_len == outcome.batch.max_seq_len
    assert outcome.kinds == {"short", "prompt"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("mixed and padded batches")
@pytest.mark.parametrize("drafts", [0, DRAFTS])
def test_padding_is_computed_to_nothing_and_stored_nowhere(note: Any, drafts: int) -> None:
    here = world(drafts=drafts)
    requests = [Request(30), Request(9)]
    here.step([Turn(each, each.prompt) for each in requests])
    each = 1 + drafts
    before = here.layer.cache.clone()
    outcome = note(here.step([Turn(request, each) for request in requests], Padding(requests=2, tokens=2 * each)))
    assert outcome.within_gates(), outcome.errors
    assert torch.equal(outcome.out[2 * each :], torch.zeros_like(outcome.out[2 * each :]))
    written = {page for request in requests for page in request.table}
    others = [page for page in range(before.shape[0]) if page not in written]
    assert torch.equal(here.layer.cache[others], before[others])


@pytest.mark.feature("mixed and padded batches")
def test_a_step_of_padding_alone_ends_well() -> None:
    here = world()
    out = torch.full((4, 4, 64), float("nan"))
    found = here.layer.impl.forward(here.layer.module, out, out, out, here.layer.cache, None, output=out)
    assert found is out
    assert torch.equal(out, torch.zeros_like(out))


@pytest.mark.feature("score caps")
def test_caps_hold_in_every_part(note: Any) -> None:
    in_chunks(world(Shape(softcap=2.0)), note)


@pytest.mark.feature("sliding windows")
@pytest.mark.parametrize("softcap", [None, 2.0], ids=["uncapped", "capped"])
def test_windows_hold_in_every_part(note: Any, softcap: float | None) -> None:
    shape = Shape(window=24, softcap=softcap)
    if release() >= WINDOWED_PAGES:
        in_chunks(world(shape), note)
        return
    with pytest.raises((Unsupported, ValueError), match="--kv-cache-dtype-skip-layers sliding_window"):
        layer(shape, 8)
    note.refused()


def in_chunks(here: World, note: Any) -> None:
    request = Request(200)
    for positions in (90, 70, 20, 1):
        outcome = note(here.step([Turn(request, positions)]))
        assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("prompts, whole and in chunks")
def test_a_context_that_fits_no_workspace_is_attended_to_in_pieces(note: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_room, "WORKSPACE", 4 * 64 * 100)
    here = world()
    # two pieces at a time
    here.layer.impl.room = replace(here.layer.impl.room, positions=128)
    request = Request(300)
    here.step([Turn(request, 90)])
    outcome = note(here.step([Turn(request, 150), Turn(Request(20), 20)]))
    assert [step.part.kind for step in outcome.metadata.steps] == [Kind.PIECES, Kind.FRESH]
    assert outcome.kinds == {"pieces", "prompt"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("score caps")
def test_a_flash_attention_that_ignores_caps_is_not_asked(note: Any) -> None:
    here = world(Shape(softcap=2.0))
    # as vLLM's is for Intel cards up to 0.31
    here.layer.impl.flash_is_whole = False
    one, other = Request(200), Request(70)
    outcome = note(here.step([Turn(one, 80), Turn(other, 70)]))
    assert outcome.within_gates(), outcome.errors
    outcome = note(here.step([Turn(one, 70), Turn(Request(9), 9)]))
    assert outcome.kinds == {"pieces"}
    assert outcome.within_gates(), outcome.errors


@pytest.mark.feature("prompts, whole and in chunks")
def test_a_workspace_for_one_head_gives_what_one_for_all_gives(note: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for heads in (2, 1):
        monkeypatch.setattr(backend_room, "WORKSPACE", heads * 4 * 64 * 1024)
        here = world(seed=3)
        assert here.layer.impl.heads_at_once == heads
        request = Request(200)
        here.step([Turn(request, 100)])
        outcome = note(here.step([Turn(request, 80)]))
        assert outcome.within_gates(), outcome.errors
        found.append(outcome.out)
    assert torch.allclose(*found, rtol=0, atol=1e-6)
