"""A question and its answer: defaults, provenance, tables."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from refusals import refused

import turnbuckle as tb
from turnbuckle.foundation.errors import ProfileError
from turnbuckle.foundation.fields import SCHEMA_VERSION
from turnbuckle.profile.profile import build
from turnbuckle.projection.admission import DEFAULT_TARGETS
from turnbuckle.projection.run import Run

SAMPLE = Path(str(files("turnbuckle") / "examples" / "dgemm-like-synthetic.sqlite"))


@cache
def seen() -> Run:
    return Run.read(
        SAMPLE, use_cache=False, command="turnbuckle inspect dgemm-like-synthetic.sqlite"
    )


def test_an_inspection_recognises_its_machine() -> None:
    answer = seen()
    assert answer.source.name == "a100-sxm4-40" and answer.as_dict()["provenance"]["targets"] == []
    assert "M101" not in {f.code for f in answer.findings}
    refused("M016", Run.of, answer.profile, source="cdi-row-link")
    assert Run.of(answer.profile, source="gh200").source.name == "gh200"
    with pytest.raises(ProfileError):
        Run.read(SAMPLE.with_name("missing.sqlite"))


def test_defaults_of_a_question() -> None:
    answer = seen().project(draws=20)
    assert tuple(p.target for p in answer.projections) == DEFAULT_TARGETS
    assert (
        answer.model is not None and answer.model.name == "nething" and answer.model.alpha == "auto"
    )
    assert all(p.replay == "timeline" and p.interval is not None for p in answer.projections)
    (lambdas,) = seen().project(model=tb.additive({"data": 10.0}), draws=20).projections
    assert lambdas.target == "lambda" and lambdas.penalty < 1


def test_own_machine_in_any_place() -> None:
    for names in (["self"], ["nvlink-c2c", "self"], ["self", "self"]):
        answer = seen().project(names, draws=10)
        for p, name in zip(answer.projections, names, strict=True):
            assert (p.target, p.penalty == 1) == (name, name == "self")
    refused("M001", seen().project, ["nvlink-c2"])


def test_provenance_is_enough_to_ask_again() -> None:
    answer = seen().project(["cdi-row-link"], draws=10, seed=4)
    about = answer.provenance()
    assert about["profile"]["sha256"] == hashlib.sha256(SAMPLE.read_bytes()).hexdigest()
    assert (
        about["source_machine"]["name"] == "a100-sxm4-40"
        and len(about["source_machine"]["sha256"]) == 64
    )
    assert about["targets"] == [{"name": "cdi-row-link", "sha256": answer.targets[0].sha256}]
    assert (about["seed"], about["draws"], about["model"]["replay"]) == (4, 10, "auto")
    assert about["command"] == "turnbuckle inspect dgemm-like-synthetic.sqlite"
    assert str(SAMPLE.parent) not in json.dumps(answer.as_dict()), "no folder of this machine"


def test_documents_are_json() -> None:
    answer = seen().project(["cdi-row-link", "2026-apu"], draws=10)
    for document in (answer.run.as_dict(), answer.as_dict(), json.loads(answer.to_json())):
        assert document["schema_version"] == SCHEMA_VERSION
        assert json.loads(json.dumps(document)) is not None


def test_tables_to_take_away(tmp_path: Path) -> None:
    answer = seen().project(["cdi-row-link", "nvlink-c2c"], draws=10)
    table = answer.table()
    assert table["target"].to_list() == ["cdi-row-link", "nvlink-c2c"]
    parts = table.select(
        pl.sum_horizontal("launch_seconds", "kernel_seconds", "copy_seconds", "other_seconds")
    ).to_series()
    assert parts.to_list() == pytest.approx(table["seconds"].to_list())
    profile = answer.run.profile
    frame = profile.to_pandas()
    assert len(frame) == profile.activities.height == profile.to_arrow().num_rows
    profile.to_parquet(tmp_path / "activities.parquet")
    again = pl.read_parquet(tmp_path / "activities.parquet")
    assert (
        again.height == profile.activities.height
        and again["exposed_ns"].sum() == profile.run_time_ns
    )
    assert answer.run.profile.table()["name"].drop_nulls().len() > 0


def test_the_public_way() -> None:
    with tb.sample() as path:
        answer = tb.read(path, use_cache=False).project(["cdi-row-link"], draws=10)
    assert [p.target for p in answer.projections] == ["cdi-row-link"]
    pair = tb.Pair(answer.run.source, tb.Machine.load("cdi-row-link"))
    assert build(answer.run.profile.trace).run_time_ns == answer.run.profile.run_time_ns
    assert (pair.target.value("slack.link"), pair.source.value("slack.link")) == (2.2e-6, None)
