"""Recording of OpenCL programs (``turnbuckle record --opencl``): the program runs under the OpenCL
layer instead of CUPTI's recorder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnbuckle.foundation.errors import CannotAnswer, error_of
from turnbuckle.recorder import opencl_layer
from turnbuckle.recorder import run as record_run


def record_opencl(
    command: Sequence[str],
    output: Path | None,
    settings: Mapping[str, str],
    headers: Path | None,
    cupti_only: Mapping[str, bool],
    keep: Callable[[Path, Path, Any], None],
) -> int:
    """Run `command` under the layer, and convert its files into the trace.  Raises N001, N004,
    N005, N007, N009, N011, N016 to N019, N024.

    Parameters
    ----------
    command, output : as for ``turnbuckle record``.
    headers : folder of ``CL/cl_layer.h``.
    keep : function that writes the trace and reports on it; it takes the folder of the files, the
        place of the trace and the run.
    """
    from turnbuckle.trace.cache import cache

    for option, given in cupti_only.items():
        if given:
            raise error_of("N011.opencl", option=option)
    program = record_run.program(command)
    place = record_run.place_of(output, command)
    with (
        opencl_layer.cached(cache.folder(), headers) as (library, _),
        record_run.private(place) as folder,
    ):
        # which are those of CUPTI
        asked = {name: value for name, value in settings.items() if name != "TB_KINDS"}
        asked |= {
            "TB_TRACE": str(folder.resolve() / f"%p{record_run.SUFFIX}"),
            **opencl_layer.environment(library, os.environ),
        }
        ran = record_run.run([program, *command[1:]], record_run.inherited() | asked)
        ended = f"the command ended with {ran.code} after {ran.seconds:.3g} s"
        if not record_run.files(folder):
            raise error_of("N019", found=f"{ended}; no file")
        try:
            keep(folder, place, ran)
        except CannotAnswer as why:
            raise error_of(
                "N019", found=f"{ended}; {why.found.partition('; ')[2] or why.what}"
            ) from None
    return int(ran.code)
