"""The tables of docs/networks.md, made from the files that come with the package.

python docs/networks.py            # write them
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parent / "networks.md"
_BEGIN, _END = "<!-- made by docs/networks.py; do not edit -->\n", "<!-- until here -->\n"


def tables() -> str:
    """Every network that comes with the package: its numbers, and where each is from."""
    from turnbuckle.replay.contention.network_file import bundled, read_network

    out = []
    for name in bundled():
        found = read_network(name)
        lines = [
            f"### {name}",
            "",
            f"{found.title}.",
            "",
            "| number | value | | source |",
            "| --- | --- | --- | --- |",
        ]
        for fact in found.facts:
            nature = "" if fact.nature == "cited" else fact.nature
            cells = (fact.what, fact.value, nature, fact.source)
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        out.append("\n".join(lines) + "\n")
    return "\n".join(out)


def page(text: str) -> str:
    """The page with its tables as they are today."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{tables()}\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
