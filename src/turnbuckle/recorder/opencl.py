"""Recording of OpenCL programs (``turnbuckle record --opencl``): the program runs under the OpenCL layer instead of CUPTI's recorder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from turnbuckle.foundation.errors import CannotAnswer, error_of
from turnbuckle.recorder import opencl_layer
from turnbuckle.recorder import run as record_run

#: Settings of the layer, and what loads that of MPI beside it; the others belong to CUPTI.
_DELAYS: Final = ("SLACK_NS", "SLACK_CLASSES", "SLACK_WHERE", "JITTER_FROM_NS", "JITTER_TO_NS", "JITTER_SEED", "LINK_BANDWIDTH")
_SETTINGS: Final = (*(f"TB_{name}" for name in ("MEMORY_MB", "FLUSH_MS", *_DELAYS)), "LD_PRELOAD")


def record_opencl(
    command: Sequence[str],
    output: Path | None,
    settings: Mapping[str, str],
    headers: Path | None,
    cupti_only: Mapping[str, bool],
    keep: Callable[[Path, Path, Any], None],
) -> int:
    """Run `command` under the layer, and convert its files into the trace.  Raises N001, N004, N005, N007, N009, N011, N016 to N019, N024.

    Parameters
    ----------
    command, output : as for ``turnbuckle record``.
    headers : folder of ``CL/cl_layer.h``.
    keep : function that writes the trace and reports on it; it takes the folder of the files, the place of the trace and the run.
    """
    from turnbuckle.trace.cache import cache

    for option, given in cupti_only.items():
        if given:
            raise error_of("N011.opencl", option=option)
    program = record_run.program(command)
    place = record_run.place_of(output, command)
    with opencl_layer.cached(cache.folder(), headers) as (library, _), record_run.private(place) as folder:
        asked = {name: settings[name] for name in _SETTINGS if name in settings}
        trace = {"TB_TRACE": str(folder.resolve() / f"%p{record_run.SUFFIX}")}
        ran = record_run.run(
            [program, *command[1:]], {**record_run.inherited(), **opencl_layer.environment(library, os.environ), **trace, **asked}
        )
        ended = f"the command ended with {ran.code} after {ran.seconds:.3g} s"
        if not record_run.files(folder):
            raise opencl_layer.nothing_recorded(f"{ended}; no file")
        try:
            keep(folder, place, ran)
        except CannotAnswer as why:
            raise opencl_layer.nothing_recorded(f"{ended}; {why.found.partition('; ')[2] or why.what}") from None
    return int(ran.code)
