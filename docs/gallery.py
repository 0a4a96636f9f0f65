"""The gallery: every figure that Turnbuckle draws, on what ships with it or what a page of the
manual makes, and what draws each.

python docs/gallery.py            # draw them, and write the page
python docs/gallery.py --check    # 1 if a figure or the page is not current
"""

from __future__ import annotations

import html
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))
import examples

DOCS = Path(__file__).resolve().parent
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "img" / "gallery"
HEAD = """<!-- made by docs/gallery.py; do not edit -->

# Gallery

Every figure, and what draws it. `run.sqlite` is the synthetic sample that ships with Turnbuckle; where a page is named, it makes the file.
`--charts FOLDER` writes the figures of a command as SVG, and the numbers behind each as CSV. In Python, answers have `.figure()` and
`.figures()`. Accuracy is drawn on [a page of its own](accuracy.md).
"""
#: Heading; the command or the code; the page whose blocks before that command make its files; file
#: names of figures that are left out.
ENTRIES = (
    (
        "The report",
        "turnbuckle report run.sqlite --on nvlink-c2c,gh200,cdi-row-link -o report.html",
        "",
        r"accuracy.*|.*-[23]",
    ),
    (
        "Edits of the program",
        'tb.read("run.sqlite").whatif(on=["self", "cdi-row-link"], draws=0).figures()',
        "",
        "",
    ),
    ("A mix of programs", "turnbuckle suite mix.toml --draws 200 --charts figures", "suite.md", ""),
    (
        "GPUs to share",
        "turnbuckle pool jobs.toml --on cdi-rack-link,cdi-row-link --charts figures",
        "",
        "",
    ),
    ("Copies on other nodes", "turnbuckle transfers run.sqlite --charts figures", "", ""),
    ("Cores a GPU", "turnbuckle cores runs.csv --charts figures", "", ""),
    (
        "Sweeps",
        (
            "turnbuckle sweep run.sqlite --model slack --axis slack_seconds=1us,10us,100us "
            "--axis mode=link,api --workers 1 --charts figures"
        ),
        "",
        "",
    ),
    (
        "Several runs behind one link",
        (
            "turnbuckle model sharing run.sqlite --form both --runs 1,3 --latency 10us,100us,1ms "
            "--bandwidth 1GB/s,64GB/s --charts figures"
        ),
        "",
        "",
    ),
    (
        "Messages between GPUs",
        (
            'turnbuckle model messages halo.txt --flops-per-second "10 GFLOP/s" --costs seed_G '
            "--ranks-per-node 1 --charts figures"
        ),
        "models/messages.md",
        "",
    ),
    (
        "A triangular solve",
        "turnbuckle model dag factor.mtx --on summit-v100 --gpus 1,2,6,12,24 --charts figures",
        "models/dag.md",
        "",
    ),
    (
        "Matrix products worth moving",
        "turnbuckle model dgemm --sizes 256,1024,4096 --charts figures",
        "",
        "",
    ),
)


def drawn(code: str, page: str, left_out: str) -> dict[str, str]:
    """Draw the figures of one entry -> file name without ending: SVG.  Its page's blocks run first,
    up to the first command of its verb.
    """
    with examples.workplace() as names:
        for step in _before(code, page):
            examples.run(step, names)
        if code.startswith("tb."):
            pictures = _of_answer(code, names)
        elif "--charts" in code:
            _, exit_code = examples.run(examples.Step(code), names)
            assert exit_code == 0, code
            pictures = {
                path.stem: path.read_text(encoding="utf-8")
                for path in sorted(Path("figures").glob("*.svg"))
            }
        else:
            pictures = _of_report(code, names, left_out)
    return {
        name: svg
        for name, svg in pictures.items()
        if not (left_out and re.fullmatch(left_out, name))
    }


def _before(code: str, page: str) -> Iterator[examples.Step]:
    if not page:
        return
    for block in examples.blocks((DOCS / page).read_text(encoding="utf-8")):
        for step in block.steps:
            if step.code_is == "python":
                yield step
            elif code.startswith(" ".join(step.code.split()[:2])):
                return


def _of_answer(code: str, names: dict[str, object]) -> dict[str, str]:
    from turnbuckle.show.figures.files import save

    exec(compile(f"import turnbuckle as tb\nmade = {code}", "<gallery>", "exec"), names)
    with tempfile.TemporaryDirectory() as folder:
        files = save(names["made"], Path(folder))  # type: ignore[arg-type]
        return {
            path.stem: path.read_text(encoding="utf-8") for path in files if path.suffix == ".svg"
        }


def _of_report(code: str, names: dict[str, object], left_out: str) -> dict[str, str]:
    """Draw the figures of a report as files of their own, but for those left out; the page has them
    with text around.
    """
    from turnbuckle.page import html as report
    from turnbuckle.show.figures.figure import Figure, draw
    from turnbuckle.show.figures.files import alone

    kept: list[Figure] = []

    def noted(figures: Sequence[Figure]) -> list[Figure]:
        kept.extend(draw(f for f in figures if not re.fullmatch(left_out, f.name)))
        return [*figures, *kept]

    with mock.patch.object(report, "draw", noted):
        _, exit_code = examples.run(examples.Step(code), names)
    assert exit_code == 0 and kept, code
    return {figure.name: alone(figure) for figure in kept}


def gallery() -> tuple[str, dict[str, str]]:
    """The page, and its pictures by file name."""
    parts, pictures = [HEAD], {}
    for heading, code, page, left_out in ENTRIES:
        found = drawn(code, page, left_out)
        kind = "py" if code.startswith("tb.") else "sh"
        where = (
            f"Files: [{page.rpartition('/')[2].removesuffix('.md')}]({page}).\n\n" if page else ""
        )
        parts.append(f"## {heading}\n\n```{kind}\n{code}\n```\n\n{where}")
        for name, svg in found.items():
            file = f"{heading.lower().replace(' ', '-')}-{name}.svg"
            pictures[file] = svg
            alt = ElementTree.fromstring(svg).get("aria-label", name)
            parts.append(
                f"![{html.escape(alt, quote=False).replace('[', '(').replace(']', ')')}](img/gallery/{file})\n"
                "\n"
            )
    return "\n".join(part.rstrip("\n") + "\n" for part in parts), pictures


def alike(one: str, other: str) -> bool:
    """Whether two texts agree but for numbers, and these within 2 % or a pixel."""
    if examples.shape(one) != examples.shape(other):
        return False
    pairs = zip(examples._numbers(one), examples._numbers(other), strict=True)
    return all(math.isclose(a, b, rel_tol=examples.TOLERANCE, abs_tol=1.0) for a, b in pairs)


def stale() -> list[str]:
    """The files that are not as they would be drawn now."""
    page, pictures = gallery()
    kept = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg")}
    out = sorted(kept.keys() ^ pictures.keys())
    out += [
        name
        for name in sorted(kept.keys() & pictures.keys())
        if not alike(kept[name], pictures[name])
    ]
    return out + (
        [PAGE.name]
        if not PAGE.exists() or not alike(PAGE.read_text(encoding="utf-8"), page)
        else []
    )


def main(words: Sequence[str]) -> int:
    """Draw the gallery, or say what is not current."""
    if "--check" in words:
        names = stale()
        print(f"not current: {', '.join(names)}" if names else "the gallery is current")
        return 1 if names else 0
    page, pictures = gallery()
    PICTURES.mkdir(exist_ok=True)
    for path in PICTURES.glob("*.svg"):
        path.unlink()
    for name, svg in pictures.items():
        (PICTURES / name).write_text(svg, encoding="utf-8")
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
