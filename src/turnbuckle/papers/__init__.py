"""Papers recomputed: their own tables, number by number, and their methods on a user's own profile beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "questions": {
        "reproduce": (
            "turnbuckle.papers.command:reproduce",
            "Recompute every published number Turnbuckle rests on: printed, recomputed, deviation, verdict.  Exit 1 if a verdict moved.",
        ),
        "model patterns": (
            "turnbuckle.papers.gpudirect.command:patterns",
            "Compare GPUDirect with host copies on declared patterns: the paper's four applications beside its ranges, or by message size.",
        ),
        "model bound": (
            "turnbuckle.papers.models.bound.command:bound",
            "Bound the run time at one latency by a gain known between two others: it is convex in latency, whatever the application.",
        ),
        "model chain": (
            "turnbuckle.papers.models.cxl.command:chain",
            "Replay a chain of accelerators: through the host, directly, through a shared cache, and each of them pipelined.",
        ),
        "model cxl": (
            "turnbuckle.papers.models.cxl.command:cxl",
            "Compare transfers over PCIe with those over CXL: times by size, crossovers, what offloading must save (equations 9 to 11).",
        ),
        "model dag": (
            "turnbuckle.papers.models.dag.command:dag",
            "Find the critical path of a triangular solve or of any task graph over several GPUs, and where more of them stop paying.",
        ),
        "model dgemm": (
            "turnbuckle.papers.models.dgemm.command:dgemm",
            "Ask from which size, bandwidth and launch time on a matrix product is worth moving to the device.",
        ),
        "model link": (
            "turnbuckle.papers.models.link.command:link",
            "Price copies over a PCI Express or NVLink connection: bytes on the wire, efficiency, bandwidth and time by size.",
        ),
        "model mdm": (
            "turnbuckle.papers.models.mdm.command:mdm",
            "Model a kernel's instructions a cycle and its duration by the memory divergence model: a guess, beside what was measured.",
        ),
        "model memory": (
            "turnbuckle.papers.models.memory.command:memory",
            "Compare data in host memory, in device memory and moved on demand: equation 8 of the ECP report.",
        ),
        "model additive": (
            "turnbuckle.papers.models.node.command:additive",
            "Divide each class of time by its lambda: a table, a summary of nvprof, or a recording in the report's way and in ours.",
        ),
        "model functions": (
            "turnbuckle.papers.models.node.command:functions",
            "Say where the time goes, function by function: its plain time, and its part of the exclusive time line.",
        ),
        "model integration": (
            "turnbuckle.papers.models.node.command:integration",
            "Say what GPUs closer to each other would give: more of them on a node, or a faster node.",
        ),
        "model power": (
            "turnbuckle.papers.models.power.command:power",
            "Project what GPUs of a given power compute in a later year, from the trend of the rate per watt.",
        ),
        "model ssi": (
            "turnbuckle.papers.models.ssi.command:ssi",
            "Replay calls in a closed loop (send, kernel, receive) over a shorter and a longer link: benefit and penalty of distance.",
        ),
    },
    "terminal": {"reproduce": ("turnbuckle.papers.command:show",)},
    "services": {"binned slack": ("turnbuckle.papers.row_slack.binned_slack:besides",)},
}
