"""What the core adds to the registry (`turnbuckle.foundation.registry`): readers, questions, machines, and what they use of each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    # those that know their files well first: `nsys` takes any SQLite and `kineto` any JSON of events
    "readers": {
        "recorded": ("turnbuckle.trace.readers.recorded.reader",),
        "nvprof": ("turnbuckle.trace.readers.nvprof.reader",),
        "rocprof": ("turnbuckle.trace.readers.rocprof.reader",),
        "rocprof_csv": ("turnbuckle.trace.readers.rocprof.csv_sets",),
        "chakra": ("turnbuckle.trace.readers.chakra.reader",),
        "nsys": ("turnbuckle.trace.readers.nsys",),
        "otf2": ("turnbuckle.trace.readers.otf2",),
        "kineto": ("turnbuckle.trace.readers.kineto",),
    },
    "questions": {
        "inspect": (
            "turnbuckle.questions.inspect.command:inspect",
            "Say what a recording amounts to: where time goes, what the link did, what is wrong with the recording.",
        ),
        "project": (
            "turnbuckle.questions.project.command:project",
            "Project a recording on other machines: run time with interval, breakdown, and the change in coupling behind it.",
        ),
        "slack": (
            "turnbuckle.questions.distance.command:slack",
            "Say how much distance a run tolerates: run time against added latency, exactly, and the calls that carry it.",
        ),
        "export": (
            "turnbuckle.questions.before_after.command:export",
            "Write measured and projected time lines side by side, with the critical path of both, for a trace viewer.",
        ),
        "calibrate": (
            "turnbuckle.questions.calibrate.command:calibrate",
            "Turn measurements of a machine into a machine file: values, errors, and which line of which file each is from.",
        ),
        "cores": (
            "turnbuckle.questions.cores.command:cores",
            "Say how many CPU cores a GPU needs for 90 % of what it can do, and how many ranks may share it, from runs that vary them.",
        ),
        "merge": (
            "turnbuckle.questions.merge.command:merge",
            "Merge recordings of the ranks of one run into one: processes kept apart, clocks put right on the collectives that they share.",
        ),
        "sweep": (
            "turnbuckle.questions.sweep.command:sweep",
            "Answer every combination of settings on every recording: a study file, or --axis on the command line.",
        ),
        "transfers": (
            "turnbuckle.questions.transfers.command:transfers",
            "Project every copy of a run on the data sheet of another node (AHEAD), and say how far off that is where both were measured.",
        ),
        "anonymise": (
            "turnbuckle.questions.anonymise.command:anonymise",
            "Write a copy of a recording without names, ids, dates and places of its own; every answer about it stays the same.",
        ),
        "validate": (
            "turnbuckle.questions.validate.command:validate",
            "Predict what was measured elsewhere, and say how far off that is: by case, and as a card by kind of question.",
        ),
        "model sharing": (
            "turnbuckle.questions.sharing.command:sharing",
            "Replay a run several times over at once behind one host link, or on one larger GPU: how much each slows the others down.",
        ),
        "model order": (
            "turnbuckle.questions.order.command:order",
            "Find which order several recordings have in common: dependencies across threads and streams, and how many may be false.",
        ),
    },
    "untimed": {"graph": ("turnbuckle.questions.inspect.graph",)},
    "asks": {
        "inspect": ("turnbuckle.questions.inspect.question:Summary",),
        "distance": ("turnbuckle.questions.distance.speeds:asked",),
        "sharing": ("turnbuckle.questions.sharing.question:of_run",),
        "sharing surface": ("turnbuckle.questions.sharing.surface:of_run",),
        "beside": ("turnbuckle.questions.sharing.pairs:of_runs",),
        "transfers": ("turnbuckle.questions.transfers.datasheet:of_run",),
        "export": ("turnbuckle.questions.before_after.perfetto:of_run",),
        "anonymise": ("turnbuckle.questions.anonymise.copy:of_run",),
    },
    "sweeps": {name: (f"turnbuckle.questions.sweep.kinds:{name.upper()}",) for name in ("project", "slack", "sharing")},
    "predictions": {
        "datasheet": ("turnbuckle.questions.validate.copies:on_node",),
        "machine": ("turnbuckle.questions.validate.copies:on_node",),
        "line": ("turnbuckle.questions.validate.copies:fitted_line",),
        "projection": ("turnbuckle.questions.validate.predictions:projection",),
        "slack": ("turnbuckle.questions.validate.predictions:delayed",),
        "distance": ("turnbuckle.questions.validate.measured.distance:moved_away",),
        "sharing": ("turnbuckle.questions.validate.measured.side_by_side:side_by_side",),
        "remoting": ("turnbuckle.questions.validate.measured.through_layer:through_layer",),
        "variant": ("turnbuckle.questions.validate.predictions:variant",),
        "counts": ("turnbuckle.questions.validate.predictions:counts",),
        "repeat": ("turnbuckle.questions.validate.predictions:repeat",),
        "rate": ("turnbuckle.questions.validate.predictions:rate",),
    },
    "terminal": {
        "inspect": ("turnbuckle.show.terminal.projections:show",),
        "anonymise": ("turnbuckle.questions.anonymise.command:show",),
        "project": ("turnbuckle.show.terminal.projections:show",),
        "distance": ("turnbuckle.questions.distance.tables:show_slack",),
        "speeds": ("turnbuckle.questions.distance.tables:show_sweep",),
        "surface": ("turnbuckle.questions.distance.tables:show_surface",),
        "sharing": ("turnbuckle.questions.sharing.command:show",),
        "sharing surface": ("turnbuckle.questions.sharing.command:show_surface",),
        "transfers": ("turnbuckle.questions.transfers.command:show",),
        "cores": ("turnbuckle.questions.cores.command:show",),
        "validate": ("turnbuckle.questions.validate.command:show",),
        "sweep": ("turnbuckle.questions.sweep.tables:print_swept",),
        "calibrate": ("turnbuckle.questions.calibrate.tables:show",),
        "order": ("turnbuckle.questions.order.command:show",),
        "doctor": ("turnbuckle.cli.doctor:show",),
    },
    "figures": {
        "transfers": ("turnbuckle.questions.transfers.figures:figures",),
        "cores": ("turnbuckle.questions.cores.figures:of_one",),
        "validate": ("turnbuckle.questions.validate.figures:figures",),
        "sweep": ("turnbuckle.questions.sweep.figures:figures",),
        "project": ("turnbuckle.page.answer_figures:figures",),
        "distance": ("turnbuckle.questions.distance.figures:figures",),
        "surface": ("turnbuckle.questions.distance.surface_figure:figures",),
        "sharing surface": ("turnbuckle.questions.sharing.figures:figures",),
    },
    "services": {
        "terminal as html": ("turnbuckle.show.terminal.console:as_html",),
        "card": ("turnbuckle.questions.validate.question:shipped",),
    },
}
