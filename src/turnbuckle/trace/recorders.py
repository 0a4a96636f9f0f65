"""Names of recording formats and of the tools that wrote them, the same on the screen, in reports
and in messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from turnbuckle.foundation.findings import recording_advice

#: Each reader's ``facts["format"]``, and what people call that format.
FORMATS: Final[dict[str, str]] = {
    "nsys": "Nsight Systems SQLite export",
    "kineto": "Chrome trace of PyTorch",
    "otf2": "OTF2 archive",
    "paje": "Paje trace",
    "paraver": "Paraver trace",
    "dumpi": "DUMPI trace",
    "pmpi": "PMPI text trace",
    "nvprof": "nvprof database",
    "rocprof": "rocprof recording",
    "rocprofv3": "rocprofv3 recording",
    "rocpd": "rocpd database",
    "chakra": "Chakra execution trace",
    "xplane": "XSpace profile",
    "nsys_stats": "Nsight CSV trace",
    "recorded": "Turnbuckle recording",
    "turnbuckle": "Turnbuckle trace",
}


def with_calls(facts: Mapping[str, Any]) -> str:
    """Return how to make the recorder of these facts record host calls too; of an unknown recorder,
    and of several, the ways of the common ones.

    >>> with_calls({"format": "nvprof"})
    'nvprof --profile-api-trace all -o RUN.nvvp'
    >>> with_calls({"format": "turnbuckle"})
    'rocprofv3 --sys-trace, nsys profile --trace=cuda,nvtx,mpi, PyTorch with ProfilerActivity.CPU'
    """
    return what_to_record("calls", facts)


def what_to_record(word: str, facts: Mapping[str, Any]) -> str:
    """Return the advice of ``schema/recorders.csv`` for `word`: in the options of the recorder of
    these facts, else in words for any.

    >>> what_to_record("ranks", {"format": "kineto"})
    'record every rank, and join the files with turnbuckle merge'
    """
    return recording_advice(recorder_of(facts))[word]


def recorder_of(facts: Mapping[str, Any]) -> str:
    """Return the format of a recording as a key of ``schema/recorders.csv``; empty where recordings
    of several formats were merged.
    """
    kinds = {str(source.get("format")) for source in facts.get("sources") or ()} or {
        str(facts.get("format") or "nsys")
    }
    return kinds.pop() if len(kinds) == 1 else ""


def recorder(facts: Mapping[str, Any]) -> str:
    """Return the format of a recording, the tool that wrote it, and versions where the file states
    them.

    >>> recorder({"format": "paje", "product_version": "SimGrid 3.32.0", "schema_version": None})
    'Paje trace of SimGrid 3.32.0'
    >>> recorder({"format": "dumpi", "product_version": "DUMPI 8.1.0", "schema_version": None})
    'DUMPI 8.1.0 trace'
    >>> recorder({"format": "kineto", "sources": [{"format": "kineto"}, {"format": "kineto"}]})
    '2 recordings merged: Chrome trace of PyTorch'
    """
    if sources := facts.get("sources"):
        kinds = dict.fromkeys(FORMATS.get(source["format"], "recording") for source in sources)
        return f"{len(sources)} recordings merged: {', '.join(kinds)}"
    writer, schema = (str(facts.get(name) or "") for name in ("product_version", "schema_version"))
    if facts.get("format", "nsys") == "nsys":
        return (
            f"Nsight Systems {writer or '(version not recorded)'}, schema {schema or 'before 2.7'}"
        )
    if facts["format"] == "kineto":
        return f"Chrome trace of {writer or 'the PyTorch profiler (version not recorded)'}"
    short, _, kind = FORMATS.get(str(facts["format"]), f"{facts['format']} recording").partition(
        " "
    )
    if writer.startswith(short):
        return f"{writer} {kind}"
    return (
        f"{short}{schema and ' '}{schema} {kind} of "
        f"{writer or 'a tracer that does not name itself'}"
    )
