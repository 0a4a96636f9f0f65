"""The notebooks of ``examples/notebooks``: made from pages of the manual, whose code runs as tests.

A page's text becomes a cell of Markdown, a block marked ``python`` a cell of code.  What the page
shows of its output is left out: the notebook is opened to be run.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

#: Pages that are notebooks.
PAGES = ("notebook-nsys", "notebook-kineto", "notebook-portfolio")
#: Where they stand, seen from the manual.
PLACE = "../examples/notebooks"
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([\w-]+\.md)")


def cells(text: str) -> list[dict[str, Any]]:
    """The cells of a page, in order."""
    out: list[dict[str, Any]] = []
    end = 0
    for found in _BLOCK.finditer(text):
        out.append(_cell("markdown", _LINK.sub(r"](../../docs/\1", text[end : found.start()])))
        if found[1] == "python":
            out.append(_cell("code", found[2]) | {"execution_count": None, "outputs": []})
        end = found.end()
    out.append(_cell("markdown", _LINK.sub(r"](../../docs/\1", text[end:])))
    return [cell for cell in out if cell["source"]]


def _cell(kind: str, text: str) -> dict[str, Any]:
    text = text.strip("\n")
    identity = hashlib.sha256(f"{kind} {text}".encode()).hexdigest()[:8]
    return {
        "cell_type": kind,
        "id": identity,
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }


def notebooks(docs: Path) -> dict[str, str]:
    """Path from the manual -> text of each notebook."""
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    out = {}
    for page in PAGES:
        document = {
            "cells": cells((docs / f"{page}.md").read_text(encoding="utf-8")),
            "metadata": about,
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        out[f"{PLACE}/{page.removeprefix('notebook-')}.ipynb"] = (
            json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        )
    return out
