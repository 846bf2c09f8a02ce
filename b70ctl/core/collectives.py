"""Named sets of variables for more than one card: each was proven as a whole, so none is ever mixed with another."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from b70ctl.errors import UsageError

OWNED = ("CCL_", "FI_")
"""Prefixes of the variables that belong to a set; a profile with a set names none of its own."""

# 4 GiB: every message is below it and takes the kernels that a graph can capture
_ALL_SIMPLE = {
    "CCL_SYCL_ALLREDUCE_SIMPLE_THRESHOLD": "4294967296",
    "CCL_SYCL_REDUCE_SCATTER_SIMPLE_THRESHOLD": "4294967296",
    "CCL_SYCL_ALLGATHERV_SIMPLE_THRESHOLD": "4294967296",
    "CCL_SYCL_ALLTOALL_TMP_BUF": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One set: what it puts into the container's environment, and what the container must be allowed."""

    name: str
    env: Mapping[str, str]
    reason: str
    """When to choose it."""
    source: str
    """Whose box it is from."""
    cap_add: tuple[str, ...] = ()
    ipc: Literal["host"] | None = None
    cards: int | None = None
    """The number of cards that it was used with, where that matters."""
    compute_runtime: str | None = None
    """The oldest compute runtime inside the container with which it does not hang."""

    @property
    def peer_access(self) -> bool:
        """Whether cards read each other's memory, which has corrupted data in silence on some boards."""
        return self.env.get("CCL_TOPO_P2P_ACCESS") == "1"


def _set(name: str, env: Mapping[str, str], **rest: object) -> Collective:
    return Collective(name=name, env=MappingProxyType(dict(env)), **rest)  # type: ignore[arg-type]


COLLECTIVES: tuple[Collective, ...] = (
    _set(
        "host-staged",
        {
            "CCL_ENABLE_SYCL_KERNELS": "0",
            "CCL_TOPO_FABRIC_VERTEX_CONNECTION_CHECK": "0",
            "SYCL_UR_USE_LEVEL_ZERO_V2": "0",
            "CCL_ATL_TRANSPORT": "ofi",
            "CCL_TOPO_P2P_ACCESS": "0",
            "CCL_ZE_IPC_EXCHANGE": "pidfd",
        },
        reason="slow and safe: every reduction goes through host memory, on any driver",
        source="vllm issue 41663; hotschmoe/b70_ai_things",
        cap_add=("SYS_PTRACE",),
        ipc="host",
    ),
    _set(
        "simple-threshold",
        _ALL_SIMPLE,
        reason="graphs over two or four cards; needs a patch that binds each worker to its own card",
        source="SergiioB/intel-arc-pro-b70-inference-cookbook",
        cap_add=("SYS_PTRACE",),
        ipc="host",
    ),
    _set(
        "simple-p2p",
        {
            **_ALL_SIMPLE,
            "CCL_ENABLE_SYCL_KERNELS": "1",
            "CCL_ENABLE_TOPO_ALGO": "1",
            "CCL_WORKER_COUNT": "1",
            "CCL_TOPO_FABRIC_VERTEX_CONNECTION_CHECK": "0",
            "CCL_ATL_TRANSPORT": "ofi",
            "CCL_ATL_SHM": "1",
            "FI_PROVIDER": "shm",
            "CCL_ZE_IPC_EXCHANGE": "pidfd",
            "CCL_TOPO_P2P_ACCESS": "1",
        },
        reason="as `simple-threshold`, and the cards read each other's memory; only after a checksum test of each pair",
        source="the dual-B70 5800X blueprint for vLLM 0.28",
        cap_add=("SYS_PTRACE",),
        ipc="host",
    ),
    _set(
        "sycl-26.35",
        {"CCL_ENABLE_SYCL_KERNELS": "1"},
        reason="fast and plain, for an image with compute runtime 26.35 and IGC 2.41.5; older ones hang both cards",
        source="bklinkradt/arc-b70-llm-stack",
        compute_runtime="26.35",
    ),
    _set(
        "lumnus-tp4",
        {
            "CCL_ZE_IPC_EXCHANGE": "sockets",
            "CCL_SYCL_ALLREDUCE_TMP_BUF": "1",
            "CCL_SYCL_ALLGATHERV_TMP_BUF": "1",
            "UR_L0_V2_FORCE_DISABLE_COPY_OFFLOAD": "1",
            "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        },
        reason="four cards with expert parallelism, in the Lumnus image",
        source="imryanpurdy's four-card box",
        cards=4,
    ),
    _set(
        "twoshots",
        {"CCL_SYCL_ALLREDUCE_LL": "twoshots"},
        reason="proven on two B60 with the 8-bit key cache package; not on B70",
        source="Wrapzii/k8v4-xpu",
    ),
)


def collective(name: str) -> Collective:
    """The set of that name; UsageError names what is close, or all of them."""
    for candidate in COLLECTIVES:
        if candidate.name == name:
            return candidate
    names = [candidate.name for candidate in COLLECTIVES]
    near = difflib.get_close_matches(name, names, n=2)
    meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    raise UsageError(f"there is no set of collectives `{name}`; {meant}", hint=f"collectives: {(near or names)[0]}")
