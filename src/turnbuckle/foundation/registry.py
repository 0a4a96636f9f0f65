"""Registry of what each product, and each installed package of a third party, adds: readers,
questions, machines, charges, predictors.

A product lists its own as plain data, a table with a row for each: kind, name, place (``module`` or
``module:name`` of this package) and, of a verb, what it does in one sentence.  A third party names
its own as Python entry points, in its ``pyproject.toml``::

    [project.entry-points."turnbuckle.readers"]
    ours = "our_package.reader"

============
=========================================================================================================
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
============
=========================================================================================================

Readers, questions, machines, charges and predictors are open to third parties
(``examples/plugins``).  Nothing is imported before it is asked for.

Code of a third party runs through one door, `Entry.call`: what it raises, and that it does not
return, is error A503 with the names of its package and entry.  Where others of its kind go on
without it, it is left out, and `faults` tells so.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from functools import cache, wraps
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .errors import TurnbuckleError, clipped, error_of

if TYPE_CHECKING:
    from importlib.metadata import Distribution

#: Tables of the products, in the order in which their readers are tried.
PRODUCTS: Final = ("core.csv", "mpi/adds.csv", "papers/adds.csv", "recorder/adds.csv")
#: Kinds that packages of third parties may add to.
OPEN: Final = ("readers", "questions", "machines", "charges", "predictors")


#: Code of a third party returns within this [s]: to be imported or to know a file, and to price or
#: to predict.  A verb and the reading of a file last as long as they last.
SOON_SECONDS: Final = 10.0
WORK_SECONDS: Final = 60.0

T = TypeVar("T")


class Entry(NamedTuple):
    """Where something stands, ``module`` or ``module:name``, what it does in one sentence (of a
    question), and who adds it.

    A product's entry has no `package`; a third party's has its name and version.
    """

    place: str
    sentence: str = ""
    kind: str = ""
    name: str = ""
    package: str = ""

    def load(self) -> Any:
        """Import the entry.  Raises A503 where it is a third party's and cannot be imported."""
        loaded = self.call(self._imported)
        return _answering(self, loaded) if self.package and self.kind == "questions" else loaded

    def _imported(self) -> Any:
        module, _, name = self.place.partition(":")
        module_object = import_module(module)
        return getattr(module_object, name) if name else module_object

    def call(self, code: Callable[[], T], seconds: float | None = SOON_SECONDS) -> T:
        """Return what code of the entry returns; of a third party within so many seconds, or
        without limit.

        Raises A503; an error of Turnbuckle's own kind passes as it is.
        """
        if not self.package:
            return code()
        done: list[tuple[T | None, BaseException | None]] = []

        def work() -> None:
            try:
                done.append((code(), None))
            except (
                BaseException
            ) as error:  # sys.exit() too: it would end this thread without a word
                done.append((None, error))

        # one that never returns is left behind, and ends with the process
        thread = Thread(target=copy_context().run, args=(work,), daemon=True)
        thread.start()
        thread.join(SOON_SECONDS if seconds is None else seconds)
        if not done and seconds is not None:
            raise self.fault("A503.time", seconds=seconds)
        if not done:
            print(
                f"waiting for {self.kind} {self.name} of {clipped(self.package)}", file=sys.stderr
            )
            thread.join()
        ((value, error),) = done
        if error is not None:
            raise self._raised(error)
        return value  # type: ignore[return-value]  # what the code returned

    def _raised(self, error: BaseException) -> BaseException:
        if isinstance(error, TurnbuckleError):
            return error
        coded = self.fault("A503.call", found=f"{type(error).__name__}: {error}")
        coded.__cause__ = error
        return coded

    def fault(self, name: str, found: str = "", **words: Any) -> TurnbuckleError:
        """Build an error about this entry."""
        package = clipped(self.package)
        return error_of(
            name,
            where=self.place,
            found=clipped(found, 160),
            kind=self.kind,
            name=self.name,
            package=package,
            **words,
        )


def _answering(entry: Entry, verb: Any) -> Any:
    """Return a third party's verb that says whose it is where it fails; it may end the process no
    more than others may.
    """
    if not callable(verb):
        raise entry.fault("A503.type", wanted="a function")

    @wraps(verb)
    def answering(*given: Any, **options: Any) -> Any:
        try:
            return verb(*given, **options)
        except (TurnbuckleError, KeyboardInterrupt, BrokenPipeError):
            raise
        except BaseException as error:
            raise entry._raised(error) from error

    return answering


_faults: dict[tuple[str, str], str] = {}


def left_out(entry: Entry, error: TurnbuckleError) -> None:
    """Note that the others of its kind go on without an entry.  Raises the error again where it is
    no third party's.
    """
    if not entry.package:
        raise error
    _faults[entry.kind, entry.name] = (
        f"{entry.kind} {entry.name} of {entry.package} ({error.code}: {error.found or error.what})"
    )


def faults() -> tuple[str, ...]:
    """Return what was left out so far, each with its package and what is wrong with it."""
    return tuple(_faults.values())


def foreign() -> Iterator[Entry]:
    """Yield every entry that packages of third parties add."""
    for kind in OPEN:
        yield from (entry for entry in entries(kind).values() if entry.package)


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
    return [
        (
            r["kind"],
            r["name"],
            Entry(f"turnbuckle.{r['place']}", r["sentence"], r["kind"], r["name"]),
        )
        for r in rows
    ]


def _foreign(kind: str) -> dict[str, Entry]:
    from importlib.metadata import distributions  # costs a sixth of `turnbuckle --help`

    found: dict[str, Entry] = {}
    for package in distributions():
        try:
            name = f"{package.name} {package.version}"
            points = [e for e in package.entry_points if e.group == f"turnbuckle.{kind}"]
        except Exception as error:  # what an installer wrote may be damaged in any way
            if _of_ours(package, kind):
                broken = Entry(
                    "entry_points.txt", "", kind, "(all)", "a package with damaged metadata"
                )
                left_out(broken, broken.fault("A503.call", found=str(error)))
            continue
        for point in points:
            found.setdefault(point.name, Entry(point.value, "", kind, point.name, name))
    return found


def _of_ours(package: Distribution, kind: str) -> bool:
    """Return whether a package whose metadata cannot be read names entry points of a kind of
    ours.
    """
    try:
        return f"[turnbuckle.{kind}]" in (package.read_text("entry_points.txt") or "")
    except Exception:  # as above
        return False


@cache
def _anybody_adds() -> bool:
    """Return whether an installed package may name entry points of ours; also True where its folder
    cannot be read.
    """
    if any(
        hasattr(finder, "find_distributions") and finder is not PathFinder
        for finder in sys.meta_path
    ):
        return True
    for folder in dict.fromkeys(sys.path):
        try:
            packages = [
                p
                for p in Path(folder).iterdir()
                if p.name.lower().endswith(("dist-info", "egg-info"))
            ]
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
    """Import one entry.  Raises `KeyError` where there is none, A503 as `Entry.load`."""
    return entries(kind)[name].load()


def __getattr__(name: str) -> Any:
    """Return the verb of a third party by its name: what the command line loads when the verb is
    asked for.
    """
    if name.startswith("__") or name not in entries("questions"):
        raise AttributeError(f"no verb is called {name!r}")
    return load("questions", name)
