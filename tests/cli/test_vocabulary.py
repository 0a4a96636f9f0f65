"""One vocabulary for all verbs: words of old are refused with the new ones named, and one machine
is one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from hostile_names import SAMPLE, Ran
from hypothesis import given
from hypothesis import strategies as st
from parsers import verbs, whole_numbers
from refusals import refused

from turnbuckle.foundation.schema.vocabulary import (
    Renamed,
    refuse_old_options,
    refuse_several,
    renamed,
)

Run = Callable[..., Ran]
OLD_OPTIONS = [row for row in renamed() if row.old.startswith("--")]


def options_of(verb: str) -> dict[str, str]:
    """Options of a verb and what each says of itself."""
    (found,) = (one for name, one in verbs() if name == verb)
    return {
        n: str(a.parameter.help)
        for a in found.assemble_argument_collection()
        for n in a.names
        if n.startswith("--")
    }


# --- words of old ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", OLD_OPTIONS, ids=lambda row: f"{row.verb} {row.old}")
@pytest.mark.parametrize("joined", [False, True])
def test_an_option_of_old_is_refused_with_the_new_one(
    turnbuckle: Run, row: Renamed, joined: bool
) -> None:
    old = row.old.split()
    given = old if len(old) == 2 else [*old, "x"]
    ran = turnbuckle(*row.verb.split(), SAMPLE, *(["=".join(given)] if joined else given))
    assert ran.code == 2 and "error[A425]" in ran.err and f"called {row.new} now" in ran.err, (
        ran.err
    )


@pytest.mark.parametrize(
    "row", [r for r in OLD_OPTIONS if r.verb != "sweep"], ids=lambda row: f"{row.verb} {row.old}"
)
def test_the_new_word_is_there_and_the_old_one_is_gone(row: Renamed) -> None:
    known = options_of(row.verb)
    new, *value = row.new.split()
    assert new in known
    assert value or row.old not in known


def test_what_a_recorded_program_is_given_is_its_own() -> None:
    refuse_old_options(["record", "--", "export", "--format", "x"])
    refuse_old_options(["project", "export", "--format", "x"])
    refused("A425", refuse_old_options, ["export", "run.sqlite", "--format=perfetto"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "project", "--axis", "to=gh200"), "to of sweep is called on now"),
        (
            ("--model", "project", "--set", "on=a100-pcie-40", "--axis", "to=gh200"),
            "to of sweep is called on now",
        ),
        (
            ("--model", "slack", "--set", "on=gh200", "--axis", "slack_seconds=1us"),
            "on of sweep is called source now",
        ),
        (
            ("--model", "sharing", "--set", "on=gh200", "--axis", "runs=1,2"),
            "on of sweep is called source now",
        ),
    ],
)
def test_a_setting_of_old_is_refused_with_the_new_one(
    turnbuckle: Run, words: Sequence[str], says: str
) -> None:
    ran = turnbuckle("sweep", SAMPLE, *words, "--workers", "1")
    assert (
        ran.code == 2
        and "error[A425]" in ran.err
        and says in ran.err
        and "source where it ran" in ran.err
    ), ran.err


def test_messages_have_no_machine_to_be_told_of(turnbuckle: Run) -> None:
    ran = turnbuckle("sweep", SAMPLE, "--model", "messages", "--axis", "to=gh200")
    assert "error[A081]" in ran.err, "no word of old where there is no new one"


# --- where it might run, where it ran -------------------------------------------------------------


def test_on_is_where_it_might_run_and_source_where_it_ran(turnbuckle: Run) -> None:
    for verb, one in verbs():
        said = {
            n: str(a.parameter.help) for a in one.assemble_argument_collection() for n in a.names
        }
        assert "--target" not in said and "ran on" not in said.get("--on", ""), verb
        assert "machine it ran on" in said.get("--source", "machine it ran on"), verb
    words = (
        "--set",
        "source=gh200",
        "--axis",
        "on=self,nvlink-c2c",
        "--set",
        "draws=0",
        "--workers",
        "1",
        "--format",
        "json",
    )
    rows = json.loads(turnbuckle("sweep", SAMPLE, "--model", "project", *words).out)["rows"]
    told = json.loads(
        turnbuckle(
            "project",
            SAMPLE,
            "--source",
            "gh200",
            "--on",
            "self,nvlink-c2c",
            "--draws",
            0,
            "--format",
            "json",
        ).out
    )
    assert [r["seconds"] for r in rows] == [p["seconds"] for p in told["projections"]]
    assert [(r["on"], r["source"]) for r in rows] == [("self", "gh200"), ("nvlink-c2c", "gh200")]


# --- one, and several -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("export RUN --on gh200,h100-sxm5 -o x.json", "export writes one target"),
        ("export RUN --on gh200 --on self -o x.json", "export writes one target"),
        ("export RUN --on gh200 --source a,b -o x.json", "one machine"),
        ("project RUN --source gh200,h100-sxm5", "one machine"),
        ("machines show gh200,h100-sxm5", "one machine"),
        ("model memory work.csv --on gh200,summit", "one machine"),
        ("model dag matrix.mtx --on summit-v100,dgx-h100", "one machine"),
        ("calibrate log.csv --base gh200,h100-sxm5", "one machine"),
        ("model messages two.goal --network lassen,frontier", "one network"),
        ("transfers RUN --peer nvlink3-x4,nvlink2-x2", "one link"),
        (
            (
                "model ssi --link pcie4-x16,nvlink2-x2 --calls 1 --to-device 8B --to-host 8B "
                "--kernel-time 1us"
            ),
            "one link",
        ),
    ],
)
def test_a_list_where_one_is_meant(turnbuckle: Run, tmp_path: Path, words: str, says: str) -> None:
    Path("two.goal").write_text(
        "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
    )
    Path("work.csv").write_text("name, flops, regular [B], irregular [B]\na, 1e9, 1e6, 0\n")
    ran = turnbuckle(*(str(SAMPLE) if word == "RUN" else word for word in shlex.split(words)))
    assert (
        ran.code == 2 and "error[A426]" in ran.err and says in ran.err and "name one, as" in ran.err
    ), ran.err
    assert not Path("x.json").exists()


@given(
    st.lists(
        st.text(
            st.characters(blacklist_characters=",", blacklist_categories=["Z", "C"]), min_size=1
        ),
        min_size=1,
        max_size=4,
    )
)
def test_one_is_one_and_more_are_not(names: list[str]) -> None:
    text = ", ".join(names)
    if len(names) == 1:
        refuse_several(f"{text},", "machine")
        return
    refused("A426", refuse_several, text, "machine")


# --- names of links -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "project RUN --on pcie5x16",
        "transfers RUN --on pcie5x16",
        "model link pcie5x16",
        "model cxl --link pcie5x16",
        "model sharing RUN --link pcie5x16",
        "transfers RUN --on gh200 --peer pcie5x16",
        "model ssi --link pcie5x16 --calls 1 --to-device 8B --to-host 8B --kernel-time 1us",
    ],
)
def test_a_link_by_its_old_name_is_told_the_new_one(turnbuckle: Run, words: str) -> None:
    ran = turnbuckle(*(str(SAMPLE) if word == "RUN" else word for word in words.split()))
    assert ran.code == 2 and "pcie5-x16" in ran.err, ran.err


def test_a_link_is_the_same_by_name_and_by_the_machine_of_that_name(
    turnbuckle: Run, tmp_path: Path
) -> None:
    from turnbuckle.machine.catalog import folder

    (tmp_path / "same.toml").write_text((folder() / "pcie5-x16.toml").read_text())
    frames = []
    for name in ("pcie5-x16", str(tmp_path / "same.toml")):
        assert (
            turnbuckle("transfers", SAMPLE, "--on", name, "--format", "csv", "-o", "out.csv").code
            == 0
        )
        frames.append(pl.read_csv("out.csv").drop("target"))
    assert (
        frames[0]
        .select("direction", "memory", "count", "link")
        .equals(frames[1].select("direction", "memory", "count", "link"))
    )
    assert frames[0]["seconds"].to_list() == pytest.approx(frames[1]["seconds"].to_list(), rel=1e-3)


@pytest.mark.parametrize(("verb", "option"), whole_numbers())
def test_a_whole_number_is_not_rounded(turnbuckle: Run, verb: str, option: str) -> None:
    """`--cores 0.5` is no way to say 0, which asks for the default."""
    more = {"model mdm": ("--warps", "8", "--miss-rate", "0.4"), "diff": ("y",)}
    required = more.get(verb, ())
    ran = turnbuckle(*verb.split(), "x", *required, option, "1.5")
    assert ran.code == 2 and "1.5 is no whole number" in ran.err, ran.err
