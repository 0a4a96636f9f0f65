"""Study files: what is read, and what is refused with its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from turnbuckle.foundation import registry
from turnbuckle.foundation.errors import TurnbuckleError
from turnbuckle.foundation.settings import settings_of, spaced
from turnbuckle.questions.sweep.grid import Study, digest_of, shard_of
from turnbuckle.questions.sweep.ranges import Range, Refine, Sample
from turnbuckle.questions.sweep.study_file import read_study

GOOD = """
[study]
name = "cards"
model = "project"

[recordings]
melt = "melt.sqlite"
other = "deep/other.sqlite"

[settings]
draws = 0

[axes]
alpha = ["flop", 2]
"link.h2d.bandwidth" = ["100 Gb/s", "64 GiB/s"]
"slack.link" = {from = "1 us", to = "100 us", points = 3, spacing = "log"}

[[pairs]]
source = "a100-pcie-40"
on = "gh200"

[[pairs]]
on = "machines/ours.toml"
source = "gh200"
"""


def read(folder: Path, text: str) -> Study:
    file = folder / "study.toml"
    file.write_text(text)
    return read_study(file)


def test_what_a_study_says(tmp_path: Path) -> None:
    study = read(tmp_path, GOOD)
    assert (study.name, study.kind.name, len(study)) == ("cards", "project", 2 * 2 * 2 * 2 * 3)
    assert study.recordings == {
        "melt": tmp_path / "melt.sqlite",
        "other": tmp_path / "deep" / "other.sqlite",
    }
    assert study.columns == ("draws", "source", "on", "alpha", "link.h2d.bandwidth", "slack.link")
    points = list(study.points())
    assert [p.index for p in points] == list(range(48))
    assert points[0].values == {
        "draws": 0,
        "source": "a100-pcie-40",
        "on": "gh200",
        "alpha": "flop",
        "link.h2d.bandwidth": 12.5e9,
        "slack.link": 1e-6,
    }
    assert [p.values["slack.link"] for p in points[:3]] == [1e-6, 1e-5, 1e-4]
    assert [p.values["alpha"] for p in points[:12]] == ["flop"] * 6 + [2.0] * 6
    assert points[12].values["on"] == "machines/ours.toml" and points[24].recording == "other"
    made = study.kind.made(points[12].values, study.folder)
    assert made.on == str(tmp_path / "machines" / "ours.toml"), (
        "machine files are relative to the study"
    )
    assert dict(made.others) == {"link.h2d.bandwidth": 12.5e9, "slack.link": 1e-6}


def test_every_model_says_what_it_can_be_asked() -> None:
    for name, kind in ((n, e.load()) for n, e in registry.entries("sweeps").items()):
        assert kind.name == name and kind.legal
        assert all(s.wanted and s.unit for s in kind.legal.values())
    assert settings_of(registry.load("sweeps", "slack").settings)["slack_seconds"].needed


@pytest.mark.parametrize("before", ["", "    "], ids=["Python 3.13", "Python 3.12"])
def test_meanings_are_read_off_a_docstring_with_its_indentation_and_without(before: str) -> None:
    @dataclass(frozen=True)
    class Asked:
        ranks: int = 0
        hop_seconds: float = 0.0

    lines = [
        "Attributes",
        "----------",
        "ranks, hop_seconds : of the run;",
        "    as recorded.",
        "other : nothing.",
    ]
    Asked.__doc__ = "\n".join(["What is asked.", "", *(before + line for line in lines)])
    assert {name: setting.meaning for name, setting in settings_of(Asked).items()} == dict.fromkeys(
        ("ranks", "hop_seconds"), "of the run; as recorded."
    )


@pytest.mark.parametrize(
    ("change", "into", "code", "where", "says"),
    [
        ("[study]", "[study", "A080", "study.toml:2:7", "not valid TOML"),
        ("[study]", "[studdy]", "A080", "study.toml:2:2", "did you mean study?"),
        ('name = "cards"', 'nam = "cards"', "A080", "study.toml:3:1", "did you mean name?"),
        ('name = "cards"\n', "", "A080", "study.toml:2:2", "needs a name"),
        ('"cards"', '"../cards"', "A081", "study.toml:", "not a valid name"),
        ('"project"', '"projct"', "A081", "study.toml:4:9", "did you mean project?"),
        ('"melt.sqlite"', "3", "A080", "study.toml:7:1", "path of a file"),
        (
            '[recordings]\nmelt = "melt.sqlite"\nother = "deep/other.sqlite"',
            "",
            "A080",
            "study.toml:",
            "table recordings",
        ),
        ("draws = 0", "draws = -1", "A081", "study.toml:", "not a value for draws"),
        ("draws = 0", "draws = 0.5", "A081", "study.toml:11:9", "not a value for draws"),
        ("draws = 0", "drawz = 0", "A081", "study.toml:11:9", "did you mean draws?"),
        ("draws = 0", "alpha = 3", "A081", "study.toml:", "set twice"),
        ("draws = 0", "draws = true", "A081", "study.toml:11:9", "not a value for draws"),
        ('["flop", 2]', '["flop", "flopp"]', "A081", "study.toml:14:18", "did you mean flop?"),
        ('["flop", 2]', '["flop", nan]', "A081", "study.toml:14:18", "not a value"),
        ('["flop", 2]', '["flop", 1e9]', "A081", "study.toml:", "not a value for alpha"),
        ('["flop", 2]', '["flop", "flop"]', "A084", "study.toml:", "stands twice"),
        ('["flop", 2]', "[]", "A084", "study.toml:", "without values"),
        ('["flop", 2]', '"flop"', "A080", "study.toml:14:1", "not a valid axis"),
        ('["flop", 2]', '[["flop"]]', "A081", "study.toml:14:10", "not a value"),
        ('"100 Gb/s"', '"100"', "U001", "study.toml:15:25", ""),
        ('"100 Gb/s"', "100", "U001", "study.toml:15:25", ""),
        ('"100 Gb/s"', '"100 us"', "U003", "study.toml:15:25", ""),
        ("points = 3", "points = 1", "A080", "study.toml:16:", "from 2 to"),
        ("points = 3, ", "", "A080", "study.toml:16:1", "needs points"),
        ("points = 3", "point = 3", "A080", "study.toml:16:", "did you mean points?"),
        ('"log"', '"logs"', "A080", "study.toml:16:", "there is no spacing of this name"),
        ('from = "1 us"', 'from = "0 us"', "A080", "study.toml:16:1", "above 0"),
        ('from = "1 us"', 'from = "100 us"', "A080", "study.toml:16:1", "two different numbers"),
        ("points = 3", "points = 2000000", "A080", "study.toml:16:", "from 2 to 1,000,000"),
        ('source = "gh200"\n', "", "A081", "study.toml:", "do not all set the same"),
        ("[[pairs]]\non", "[[pairs]]\nonn", "A081", "study.toml:", "did you mean on?"),
        (
            "[[pairs]]\non",
            "[[pairs]]\nto",
            "A425",
            "study.toml:23:6",
            "to of sweep is called on now",
        ),
        ('[[pairs]]\non = "machines/ours.toml"\nsource = "gh200"', "", "", "", ""),
        ('on = "gh200"', "", "A081", "study.toml:", "do not all set the same"),
        ("[axes]", f"[axes]\n{'a.' * 100}b = 1", "A080", "study.toml", "nested too deeply"),
        ("[axes]", f"[axes]\nx = {{{'a.' * 100}b = 1}}", "A080", "study.toml", "nested too deeply"),
        (
            "[axes]",
            f"[axes]\nx = {'[' * 3000}{']' * 3000}",
            "A080",
            "study.toml",
            "nested too deeply",
        ),
        ("[axes]", f"[axes]\nx = [{'1' * 5000}]", "A080", "study.toml", "digits"),
    ],
)
def test_flaws_are_told_with_their_place(
    tmp_path: Path, change: str, into: str, code: str, where: str, says: str
) -> None:
    assert change in GOOD
    text = GOOD.replace(change, into, 1)
    if not code:
        assert len(read(tmp_path, text)) == 24
        return
    with pytest.raises(TurnbuckleError) as flaw:
        read(tmp_path, text)
    error = flaw.value
    assert error.code == code, error.lines()
    assert error.where.startswith(where) and says in "\n".join(error.lines()), error.lines()
    assert str(tmp_path) not in "\n".join(error.lines())


def test_a_needed_setting_is_asked_for(tmp_path: Path) -> None:
    text = (
        '[study]\nname = "s"\nmodel = "slack"\n[recordings]\na = "a"\n[axes]\n'
        'mode = ["link", "api"]\n'
    )
    with pytest.raises(TurnbuckleError, match="A081: model slack needs slack_seconds"):
        read(tmp_path, text)


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    text = (
        '[study]\nname = "s"\nmodel = "sharing"\n[recordings]\na = "a"\n[axes]\n'
        'runs = {from = 1, to = %s, points = 4, spacing = "log"}\n'
    )
    runs = read(tmp_path, text % 8).axes["runs"]
    assert runs == [1, 2, 4, 8] and all(type(r) is int for r in runs)
    with pytest.raises(TurnbuckleError, match="A080: runs must be a whole number"):
        read(tmp_path, text % 9)


def test_a_binary_file_is_no_study(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(bytes(range(256)))
    refused("A061", read_study, tmp_path / "study.toml")
    refused("A061", read_study, tmp_path / "nowhere.toml")


@given(
    st.floats(1e-9, 1e9),
    st.floats(1e-9, 1e9),
    st.integers(2, 50),
    st.sampled_from(["linear", "log"]),
)
def test_ranges_have_exact_ends_and_go_one_way(
    first: float, last: float, points: int, spacing: str
) -> None:
    values = spaced(first, last, points, spacing)  # type: ignore[arg-type]
    assert len(values) == points and (values[0], values[-1]) == (first, last)
    low, high = min(first, last), max(first, last)
    assert all(low * (1 - 1e-9) <= v <= high * (1 + 1e-9) for v in values)


@given(st.integers(1, 400), st.integers(1, 60))
def test_shards_are_a_partition(points: int, parts: int) -> None:
    study = object.__new__(Study)
    object.__setattr__(study, "recordings", {"a": Path("a")})
    object.__setattr__(study, "pairs", ())
    object.__setattr__(study, "axes", {"number": range(points)})
    blocks = [study.block((i, parts)) for i in range(1, parts + 1)]
    assert [k for block in blocks for k in block] == list(range(points))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "1", "1/0", "a/b", "-1/3", "1/3/5", "", "1/9999999"]
)
def test_shards_that_are_none(text: str) -> None:
    refused("A083", shard_of, text)


def test_an_archive_is_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    for name in ("traces.otf2", "traces.def", "traces/0.evt", "traces/1.evt"):
        (tmp_path / name).write_text(name)
    before = digest_of(tmp_path / "traces.otf2")
    assert digest_of(tmp_path / "traces.otf2") == before
    (tmp_path / "traces" / "1.evt").write_text("another")
    assert digest_of(tmp_path / "traces.otf2") != before
    (tmp_path / "traces" / "1.evt").rename(tmp_path / "traces" / "2.evt")
    assert len({before, digest_of(tmp_path / "traces.otf2")}) == 2
    refused("A082", digest_of, tmp_path / "other.otf2", "other")


def test_a_machine_file_is_part_of_the_question(tmp_path: Path) -> None:
    (tmp_path / "machines").mkdir()
    ours = tmp_path / "machines" / "ours.toml"
    base = (
        '[machine]\nname = "ours"\ntitle = "Ours"\nsummary = "Ours."\nyear = 2024\n'
        'coupling = "pcie"\nbase = "gh200"\n'
    )
    part = (
        '[link.h2d.latency]\nvalue = "%s us"\nerror = "5 %%"\nnature = "measured"\nsource = "us"\n'
    )
    study = read(tmp_path, GOOD)
    found = []
    for latency in (2, 2, 3):
        ours.write_text(base + part % latency)
        found.append([study.key("digest", study.asked(k)) for k in range(study.each)])
    assert (
        found[0] == found[1]
        and found[1][:12] == found[2][:12]
        and not set(found[1][12:]) & set(found[2][12:])
    )
    assert len(set(found[0])) == 24


SAMPLED = GOOD.replace(
    'model = "project"', 'model = "project"\nsample = 8\nsampler = "latin"\nseed = 3', 1
).replace("points = 3, ", "", 1)


def test_a_file_may_ask_for_a_sample_or_for_points_where_the_answer_changes(tmp_path: Path) -> None:
    study = read(tmp_path, SAMPLED)
    assert (
        study.sample == Sample(8, "latin", 3)
        and study.ranges == {"slack.link": Range(1e-6, 1e-4, "log")}
        and len(study) == 2 * 8 * 2 * 4
    )
    both = SAMPLED.replace('spacing = "log"}', 'spacing = "log", points = 3}')
    fixed = read(
        tmp_path, both.replace("[axes]", '[axes]\n"slack.call" = {from = "0 s", to = "1 us"}')
    )
    assert list(fixed.ranges) == ["slack.call"] and fixed.lists["slack.link"] == [
        1e-6,
        1e-5,
        1e-4,
    ], "a number of points is a list"
    one = GOOD.replace('["100 Gb/s", "64 GiB/s"]', '["100 Gb/s"]').replace(
        'model = "project"', 'model = "project"\nrefine = 40\nwithin = "5 %"', 1
    )
    study = read(tmp_path, one)
    assert study.refine == Refine("slack.link", Range(1e-6, 1e-4, "log"), 40, 0.05) and study.lists[
        "slack.link"
    ] == [1e-6, 1e-5, 1e-4]
    study = read(tmp_path, one.replace("points = 3, ", ""))
    assert study.refine is not None and len(study.lists["slack.link"]) == 5


@pytest.mark.parametrize(
    ("change", "into", "code", "where", "says"),
    [
        ("sample = 8", 'sample = "8"', "A080", "study.toml:5:", "sample must be a whole number"),
        ("sample = 8", "sample = 0", "A084", "study.toml:5:", "from 1 to"),
        ("sample = 8\n", "", "A080", "study.toml:5:", "of no use without sample"),
        ('"latin"', '"halton"', "A084", "study.toml:5:", "sobol or latin"),
        (
            "sample = 8",
            'sample = 8\nwithin = "1 %"',
            "A080",
            "study.toml:6:",
            "of no use without refine",
        ),
        ("sample = 8", "sample = 8\nrefine = 9", "A084", "study.toml:", "one axis of numbers"),
        (
            'spacing = "log"',
            'spacing = "log", points = 3',
            "A084",
            "study.toml:",
            "no range to sample",
        ),
        (
            '"1 us", to = "100 us"',
            '"1 us", to = "1 us"',
            "A080",
            "study.toml:19:",
            "two different numbers",
        ),
        ('"1 us", to = "100 us"', '"0 s", to = "1 us"', "A080", "study.toml:19:", "above 0"),
    ],
)
def test_flaws_of_a_sample_are_told_with_their_place(
    tmp_path: Path, change: str, into: str, code: str, where: str, says: str
) -> None:
    assert change in SAMPLED
    with pytest.raises(TurnbuckleError) as flaw:
        read(tmp_path, SAMPLED.replace(change, into, 1))
    assert (
        flaw.value.code == code
        and flaw.value.where.startswith(where)
        and says in "\n".join(flaw.value.lines())
    ), flaw.value.lines()
