"""The GPTQ patch inside real vLLM: its layers are loaded, and handed to the kernel that it picks for an Intel card."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from b70ctl.core.image import within
from tests.vllm.config.answers import MARK, SCRIPT, patched_files, patches
from tests.vllm.versions import CONFIG, environment, run

NAME = "gptq-xpu"
PATCH = patches()[NAME]
VERSIONS = [version for version in CONFIG if within(version, PATCH.versions)]
CLOSE = 1e-3
REFUSED = {"asymmetric", "first format's zero in the second"}


@functools.cache
def said(version: str) -> dict[str, dict[str, Any]]:
    """What becomes of each kind of checkpoint."""
    file = patched_files(version)["vllm.model_executor.layers.quantization.gptq"]
    done = run(SCRIPT.with_name("gptq_layer.py"), [file], environment(version, VLLM_LOGGING_LEVEL="ERROR"))
    assert done.returncode == 0, done.stderr[-1500:]
    lines = (line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK))
    return {each["case"]: each for each in map(json.loads, lines)}


@pytest.mark.process
@pytest.mark.feature(f"patch: {NAME} computes what the checkpoint means", "ok")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_gptq_layer_answers_what_its_checkpoint_means(version: str) -> None:
    served = {case: each for case, each in said(version).items() if case not in REFUSED}
    assert len(served) == 6
    assert {each["kernel"] for each in served.values()} == {"XPUwNa16LinearKernel"}
    assert max(each["error"] for each in served.values()) < CLOSE


@pytest.mark.process
@pytest.mark.feature(f"patch: {NAME} computes what the checkpoint means", "ok")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_gptq_layer_that_the_kernel_cannot_take_is_refused_while_it_is_loaded(version: str) -> None:
    assert all("symmetric zero points" in said(version)[case]["raised"] for case in REFUSED)
