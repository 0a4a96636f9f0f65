"""Regular expressions whose matching time grows faster than the text, found on the pattern itself
and without a clock.

A pattern becomes an automaton.  Matching is exponential where one loop reads some word in two ways,
and at least quadratic where two loops, one behind the other, read the same word, as does the way
between them.  An unanchored search is a loop in front of the pattern. Neither counts where the
match cannot fail any more: backtracking begins with a failure.  Theory: Weber and Seidl, 1991.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from re import _compiler, _parser
from typing import Any, NamedTuple

CHARACTERS = "".join(map(chr, range(256))) + "\u017f\u212a\u0660\u2028\u3000\u4e00"
#: What may come next: any of them, one bit each, or the end of the text.
END = 1 << len(CHARACTERS)
ALL = 2 * END - 1
NEWLINE = 1 << ord("\n")
WORD = sum(1 << i for i, c in enumerate(CHARACTERS) if re.match(r"\w", c))
#: A repeat of one character up to this often costs a constant; one of a group is a loop.
MOST = 255
METHODS = {
    "match": 2,
    "fullmatch": 2,
    "search": 2,
    "findall": 2,
    "finditer": 2,
    "split": 3,
    "sub": 4,
    "subn": 4,
    "compile": 1,
}
_CHARACTERS_OF: dict[tuple[str, int], int] = {}

State = int
START, ACCEPT = 0, 1


def characters(item: Any, flags: int) -> int:
    """Return the set of characters that one item of a parsed pattern reads, one bit each."""
    key = (repr(item), flags)
    if key not in _CHARACTERS_OF:
        reads = _compiler.compile(_parser.SubPattern(_parser.State(), [item]), flags)
        _CHARACTERS_OF[key] = sum(1 << i for i, c in enumerate(CHARACTERS) if reads.fullmatch(c))
    return _CHARACTERS_OF[key]


class Automaton:
    """States read a set of characters, or nothing and lead on to others; some let pass only what a
    condition allows.
    """

    def __init__(self, pattern: str | bytes, flags: int, method: str) -> None:
        self.reads, self.after, self.guard = (
            [0, 0],
            list[list[State]]([[], []]),
            dict[State, str | int](),
        )
        parsed = _parser.parse(pattern, flags)
        first = self.sequence(
            parsed,
            self.state(0, [ACCEPT], "END") if method == "fullmatch" else ACCEPT,
            parsed.state.flags,
        )
        if method not in ("match", "fullmatch"):
            first = self.state(0, [first])
            self.after[first] += [
                self.state(kind, [first]) for kind in (NEWLINE, WORD, ALL & ~WORD & ~NEWLINE & ~END)
            ]
        self.after[START] = [first]
        self.edges: dict[State, dict[State, int]] = {}
        self.twice: set[tuple[State, State]] = set()
        for source in [START, *(i for i, mask in enumerate(self.reads) if mask)]:
            self.edges[source] = {}
            for target in self.after[source]:
                self.follow(source, target, ALL, defaultdict(int))

    def state(self, reads: int, after: list[State], guard: str | int = ALL) -> State:
        self.reads.append(reads)
        self.after.append(after)
        self.guard[len(self.reads) - 1] = guard
        return len(self.reads) - 1

    def sequence(self, items: Any, after: State, flags: int) -> State:
        for item in reversed(list(items)):
            after = self.item(item, after, flags)
        return after

    def item(self, item: Any, after: State, flags: int) -> State:
        op, given = str(item[0]), item[1]
        if op == "SUBPATTERN":
            return self.sequence(given[3], after, (flags | given[1]) & ~given[2])
        if op == "ATOMIC_GROUP":
            return self.sequence(given, after, flags)
        if op in ("BRANCH", "GROUPREF_EXISTS"):
            branches = given[1] if op == "BRANCH" else given[1:]
            return self.state(0, [self.sequence(branch or [], after, flags) for branch in branches])
        if op.endswith("_REPEAT"):
            return self.repeat(op, *given, after, flags)
        # what is looked at leads nowhere; what lies behind has one width
        if op.startswith("ASSERT"):
            return self.state(
                0,
                [after, self.sequence(given[1], self.state(0, []), flags)]
                if given[0] > 0
                else [after],
            )
        if op == "AT":
            word = str(given).removeprefix("AT_").removesuffix("_STRING")
            line = flags & re.MULTILINE and not str(given).endswith("_STRING")
            return self.state(0, [after], f"LINE_{word}" if line else word)
        if op == "GROUPREF":
            return self.repeat("", 0, _parser.MAXREPEAT, [(_parser.ANY, None)], after, re.DOTALL)
        return self.state(characters(item, flags), [after])

    def repeat(self, op: str, least: int, most: int, body: Any, after: State, flags: int) -> State:
        single = len(body) == 1 and str(body[0][0]) in ("LITERAL", "NOT_LITERAL", "ANY", "IN")
        if single and op.startswith("POSSESSIVE"):
            after = self.state(0, [after], ALL & ~characters(body[0], flags))
        if most > (MOST if single else 1):
            loop = self.state(0, [])
            self.after[loop] = [self.sequence(body, loop, flags), after]
            after = loop
        else:
            end = after
            for _ in range(min(most, 2) - min(least, 2)):
                after = self.state(0, [self.sequence(body, after, flags), end])
        for _ in range(min(least, 2)):
            after = self.sequence(body, after, flags)
        return after

    def follow(self, source: State, state: State, label: int, seen: dict[State, int]) -> None:
        """Set which states may read next behind a state, what they may read then, and which are
        come to in two ways.
        """
        if state == ACCEPT or self.reads[state]:
            if label := label & (self.reads[state] or ALL):
                if self.edges[source].get(state, 0) & label:
                    self.twice.add((source, state))
                self.edges[source][state] = self.edges[source].get(state, 0) | label
        elif seen[state] < 2 and (label := label & self.passes(source, self.guard[state])):
            seen[state] += 1
            for target in self.after[state]:
                self.follow(source, target, label, seen)
            seen[state] -= 1

    def passes(self, source: State, guard: str | int) -> int:
        """Return what may come next where a condition holds behind a state."""
        before = self.reads[source]
        if isinstance(guard, int):
            return guard
        if guard.endswith("BEGINNING"):
            return ALL if source == START or (guard.startswith("LINE") and before & NEWLINE) else 0
        if guard == "BOUNDARY":
            return ALL & ~WORD if before and not before & ~WORD else ALL if before & WORD else WORD
        return {"END": END, "LINE_END": NEWLINE | END}.get(guard, ALL)

    def steps(
        self, states: tuple[State, ...], within: tuple[set[State], ...]
    ) -> Iterator[tuple[State, ...]]:
        """Yield where several readers of one text come to with the next character, each within its
        states.
        """
        rows = [
            [(t, label) for t, label in self.edges[s].items() if t in among]
            for s, among in zip(states, within, strict=True)
        ]
        for row in itertools.product(*rows):
            if functools.reduce(int.__and__, (label for _, label in row)):
                yield tuple(t for t, _ in row)

    def reached(
        self, begins: Iterable[tuple[State, ...]], *within: set[State]
    ) -> dict[tuple[State, ...], set[tuple[State, ...]]]:
        """Return what several readers of one text can come to, with where each can be from."""
        out: dict[tuple[State, ...], set[tuple[State, ...]]] = {}
        todo = list(begins)
        for states in todo:
            for target in self.steps(states, within):
                if target not in out:
                    out[target] = set()
                    todo.append(target)
                out[target].add(states)
        return out

    def ahead(self, state: State) -> set[State]:
        out: set[State] = set()
        todo = [state]
        for source in todo:
            todo += (new := self.edges.get(source, {}).keys() - out)
            out |= new
        return out - {ACCEPT}

    def growth(self) -> str:
        """Return how the number of steps grows with the text: ``exponential``, ``polynomial`` or
        nothing where it is linear.
        """
        ahead = {s: self.ahead(s) for s in self.edges if s not in (START, ACCEPT)}
        fails = {s for s in ahead if self.edges[s].get(ACCEPT, 0) | self.edges[s].get(s, 0) != ALL}
        same = {s: {t for t in ahead[s] & fails if s in ahead[t]} for s in fails if s in ahead[s]}
        for loop in {frozenset(states): states for states in same.values()}.values():
            if any((s, t) in self.twice for s in loop for t in loop):
                return "exponential"
            pairs = self.reached([(s, s) for s in loop], loop, loop)
            todo = [pair for pair in pairs if pair[0] == pair[1]]
            back = set(todo)
            for pair in todo:
                todo += (new := pairs.get(pair, set()) - back)
                back |= new
            if any(p != q and (p, q) in pairs for p, q in back):
                return "exponential"
        for p, q in itertools.permutations(same, 2):
            if q in ahead[p] and q not in same[p]:
                between = {s for s in ahead[p] | {p} if q in ahead[s]}
                if (p, q, q) in self.reached([(p, p, q)], same[p], between, same[q]):
                    return "polynomial"
        return ""


def growth(pattern: str | bytes, flags: int = 0, method: str = "search") -> str:
    return Automaton(pattern, flags, method).growth()


class Use(NamedTuple):
    """A pattern in the sources, as one method uses it; None where it is made while the program
    runs.
    """

    where: str
    line: int
    pattern: str | bytes | None
    flags: int
    method: str


def uses(package: Path) -> Iterator[Use]:
    """Yield every pattern in the sources with each method that is called on it; where nobody can
    tell, with the two that cost most.
    """
    for path in sorted(package.rglob("*.py")):
        if "import re\n" not in (text := path.read_text(encoding="utf-8")):
            continue
        names = vars(
            importlib.import_module(
                ".".join(path.relative_to(package.parent).with_suffix("").parts)
            )
        )
        nodes = list(ast.walk(ast.parse(text)))
        attribute = {node.value: node.attr for node in nodes if isinstance(node, ast.Attribute)}
        called: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                called[node.id].add(attribute.get(node, ""))
        kept = {node.value: node.targets[0] for node in nodes if isinstance(node, ast.Assign)}
        kept |= {
            node.value: node.target
            for node in nodes
            if isinstance(node, ast.AnnAssign) and node.value
        }
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            module, _, method = ast.unparse(call.func).rpartition(".")
            if module != "re" or method not in METHODS:
                continue
            flags = [
                *call.args[METHODS[method] :],
                *(k.value for k in call.keywords if k.arg == "flags"),
            ]
            methods = {attribute.get(call, method)}
            if methods == {"compile"}:
                name = getattr(kept.get(call), "id", "")
                methods = (
                    called[name]
                    if name.startswith("_") and called[name] and called[name] < METHODS.keys()
                    else {"search", "fullmatch"}
                )
            for each in sorted(methods):
                where = path.relative_to(package).as_posix()
                yield Use(
                    where,
                    call.lineno,
                    value(call.args[0], names),
                    int(value(flags[0], names)) if flags else 0,
                    each,
                )


def value(expression: ast.expr, names: dict[str, Any]) -> Any:
    """Return what an expression is worth in its module; what a function puts into a text stands as
    an x, without a text there is None.
    """
    if isinstance(expression, ast.JoinedStr):
        return "".join(str(value(part, names) or "x") for part in expression.values)
    expression = expression.value if isinstance(expression, ast.FormattedValue) else expression
    try:
        return eval(compile(ast.Expression(expression), "", "eval"), dict(names))
    except NameError:
        return None
