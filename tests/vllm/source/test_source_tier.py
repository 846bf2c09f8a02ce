"""What plugin, patches and b70ctl say of vLLM holds in its sources, and each of the checks can fail."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from b70_kernels.plugin.proven import VERSIONS

from tests.vllm.record import Row, read
from tests.vllm.sdist import releases, unpacked
from tests.vllm.source.tier import AREAS, IN_CI, rows
from tests.vllm.source.tree import Tree

RECORDED = read("source").rows
MARLIN = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"
each_release = [pytest.param(version, marks=pytest.mark.xdist_group(f"vllm-{version}")) for version in IN_CI]


@cache
def tree(version: str) -> Tree:
    folder = unpacked(version)
    if folder is None:
        pytest.fail(f"the sources of vLLM {version} are not here: .venv/bin/python -m tests.vllm.sdist {version}")
    return Tree(version, folder)


class Changed(Tree):
    """A release with one file changed."""

    def __init__(self, original: Tree, path: str, content: bytes) -> None:
        super().__init__(original.version, original.folder)
        self._path, self._content = path, content
        self.files = original.files | {path: content}
        self._parsed = {name: parsed for name, parsed in original._parsed.items() if name != path}

    def raw(self, path: str) -> bytes:
        return self._content if path == self._path else super().raw(path)


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("version", each_release)
def test_what_is_said_of_a_release_holds_and_is_recorded(version: str, area: str) -> None:
    found = list(AREAS[area](tree(version)))
    assert [row for row in found if row.outcome == "failed"] == []
    assert {row for row in RECORDED if row.version == version} >= set(found), "make test-vllm-source VERSIONS=all"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_release_that_the_plugin_accepts_has_everything_recorded(version: str) -> None:
    of_this = {row.feature for row in RECORDED if row.version == version}
    assert of_this == {row.feature for row in RECORDED if row.version == IN_CI[-1]}
    assert version in releases()
    assert {row.outcome for row in RECORDED if row.version == version} <= {"ok", "refused", "declared", "absent"}


CHANGES = [
    (MARLIN, "hidden_size = layer.hidden_size", "width = layer.hidden_size", "patch: marlin-moe-xpu"),
    (MARLIN, "def check_moe_marlin_supports_layer(", "def asked(", "patch: marlin-moe-xpu"),
    ("vllm/plugins/__init__.py", '"vllm.general_plugins"', '"vllm.plugins"', "plugin: loaded in every process"),
    ("vllm/v1/engine/core.py", "load_general_plugins()", "later()", "plugin: loaded in every process"),
    ("vllm/v1/attention/backend.py", "num_reqs: int", "requests: int", "plugin: the names that it holds on to"),
    ("vllm/v1/attention/backends/registry.py", "TURBOQUANT =", "TQ =", "plugin: the names that it holds on to"),
    ("vllm/v1/attention/backends/registry.py", "class_path:", "path:", "plugin: the names that it holds on to"),
    ("vllm/v1/attention/backend.py", "common_prefix_len: int", "prefix: int",
     "plugin: its classes in the place of vLLM's"),
    ("vllm/config/cache.py", '"turboquant_k8v4"', '"turboquant_k8v5"', "b70ctl: what the flag table says"),
    ("vllm/envs.py", '"VLLM_PLUGINS":', '"VLLM_EXTENSIONS":', "b70ctl: what the flag table says"),
    ("vllm/v1/worker/gpu_worker.py", "Available KV cache memory: ", "KV cache memory: ",
     "b70ctl: what it reads in the boot log"),
    ("vllm/v1/metrics/loggers.py", "vllm:num_requests_running", "vllm:running", "b70ctl: the metrics that it reads"),
    ("docker/Dockerfile.xpu", 'ENTRYPOINT ["vllm", "serve"]', 'ENTRYPOINT ["vllm"]',
     "b70ctl: how the published image starts"),
    ("vllm/config/speculative.py", "arctic-inference==0.1.1", "arctic-inference", "b70ctl: what its rules say of vLLM"),
]  # fmt: skip


@pytest.mark.xdist_group("vllm-0.21.0")
@pytest.mark.parametrize(("path", "old", "new", "feature"), CHANGES, ids=[f"{each[3]}-{each[1]}" for each in CHANGES])
def test_a_release_that_is_otherwise_is_found(path: str, old: str, new: str, feature: str) -> None:
    original = tree("0.21.0")
    assert old in original.text(path)
    changed = Changed(original, path, original.text(path).replace(old, new).encode())
    assert failed(list(AREAS[area_of(feature)](changed))) == {feature}


@pytest.mark.xdist_group("vllm-0.21.0")
def test_a_release_that_is_not_there_fails_everywhere(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    found = rows(Tree("0.21.0", tmp_path))
    refused = {row.feature for row in found if row.outcome == "refused"}
    assert failed(found) == {row.feature for row in found} - refused


@cache
def area_of(feature: str) -> str:
    return next(area for area, check in AREAS.items() if feature in {row.feature for row in check(tree("0.21.0"))})


def failed(found: list[Row]) -> set[str]:
    return {row.feature for row in found if row.outcome == "failed"}
