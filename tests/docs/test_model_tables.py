"""Tables of docs/models are what the program says: those of recordings are computed again, and
every other one names its test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hostile_names import Ran
from model_tables import MODELS, agree, evidence_of, numbers, rows, shown, tables

Run = Callable[..., Ran]
ROOT = Path(__file__).resolve().parents[2]
CARD = ROOT / "src" / "turnbuckle" / "questions" / "validate" / "accuracy.json"
#: Names of recordings in the tables, and their folders.
RECORDINGS = {
    "CloverLeaf, A100": "cloverleaf_a100_perlmutter",
    "gaussian a, RTX 3090": "rodinia_gaussian_rtx3090_a",
    "gaussian, RTX 3090": "rodinia_gaussian_rtx3090_a",
    "gaussian b, RTX 3090": "rodinia_gaussian_rtx3090_b",
    "Jacobi, GH200 (copies at 298 GB/s)": "jacobi_gh200",
    "Jacobi, GH200": "jacobi_gh200",
    "streams, GTX 1060 (`extrap_concurrent_s4`)": "extrap_concurrent_s4",
    "assignment, RTX 3090 (`balinski_gomory_r3`)": "balinski_gomory_r3",
    "assignment, RTX 3090": "balinski_gomory_r3",
    "transits, RTX 3060 (`gtls_rtx3060`)": "gtls_rtx3060",
    "GTLS, RTX 3060": "gtls_rtx3060",
    "two H100, one second of an LLM": "h100_2gpu_1s",
}
#: Tables of numbers by page and the first column titles, and what computes them: a test, or a
#: script whose output they are.
COMPUTED = {
    ("kernels", "kernels or codes, GPUs"): "validation/kernels/judge.py",
    ("remoting", "what, rows"): "validation/remoting/judge.py",
    ("remoting", "layer, program, without"): "validation/remoting/published.py",
    ("sharing", "recording, 1, 2"): "tests/docs/test_model_tables.py",
    ("sharing", "recording, 100 µs to 10 µs"): "tests/docs/test_model_tables.py",
    ("ssi", "recording, calls"): "tests/docs/test_model_tables.py",
    ("order", "recordings, activities"): "tests/docs/test_model_tables.py",
    ("kernels", "kernels or programs, cases"): "tests/docs/test_model_tables.py",
    ("ahead", "unknown, on B"): "tests/docs/test_model_tables_copies.py",
    ("ahead", "A, B and its transfers"): "tests/docs/test_model_tables_copies.py",
    ("packet", "machine, link"): "tests/docs/test_model_tables_copies.py",
    ("packet", "series, copies"): "tests/docs/test_model_tables_copies.py",
    ("collectives", ", b, ring"): "tests/docs/test_model_tables_messages.py",
    ("contention", "ranks, logp"): "tests/docs/test_model_tables_messages.py",
    ("contention", "network, ranks"): "tests/docs/test_model_tables_messages.py",
    ("extrapolation", ", run time, compute"): "tests/docs/test_model_tables_messages.py",
    ("extrapolation", "recording, grid found"): "tests/docs/test_model_tables_messages.py",
    ("extrapolation", "of it, law"): "tests/docs/test_model_tables_messages.py",
    ("integration", "recording, in MPI"): "tests/docs/test_model_tables_messages.py",
    ("limppy", "`--fidelity`, `limppy`"): "tests/docs/test_model_tables_messages.py",
    ("limppy", "recording, packets"): "tests/docs/test_model_tables_messages.py",
    ("patterns", "application, printed, pattern"): "tests/docs/test_model_tables_messages.py",
    ("patterns", "application, what, printed"): "tests/docs/test_model_tables_messages.py",
    ("patterns", ", gain, 6 ranks"): "tests/docs/test_model_tables_messages.py",
    ("slack-published", "recording, slack"): "tests/papers/row_slack/test_row_slack.py",
    ("simulators", "trace, distance"): "tests/papers/ecp/test_ecp_simulators.py",
    ("tenfold", "recording, run time"): "validation/tenfold.py",
    ("messages", "recording, messages"): "tests/mpi/questions/test_model_messages.py",
}


def test_every_table_of_numbers_is_computed() -> None:
    """Of a table count four numbers with decimals, and six of any kind where it stands as
    evidence.
    """
    unnamed, computed = [], set()
    for path in sorted(MODELS.glob("*.md")):
        evidence = evidence_of(path.stem)
        for titles, cells in tables(path.stem):
            text = " ".join(cell for row in cells for cell in row)
            named = [
                k for k in COMPUTED if k[0] == path.stem and ", ".join(titles).startswith(k[1])
            ]
            computed |= set(named)
            few = len(re.findall(r"\d\.\d", text)) < 4
            if few and (titles not in evidence or len(numbers(text)) < 6):
                continue
            if len(named) != 1:
                unnamed.append((path.stem, titles))
    assert unnamed == []
    assert computed == set(COMPUTED)


@pytest.mark.parametrize(
    ("page", "file"), sorted({(page, file) for (page, _), file in COMPUTED.items()})
)
def test_what_computes_a_table_knows_its_page(page: str, file: str) -> None:
    assert page in (ROOT / file).read_text(encoding="utf-8")


@pytest.fixture
def answered(turnbuckle: Run, shared: Path) -> Callable[..., Any]:
    """Ask a question of a recording by its name in a table, about the whole run."""

    def ask(verb: str, name: str, *words: str) -> Any:
        file = next((shared / "traces" / "nsys" / RECORDINGS[name]).glob("*.sqlite"))
        ran = turnbuckle(*verb.split(), file, *words, "--part", "whole", "--format", "json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    return ask


@pytest.mark.shared
@pytest.mark.parametrize("name", shown("sharing", "recording, 1, 2"))
def test_runs_behind_one_link(answered: Callable[..., Any], name: str) -> None:
    *behind, tight, pooled, unfilled = shown("sharing", "recording, 1, 2")[name]
    rows = answered("model sharing", name, "--link", "25 GB/s", "--runs", "1,2,4,8")["rows"]
    by_runs = {row["runs"]: row["penalty"] for row in rows}
    for cell, runs in zip(behind, (1, 2, 4, 8), strict=True):
        agree(cell, by_runs[runs])
    told = answered("model sharing", name, "--form", "all", "--runs", "3")
    larger = {row["form"]: row for row in told["rows"] if row["runs"] == 3}
    agree(tight, larger["tight"]["penalty"], larger["tight"]["penalty_least_gain"])
    agree(pooled, larger["pooled"]["penalty"])
    if unfilled != "unknown":
        agree(unfilled, told["kernels"]["share_that_does_not_fill"] * 100)


@pytest.mark.shared
@pytest.mark.parametrize("name", shown("sharing", "recording, 100 µs to 10 µs"))
def test_the_ratios_of_the_report(answered: Callable[..., Any], name: str) -> None:
    words = (
        "--surface",
        "--latency",
        "10us,100us,1ms",
        "--bandwidth",
        "16GB/s",
        "--form",
        "all",
        "--runs",
        "1,3",
    )
    told = answered("model sharing", name, *words)["comparisons"]
    keys = ("integration", "disaggregation", "gpu_gpu_tight", "gpu_gpu_pooled")
    for cell, key in zip(shown("sharing", "recording, 100 µs to 10 µs")[name], keys, strict=True):
        agree(cell, told[key])


@pytest.mark.shared
@pytest.mark.parametrize("name", shown("ssi", "recording, calls"))
def test_a_loop_of_all_kernels(answered: Callable[..., Any], name: str) -> None:
    calls, loop, gains, farther, recorded = shown("ssi", "recording, calls")[name]
    told = answered(
        "model ssi", name, "--link", "pcie4-x16", "--now", "PCIe", "--far", "data centre"
    )
    seen = answered("slack", name, "--draws", "0")
    assert int(calls.replace(",", "")) == told["loop"]["calls"]
    agree(loop, told["delta_seconds"] / seen["measured_seconds"] * 100)
    agree(gains, told["benefit"])
    agree(farther, told["penalty"])
    agree(recorded, _at(seen["curve"], 7.2e-6))


@pytest.mark.parametrize(
    "row", rows("kernels", "kernels or programs, cases"), ids=lambda row: row[0]
)
def test_ratios_of_kernels_are_those_of_the_card(row: list[str]) -> None:
    _, name, _, off, nothing, inside = row
    by_case: dict[str, list[dict[str, Any]]] = {}
    for each in json.loads(CARD.read_text(encoding="utf-8"))["rows"]:
        if fnmatch(each["case"], name.strip("`")):
            by_case.setdefault(each["case"], []).append(each)
    for cell, model in ((off, "projection"), (nothing, "nothing")):
        medians = [
            median(each["off"] for each in case if each["model"] == model) * 100
            for case in by_case.values()
        ]
        assert numbers(cell) == [round(m) for m in sorted({min(medians), max(medians)})]
    projected = [
        each for case in by_case.values() for each in case if each["model"] == "projection"
    ]
    assert numbers(inside) == [sum(each["covered"] for each in projected), len(projected)]


#: Several recordings of one program in the table of orders, by how their cell begins.
ORDERED = {
    "one program on 15 streams": (
        "extrap_concurrent_s1",
        "extrap_concurrent_s2",
        "extrap_concurrent_s4",
    ),
    "gaussian with two versions": ("rodinia_gaussian_rtx3090_a", "rodinia_gaussian_rtx3090_b"),
}


@pytest.mark.shared
@pytest.mark.parametrize("row", rows("order", "recordings, activities"), ids=lambda row: row[0])
def test_order_of_several_runs(turnbuckle: Run, shared: Path, row: list[str]) -> None:
    name, activities, dependencies, refuted, false = row
    (folders,) = (f for begin, f in ORDERED.items() if name.startswith(begin))
    files = [next((shared / "traces" / "nsys" / folder).glob("*.sqlite")) for folder in folders]
    ran = turnbuckle("model", "order", *files, "--part", "whole", "--format", "json")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert numbers(activities) == [told["activities"]]
    assert numbers(dependencies) == [told["dependencies"]]
    agree(refuted, *(share * 100 for share in told["refuted"]))
    agree(false, *(share * 100 for share in told["false_share"]))


def _at(curve: list[dict[str, float]], slack: float) -> float:
    """Penalty at a slack, between two points of a curve that is a line between them."""
    before = max((p for p in curve if p["slack_s"] <= slack), key=lambda p: p["slack_s"])
    after = min((p for p in curve if p["slack_s"] >= slack), key=lambda p: p["slack_s"])
    if before is after:
        return before["penalty"]
    share = (slack - before["slack_s"]) / (after["slack_s"] - before["slack_s"])
    return before["penalty"] + share * (after["penalty"] - before["penalty"])
