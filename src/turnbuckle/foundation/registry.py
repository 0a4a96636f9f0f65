"""Registry of what each product, and each installed package of a third party, adds: readers, questions, machines, charges, predictors.

A product lists its own as plain data, a table with a row for each: kind, name, place (``module`` or ``module:name`` of this package) and,
of a verb, what it does in one sentence.  A third party names its own as Python entry points, in its
``pyproject.toml``::

    [project.entry-points."turnbuckle.readers"]
    ours = "our_package.reader"

============ =========================================================================================================
readers      module with ``sniff(head, path)`` and ``read(path, ...)``: the first that knows a file reads it
questions    function of a verb, ``turnbuckle NAME`` or ``turnbuckle model NAME``
verbs        the same, of a verb that asks nothing of its own: the installation, the catalogue, the report
machines     function that returns a folder of machine files, which join the catalogue
charges      `turnbuckle.projection.model.Charge`, which a model charges where it is asked for by name
predictors   function of kernels and two machines: how many times faster each runs (``turnbuckle.projection.elsewhere.given``)
untimed      module with ``sniff(path)`` and ``inspect(path, ...)``: files of a program that hold no times
asks         function of a `Run`, behind its method of the same name
terminal     function of a console and an answer: what a terminal shows, and a notebook
figures      function of an answer: its figures
sweeps       `turnbuckle.questions.sweep.points.Kind`: what a sweep can ask
predictions  function of a validation case: rows predicted and measured
services     what a question of one product uses of another
============ =========================================================================================================

Readers, questions, machines, charges and predictors are open to third parties (``examples/plugins``).  Nothing is
imported before it is asked for.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final, NamedTuple

#: Tables of the products, in the order in which their readers are tried.
PRODUCTS: Final = ("core.csv", "mpi/adds.csv", "papers/adds.csv", "recorder/adds.csv")
#: Kinds that packages of third parties may add to.
OPEN: Final = ("readers", "questions", "machines", "charges", "predictors")


class Entry(NamedTuple):
    """Where something stands, ``module`` or ``module:name``, and what it does in one sentence (of a question)."""

    place: str
    sentence: str = ""

    def load(self) -> Any:
        """Import the entry."""
        module, _, name = self.place.partition(":")
        module_object = import_module(module)
        return getattr(module_object, name) if name else module_object


@cache
def entries(kind: str) -> Mapping[str, Entry]:
    """Return all entries of a kind by name: third parties' first, then the products'.

    A third party's entry of a name that a product has replaces nothing: the product's stays.
    """
    products = {name: entry for of_kind, name, entry in _rows() if of_kind == kind}
    foreign = _foreign(kind) if kind in OPEN and _anybody_adds() else {}
    return {**{name: entry for name, entry in foreign.items() if name not in products}, **products}


@cache
def _rows() -> list[tuple[str, str, Entry]]:
    """Return kind, name and entry of everything that the products list."""
    package = Path(__file__).parents[1]
    texts = ((package / product).read_text(encoding="utf-8") for product in PRODUCTS)
    rows = [row for text in texts for row in csv.DictReader(text.splitlines())]
    return [(row["kind"], row["name"], Entry(f"turnbuckle.{row['place']}", row["sentence"])) for row in rows]


def _foreign(kind: str) -> dict[str, Entry]:
    from importlib.metadata import entry_points  # costs a sixth of `turnbuckle --help`

    return {e.name: Entry(e.value) for e in entry_points(group=f"turnbuckle.{kind}")}


@cache
def _anybody_adds() -> bool:
    """Return whether an installed package may name entry points of ours; also True where its folder cannot be read."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    for folder in dict.fromkeys(sys.path):
        try:
            packages = [p for p in Path(folder).iterdir() if p.name.lower().endswith(("dist-info", "egg-info"))]
        except NotADirectoryError:  # an archive
            return True
        except OSError:
            continue
        if any(_names_ours(package / "entry_points.txt") for package in packages):
            return True
    return False


def _names_ours(path: Path) -> bool:
    try:
        return b"[turnbuckle." in path.read_bytes()
    except OSError:
        return False


def load(kind: str, name: str) -> Any:
    """Import one entry.  Raises `KeyError` where there is none."""
    return entries(kind)[name].load()
