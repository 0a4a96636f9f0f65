"""What a recording is and what wrote it, in words: the same on the screen, in reports and in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: What each reader calls its format in ``facts["format"]``, and what people call it.
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
    "recorded": "Turnbuckle recording",
    "turnbuckle": "Turnbuckle trace",
}


def recorder(facts: Mapping[str, Any]) -> str:
    """Format of a recording, what wrote it, and versions where the file tells them.

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
        return f"Nsight Systems {writer or '(version not recorded)'}, schema {schema or 'before 2.7'}"
    if facts["format"] == "kineto":
        return f"Chrome trace of {writer or 'the PyTorch profiler (version not recorded)'}"
    short, _, kind = FORMATS.get(str(facts["format"]), f"{facts['format']} recording").partition(" ")
    if writer.startswith(short):
        return f"{writer} {kind}"
    return f"{short}{schema and ' '}{schema} {kind} of {writer or 'a tracer that does not name itself'}"
