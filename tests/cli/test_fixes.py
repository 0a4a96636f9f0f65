"""The fix that an error names is one that works: the command fails with the code, and with the fix it is answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from build_nsys import OTHER_PROCESS, OTHER_THREAD, call, copy, kernel, make
from hostile_names import SAMPLE, Ran

from turnbuckle.foundation import errors

Run = Callable[..., Ran]
PROJECT = f"project {SAMPLE} --draws 0"
SLACK = f"slack {SAMPLE} --draws 0"
SWEEP = f"sweep {SAMPLE} --model project --workers 1"
SHARING = f"model sharing {SAMPLE}"
ADDITIVE = "model additive --totals gpu=1,control=1,data=1,cpu=1,mpi=0"

#: Code -> a command that is refused, and the same with the fix.
TRIED: dict[str, tuple[str, str]] = {
    "A004": (f"{PROJECT} --model additive --lambda data=x", f"{PROJECT} --model additive --lambda data=10"),
    "A005": (f"{PROJECT} --model additive", f"{PROJECT} --model additive --lambda data=10,control=10"),
    "A006": ("project --on gh200", f"{PROJECT} --on gh200"),
    "A008": (f"{PROJECT} --on self --fail-if penalty", f'{PROJECT} --on self --fail-if "penalty > 5%"'),
    "A010": (f"{PROJECT} -o x.txt", f"{PROJECT} -o x.tex"),
    "A012": (f"{PROJECT} --lambda data=10", f"{PROJECT} --lambda data=10 --model additive"),
    "A013": (f"{PROJECT} --on ,", f"{PROJECT} --on self"),
    "A014": (f"{PROJECT} --model additive --lambda data=2 --on gh200", f"{PROJECT} --model additive --lambda data=2"),
    "A015": (f"{SLACK} --mode remoting", f"{SLACK} --mode remoting --machine cdi-row-api"),
    "A019": ("model link", "model link pcie4-x16 nvlink2-x2"),
    "A022": (f"transfers {SAMPLE} --on nothing", f"transfers {SAMPLE} --on pcie5-x16"),
    "A024": ("transfers", f"transfers {SAMPLE} --on pcie5-x16"),
    "A028": ("model cxl --share 2", "model cxl --share 0.6"),
    "A044": ("model bound --from 16GB/s --to 0GB/s --gain 2", "model bound --from 16GB/s --to 32GB/s --gain 1.5"),
    "A070": (f"inspect {SAMPLE} --part 3s..2s", f"inspect {SAMPLE} --part 0.3s..0.5s"),
    "A075": (f"{SHARING} --runs 0", f"{SHARING} --runs 1,2,4,8"),
    "A076": ("reproduce --table-13 --paper ecp", "reproduce --table-13"),
    "A081": (f"{SWEEP} --set on=gh200,self", f"{SWEEP} --axis on=gh200,self"),
    "A083": (f"{SWEEP} --axis on=self --shard 1/1", f"{SWEEP} --axis on=self -o table.parquet --shard 1/1"),
    "A084": (
        f"sweep {SAMPLE} --model slack --workers 1 --axis slack_seconds=1us..9us",
        f"sweep {SAMPLE} --model slack --workers 1 --axis slack_seconds=1us..9us --sample 4",
    ),
    "A096": (f"{SHARING} --law agochart", f"{SHARING} --law agochart --surface"),
    "A404": (f"anonymise {SAMPLE}", f"anonymise {SAMPLE} -o copy"),
    "A419": ("validate --card some", "validate --card"),
    "A481": (f"export {SAMPLE} -o run.json", f"export {SAMPLE} --on self -o run.json"),
    "A500": (f"export {SAMPLE} --to otf2 --on gh200 -o x", f"export {SAMPLE} --to chakra --on gh200 -o x"),
    "A550": (f"{PROJECT} --format csv -o x.json", f"{PROJECT} -o x.json"),
    "M002": (f"{PROJECT} --on none.toml", "machines list"),
    "M016": (f"{PROJECT} --source cdi-row-link", f"{PROJECT} --source a100-sxm4-40"),
    "P096": ("inspect projected.et", f"export {SAMPLE} --to chakra -o again.et"),
}


def words_of(line: str) -> list[str]:
    """A command line as a shell splits it; only texts in quotes hold blanks."""
    return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]


@pytest.mark.parametrize("code", TRIED)
def test_the_fix_of_an_error_works(turnbuckle: Run, code: str) -> None:
    refused, mended = TRIED[code]
    if code == "P096":
        assert turnbuckle("export", SAMPLE, "--on", "gh200", "-o", "projected.et").code == 0
    first = turnbuckle(*words_of(refused))
    assert first.code in (2, 3) and f"error[{code}]" in first.err, first.err
    ran = turnbuckle(*words_of(mended))
    assert ran.code == 0, ran.err


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A recording of two processes that states no rank."""
    other = {"globalPid": OTHER_PROCESS}
    calls = [call(1_000, 2_000, 1), call(3_000, 4_000, 2), call(6_000, 9_000, 3, nameId=1)]
    again = [{**row, "globalTid": OTHER_THREAD, "correlationId": row["correlationId"] + 10} for row in calls]
    return make(
        tmp_path / "two.sqlite",
        CUPTI_ACTIVITY_KIND_RUNTIME=calls + again,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(2_500, 4_500, 1), kernel(4_600, 5_600, 2), kernel(2_600, 4_400, 11, **other)],
        CUPTI_ACTIVITY_KIND_MEMCPY=[copy(7_000, 8_000, 3), copy(7_100, 8_100, 13, **other)],
    )


def test_each_rank_that_an_error_names_can_be_written(turnbuckle: Run, two: Path, tmp_path: Path) -> None:
    refused = turnbuckle("export", two, "-o", "run.et")
    assert refused.code == 2 and "error[A483]" in refused.err
    named = re.findall(r"--rank (\S+) -o (\S+\.et)", refused.err)
    assert len(named) == 2
    kernels = []
    for rank, name in named:
        assert turnbuckle("export", two, "--rank", rank, "-o", name).code == 0
        kernels.append(turnbuckle("inspect", name).out)
    assert "2 kernels" in kernels[0] and "1 kernel," in kernels[1]


def test_ranks_that_nothing_states_are_said(turnbuckle: Run, two: Path) -> None:
    assert "A551" in turnbuckle("inspect", two, "--rank", "1").out
    refused = turnbuckle("inspect", two, "--rank", "2")
    assert refused.code == 2 and "error[A423]" in refused.err


def test_more_fixes_that_name_options_are_tried() -> None:
    """An error whose fix names an option or a command is tried above; the number of those that are not only falls."""
    groups = [path.stem for path in Path(errors.__file__).with_name("schema").glob("errors/[A-Z]*.csv")]
    fixes = [(name.partition(".")[0], texts.fix) for group in groups for name, texts in errors.register(group).items()]
    naming = {code for code, fix in fixes if re.search(r"(?<![\w-])--[a-z]|turnbuckle [a-z]|-o ", fix)}
    assert len(naming) > 140
    assert len(naming - set(TRIED)) <= 123
