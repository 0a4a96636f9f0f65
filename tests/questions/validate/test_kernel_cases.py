"""Kernels and programs timed on several GPUs: each pair as a projection has it, beside baselines;
bad tables are refused with a code.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from turnbuckle.machine import Pair, load
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.kernels import basis_of
from turnbuckle.questions.validate.cases import find, read_case
from turnbuckle.questions.validate.measured.other_gpu import longer
from turnbuckle.questions.validate.question import Validation, validate
from turnbuckle.questions.validate.rows import Row

CASES = Path(__file__).resolve().parents[3] / "validation" / "cases"
TABLE = """program,precision,quantity,v100-sxm2,a100-sxm4-80,h100-sxm5,source
a stencil,fp64,s,4,,1,a page
a network,fp16,images/s,100,200,500,a page
a solver,,ms,1,2,3,a page
"""


def case_of(folder: Path, table: str) -> Validation:
    folder.joinpath("table.csv").write_text(table, encoding="utf-8")
    (folder / "case.toml").write_text(
        'title = "a table"\n[b]\nwhat = "programs"\n[[ask]]\nmodel = "table"\n'
        'measured = "./table.csv"\n'
    )
    return validate([read_case(folder)], None)


def by(rows: tuple[Row, ...], model: str) -> dict[str, Row]:
    return {row.quantity: row for row in rows if row.model == model}


def test_each_gpu_is_asked_from_the_one_before_it(tmp_path: Path) -> None:
    found = case_of(tmp_path, TABLE)
    rows = by(found.rows, "projection")
    assert {what: row.measured for what, row in rows.items()} == {
        "a network: a100-sxm4-80 over v100-sxm2": 0.5,
        "a solver: a100-sxm4-80 over v100-sxm2": 2.0,
        "a stencil: h100-sxm5 over v100-sxm2": 0.25,
        "a network: h100-sxm5 over a100-sxm4-80": 0.4,
        "a solver: h100-sxm5 over a100-sxm4-80": 1.5,
    }
    assert all(
        row.predicted == 1.0 and row.measured == rows[what].measured
        for what, row in by(found.rows, "nothing").items()
    )
    bandwidth = load("v100-sxm2").value("gpu.memory_bandwidth") / load("h100-sxm5").value(
        "gpu.memory_bandwidth"
    )  # type: ignore[operator]
    memory = by(found.rows, "projection, kernels by memory")
    assert memory["a stencil: h100-sxm5 over v100-sxm2"].predicted == pytest.approx(bandwidth)
    assert not by(found.rows, "constant"), "a factor for one or two programs says nothing"
    assert not found.not_run


def test_a_stated_precision_narrows_what_could_hold_a_program_up() -> None:
    source, target = load("a100-sxm4-80"), load("h100-sxm5")
    middle, low, high = longer(
        [KernelKind(precision=word) for word in ("", "int8")], source, target
    )
    assert (low <= middle).all() and (middle <= high).all() and low[1] != low[0]
    there, back = middle, longer([KernelKind()], target, source)[0]
    assert there[0] * back[0] == pytest.approx(1.0)


def test_the_side_of_one_is_counted_where_there_is_one(tmp_path: Path) -> None:
    found = case_of(tmp_path, TABLE)
    groups = {g.model: g for g in found.card}
    assert (groups["projection"].right, groups["projection"].directions) == (3, 5), (
        "the solver is slower on the newer GPU"
    )
    assert groups["nothing"].directions == 0
    assert found.as_dict()["card"][0]["directions"] == 5


def test_one_factor_knows_the_answers(tmp_path: Path) -> None:
    lines = "".join(f"p{k},,s,{k},{2 * k * k},,a page\n" for k in (1, 2, 4))
    found = case_of(tmp_path, TABLE.splitlines()[0] + "\n" + lines)
    (factor,) = {row.predicted for row in by(found.rows, "constant").values()}
    assert factor == pytest.approx(math.prod((2, 4, 8)) ** (1 / 3))


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (("program,", "programs,"), "table.csv"),
        (("v100-sxm2,a100-sxm4-80,h100-sxm5,", "v100-sxm2,"), "table.csv"),
        (("a100-sxm4-80,", "v100-sxm2,"), "table.csv"),
        (("100,200", "100,two"), "table.csv:3"),
        (("100,200", "100,-2"), "table.csv:3"),
        (("100,200", "100,1e999"), "table.csv:3"),
        (("fp16", "half"), "table.csv:3"),
        (("a solver", ""), "table.csv:4"),
        (("500,a page", "500,"), "table.csv:3"),
    ],
)
def test_what_is_no_table_is_told_with_its_place(
    tmp_path: Path, change: tuple[str, str], where: str
) -> None:
    found = case_of(tmp_path, TABLE.replace(*change, 1))
    assert (
        not found.rows
        and [n.code for n in found.not_run] == ["A362"]
        and "A417" in found.not_run[0].why
    )

    from turnbuckle.questions.validate.measured.other_gpu import _table

    assert refused("A417", _table, tmp_path / "table.csv").where == where


def test_a_machine_that_nobody_knows_is_told(tmp_path: Path) -> None:
    found = case_of(tmp_path, TABLE.replace("v100-sxm2", "v1000", 1))
    assert [n.code for n in found.not_run] == ["A362"] and "M001" in found.not_run[0].why


@pytest.mark.parametrize(
    ("name", "held"), [("kernels_babelstream", 10), ("kernels_scale_launches_a100_h200", 18)]
)
def test_benchmarks_on_two_gpus(shared: Path, name: str, held: int) -> None:
    """Both ways: a name that tells nothing is a range of rates, whether its launches are known or
    not.
    """
    found = validate(find([name], CASES), shared / "traces")
    rows = [row for row in found.rows if row.model == "projection"]
    assert sum(bool(row.covered) for row in rows) == held
    there, back = (
        [row.measured for row in rows[k::1]][: len(rows) // 2] for k in (0, len(rows) // 2)
    )
    assert np.array(there) * np.array(back) == pytest.approx(1.0)
    large = [
        row.off for row in rows if "16,777,216" in row.quantity and "64 threads" not in row.quantity
    ]
    assert all(off is not None and off < 0.25 for off in large), (
        "large data in blocks of 256 and more follows the rates, and H200's is known to 9 %"
    )
    pair, launch = (
        Pair(load("a100-sxm4-80"), load("h200-sxm")),
        KernelKind(blocks=1 << 14, threads=64, registers=16),
    )
    assert (basis_of(launch, pair), basis_of(KernelKind(), pair)) == (
        "range of rates",
        "range of rates",
    )


def test_a_class_is_what_its_kernels_are_and_another_word_is_refused(tmp_path: Path) -> None:
    head, line = (
        "program,class,precision,quantity,h100-sxm5,gh200,source\n",
        "a network,matrix product,fp8,images/s,100,110,a page\n",
    )
    (row,) = by(case_of(tmp_path, head + line).rows, "projection").values()
    product = longer(
        [KernelKind("matrix product", "pipe", "fp8")], load("h100-sxm5"), load("gh200")
    )
    assert (row.predicted, row.low, row.high) == tuple(float(part[0]) for part in product)
    found = case_of(tmp_path, head + line.replace("matrix product", "matrices"))
    assert (
        not found.rows
        and "A417" in found.not_run[0].why
        and "matrix product" in found.not_run[0].why
    )


def test_a_closer_host_is_not_promised_what_no_memory_gives() -> None:
    """One GPU of MLPerf on a GH200 and on an H100: 1.05 to 1.15 was measured, and its memory alone
    would give 1.19.
    """
    (case,) = find(["table_mlperf_inference"], CASES)
    rows = by(validate([case], None).rows, "projection")
    null = [
        r
        for what, r in rows.items()
        if what.endswith(": gh200 over h100-sxm5") or what.endswith(": gh200-141 over h200-sxm")
    ]
    assert len(null) == 15 and all(row.covered for row in null)
    assert all(1.0 <= 1.0 / row.measured <= 1.15 for row in null if row.measured)
    classed = [
        row for row in null if row.quantity.startswith(("bert", "gptj", "resnet50", "retinanet"))
    ]
    assert (
        len(classed) == 11 and max(1.0 / row.predicted for row in classed if row.predicted) < 1.15
    )
