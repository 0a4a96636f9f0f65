"""The response surface: files of users, good and bad, and what is asked between and beyond its
points.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation.errors import TurnbuckleError, UnitError, UsageError
from turnbuckle.papers.row_slack.binned_slack import published_surface
from turnbuckle.papers.row_slack.proxy import Proxy, modelled
from turnbuckle.papers.row_slack.surface import Surface, modelled_surface, read_surface

GOOD = """# runs of ours
size [MiB], threads, slack [us], run time [s], kernel, calls
1, 1, 0, 0.40, 120 us, 5000
1, 1, 0, 0.36, 120 us, 5000
1, 1, 100, 0.9, 120 us, 5000

16, 1, 0, 8.0, 4.714 ms, 5000
16, 1, 100, 8.8, 4.714 ms, 5000
1, 4, 0, 1.0, 120 us, 5000
1, 4, 100, 1.0, 120 us, 5000
"""
HEAD = "size [MiB],threads,slack [us],run time [s]\n"
ROW = "1,1,0,1\n"

drawn = settings(
    max_examples=90,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def surface(tmp_path: Path, text: str) -> Surface:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return read_surface(path)


def test_units_stand_in_the_heading_or_behind_each_number(tmp_path: Path) -> None:
    found = surface(tmp_path, GOOD)
    assert found.label == "measured: runs.csv"
    assert found.threads == (1, 4)
    assert found.sizes(1).tolist() == [2**20, 2**24] and found.sizes(4).tolist() == [2**20]
    assert found.kernel_seconds(1).tolist() == [120e-6, 4.714e-3]
    assert found.seconds(2**20, 1, 0.0) == pytest.approx(0.38), "runs of one point are averaged"
    assert found.calls(2**20, 1) == 5000


def test_a_mark_of_byte_order_and_quotes_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_bytes(
        b'\xef\xbb\xbf"size","threads","slack","run_time"\r\n"1 MiB","1","0 us","2 s"\r\n'
    )
    assert read_surface(tmp_path / "runs.csv").seconds(2**20, 1, 0.0) == 2.0


def test_between_runs(tmp_path: Path) -> None:
    found = surface(tmp_path, GOOD)
    assert found.seconds(2**24, 1, 25e-6) == pytest.approx(8.2)
    assert found.seconds(2**24, 1, 100e-6) == pytest.approx(8.8)


@pytest.mark.parametrize(
    ("size", "threads", "slack", "found"),
    [
        (2**19, 1, 0.0, "512 KiB with 1 threads"),
        (2**22, 1, 0.0, "4 MiB with 1 threads"),
        (2**20, 1, 101e-6, "a slack of 101 us"),
        (2**20, 1, -1e-9, "a slack of"),
        (2**20, 1, float("nan"), "a slack of"),
        (2**20, 2, 0.0, "2 threads"),
        (2**24, 4, 0.0, "16 MiB with 4 threads"),
    ],
)
def test_nothing_is_extrapolated(
    tmp_path: Path, size: float, threads: int, slack: float, found: str
) -> None:
    assert refused("A131", surface(tmp_path, GOOD).seconds, size, threads, slack).found.startswith(
        found
    )
    refused("A131", surface(tmp_path, GOOD).seconds, size + 1, threads, slack)


def test_what_a_surface_may_lack(tmp_path: Path) -> None:
    plain = surface(tmp_path, HEAD + ROW + "1,1,10,2\n")
    assert plain.seconds(2**20, 1, 10e-6) == 2.0 * plain.seconds(2**20, 1, 0.0)
    refused("A132", plain.kernel_seconds, 1)
    refused("A132", plain.calls, 2**20, 1)
    upside_down = HEAD.replace("\n", ",kernel [us]\n") + "1,1,0,1,100\n16,1,0,1,90\n"
    refused("A132", surface(tmp_path, upside_down).kernel_seconds, 1)


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("", "A062", "runs.csv"),
        (HEAD, "A064", "runs.csv"),
        (HEAD + "1,1,10,1\n", "A064", "runs.csv"),
        (HEAD + ROW + "1,2,10,1\n", "A064", "runs.csv"),
        ("size,threads,slack\n", "A062", "runs.csv:1:1"),
        ("size,threads,slack,run time,colour\n", "A062", "runs.csv:1:29"),
        ("size,threads,slack,run time,size\n", "A062", "runs.csv:1:29"),
        ("\n# c\nsize,thr€ads\n", "A062", "runs.csv:3:6"),
        (HEAD + "1,1,0\n", "A063", "runs.csv:2:5"),
        (HEAD + "1,1,0,1,5\n", "A063", "runs.csv:2:9"),
        (HEAD + "0,1,0,1\n", "A063", "runs.csv:2:1"),
        (HEAD + "1,1.5,0,1\n", "A063", "runs.csv:2:3"),
        (HEAD + "1,0,0,1\n", "A063", "runs.csv:2:3"),
        (HEAD + "1,1e25,0,1\n", "A063", "runs.csv:2:3"),
        (HEAD + "1,1e300,0,1\n", "U005", "runs.csv:2:3"),
        (HEAD + "1,1,-5,1\n", "A063", "runs.csv:2:5"),
        (HEAD + "1,1,0,0\n", "A063", "runs.csv:2:7"),
        (HEAD + "1,1,0,  nan\n", "U004", "runs.csv:2:9"),
        (HEAD + ROW + "1,1,10 us,1\n", "U002", "runs.csv:3:5"),
        (HEAD + "1,1,0,\n", "U004", "runs.csv:2:7"),
        (HEAD.replace("[us]", "[MiB]") + "1,1,5,1\n", "U003", "runs.csv:2:5"),
        (HEAD.replace("slack [us]", "slack") + "1,1,5,1\n", "U001", "runs.csv:2:5"),
        (HEAD + "1e308,1,0,1\n", "U005", "runs.csv:2:1"),
    ],
)
def test_bad_files_say_where(tmp_path: Path, text: str, code: str, where: str) -> None:
    with pytest.raises((UsageError, UnitError)) as caught:
        surface(tmp_path, text)
    assert (caught.value.code, caught.value.where) == (code, where)


def test_what_is_no_text_file(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "big").write_bytes(b"#" * (4 << 20) + b"##")
    os.mkfifo(tmp_path / "pipe")
    for name in ("binary", "big", "pipe", "absent", ".", "nul\0"):
        refused("A061", read_surface, tmp_path / name)


@drawn
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(st.text(max_size=12), max_size=12).map(lambda cells: HEAD + ",".join(cells)),
    )
)
def test_no_text_brings_it_down(tmp_path: Path, text: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = read_surface(path)
    except TurnbuckleError as error:
        assert error.exit_code == 2 and all("\n" not in line for line in error.lines())
    else:
        assert found.points


def test_the_modelled_surface_is_replays_and_says_so() -> None:
    proxies = [Proxy(2**20, 120e-6, 87e-6, 20), Proxy(2**24, 4.7e-3, 1.1e-3, 20)]
    found = modelled_surface(proxies, (1, 3), (1e-5, 1e-3), device_bytes=2**24 * 4)
    assert found.label.startswith("modelled: ")
    assert found.sizes(1).tolist() == [2**20, 2**24] and found.sizes(3).tolist() == [2**20], (
        "what does not fit is left out"
    )
    assert found.seconds(2**20, 3, 1e-3) == float(
        modelled(proxies[0], 3, served_at=1e-3).seconds(1e-3)
    )
    assert found.kernel_seconds(1).tolist() == [120e-6, 4.7e-3] and found.calls(2**24, 1) == 100


def test_the_papers_device_holds_no_four_threads_of_the_largest_matrix() -> None:
    every = published_surface([])
    assert every.threads == (1, 2, 4, 8)
    assert [len(every.sizes(k)) for k in every.threads] == [4, 4, 3, 3]
    found = published_surface([1e-4], (1,))
    slowed = np.array(
        [found.seconds(float(n), 1, 1e-4) / found.seconds(float(n), 1, 0.0) for n in found.sizes(1)]
    )
    assert (np.diff(slowed) < 0).all() and slowed[0] == pytest.approx(
        1 + 5000 * 1e-4 / 0.382, rel=1e-4
    )
