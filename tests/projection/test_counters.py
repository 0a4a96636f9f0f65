"""Counters of kernels: each format of a profiler reads as the same facts, and the facts tell the
ratio as Habitat's roofline does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from command_line import turnbuckle  # noqa: F401
from hostile_names import Ran
from hypothesis import given
from hypothesis import strategies as st
from strategies import LAW
from test_other_gpu import FASTER, asked, here, run, there, times

from turnbuckle.examples import sample
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.table_file import table_of
from turnbuckle.machine import Pair
from turnbuckle.papers.models.memory.question import from_numbers, memories
from turnbuckle.profile.kernels import KernelKind
from turnbuckle.projection.elsewhere.counters import Counted, is_counters, read_counters
from turnbuckle.projection.elsewhere.given import WORK_COLUMNS, KernelTable, kernel_table
from turnbuckle.projection.elsewhere.kernels import VENDOR, kernels_longer, reached
from turnbuckle.projection.elsewhere.priors import VENDOR_ERROR, Draws
from turnbuckle.projection.model import nething
from turnbuckle.projection.uncertainty import project_many

#: One launch of 1 ms that moves 0.8 GB and adds 3e9 numbers of double precision: 80 % and 30 % of 1
#: TB/s and 10 TFLOP/s.
NAME = "void stencil<(int)4, double>(double *, int)"
ABOUT = '"{id}","77","app","127.0.0.1","{name}","1","7","(256, 1, 1)","(4096, 1, 1)","0","8.0",'
RAW = (
    "the program says: 1,2,3\n==PROF== Connected to process 77 (/app)\n"
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block '
    'Size","Grid Size","Device","CC",'
    '"dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","launch__waves_per_multiprocessor",'
    '"sm__throughput.avg.pct_of_peak_sustained_elapsed"\n'
    '"","","","","","","","","","","","Mbyte","%","usecond","","%"\n'
    + ABOUT.format(id=0, name=NAME)
    + '"800","80.00","1,000","2.37","30.00"\n'
    + "==PROF== Disconnected from process 77\n"
)
LONG = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block '
    'Size","Grid Size","Device","CC","Section Name",'
    '"Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type"\n'
)


def details(*rows: tuple[str, str, str, str], name: str = NAME) -> str:
    """Lines of the page ``details``: section, metric, unit, value; a rule stands between them."""
    lines = [
        ABOUT.format(id=0, name=name) + ",".join(f'"{cell}"' for cell in row) + "," for row in rows
    ]
    return (
        LONG
        + "\n".join(
            [
                *lines,
                ABOUT.format(id=0, name=name) + '"SpeedOfLight","","","","SOLBottleneck","OPT"',
            ]
        )
        + "\n"
    )


LIGHT = "GPU Speed Of Light Throughput"
DETAILS = details(
    (LIGHT, "Memory Throughput", "%", "93.1"),
    (LIGHT, "DRAM Throughput", "%", "80.00"),
    (LIGHT, "Duration", "ms", "1"),
    (LIGHT, "Compute (SM) Throughput", "%", "30.00"),
    ("Occupancy", "Achieved Occupancy", "%", "61.3"),
)
ROCPROF = (
    "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,FETCH_SIZE,WRITE_SIZE,VALUBusy,DispatchNs,"
    "BeginNs,EndNs,CompleteNs\n"
    '0,"void stencil<4, double>(double*, int) [clone .kd]",0,0,0,9,9,1048576,256,0,0,24,32,0,0x0,'
    "390625.0,390625.0,30.0000,1,1000,1001000,2\n"
)
V3 = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size",'
    '"LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp",'
    '"End_Timestamp"\n'
)


def dispatch(pid: int, number: int, counter: str, value: str) -> str:
    name = "_Z7stencilILi4EdEvPdi.kd"
    return (
        f'{number},{number},"Agent '
        f'4",1,{pid},{pid},1048576,10,"{name}",256,0,0,8,0,16,"{counter}",{value},1000,1001000\n'
    )


#: Two passes joined by ``cat``: a second heading stands in the middle.
PASSES = (
    V3
    + dispatch(9, 1, "FETCH_SIZE", "390625.000000")
    + dispatch(9, 1, "WRITE_SIZE", "3.90625000e+05")
    + V3
    + dispatch(10, 1, "SQ_INSTS_VALU_ADD_F64", "46875000.000000")
)


def of(text: str) -> Counted:
    (found,) = read_counters({"counters.csv": text}).kernels.values()
    return found


def counted(memory: float, arithmetic: float, name: str = "k") -> KernelTable:
    """A table of one kernel that reached these shares."""
    return KernelTable((name,), (1.0,), (0.0,), "counters", counted=(Counted(memory, arithmetic),))


# --- what a file says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [RAW, DETAILS, ROCPROF, PASSES], ids=["raw", "details", "rocprof", "rocprofv3"]
)
def test_each_format_tells_the_same(text: str) -> None:
    assert reached(KernelKind(), of(text), here()) == pytest.approx((0.8, 0.3))


@pytest.mark.parametrize(
    "text", [RAW, DETAILS, ROCPROF, PASSES], ids=["raw", "details", "rocprof", "rocprofv3"]
)
@pytest.mark.parametrize(
    "name", ["void stencil<4, double>(double*, int)", NAME, "_Z7stencilILi4EdEvPdi"]
)
def test_a_kernel_has_one_name_in_all_tools(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "counters.csv").write_text(text)
    assert kernel_table(tmp_path / "counters.csv").row(name) == 0
    assert kernel_table(tmp_path / "counters.csv").row("void stencil<4, float>(float*, int)") == -1


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("byte", "800,000,000"),
        ("Kbyte", "800000.00"),
        ("Gbyte", "0.80"),
        ("Mbyte", "800,0"),
        ("byte", "800.000.000,0"),
        ("byte", "8'00'000'000"),
    ],
)
def test_units_and_languages(unit: str, value: str) -> None:
    """0.8 GB in 1 ms, as each language and each choice of units writes it."""
    read, time = (
        details(
            ("x", "dram__bytes.sum", unit, value),
            ("x", "gpu__time_duration.sum", "nsecond", "1000000"),
        ),
        of,
    )
    assert reached(KernelKind(), time(read), here())[0] == pytest.approx(0.8)


def test_semicolons_and_quotes_of_a_spreadsheet() -> None:
    local = (
        DETAILS.replace("80.00", "80,00")
        .replace("30.00", "30,00")
        .replace("93.1", "93,1")
        .replace("61.3", "61,3")
    )
    rows = [
        line.replace('","', '";"').rstrip(",").replace('"', "„", 1) for line in local.splitlines()
    ]
    assert reached(KernelKind(), of("\n".join(rows)), here()) == pytest.approx((0.8, 0.3))


def test_launches_count_by_their_time() -> None:
    """3 ms at 90 % and 1 ms at 10 % of the bandwidth are 70 %."""
    text = RAW.replace(
        ABOUT.format(id=0, name=NAME) + '"800","80.00","1,000","2.37","30.00"\n',
        ABOUT.format(id=0, name=NAME)
        + '"2700","90.00","3,000","2.37","30.00"\n'
        + ABOUT.format(id=1, name=NAME)
        + '"100","10.00","1,000","2.37","n/a"\n',
    )
    found = read_counters({"counters.csv": text})
    (kernel,) = found.kernels.values()
    assert (kernel.memory, kernel.arithmetic, kernel.seconds) == pytest.approx((0.7, 0.3, 2e-3))
    assert kernel.size_bytes == pytest.approx(1.4e9), "the mean of the launches"
    assert [(f.code, f.count) for f in found.findings] == [("A375", 1), ("A376", 10 + 1)]


def test_matrix_units_that_were_not_counted_are_not_idle() -> None:
    """A product whose vector operations alone were counted seems to compute nothing."""
    vector, matrix = (
        Counted(0.2, operations={"gpu.fp64": 1e6}, seconds=1e-3),
        Counted(0.2, operations={"gpu.fp64_matrix": 3e9}, seconds=1e-3),
    )
    product, machine = KernelKind("matrix product", "pipe", "fp64"), here(fp64_matrix=10e12)
    assert np.isnan(reached(product, vector, machine)[1]) and reached(product, matrix, machine)[
        1
    ] == pytest.approx(0.3)
    assert reached(KernelKind(), vector, machine)[1] == pytest.approx(1e-4)


HALF, TENSOR = (
    "smsp__sass_thread_inst_executed_op_h{}_pred_on.sum",
    "sm__ops_path_tensor_src_{}.sum",
)


def test_half_precision_and_tensor_paths_count_against_their_peaks() -> None:
    """An instruction of half precision works on two numbers; the tensor path counts operations, by
    the type of its sources.
    """
    kernel = of(
        details(
            ("", HALF.format("add"), "inst", "1,000,000"),
            ("", HALF.format("fma"), "inst", "2,000,000"),
            ("", TENSOR.format("fp16_dst_fp32"), "op", "3,000,000"),
            ("", TENSOR.format("bf16_dst_fp32"), "", "1,000,000"),
            ("", TENSOR.format("tf32_dst_fp32"), "Mop", "7"),
            ("", TENSOR.format("fp64"), "op", "5"),
            (LIGHT, "Duration", "us", "1"),
        )
    )
    assert kernel.operations == {
        "gpu.fp16": 10e6,
        "gpu.fp16_matrix": 4e6,
        "gpu.tf32_matrix": 7e6,
        "gpu.fp64_matrix": 5.0,
    }
    assert reached(
        KernelKind("matrix product", "pipe", "fp16"), kernel, here(fp16_matrix=10e12, fp16=40e12)
    )[1] == pytest.approx(0.4)


def test_what_is_counted_twice_counts_once() -> None:
    """A multiprocessor and its parts count the same; so do all products of a type of source, and
    those by their result.
    """
    rows = [
        ("", f"{unit}__sass_thread_inst_executed_op_ffma_pred_on.sum", "inst", "100")
        for unit in ("smsp", "sm")
    ]
    rows += [
        ("", TENSOR.format(way), "op", number)
        for way, number in (("fp8", "9"), ("fp8_dst_fp16", "4"), ("fp8_dst_fp32", "5"))
    ]
    assert of(details(*rows)).operations == {"gpu.fp32": 200.0, "gpu.fp8_matrix": 9.0}
    assert of(details(*rows[:2], *rows[3:])).operations == {
        "gpu.fp32": 200.0,
        "gpu.fp8_matrix": 9.0,
    }


def test_a_product_counted_on_tensor_paths_scales_by_their_peak() -> None:
    """All its time at the peak of FP16 products: three times faster where that peak is; a path
    without operations tells nothing.
    """
    busy = Counted(0.0, operations={"gpu.fp64": 0.0, "gpu.fp16_matrix": 10e9}, seconds=1e-3)
    table = KernelTable(("k",), (1.0,), (0.0,), "counters", counted=(busy,))
    seen, source = run(("k", BLOCKS)), here(fp16_matrix=10e12)
    (found,) = project_many(
        seen, source, [there(**FASTER, fp16_matrix=30e12)], nething(kernels=table), {}, 0, 1
    )
    assert found.kernels is not None and found.kernels.basis == "counters"
    assert found.kernels.seconds / found.kernels.measured_seconds == pytest.approx(1 / 3)
    idle = Counted(0.2, operations={"gpu.fp64": 1e6, "gpu.fp16_matrix": 0.0}, seconds=1e-3)
    assert np.isnan(reached(KernelKind("matrix product", "pipe", "fp64"), idle, source)[1])


def test_what_is_missing_is_told() -> None:
    half = details((LIGHT, "DRAM Throughput", "%", "80"), (LIGHT, "Duration", "us", "1")).replace(
        "stencil", "half"
    )
    none = details((LIGHT, "Duration", "us", "1"), name="none")
    found = read_counters({"a.csv": DETAILS, "b.csv": half, "c.csv": none + '"1","77"\n'})
    assert len(found.kernels) == 2 and [f.code for f in found.findings] == ["A374", "A375", "A376"]
    assert (
        "1 without arithmetic, 1 without both" in found.findings[0].detail
        and "1 lines cut off" in found.findings[1].detail
    )
    read = {
        "a.csv": DETAILS,
        "b.csv": details((LIGHT, "Compute (SM) Throughput", "%", "104"), name="b"),
    }
    assert [f.detail for f in read_counters(read).findings if f.code == "A375"] == [
        "a.csv, b.csv: 1 shares above 100 %, taken as 100 %"
    ]


@pytest.mark.parametrize(
    ("text", "case"),
    [
        (LONG, "no launch"),
        (details((LIGHT, "Duration", "us", "1")), "neither memory traffic"),
        (details((LIGHT, "DRAM Throughput", "%", "fast")), "no number"),
        (details((LIGHT, "DRAM Throughput", "%", "-1")), "no number"),
        (details((LIGHT, "Duration", "fortnight", "1")), "a unit"),
        (details((LIGHT, "dram__bytes.sum", "%", "1")), "a unit"),
        (
            details(
                (LIGHT, "DRAM Throughput", "%", "80,1"),
                (LIGHT, "Compute (SM) Throughput", "%", "30.1"),
            ),
            "decimal point",
        ),
        (RAW.replace(NAME, "k" * 200_000), "no line"),
    ],
)
def test_files_that_cannot_be_meant_are_refused(text: str, case: str) -> None:
    with pytest.raises(TurnbuckleError, match=f"A433: .*{case}"):
        read_counters({"counters.csv": text})


@LAW
@given(
    st.sampled_from([RAW, DETAILS, ROCPROF, PASSES]),
    st.integers(0, 2000),
    st.integers(0, 40),
    st.text(max_size=8),
)
def test_damaged_files_are_read_or_refused(text: str, at: int, cut: int, put: str) -> None:
    """Nothing but an error with a code stops the reading, wherever a file is damaged."""
    damaged = text[:at] + put + text[at + cut :]
    if is_counters(damaged):
        with suppress(TurnbuckleError):
            for kernel in read_counters({"counters.csv": damaged}).kernels.values():
                assert all(
                    np.isnan(share) or 0 <= share <= 1
                    for share in reached(KernelKind(), kernel, here())
                )


# --- what the facts tell --------------------------------------------------------------------------

BLOCKS = 200_000


def test_a_kernel_at_one_peak_has_the_ratio_of_that_peak() -> None:
    seen = run(("k", BLOCKS))
    assert times(seen, there(**FASTER), nething(kernels=counted(1.0, 0.0))) == pytest.approx(
        [1 / 2]
    )
    assert times(seen, there(**FASTER), nething(kernels=counted(0.0, 1.0))) == pytest.approx(
        [100 * 1.0 / (120 * 1.5)]
    )


def test_between_the_peaks_the_roofline_of_the_target_decides() -> None:
    """Habitat, section 4.2: 1 - x/2 below the ridge of the target, 1/(2 x) above it."""
    x = 0.3 / 0.8 * 2 / 1.8
    expected = (1 / 2) ** (1 - x / 2) * (1 / 1.8) ** (x / 2)
    assert times(
        run(("k", BLOCKS)), there(**FASTER), nething(kernels=counted(0.8, 0.3))
    ) == pytest.approx([expected])
    x = 0.8 / 0.3 * 2 / 1.8
    expected = (1 / 2) ** (0.5 / x) * (1 / 1.8) ** (1 - 0.5 / x)
    assert times(
        run(("k", BLOCKS)), there(**FASTER), nething(kernels=counted(0.3, 0.8))
    ) == pytest.approx([expected])


def test_without_a_launch_and_beside_another_vendor_the_rates_stand_alone() -> None:
    for seen, target in (
        (run(("k", 0)), there(**FASTER)),
        (run(("k", BLOCKS)), there("MI300X", **FASTER)),
    ):
        found = asked(seen, target, nething(kernels=counted(1.0, 0.0)))
        assert (
            found.kernels is not None
            and found.kernels.basis == "counters"
            and found.alpha == pytest.approx(2.0)
        )
        longer, shorter = (
            abs(np.log(end / found.kernels.seconds))
            for end in (found.kernels.high, found.kernels.low)
        )
        assert longer == pytest.approx(
            1.645 * (VENDOR_ERROR if "mi300x" in found.target else 0.15), rel=0.1
        )
        assert shorter == pytest.approx(min(longer, np.log(2)), rel=0.1), (
            "no faster than the largest ratio of rates, 4"
        )
    assert VENDOR in found.drivers


def test_a_kernel_that_leaves_its_gpu_idle_is_told_by_no_bandwidth_of_another_vendor() -> None:
    found = asked(run(("k", 40)), there("MI300X", **FASTER), nething(kernels=counted(0.1, 0.1)))
    assert found.kernels is not None and found.kernels.basis == "range of rates"
    assert found.kernels.seconds == pytest.approx(1e-3)


def test_counters_narrow_the_range_and_stay_in_it() -> None:
    """A name that tells nothing leaves everything open; a kernel at 90 % of the bandwidth leaves
    little.
    """
    seen = run(("k", BLOCKS))
    target = there(**{**FASTER, "memory_bandwidth": 8e12})
    plain, narrow, idle = (
        asked(seen, target, nething(kernels=table)).kernels
        for table in (None, counted(0.9, 0.1), counted(0.05, 0.05))
    )
    assert plain is not None and narrow is not None and idle is not None
    widths = [np.log(k.high / k.low) for k in (narrow, idle, plain)]
    assert widths[0] < 0.5 * widths[2] and widths[1] < 1.1 * widths[2]
    assert (
        plain.low < narrow.seconds < plain.high
        and narrow.basis == "counters"
        and plain.basis == "range of rates"
    )


@LAW
@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.just(0) | st.integers(200, BLOCKS),
    st.sampled_from(["H100", "MI300X"]),
)
def test_more_traffic_is_nearer_the_memory(
    more: float, memory: float, arithmetic: float, blocks: int, title: str
) -> None:
    """Where memory gains more than arithmetic, a kernel that moves more gains more; no draw of one
    that fills its GPU leaves the ratios.
    """
    target = there(title, memory_bandwidth=4e12, clock=1.5e9, fp64=15e12, fp32=30e12)
    kind = KernelKind(blocks=blocks, threads=1024 if blocks else 0, registers=32, given=0)
    tables = [counted(min(memory + step, 1.0), arithmetic) for step in (0.0, more)]
    pair = Pair(here(), target)
    first, second = (
        kernels_longer([kind], pair, pair.source, target, Draws(), table) for table in tables
    )
    assert first is not None and second is not None and second[0] <= first[0] + 1e-12
    drawn = kernels_longer(
        [kind], pair, pair.source, target, Draws(200, 1, ("what bounds kernels: other",)), tables[0]
    )
    assert drawn is not None and (drawn >= 1 / 4 - 1e-12).all() and (drawn <= 1 + 1e-12).all()


@LAW
@given(st.booleans(), st.floats(0, 1))
def test_a_side_that_was_not_counted_may_be_anything(without_memory: bool, other: float) -> None:
    table = counted(np.nan, other) if without_memory else counted(other, np.nan)
    kind, pair = (
        KernelKind(blocks=BLOCKS, threads=1024, registers=32, given=0),
        Pair(here(), there(memory_bandwidth=4e12)),
    )
    drawn = kernels_longer(
        [kind],
        pair,
        pair.source,
        pair.target,
        Draws(2000, 1, ("what bounds kernels: other",)),
        table,
    )
    known = kernels_longer(
        [kind],
        pair,
        pair.source,
        pair.target,
        Draws(),
        counted(0.5, other) if without_memory else counted(other, 0.5),
    )
    assert drawn is not None and known is not None
    assert (
        np.quantile(drawn, 0.05) <= known[0] + 1e-9 and known[0] <= np.quantile(drawn, 0.95) + 1e-9
    )


def test_its_own_gpu_keeps_a_counted_kernel() -> None:
    found = asked(
        run(("k", BLOCKS)), there("A100 of another node"), nething(kernels=counted(0.8, 0.3))
    )
    assert found.kernels is not None and found.kernels.basis == "same GPU"


# --- in an answer ---------------------------------------------------------------------------------


def test_counters_and_a_table_reach_an_answer(
    tmp_path: Path,
    turnbuckle: Callable[..., Ran],  # noqa: F811
) -> None:
    """A stated ratio comes before counters; rows that no kernel has are told, and so is what rests
    on what.
    """
    counters = DETAILS.replace(NAME, "axpy_norm") + DETAILS.replace(
        NAME, "dslash_interior"
    ).replace('"0","77"', '"1","77"')
    (tmp_path / "counters.csv").write_text(counters)
    (tmp_path / "table.csv").write_text(
        'name, ratio\n"void lattice::dslash_interior<double, 3>(lattice::Gauge, '
        'lattice::Spinor, lattice::Spinor, int)", 2\nnobody, 3\n'
    )
    files = ("--kernels", "counters.csv", "--kernels", "table.csv")
    with sample() as path:
        done = turnbuckle(
            "project", path, "--on", "h100-sxm5,self", "--draws", "50", "--format", "json", *files
        )
        shown = turnbuckle("project", path, "--on", "h100-sxm5", "--draws", "50", *files)
    assert done.code == 0, done.err
    found, own = json.loads(done.out)["projections"]
    assert {c["basis"] for c in found["kernels"]["classes"]} == {
        "given",
        "counters",
        "class",
        "range of rates",
    }
    (unmatched,) = [f for f in found["findings"] if f["code"] == "A373"]
    assert unmatched["count"] == 2 and unmatched["detail"] == "2 of 4", (
        "nobody, and the counters of the kernel that the table has"
    )
    assert own["seconds"] == own["measured_seconds"]
    assert re.search(r"counters \d+%", " ".join(shown.out.split()))


# --- other models at the same door ----------------------------------------------------------------


def test_a_table_of_work_is_counters_of_the_whole_run(tmp_path: Path) -> None:
    """0.8 GB and 3e9 operations in each of two launches of 1 ms, as `model memory` reads them: of
    the run, not of a launch.
    """
    path = tmp_path / "work.csv"
    path.write_text(
        "name, flops, regular [GB], irregular [GB], h2d [GB]\nstencil, 6e9, 1.2, 0.4, 0.1\n"
    )
    seen = run(("stencil<double>", BLOCKS), ("stencil<double>", BLOCKS))
    (counters,) = kernel_table(path).on(seen.trace, here(), []).counted
    assert counters is not None and reached(KernelKind(), counters, here()) == pytest.approx(
        (0.8, 0.3)
    )


@LAW
@given(st.floats(0.1, 1.0), st.floats(1.0, 8.0))
def test_what_memory_alone_holds_up_gains_what_model_memory_says(
    share: float, faster: float
) -> None:
    """One answer: `model memory` prices the bytes on both machines, and `project` takes the ratio
    of these times.
    """
    source, target = here(), there(memory_bandwidth=1e12 * faster, clock=1.5e9)
    rows = table_of(
        f"name, flops, regular [GB]\nk, 0, {share!r}\n",
        "work.csv",
        WORK_COLUMNS,
        "the table of work",
    )
    priced = [
        from_numbers(rows, memories(m, draws=2)).rows[0].seconds["hbm"].value
        for m in (source, target)
    ]
    table = KernelTable(
        ("k",),
        (1.0,),
        (0.0,),
        "work",
        counted=(Counted(size_bytes=1e9 * share, operations={"gpu.fp64": 0.0}, seconds=1e-3),),
    )
    assert priced[0] is not None and priced[1] is not None
    assert times(run(("k", BLOCKS)), target, nething(kernels=table)) == pytest.approx(
        [priced[1] / priced[0]]
    )


INTERVALS = (
    "instructions, cycles, read misses, writes, times\n40, 60, 1, 0, 100\n12, 20, 8, 1, 100\n"
)


def test_project_takes_the_ratio_that_model_mdm_prints(
    turnbuckle: Callable[..., Ran],  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "intervals.csv").write_text(INTERVALS)
    with sample() as path:
        asked_mdm = (
            "model",
            "mdm",
            "intervals.csv",
            "--warps",
            "32",
            "--miss-rate",
            "40 %",
            "--instructions",
            "3e6",
            "--profile",
            path,
        )
        assert (
            turnbuckle(*asked_mdm, "--kernel", "axpy", "--format", "json", "-o", "mdm.json").code
            == 0
        )
        modelled = json.loads((tmp_path / "mdm.json").read_text())
        shown = turnbuckle(*asked_mdm, "--kernel", "axpy").out
        # `model mdm` is about every launch of the recording, and so is this
        whole = ("--part", "whole", "--draws", "2000", "--format", "json")
        done = turnbuckle("project", path, "--on", "h100-sxm5", "--kernels", "mdm.json", *whole)
        assert turnbuckle(*asked_mdm[:-2], "--format", "json", "-o", "alone.json").code == 0
        refused = turnbuckle("project", path, "--on", "h100-sxm5", "--kernels", "alone.json")
    assert refused.code == 2 and "A434" in refused.err
    (kernel,) = [
        c
        for c in json.loads(done.out)["projections"][0]["kernels"]["classes"]
        if c["basis"] == "given"
    ]
    assert kernel["count"] == modelled["measured"]["count"]
    assert kernel["measured_seconds"] / kernel["seconds"] == pytest.approx(
        modelled["ratio"]["value"]
    )
    assert kernel["measured_seconds"] / kernel["interval"][1] == pytest.approx(
        modelled["ratio"]["low"], rel=0.1
    )
    assert kernel["measured_seconds"] / kernel["interval"][0] == pytest.approx(
        modelled["ratio"]["high"], rel=0.1
    )
    assert f"{modelled['ratio']['value']:.3g} times as fast as the mean launch" in shown
