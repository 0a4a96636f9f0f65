"""The processor that a recording names tells the host that it ran on."""

from __future__ import annotations

from pathlib import Path

import pytest
from build_nsys import make

from turnbuckle.machine.catalog import host_of
from turnbuckle.projection.run import Run
from turnbuckle.questions.anonymise.copy import copied
from turnbuckle.trace.secrets import look


@pytest.mark.parametrize(
    ("processor", "host"),
    [
        ("AMD EPYC 7763 64-Core Processor", "epyc-milan"),
        ("AMD EPYC 7A53 64-Core Processor", "epyc-trento"),
        ("Intel(R) Xeon(R) Platinum 8480C", "xeon-8480c"),
        ("Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz", "xeon-skylake"),
        ("AMD EPYC 7702P 64-Core Processor", "epyc-rome"),
        ("AMD EPYC", ""),
        ("", ""),
        ("[*]" * 1000, ""),
    ],
)
def test_a_processor_that_a_recording_names_finds_its_host(processor: str, host: str) -> None:
    found = host_of(processor)
    assert (found.name if found else "") == host


def test_a_recording_that_names_its_processor_ran_on_that_host(tmp_path: Path) -> None:
    """One that does not, or names two, keeps the prior."""
    rows = [
        {
            "globalVid": 1,
            "devStateName": "x",
            "name": "CpuDescription",
            "nameEnum": 4,
            "value": "AMD EPYC 7763 64-Core Processor",
        }
    ]
    other = [{**rows[0], "value": "AMD EPYC 7A53"}]
    for table, host in ((rows, "epyc-milan"), (rows + other, ""), ([], "")):
        path = make(tmp_path / f"{len(table)}.sqlite", TARGET_INFO_SYSTEM_ENV=table)
        source = Run.read(path, use_cache=False).source
        assert source.host == host and ("host.framework" in source.parameters) == bool(host)


def test_a_copy_without_names_keeps_the_host_and_not_what_the_recording_calls_it(
    tmp_path: Path,
) -> None:
    """The answers of both are the same."""
    row = {
        "globalVid": 1,
        "devStateName": "x",
        "name": "CpuDescription",
        "nameEnum": 4,
        "value": "of Jane: AMD EPYC 7763",
    }
    path = make(tmp_path / "run.sqlite", TARGET_INFO_SYSTEM_ENV=[row])
    copy = copied(
        Run.read(path, use_cache=False).profile.trace, None, b"key", None, look(path)
    ).copy
    assert host_of(copy.facts["processor"]) == host_of("AMD EPYC 7763") and "Jane" not in str(
        copy.facts
    )
