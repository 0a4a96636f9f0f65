"""Tables of the ECP report, recomputed (Austin et al. 2021, ECP-HIHE01-35): profiles, shares,
medians.

AMReX       Tables 2, 11, 12: shares of run time          `turnbuckle.cost.ratio`, `turnbuckle.papers.models.node.cost`
BerkeleyGW  Tables 3, 4: eqs 3 and 4; section 8.2         the same
GTC-P       Table 5: eqs 3 and 4; sections 5.3, 7.3, 8.3  the same
CPU, GPU    section 6.5.1, Tables 8 and 9                 sums and ratios
summary     sections 1 and 11: medians and shares of Table 13
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import replace

from turnbuckle.cost.ratio import (
    AdditiveTotals,
    cpu_by_difference,
    fraction_benefit,
    fraction_penalty,
)
from turnbuckle.foundation.units import parse
from turnbuckle.papers.models.node.cost import (
    Staged,
    all_on_node,
    fraction_speedup,
    gain,
    staged_share,
)
from turnbuckle.papers.numbers import (
    Interval,
    Paper,
    Recomputed,
    exact,
    judged,
    not_printed,
    overlap,
    printed,
    stated,
    swept,
)

#: Numbers that the report prints in these places (``ecp/tables.csv``).
PAPER = Paper("ecp/tables")
#: Classes of Tables 3 to 5 that share one lambda.
_BOTH = ("data", "control")


def recompute() -> list[Recomputed]:
    """Return every number of these tables: printed, recomputed, verdict."""
    return [
        *_amrex(),
        *_epsilon(),
        *_sigma(),
        *_gtcp(),
        *_mean_calls(),
        *_closer_gpus(),
        *_sides(),
        *_summary(),
    ]


def tenfold() -> float:
    """Return the factor by which the report improves, or worsens, bandwidth and latency."""
    return PAPER.number("all", "improvement of bandwidth and latency").value


def amrex_share(app: str, table: str) -> Interval:
    """Return the share of run time between CPU and GPU that Table 2, or Table 11, prints for an
    AMReX application.

    Table 2 holds launches and unified memory, as far as the text uses them; Table 11 also holds
    explicit copies.
    """
    parts = {
        "Table 2": _USED.get(app, ("launches", "UVM")),
        "Table 11": ("launches", "UVM", "cudaMemcpy"),
    }[table]
    return swept(
        lambda *shares: sum(shares) / 100,
        *(PAPER.number(app, f"share of {part}", table) for part in parts),
    )


#: Shares that section 5.1 uses; for Castro it states only that there is no gain, so both shares
#: count.
_USED = {"MFiX": ("launches",), "WarpX": ("launches",), "PeleC": ("UVM",)}


def _amrex() -> Iterator[Recomputed]:
    ten = tenfold()
    why = {
        "MFiX": "share of launches alone",
        "WarpX": "share of launches alone; cut off where 1.36 rounds to 1.4",
        "PeleC": "share of unified memory alone",
        "Castro": (
            "which share counts is not printed: launches and unified memory; the gain stands in "
            "Table 13 only"
        ),
    }
    for app, note in why.items():
        share = amrex_share(app, "Table 2")
        text = PAPER.text(app, "CPU-GPU integration" if app == "Castro" else "integration gain")
        yield judged(
            f"R.T2.{app}", text, swept(lambda f: float(fraction_benefit(f, ten)), share), note=note
        )
    for app in ("PeleC", "Castro", "MFiX", "WarpX"):
        share = amrex_share(app, "Table 11")
        text = PAPER.text(app, "disaggregation penalty", "Table 11")
        penalty = swept(lambda f: float(fraction_penalty(f, ten)), share)
        needed = (float(text) - 1) / (ten - 1)
        note = "1 + 9 f, with f the sum of the three shares"
        if not printed(text).low <= penalty.high:
            note = f"{text} needs {needed:.1%} of the run time; the shares add to {share.value:.2%}"
        yield judged(f"R.T11.{app}", text, penalty, note=note)
    in_table_11, in_table_13 = (
        PAPER.text("Castro", "disaggregation penalty", table) for table in ("Table 11", "Table 13")
    )
    recomputed = swept(lambda f: float(fraction_penalty(f, ten)), amrex_share("Castro", "Table 11"))
    castro = stated(
        "R.T13.Castro",
        in_table_13,
        in_table_11,
        float(in_table_13) == float(in_table_11),
        note=(
            f"one quantity, {in_table_13}x in Table 13 and {in_table_11}x in Table 11: no cost at "
            "all, or 5 %"
        ),
        resolution=(
            "D16: a ratio is rounded once, alike everywhere, with its interval: here "
            f"{recomputed.low:.3f} to {recomputed.high:.3f}"
        ),
    )
    yield replace(castro, recomputed=float(in_table_11))


def additive(app: str) -> list[Interval]:
    """Return the terms of eq 3: t_GPU, t_CGcontrol, both directions of t_CGdata, t_CPU, t_MPI,
    t_total [s].

    t_CGdata comes as its two rows, because Table 3 prints their sum with one digit less.
    """
    times, data = PAPER.texts(app, "time"), PAPER.texts(app, "data function, time")
    return [
        printed(t)
        for t in (
            times["GPU"],
            times["control"],
            *data.values(),
            times["CPU"],
            times["MPI"],
            times["total"],
        )
    ]


def totals(
    gpu: float,
    control: float,
    to_device: float,
    to_host: float,
    cpu: float,
    mpi: float,
    total: float,
) -> AdditiveTotals:
    """Return the five numbers of the additive model from the terms of `additive`."""
    return AdditiveTotals(gpu, control, to_device + to_host, cpu, mpi, total)


def _rows(app: str, kind: str) -> Interval:
    """Return the sum of the functions of one class [s]."""
    return swept(
        lambda *t: sum(t),
        *(printed(t) for t in PAPER.texts(app, f"{kind} function, time").values()),
    )


def _share(app: str, *functions: str) -> Interval:
    """Return the share of run time in some functions of the control class [%]."""
    times = PAPER.texts(app, "control function, time")
    parts = [printed(times[f]) for f in functions]
    return swept(lambda total, *t: 100 * sum(t) / total, PAPER.number(app, "time", "total"), *parts)


def _epsilon() -> Iterator[Recomputed]:
    terms, times = additive("Epsilon"), PAPER.texts("Epsilon", "time")
    better, worse = dict.fromkeys(_BOTH, tenfold()), dict.fromkeys(_BOTH, 1 / tenfold())
    summed = swept(lambda *t: totals(*t).summed, *terms)
    note = f"the terms add to {summed.value:.1f} s: t_CPU was taken without subtracting t_MPI"
    yield judged("R.T3.sum", times["total"], summed, note=note)
    gpu, control, to_device, to_host, _, mpi, total = terms
    cpu = swept(
        lambda t, g, c, a, b, m: cpu_by_difference(t, g, c, a + b, m),
        total,
        gpu,
        control,
        to_device,
        to_host,
        mpi,
    )
    note = (
        f"{cpu.value:.2f} s by the report's definition; {cpu.value + mpi.value:.2f} s if t_MPI is "
        "not subtracted"
    )
    yield judged("R.T3.tcpu", times["CPU"], cpu, note=note)
    rows = _rows("Epsilon", "control")
    yield judged("R.T3.ctrl", times["control"], rows)
    text = PAPER.text("Epsilon", "integration gain")
    yield judged("R.T3.int", text, swept(lambda *t: totals(*t).benefit(better, "stated"), *terms))
    yield judged("R.T3.int2", text, swept(lambda *t: totals(*t).benefit(better, "sum"), *terms))
    text = PAPER.text("Epsilon", "disaggregation penalty", "text")
    stated_, summed_ = (
        swept(lambda *t, over=over: totals(*t).penalty(worse, over), *terms)
        for over in ("stated", "sum")
    )
    note = (
        f"{stated_.value:.2f} over the printed total; {summed_.value:.2f} over the sum of terms, "
        "and then it is cut off"
    )
    yield judged("R.T3.dis", text, stated_, note=note)
    yield judged(
        "R.T3.dis2", text, summed_, note=f"{summed_.value:.2f} rounds to 5.8; cut off it is {text}"
    )
    calls = float(PAPER.text("Epsilon", "control function, calls", "cudaLaunchKernel"))
    mean = swept(
        lambda t: t / calls * 1e6,
        PAPER.number("Epsilon", "control function, time", "cudaLaunchKernel"),
    )
    yield judged(
        "R.T3.launch",
        PAPER.text("Epsilon", "control function, mean call", "cudaLaunchKernel"),
        mean,
    )
    memory = _share("Epsilon", "cudaMalloc", "cudaFree")
    with_host = _share("Epsilon", "cudaMalloc", "cudaFree", "cudaHostAlloc").value
    note = f"{memory.value:.1f} % cut off; {with_host:.1f} % with host allocations"
    yield judged(
        "R.T3.mem", PAPER.text("Epsilon", "share of GPU memory management"), memory, note=note
    )
    gain = swept(lambda *t: 100 * (totals(*t).benefit({"data": tenfold()}, "stated") - 1), *terms)
    yield judged("R.T3.data", PAPER.text("Epsilon", "gain of faster data alone"), gain)
    yield _two_shares("R.T3.mpi", "Epsilon", "the same 16 ranks on two nodes")


def _sigma() -> Iterator[Recomputed]:
    terms, times = additive("Sigma"), PAPER.texts("Sigma", "time")
    better, worse = dict.fromkeys(_BOTH, tenfold()), dict.fromkeys(_BOTH, 1 / tenfold())
    yield judged("R.T4.sum", times["total"], swept(lambda *t: totals(*t).summed, *terms))
    yield judged(
        "R.T4.int",
        PAPER.text("Sigma", "integration gain"),
        swept(lambda *t: totals(*t).benefit(better), *terms),
    )
    recomputed = swept(lambda *t: totals(*t).penalty(worse), *terms)
    yield judged("R.T4.dis", PAPER.text("Sigma", "disaggregation penalty", "text"), recomputed)
    memory = _share("Sigma", "cudaMalloc", "cudaFree")
    note = f"{memory.value:.1f} %; {_share('Sigma', 'cudaFree').value:.1f} % is cudaFree alone"
    yield judged(
        "R.T4.mem", PAPER.text("Sigma", "share of GPU memory management"), memory, note=note
    )
    yield _two_shares("R.T4.mpi", "Sigma", "the same 8 ranks on one node")


def _two_shares(id: str, app: str, setting: str) -> Recomputed:
    """Compare the MPI share of the profile with that of section 8.2."""
    times = PAPER.texts(app, "time")
    profile_share = swept(
        lambda mpi, total: 100 * mpi / total, printed(times["MPI"]), printed(times["total"])
    )
    text = PAPER.text(app, "share of MPI", "section 8.2")
    printed_share = printed(text)
    seconds, rest = (
        printed_share.value / 100 * float(times["total"]),
        float(times["CPU"]) + float(times["MPI"]),
    )
    return stated(
        id,
        f"{text}%",
        f"{profile_share.value:.1f}%",
        profile_share.low <= printed_share.high and printed_share.low <= profile_share.high,
        note=(
            f"two MPI shares of {setting}: {text} % would be {seconds:.1f} s, where CPU and MPI "
            f"together have {rest:.1f} s"
        ),
    )


def gtcp_terms() -> list[Interval]:
    """Return t_GPU, t_CGcontrol, t_malloc, t_CGdata, t_CPU, t_MPI of Table 5 [s]."""
    times = PAPER.texts("GTC-P", "time")
    return [printed(times[kind]) for kind in ("GPU", "control", "malloc", "data", "CPU", "MPI")]


def gtcp(
    gpu: float, control: float, malloc: float, data: float, cpu: float, mpi: float
) -> AdditiveTotals:
    """Return Table 5 with t_CGcontrol and t_malloc as host waits, which makes its terms add to its
    total.
    """
    return AdditiveTotals(gpu, control + malloc, data, cpu, mpi, waits=control + malloc)


def _gtcp() -> Iterator[Recomputed]:
    terms, times, ten = gtcp_terms(), PAPER.texts("GTC-P", "time"), tenfold()
    total = printed(times["total"])
    counted, summed = (
        swept(lambda *t, name=name: float(getattr(gtcp(*t), name)), *terms)
        for name in ("counted", "summed")
    )
    note = (
        f"if control ({times['control']} s) and malloc ({times['malloc']} s) are host waits "
        "beside device work: the rest closes"
    )
    yield judged("R.T5.add", times["total"], counted, note=note)
    yield judged(
        "R.T5.eq3",
        times["total"],
        summed,
        note=f"{summed.value:.2f} s: eq 3 counts what the host waits for a second time",
    )
    share = swept(lambda t, all_: 100 * t / all_, printed(times["malloc"]), total)
    yield judged(
        "R.T5.mallocpct",
        PAPER.text("GTC-P", "share", "malloc"),
        share,
        note=f"{share.value:.1f} % of the total",
    )
    yield judged("R.T5.ctrlsum", times["control"], _rows("GTC-P", "control"))
    yield judged("R.T5.gpusum", times["GPU"], _rows("GTC-P", "GPU"))
    text = PAPER.text("GTC-P", "gain of bandwidth")
    recomputed = swept(lambda *t: 100 * (gtcp(*t).benefit({"data": ten}) - 1), *terms)
    about = (0.9 * float(text), 1.1 * float(text))
    yield judged("R.5.3.bw", text, recomputed, within=about)
    recomputed = swept(lambda *t: gtcp(*t).penalty({"data": 1 / ten}), *terms)
    text, summary = (
        PAPER.text("GTC-P", "penalty of bandwidth"),
        PAPER.text("GTC-P", "disaggregation penalty", "Table 13"),
    )
    needed = [(float(x) - 1) / (ten - 1) * total.value for x in (text, summary)]
    note = (
        f"{recomputed.value:.2f}; {text} needs t_CGdata of {needed[0]:.1f} s, Table 13's "
        f"{summary} {needed[1]:.1f} s"
    )
    yield judged("R.7.3.bw", text, recomputed, note=note)
    note = (
        f"{recomputed.value:.2f} rounds to 2.6; {text} in the text, {summary} in the table: three "
        "values of one quantity"
    )
    yield judged("R.T13.GTCP", summary, recomputed, note=note)
    times_100 = float(PAPER.text("GTC-P", "latency change"))
    calls, mean = (
        float(PAPER.text("GTC-P", f"control function, {q}", "cudaLaunchKernel"))
        for q in ("calls", "mean call")
    )
    launch = PAPER.number("GTC-P", "control function, time", "cudaLaunchKernel")

    def increase(launches: float, run: float) -> float:
        return 100 * (float(fraction_penalty(launches / run, times_100)) - 1)

    recomputed = swept(increase, exact(calls * parse(f"{mean} ms", "s")), total)
    row = increase(launch.value, total.value)
    note = (
        f"if launches take {calls:.0f} calls of {mean:g} ms exactly; the row's {launch.value:g} s "
        f"gives {row:.1f} %"
    )
    yield judged("R.7.3.lat", PAPER.text("GTC-P", "increase from latency"), recomputed, note=note)
    share = swept(lambda t, all_: 100 * t / all_, launch, total)
    text = PAPER.text("GTC-P", "control function, share", "cudaLaunchKernel")
    yield judged("R.T5.launchpct", text, share, note=f"{share.value:.2f} % of the total")
    below = PAPER.text("GTC-P", "gain of latency is below")
    recomputed = swept(
        lambda t, all_: 100 * (float(fraction_benefit(t / all_, ten)) - 1), launch, total
    )
    yield stated(
        "R.5.3.ctrl", f"<{below}%", f"{recomputed.value:.2f}%", recomputed.high < float(below)
    )


def _mean_calls() -> Iterator[Recomputed]:
    for app, table in (("Epsilon", "T3"), ("Sigma", "T4"), ("GTC-P", "T5")):
        means = [
            s for s in PAPER.all if s.subject == app and s.quantity.endswith("function, mean call")
        ]
        wrong = []
        for mean in means:
            kind = mean.quantity.removesuffix("mean call")
            calls, unit = (
                float(PAPER.text(app, f"{kind}calls", mean.place)),
                parse(f"1 {mean.unit}", "s"),
            )
            mean_call = swept(
                lambda t, calls=calls, unit=unit: t / calls / unit,
                PAPER.number(app, f"{kind}time", mean.place),
            )
            if not overlap(mean_call, printed(mean.text)):
                wrong.append(
                    f"{mean.place}: {mean_call.value:.2f} {mean.unit}, printed {mean.text}"
                )
        right = f"{len(means) - len(wrong)} of {len(means)}"
        yield stated(
            f"R.{table}.avg",
            f"{len(means)} rows",
            right,
            not wrong,
            note="; ".join(wrong) or "every row",
        )


def node_ratio() -> float:
    """Return how much faster off-node messages get on a node of twice the GPUs: all links of a node
    over the path between two nodes.
    """
    pair, gpus, path = (
        PAPER.number("Cori-GPU", q).value
        for q in ("bandwidth of a GPU pair", "GPUs of a node", "measured bandwidth of a node pair")
    )
    return gpus * pair / path


def epsilon_parts(collectives: float, messages: float) -> list[Staged]:
    """Return the parts of Epsilon that bandwidth limits: collectives as a tree with a stage between
    nodes, and messages in nodes.
    """
    stages, across = (
        PAPER.number("Epsilon", q).value for q in ("stages of the tree", "stages between nodes")
    )
    return [Staged(collectives, stages - across, stages), Staged(messages, 1, 1)]


def epsilon_shares() -> list[Interval]:
    """Return the shares of run time in large collectives and in large messages (section 8.2)."""
    return [
        PAPER.number("Epsilon", f"share of {p}", "section 8.2").times(0.01)
        for p in ("collectives", "point-to-point")
    ]


def _closer_gpus() -> Iterator[Recomputed]:
    text = PAPER.text("Cori-GPU", "speedup of off-node messages")
    yield judged("R.8.1.k", text, node_ratio())
    for app, id in (("Castro", "Castro"), ("MFiX", "MFIX"), ("PeleC", "PeleC"), ("WarpX", "WarpX")):
        text, parts = (
            PAPER.text(app, "speedup on a 16-GPU node"),
            ("communication", "point-to-point", "off-node"),
        )
        shares = [PAPER.number(app, f"share of {part}").times(0.01) for part in parts]
        recomputed = swept(lambda c, p, o: float(fraction_speedup(c, p, o, node_ratio())), *shares)
        note = "the formula is not printed; 1 / (1 - c p o (1 - 1/k)) fits all four rows (D13)"
        if round(recomputed.value, 2) != float(text):
            note += (
                f"; {recomputed.value:.3f}, and {text} only at the upper end of its rounded shares"
            )
        yield judged(f"R.T12.{id}", text, recomputed, note=note)
    shares, factor = epsilon_shares(), PAPER.number("Epsilon", "bandwidth change on the node").value

    def left(*s: float) -> float:
        return staged_share(epsilon_parts(*s), factor)

    recomputed = swept(lambda *s: 100 * left(*s), *shares)
    yield judged("R.8.2.eps", PAPER.text("Epsilon", "run time with faster GPU links"), recomputed)
    recomputed = swept(lambda *s: 100 * float(gain(1, left(*s))), *shares)
    note = (
        f"the run is {100 - 100 * left(*(s.value for s in shares)):.1f} % shorter and "
        f"{recomputed.value:.1f} % faster: neither is printed"
    )
    yield judged(
        "R.8.2.boost", PAPER.text("Epsilon", "gain of faster GPU links"), recomputed, note=note
    )
    recomputed = swept(
        lambda *s: (
            100 * float(gain(left(*s), staged_share(all_on_node(epsilon_parts(*s)), factor)))
        ),
        *shares,
    )
    note = f"{recomputed.value:.2f} % by the formula printed for two nodes"
    yield judged(
        "R.8.2.add", PAPER.text("Epsilon", "further gain of 16 GPUs a node"), recomputed, note=note
    )
    recomputed = swept(lambda *s: 1 / staged_share(all_on_node(epsilon_parts(*s)), factor), *shares)
    yield judged("R.T13.eps", PAPER.text("Epsilon", "GPU-GPU integration"), recomputed)
    factor = PAPER.number("Sigma", "bandwidth change on the node").value
    shares = [
        PAPER.number("Sigma", f"share of {call}", "section 8.2").times(0.01)
        for call in ("MPI_Bcast", "MPI_Wait")
    ]
    recomputed = swept(
        lambda *s: float(gain(1, staged_share([(share, 1, 1) for share in s], factor))), *shares
    )
    yield judged(
        "R.8.2.sig", PAPER.text("Sigma", "gain of faster GPU links"), recomputed.times(100)
    )
    recomputed = swept(lambda g: 1 + g, recomputed)
    note = f"{recomputed.value:.2f} rounds to 1.1; the text has 12 %"
    yield judged("R.T13.sig", PAPER.text("Sigma", "GPU-GPU integration"), recomputed, note=note)
    text, factor = (
        PAPER.text("GTC-P", "speedup of faster GPU links"),
        PAPER.number("GTC-P", "bandwidth change on the node").value,
    )
    share = (1 - 1 / float(text)) / (1 - 1 / factor)
    missing = (
        f"the share of run time in messages within a node is not printed; {text} needs "
        f"{share:.1%} of it limited by bandwidth"
    )
    yield not_printed("R.8.3", text, missing)


def _sides() -> Iterator[Recomputed]:
    cpu, gpu = PAPER.number("SW4Lite", "CPU run time"), PAPER.number("SW4Lite", "GPU run time")
    recomputed = swept(lambda a, b: a / b, cpu, gpu)
    yield judged(
        "R.6.5.1",
        PAPER.text("SW4Lite", "GPU over CPU"),
        recomputed,
        note=f"{cpu.value:g} s over {gpu.value:g} s",
    )
    ratios = []
    for side, table in (("GPU", "T9"), ("CPU", "T8")):
        for cube in ("24", "311", "522", "922"):
            subject = f"Laghos {side} cube_{cube}"
            if not any(s.subject == subject for s in PAPER.all):
                continue
            columns = dict(PAPER.texts(subject, "run time"))
            major = columns.pop("Major Kernels")
            recomputed = swept(
                lambda *t: sum(t),
                *(printed(columns[c]) for c in ("CG (H1)", "Force", "UpdatedQuadData")),
            )
            note = (
                "if major kernels are CG (H1), force and update, without CG (L2)"
                if side == "GPU"
                else _no_sum(columns, major)
            )
            yield judged(f"R.{table}.{cube}", major, recomputed, note=note)
            if side == "CPU":
                ratios.append(
                    float(PAPER.text(f"Laghos GPU cube_{cube}", "run time", "Major Kernels"))
                    / float(major)
                )
    ratio_texts = ", ".join(f"x{r:.2f}" for r in ratios)
    yield stated("R.T8T9", "yes", ratio_texts, min(ratios) > 1)


def _no_sum(columns: dict[str, str], major: str) -> str:
    """Return in words whether any columns add to the printed major kernels."""
    times = [printed(t) for t in columns.values()]
    for count in range(1, len(times) + 1):
        for some in itertools.combinations(times, count):
            if overlap(swept(lambda *t: sum(t), *some), printed(major)):
                return f"{count} of the columns add to it"
    return "no set of the four columns adds to it"


def column(name: str) -> dict[str, float]:
    """Return one column of Table 13 as printed, by application, without ranges."""
    return {
        s.subject: float(s.text)
        for s in PAPER.all
        if s.place == "Table 13" and s.quantity == name and "–" not in s.text
    }


def _summary() -> Iterator[Recomputed]:
    """Yield the statements of sections 1 and 11 about Table 13."""
    closer, cores, apart, gpus = (
        list(column(c).values())
        for c in (
            "CPU-GPU integration",
            "CPU cores a GPU",
            "disaggregation penalty",
            "GPU-GPU integration",
        )
    )

    def report_text(quantity: str, place: str | None = None) -> str:
        return PAPER.text("report", quantity, place)

    share = 100 * (statistics.median(closer) - 1)
    note = f"of {len(closer)} applications"
    yield judged("R.1.med", report_text("median gain of CPU-GPU integration"), share, note=note)
    for id, limit, word in (("R.11.1a", "1.3", "at least"), ("R.11.1b", "1.9", "exceeding")):
        text = report_text("share of applications gaining", limit)
        above, not_below = (
            sum(test(b) for b in closer) for test in (float(limit).__lt__, float(limit).__le__)
        )
        part, whole = (int(n) for n in text.split("/"))
        recomputed, note = f"{not_below}/{len(closer)}", f"{not_below} of {len(closer)}"
        if word == "exceeding":
            recomputed, note = (
                f"{not_below}/{len(closer)} >={limit}, {above}/{len(closer)} >{limit}",
                f"only if 'exceeding' lets {limit} itself in",
            )
        yield stated(id, text, recomputed, not_below * whole >= part * len(closer), note=note)
    text, share = (
        report_text("share needing at most two cores"),
        100 * sum(c <= 2 for c in cores) / len(cores),
    )
    note = f"'nearly': up to five points below; {sum(c <= 2 for c in cores)} of {len(cores)}"
    yield judged("R.11.2", text, share, within=(float(text) - 5, float(text)), note=note)
    text = report_text("median slow-down of disaggregation")
    yield judged("R.11.3a", text, statistics.median(apart), note=f"of {len(apart)} applications")
    text, share = (
        report_text("share above fivefold slow-down"),
        100 * sum(p > 5 for p in apart) / len(apart),
    )
    yield judged("R.11.3b", text, share, note=f"{sum(p > 5 for p in apart)} of {len(apart)}")
    limit = report_text("impact on Castro and HACC is below")
    castro, hacc = (
        float(PAPER.text("Castro", "disaggregation penalty", "Table 11")),
        column("disaggregation penalty")["HACC"],
    )
    impact = [100 * (p - 1) for p in (castro, hacc)]
    yield stated(
        "R.11.3c",
        f"<{limit}%",
        f"Castro {impact[0]:.0f}%, HACC {impact[1]:.0f}%",
        all(round(i, 6) < float(limit) for i in impact),
    )
    yield judged(
        "R.11.4a",
        report_text("median gain of GPU-GPU integration"),
        statistics.median(gpus),
        note=f"of {len(gpus)} applications",
    )
    text, above_all = (
        report_text("applications above 1.25"),
        [app for app, g in column("GPU-GPU integration").items() if g > 1.25],
    )
    yield judged("R.11.4b", text, float(len(above_all)), note=" and ".join(above_all))
