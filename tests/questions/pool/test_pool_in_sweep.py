"""`pool` as a kind of sweep: each point is what `pool` says alone, a log is read once, and all that
decides an answer is in its key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from hostile_names import Ran
from refusals import refused

import turnbuckle as tb
from turnbuckle.machine import Parameter, load
from turnbuckle.questions.pool import question as pool
from turnbuckle.questions.pool.question import of_jobs
from turnbuckle.questions.sweep.kinds import POOL
from turnbuckle.questions.sweep.question import Serial, Swept, sweep

SAMPLE = Path(tb.__file__).parent / "examples" / "milc-like-synthetic.sqlite"
MIX = """
[mix]
days = 1
nodes = "64:4x16"
[classes.solver]
every = "20 min"
run_time = "3 h"
gpus = 2
cores = 24
curve = [["1 us", 1.01], ["10 us", 1.2]]
[classes.trainer]
every = "1 h"
run_time = "2 h"
gpus = 1
recording = "run.sqlite"
[classes.analysis]
every = "30 min"
run_time = "1 h"
gpus = 0
cores = 32
"""


@pytest.fixture
def mix(tmp_path: Path) -> Path:
    copyfile(SAMPLE, tmp_path / "run.sqlite")
    (tmp_path / "mix.toml").write_text(MIX)
    return tmp_path / "mix.toml"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in the Standard Workload Format: 120 jobs over two days, of 1 to 8 processors."""
    rows = (
        (
            f"{k} {k * 1440} 0 {3600 * (1 + k % 5)} {1 << k % 4} -1 -1 {1 << k % 4} -1 -1 1 1 1 1 "
            "1 1 -1 -1"
        )
        for k in range(1, 121)
    )
    (tmp_path / "log.swf").write_text("\n".join(rows))
    return tmp_path / "log.swf"


def study(jobs: Path, axes: dict[str, Any], **settings: Any) -> tb.Study:
    return tb.Study("pools", POOL, {"jobs": jobs}, settings, axes=axes, folder=jobs.parent)


def swept(jobs: Path, axes: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    return sweep(study(jobs, axes, **settings), Serial()).rows()


def same(row: dict[str, Any], answer: pool.Pool) -> None:
    """Hold the row of a point to the answer of `pool`, number by number."""
    nodes, shared = answer.clusters
    ours, fixed = (dict(each) for each in reversed(answer.table().to_dicts()))
    assert ours.pop("machine") == row["on"]
    assert {name: row[name] for name in ours} == ours
    assert {
        name: row[f"fixed_{name}"]
        for name in ("utilisation", "stranded", "waiting_seconds", "fewest_gpus", "fewest_hosts")
    } == {
        name: fixed[name]
        for name in ("utilisation", "stranded", "waiting_seconds", "fewest_gpus", "fewest_hosts")
    }
    few = shared.fewest
    if few is not None:
        assert few.premium is not None
        ends = (few.gpus.low, few.gpus.high, few.premium.low, few.premium.high)
        assert (
            tuple(
                row[n]
                for n in ("low_fewest_gpus", "high_fewest_gpus", "low_premium", "high_premium")
            )
            == ends
        )
    assert (row["pools"], row["hosts_of_a_pool"], row["unplaced"]) == (
        shared.pools,
        shared.reach,
        shared.unplaced,
    )
    assert (row["jobs"], row["load_gpus"]) == (
        answer.jobs,
        answer.load,
    ) and nodes.machine == "fixed"


def test_each_point_of_a_mix_is_what_pool_says_alone(mix: Path) -> None:
    """Axes that share the fixed nodes (fabric, delay, reach, price), and axes that do not (seed,
    policy), in an order that mixes them.
    """
    axes = {
        "on": ["cdi-rack-link", "cdi-row-link"],
        "seed": [1, 2],
        "reach": [4, 16],
        "policy": ["backfill", "order"],
        "slack.link": [1e-6, 1e-5],
        "host_price": [0.0, 0.5],
    }
    rows = swept(mix, axes, seeds=1, draws=5)
    assert len(rows) == 64 and not any(row["code"] for row in rows)
    for row in rows[::7]:
        slack = Parameter(row["slack.link"], 0.0, "s", "assumption", "this test")
        same(
            row,
            of_jobs(
                mix,
                None,
                load(row["on"]).with_parameters({"slack.link": slack}),
                reach=row["reach"],
                policy=row["policy"],
                host_price=row["host_price"],
                seeds=1,
                draws=5,
                seed=row["seed"],
            ),
        )
    assert len({(row["premium"], row["waiting_seconds"]) for row in rows}) > 8


def test_each_point_of_a_log_is_what_pool_says_alone_and_the_log_is_read_once(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, times = pool.read_log, []
    monkeypatch.setattr(pool, "read_log", lambda *words: times.append(words) or read(*words))
    axes = {
        "load": [0.3, 0.6],
        "nodes": ["16:4x12", "16:4x20"],
        "on": ["cdi-switch-hop-link", "cdi-row-link"],
        "keep": ["waiting", "throughput"],
    }
    rows = swept(log, axes, seeds=2)
    assert len(times) == 1
    for row in rows:
        same(
            row, of_jobs(log, row["nodes"], row["on"], load=row["load"], keep=row["keep"], seeds=2)
        )
    resident = swept(log, {"on": ["cdi-row-link"]}, nodes="16:4x40", resident=True, fewest=False)[0]
    same(resident, of_jobs(log, "16:4x40", "cdi-row-link", resident=True, search=False))


def test_a_fabric_has_the_same_answer_beside_others(log: Path) -> None:
    """What a fabric needs does not depend on the fabrics that `pool` was asked about before."""
    every = of_jobs(
        log, "16:4x20", ["cdi-switch-hop-link", "cdi-rack-link", "cdi-row-link"], seeds=3
    )
    rows = swept(log, {"on": [c.machine for c in every.clusters[1:]]}, nodes="16:4x20", seeds=3)
    for row, one in zip(rows, every.clusters[1:], strict=True):
        assert one.fewest is not None and one.fewest.premium is not None
        assert (row["fewest_gpus"], row["premium"], row["low_premium"]) == (
            one.fewest.gpus.value,
            one.fewest.premium.value,
            one.fewest.premium.low,
        )


def test_what_a_mix_names_is_in_the_key(mix: Path, tmp_path: Path) -> None:
    def asked() -> Swept:
        return sweep(
            study(mix, {"on": ["cdi-row-link"]}, nodes="nodes.csv", seeds=0, draws=5),
            Serial(),
            output=tmp_path / "t.csv",
        )

    (tmp_path / "nodes.csv").write_text("cores,gpus,count\n64,4,16\n")
    assert [asked().computed, asked().computed] == [1, 0]
    (tmp_path / "nodes.csv").write_text("cores,gpus,count\n64,4,20\n")
    assert [asked().computed, asked().computed] == [1, 0]
    copyfile(SAMPLE.with_name("dgemm-like-synthetic.sqlite"), tmp_path / "run.sqlite")
    assert [asked().computed, asked().computed] == [1, 0]
    mix.write_text(MIX.replace("days = 1", "days = 2"))
    assert [asked().computed, asked().computed] == [1, 0]
    (tmp_path / "other.sqlite").touch()  # files beside it are no part of it
    (tmp_path / "mix2.toml").write_text(MIX)
    assert asked().computed == 0


AXES = {"on": ["cdi-rack-link", "cdi-row-link"], "seed": [1, 2]}


def test_two_processes_write_the_table_of_one(log: Path) -> None:
    asked = study(log, AXES, nodes="16:4x20", seeds=1)
    assert sweep(asked, workers=2).table().equals(sweep(asked, Serial()).table())


@contextmanager
def dask() -> Iterator[Executor]:
    """The executor of a Dask cluster of two workers on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        yield client.get_executor()


@pytest.mark.cluster
def test_dask_writes_the_table_of_one_process(mix: Path) -> None:
    asked = study(mix, AXES, seeds=1, draws=5)
    with dask() as executor:
        assert sweep(asked, executor, workers=2).table().equals(sweep(asked, Serial()).table())


def test_the_command_line_and_a_study_file_say_the_same(
    turnbuckle: Callable[..., Ran], mix: Path, tmp_path: Path
) -> None:
    words = [
        "--model",
        "pool",
        "--axis",
        "on=cdi-rack-link,cdi-row-link",
        "--axis",
        "reach=4,16",
        "--set",
        "seeds=1",
        "--set",
        "load=60%",
    ]
    ran = turnbuckle("sweep", str(mix), *words, "--workers", "1", "--format", "json")
    assert ran.code == 0, ran.err
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "pools"\nmodel = "pool"\n[recordings]\nmix = "mix.toml"\n[settings]\n'
        'seeds = 1\nload = "60%"\n'
        '[axes]\non = ["cdi-rack-link", "cdi-row-link"]\nreach = [4, 16]\n'
    )
    other = turnbuckle("sweep", str(tmp_path / "study.toml"), "--workers", "1", "--format", "json")
    rows = json.loads(ran.out)["rows"]
    assert (
        rows == json.loads(other.out)["rows"]
        and len(rows) == 4
        and {row["load"] for row in rows} == {0.6}
    )
    alone = json.loads(
        turnbuckle(
            "pool",
            str(mix),
            "--on",
            "cdi-row-link",
            "--reach",
            "4",
            "--seeds",
            "1",
            "--load",
            "60%",
            "--format",
            "json",
        ).out
    )
    assert rows[2]["premium"] == alone["clusters"][1]["fewest"]["premium"]["value"]


def test_the_sentence_names_the_largest_premium_and_refining_where_pools_stop_saving(
    log: Path, tmp_path: Path
) -> None:
    asked = study(
        log,
        {"on": ["cdi-switch-hop-link", "cdi-row-link"], "reach": [2, 16]},
        nodes="16:4x20",
        seeds=0,
    )
    found = sweep(asked, Serial())
    best = max(found.rows(), key=lambda row: float(row["premium"]))
    (summary,) = found.summaries()
    assert summary.shortest == {
        "on": best["on"],
        "reach": best["reach"],
        "premium": best["premium"],
    }
    assert summary.sentence.startswith("largest premium ") and best["on"] in summary.sentence
    titles = {figure.title for figure in found.figures()}
    assert titles and all("premium of a pooled GPU" in title and "%" in title for title in titles)


@pytest.mark.parametrize(
    ("axis", "code"),
    [
        ("gpus=4", "A081"),
        ("slack.lnk=1us", "A081"),
        ("gpu.count=2", "A081"),
        ("part=whole", "A081"),
        ("reach=0", "A451"),
        ("load=0", "A451"),
        ("host_price=-1", "A451"),
        ("draws=-1", "A081"),
        ("slack.link=1", "U001"),
        ("policy=fair", "A081"),
    ],
)
def test_what_pool_does_not_have_is_refused(
    turnbuckle: Callable[..., Ran], mix: Path, axis: str, code: str
) -> None:
    ran = turnbuckle(
        "sweep",
        str(mix),
        "--model",
        "pool",
        "--set",
        "on=cdi-row-link",
        "--axis",
        axis,
        "--workers",
        "1",
    )
    assert ran.code == 2 and f"error[{code}]" in ran.err


def test_a_point_that_pool_refuses_is_a_row(log: Path, tmp_path: Path) -> None:
    rows = swept(log, {"on": ["cdi-row-link", "gh200"], "nodes": ["16:4x20", "none.csv"]}, seeds=0)
    assert [row["code"] for row in rows] == [None, "A448", "A207", "A448"]
    refused("A082", swept, tmp_path / "none.swf", {"on": ["cdi-row-link"]}, nodes="16:4x20")
    (tmp_path / "bad.toml").write_text("[mix]\ndays = 1\n[classes.a]\nrecording = 3\n")
    refused("A082", swept, tmp_path / "bad.toml", {"on": ["cdi-row-link"]})
