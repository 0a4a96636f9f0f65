"""Numbers that decide and that no file states: the answer says which, and gives no number; what
does not decide refuses nothing.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from frames import frame
from refusals import refused
from rows import Row, allocation, call, copy, on_device
from strategies import trace_of

import turnbuckle as tb
from turnbuckle.cli.run import run as command_line
from turnbuckle.foundation.fields import json_text
from turnbuckle.foundation.schema import words
from turnbuckle.machine import Machine, Pair, load
from turnbuckle.machine.catalog import all_machines, folder
from turnbuckle.page.html import page
from turnbuckle.profile.kernels import kind_by_name
from turnbuckle.profile.profile import Profile, build
from turnbuckle.projection.admission import require_numbers
from turnbuckle.projection.elsewhere.holes import NEGLIGIBLE
from turnbuckle.projection.elsewhere.kernels import PEAKS
from turnbuckle.projection.elsewhere.priors import PAGES
from turnbuckle.projection.model import nething
from turnbuckle.projection.projection import Projection
from turnbuckle.projection.run import Run
from turnbuckle.projection.uncertainty import project_many
from turnbuckle.questions.distance.distance import Distance
from turnbuckle.questions.suite.answer import Suite
from turnbuckle.questions.suite.page import page as suite_page
from turnbuckle.questions.suite.question import of_files
from turnbuckle.questions.suite.sheet import write
from turnbuckle.questions.suite.tables import of_suite
from turnbuckle.show.target_table import targets_table
from turnbuckle.show.verdict import sentence, verdicts

EXAMPLES = Path(tb.__file__).parent / "examples"
SIZE = {"blocks": 200_000, "threads": 256, "registers": 32, "shared_bytes": 0}
#: A kernel that arithmetic holds up, by each precision.
PRODUCTS = {
    "fp64": "dgemm",
    "fp32": "sgemm",
    "tf32": "gemm_tf32",
    "bf16": "gemm_bf16",
    "fp16": "hgemm",
    "fp8": "gemm_e4m3",
    "int8": "gemm_i8816",
}


def run(*kernels: tuple[str, int]) -> Profile:
    """Kernels one after another: name, and length [ns]."""
    rows, begin = [], 0
    for name, (_, lasts) in enumerate(kernels):
        rows.append(on_device(begin, begin + lasts, name=name, **SIZE))
        begin += lasts
    return build(
        replace(trace_of({"kernels": rows}), names=pl.Series([name for name, _ in kernels]))
    )


def asked(
    seen: Profile, target: Machine, source: str = "h100-sxm5", alpha: str = "auto", draws: int = 100
) -> Projection:
    (found,) = project_many(seen, load(source), [target], nething(alpha), {}, draws, 1)
    return found


def without(target: Machine, *names: str) -> Machine:
    return replace(
        target, parameters={n: p for n, p in target.parameters.items() if n not in names}
    )


def test_the_names_mean_what_this_file_says() -> None:
    assert {
        precision: (kind_by_name(name).bound, kind_by_name(name).precision)
        for precision, name in PRODUCTS.items()
    } == {precision: ("pipe", precision) for precision in PRODUCTS}


@pytest.mark.parametrize("target", ["gb200", "mi300x", "gh200"])
@pytest.mark.parametrize("precision", PRODUCTS)
def test_a_missing_peak_that_decides_is_named(precision: str, target: str) -> None:
    """On each kind of target, of the same vendor and of another, each peak that its file leaves
    out.
    """
    whole = load(target)
    seen = run((PRODUCTS[precision], 1_000_000))
    assert not asked(seen, whole).unknown and asked(seen, whole).seconds > 0
    found = asked(seen, without(whole, *PEAKS[precision]))
    assert found.unknown == f"{precision.upper()} of {target}" and math.isnan(found.penalty)
    assert found.verdict == f"cannot say: {precision.upper()} of {target}"
    assert found.by_coupling.seconds == pytest.approx(1e-3) and not found.by_coupling.unknown, (
        "the coupling alone is answered"
    )
    assert [f.detail for f in found.findings if f.code == "A394"] == [found.unknown]


@pytest.mark.parametrize(
    ("alpha", "field"),
    [("auto", "memory bandwidth"), ("memory", "memory bandwidth"), ("flop", "FP64")],
)
def test_each_way_to_scale_names_what_it_lacks(alpha: str, field: str) -> None:
    target = without(load("gh200"), "gpu.memory_bandwidth", "gpu.fp64", "gpu.fp64_matrix")
    assert asked(run(("stencil", 1_000_000)), target, alpha=alpha).unknown == f"{field} of gh200"
    assert not asked(run(("stencil", 1_000_000)), target, alpha="hold").unknown


def test_two_holes_are_named_together_and_a_negligible_one_is_not() -> None:
    target = without(load("gh200"), *PEAKS["fp64"], *PEAKS["fp8"])
    assert (
        asked(run(("dgemm", 1_000_000), ("gemm_e4m3", 3_000_000)), target).unknown
        == "FP8, FP64 of gh200"
    ), "the larger effect first"
    assert (
        asked(run(("dgemm", 1_000_000), ("stencil", 3_000_000)), target).unknown == "FP64 of gh200"
    )


@pytest.mark.parametrize("share", [1e-5, 1e-2])
def test_what_moves_an_answer_by_next_to_nothing_refuses_nothing(share: float) -> None:
    """An FP64 product of a hundred-thousandth of the run: at the fewest units that any chip has it
    adds less than `NEGLIGIBLE`.
    """
    whole, total = load("gb200"), 1_000_000_000
    seen = run(("stencil", total), ("dgemm", int(share * total)))
    found = asked(seen, without(whole, *PEAKS["fp64"]))
    assert bool(found.unknown) == (share > 1e-4)
    if not found.unknown:
        assert found.penalty == pytest.approx(asked(seen, whole).penalty, abs=NEGLIGIBLE)


def test_a_source_that_lacks_the_number_is_named() -> None:
    source = without(load("h100-sxm5"), *PEAKS["fp64"])
    (found,) = project_many(run(("dgemm", 1_000_000)), source, [load("gh200")], nething(), {}, 0, 1)
    assert found.unknown == "FP64 of h100-sxm5", (
        "all else alike, a rate that one alone states may differ"
    )
    same = without(load("gh200"), *PEAKS["fp64"])
    (found,) = project_many(run(("dgemm", 1_000_000)), source, [same], nething(), {}, 0, 1)
    assert found.unknown == "FP64 of gh200", "its memory is faster"
    (found,) = project_many(run(("dgemm", 1_000_000)), source, [load("gb200")], nething(), {}, 0, 1)
    assert found.unknown == "FP64 of h100-sxm5"


def test_without_a_number_nothing_shows_one() -> None:
    found = asked(run(("dgemm", 1_000_000)), without(load("gb200"), *PEAKS["fp64"]))
    document = json.loads(json_text(found.as_dict()))
    assert (
        document["cannot_say"] == "FP64 of gb200"
        and document["verdict"] == "cannot say: FP64 of gb200"
    )
    numbers = [
        document[key]
        for key in (
            "seconds",
            "penalty",
            "benefit",
            "median",
            "kernel_alpha",
            "kernels",
            "kernel_window_seconds",
        )
    ]
    assert numbers == [None] * len(numbers) and document["interval"] == document["envelope"] == [
        None,
        None,
    ]
    assert document["coupling_alone"]["penalty"] == pytest.approx(1.0)
    targets = verdicts([found])
    shown = [cell.text for cell in targets_table(targets).rows[0]]
    assert "cannot say: FP64 of gb200" in shown and not any("nan" in text for text in shown)
    assert "FP64 of gb200 is not stated" in sentence(targets, 1e-3) and "nan" not in sentence(
        targets, 1e-3
    )


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine's file without FP64: that of a GB200 with two tables cut out."""
    text = (
        (folder() / "gb200.toml")
        .read_text(encoding="utf-8")
        .replace('name = "gb200"', 'name = "holed"')
    )
    for name in PEAKS["fp64"]:
        text = re.sub(rf"\[{re.escape(name)}\]\n(.+\n)+", "", text)
    path = tmp_path_factory.mktemp("holes") / "holed.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def workload(holed: Path) -> Suite:
    runs = [
        tb.read(EXAMPLES / f"{name}-like-synthetic.sqlite", use_cache=False)
        for name in ("milc", "dgemm")
    ]
    return of_files(runs, [str(holed), "gh200", "nvlink-c2c"], draws=40)


def test_a_mix_with_a_hole_is_no_number(workload: Suite) -> None:
    """The machine stands last, without node-hours, chance, premium or turn; by the coupling alone
    it has its numbers.
    """
    mix = next(m for m in workload.mixes if m.target == "holed")
    assert (
        mix.unknown == "FP64 of holed"
        and math.isnan(mix.node_hours.value)
        and mix.coupling_alone.value > 0
    )
    assert (
        workload.ranked[-1] is mix
        and mix not in workload.answered
        and len(workload.answered) == len(workload.mixes) - 1
    )
    among = [v for v in workload.versus if "holed" in (v.target, v.other)]
    assert {v.beats for v in among} == {None} and all(math.isnan(v.premium.value) for v in among)
    assert not any("holed" in (f.better, f.worse) for f in workload.flips) and workload.flips
    others = [m for m in workload.answered if m.target != "self"]
    assert others and not any(math.isnan(m.node_hours.value) for m in others)


def test_a_mix_with_a_hole_is_shown_everywhere(workload: Suite, tmp_path: Path) -> None:
    document = json.loads(workload.to_json())
    holed = next(m for m in document["mixes"] if m["target"] == "holed")
    assert holed["cannot_say"] == "FP64 of holed" and holed["node_hours"] == {
        "value": None,
        "low": None,
        "high": None,
    }
    shown = [cell.text for table in of_suite(workload) for row in table.rows for cell in row]
    assert "cannot say" in shown and not any(
        "nan" in text.split() or "nan×" in text for text in shown
    )
    page = suite_page(workload)
    assert "cannot say" in page and "nan×" not in page and ">nan<" not in page
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert write(workload, tmp_path / "suite.xlsx").stat().st_size > 0


@pytest.mark.parametrize(
    ("verb", "code"),
    [
        (("project", "--fail-if", "penalty > 5%"), 3),
        (("project", "--format", "json"), 0),
        (("project", "--format", "csv"), 0),
        (("project",), 0),
        (("report", "-o", "page.html"), 0),
        (("whatif", "--format", "json"), 3),
        (("export", "-o", "run.json"), 3),
    ],
)
def test_no_verb_makes_a_number_of_a_hole(
    verb: tuple[str, ...],
    code: int,
    holed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *options = verb
    assert (
        command_line(
            [name, str(EXAMPLES / "dgemm-like-synthetic.sqlite"), "--on", str(holed), *options]
        )
        == code
    )
    printed = capfd.readouterr()
    text = (
        printed.out
        + printed.err
        + "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html"))
    )
    assert "FP64 of holed" in text
    assert not re.search(
        r"\bnan(\b|%|×)(?!\()", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    ), name


# --- managed memory -------------------------------------------------------------------------------

#: What a recording may show of managed memory: a page that moved, a fault, a copy from it, its
#: allocation; or a call of these names.
SHOWN: dict[str, dict[str, list[Row]]] = {
    "migration": {"copies": [copy(100, 200, 6, 65536, memory=0)]},
    "fault": {
        "page_faults": [{"start_ns": 100, "end_ns": 200, "process": 1, "device": 0, "count": 1}]
    },
    "copy": {"copies": [copy(100, 200, 1, 65536, memory=words("memories").index("managed"))]},
    "allocation": {
        "allocations": [allocation(50, 1, 4096, 1, memory=words("memories").index("managed"))]
    },
}
CALLS = ("cudaMallocManaged", "hipMallocManaged", "cuMemAllocManaged")
PLAIN: dict[str, list[Row]] = {"api": [call(250, 260, 7)], "kernels": [on_device(300, 400, 7)]}


def recorded(shown: dict[str, list[Row]], *names: str) -> Profile:
    """A kernel and its launch, and what shows managed memory; `names` are further calls."""
    trace = trace_of(
        {name: [*shown.get(name, []), *PLAIN.get(name, [])] for name in {*shown, *PLAIN}}
    )
    calls = [{**call(10 + n, 11 + n), "name": len(trace.names) + n} for n in range(len(names))]
    api = pl.concat([frame("api", calls), trace.api]) if calls else trace.api
    return build(
        replace(
            trace,
            tables={**trace.tables, "api": api},
            names=pl.concat([trace.names, pl.Series(names, dtype=pl.String)]),
        )
    )


@pytest.mark.parametrize("target", [m.name for m in all_machines() if m.coupling == "remoting"])
@pytest.mark.parametrize("shown", [*SHOWN, *CALLS])
def test_no_layer_that_forwards_calls_has_an_answer_for_page_faults(
    shown: str, target: str
) -> None:
    """A fabric of that distance has; so has a program without managed memory, and so has the
    recorded machine.
    """
    seen = recorded(SHOWN.get(shown, {}), *(name for name in CALLS if name == shown))
    found = asked(seen, load(target))
    assert found.unknown == PAGES == found.by_coupling.unknown and math.isnan(found.penalty)
    assert "A530" in {f.code for f in found.findings} and "A394" not in {
        f.code for f in found.findings
    }
    for answered in (
        asked(seen, load("cdi-row-link")),
        asked(recorded({}), load(target)),
        asked(seen, load("h100-sxm5")),
    ):
        assert not answered.unknown and answered.penalty > 0
    refused("A189", require_numbers, found)


def test_the_distance_of_a_layer_is_refused_where_pages_move() -> None:
    far = load("cdi-row-api")
    refused("A189", Distance.of, Run.of(recorded(SHOWN["migration"])), "remoting", layer=far)


def remote(name: str, machine: Machine) -> Machine:
    """Return a machine of its own behind the layer of another."""
    return replace(
        machine, name=name, parameters=Pair(machine, load("cdi-row-api")).target.parameters
    )


@pytest.mark.parametrize("on", [["cdi-row-api"], ["far"], ["cdi-row-link", "cdi-row-api", "far"]])
def test_an_answer_without_any_number_is_shown_without_one(on: list[str]) -> None:
    """A layer to another GPU leaves not even the coupling alone; the page and the tables say so and
    draw the rest.
    """
    far = remote("far", load("h100-sxm5"))
    answer = Run.of(recorded(SHOWN["migration"]), source="a100-pcie-80").project(
        [far if name == "far" else name for name in on], draws=50
    )
    assert all(
        p.by_coupling.unknown for p in answer.projections if p.target in ("far", "cdi-row-api")
    )
    table = targets_table(verdicts(answer.projections))
    for text in (str(table), page(answer, brief=True)):
        assert not re.search(r"\bnan\b|\bnan×", text, re.IGNORECASE)
    assert answer.coupling_faster().keys() <= {"cdi-row-link"}
