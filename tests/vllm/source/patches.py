"""Every shipped patch against a release: it applies where it is meant to, can be undone, and its own words are true."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import yaml

from b70ctl.core.patch import Answer, Patch, by_version, patched
from b70ctl.errors import Refused
from tests.vllm.places import CHECKOUT
from tests.vllm.record import Row
from tests.vllm.source.claims import Claim, faults, row
from tests.vllm.source.tree import Tree

MARLIN = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"
COMPRESSED = "vllm/model_executor/layers/quantization/compressed_tensors"
EXPERTS = "vllm/model_executor/layers/fused_moe/oracle/int_wna16.py"
QUANTIZATION = "vllm/model_executor/layers/quantization"

REASONS: dict[str, tuple[Claim, ...]] = {
    "marlin-moe-xpu": (
        # asked in every version; from 0.23 on what is called Marlin has Intel's experts among its backends
        Claim(path=MARLIN, words="def check_moe_marlin_supports_layer("),
        Claim(path=EXPERTS, words="return [WNA16MoEBackend.XPU]", versions=">=0.23"),
        Claim(path=f"{COMPRESSED}/compressed_tensors_moe.py", words="check_moe_marlin_supports_layer",
              versions=">=0.19,<0.20"),
        Claim(path=f"{COMPRESSED}/compressed_tensors_moe/compressed_tensors_moe.py",
              words="check_moe_marlin_supports_layer", versions=">=0.20,<0.27"),
    ),
    "gptq-xpu": (
        Claim(path=f"{QUANTIZATION}/gptq.py", words="ops.gptq_gemm(", versions="<0.22"),
        Claim(path=f"{QUANTIZATION}/auto_gptq.py", words="choose_mp_linear_kernel(", versions=">=0.22"),
    ),
    "mtp-ptr-wrap": (
        Claim(path="vllm/v1/worker/mamba_utils.py", words="def _reinterpret_u64_as_i64(", versions=">=0.29"),
    ),
}  # fmt: skip
"""What a patch says of vLLM beyond its own anchors, as far as it can be read there."""
KERNELS = re.compile(r"vllm[_-]xpu[_-]kernels\D*?(\d+(?:\.\d+)+)")


def shipped() -> dict[str, Patch]:
    """Every patch of the checkout by its name."""
    files = sorted((CHECKOUT / "patches").glob("*/patch.yaml"))
    return {path.parent.name: Patch.model_validate(yaml.safe_load(path.read_text())) for path in files}


def rows(tree: Tree) -> Iterator[Row]:
    """A result for every shipped patch."""
    for name, patch in shipped().items():
        answer, reason = by_version(patch, tree.version, kernels_of(tree))
        wrong = list(faults(REASONS.get(name, ()), tree))
        if answer is not Answer.APPLIES:
            wrong += _unlisted(patch, answer, tree)
            unknown = f"it is for vLLM {patch.versions}, and nothing is known beyond that"
            note = unknown if answer is Answer.UNKNOWN else f"{answer}: {reason}"
            yield row(tree, f"patch: {name}", wrong, "refused", note)
            continue
        wrong += [fault for file in sorted(patch.judged) for fault in _applies(name, patch, file, tree)]
        wrong += [f"its script edits {file}, which is not there" for file in sorted(patch.files) if not tree.has(file)]
        # of others' scripts there is no more to be seen here than the files that they edit
        yield row(tree, f"patch: {name}", wrong, "declared" if patch.scripts else "ok")


def kernels_of(tree: Tree) -> str | None:
    """The vllm-xpu-kernels that a release asks for."""
    found = KERNELS.search(tree.text("requirements/xpu.txt"))
    return found[1] if found else None


def _unlisted(patch: Patch, answer: Answer, tree: Tree) -> Iterator[str]:
    """A release that is refused one of our patches is refused it for a reason, and not because nobody looked at it."""
    if patch.status == "ours" and answer is Answer.UNKNOWN:
        yield "the patch does not say why it is not for this version"
    if any(tree.digest(file) in patch.bases for file in patch.judged):
        yield "the file is one of its bases"


def _applies(name: str, patch: Patch, file: str, tree: Tree) -> Iterator[str]:
    if tree.digest(file) not in patch.bases:
        yield f"{file} is none of its bases"
    try:
        text = patched(name, patch, file, tree.text(file), frozenset({tree.digest(file)}))
        compile(text, file, "exec")
    except Refused as refused:
        yield refused.what
    except SyntaxError as error:
        yield f"{file} does not compile any more: {error}"
    else:
        yield from _undone(patch, file, text, tree)
        yield from _unmarked(patch, file, text, tree)


def _undone(patch: Patch, file: str, text: str, tree: Tree) -> Iterator[str]:
    for edit in reversed([edit for edit in patch.edits if edit.file == file]):
        if text.count(edit.new) != 1:
            yield f"{file}: what it writes stands there {text.count(edit.new)} times"
        text = text.replace(edit.new, edit.old)
    if hashlib.sha256(text.encode("utf-8", errors="surrogateescape")).hexdigest() != tree.digest(file):
        yield f"{file}: undoing it does not give the file back"


def _unmarked(patch: Patch, file: str, text: str, tree: Tree) -> Iterator[str]:
    """What is looked for after a start stands in the changed file alone."""
    for marker in patch.markers:
        if marker.file == file and (marker.text not in text or marker.text in tree.text(file)):
            yield f"{file}: its marker does not tell the changed file from the other"
