"""Damage done to a sound file: to its bytes, or to what its bytes mean (cells of a database, values
of a document, words of a text).

Each function draws from the generator that it is given and from nothing else, so that the same seed
does the same damage.
"""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

SQLITE = b"SQLite format 3\0"
NUMBERS: tuple[int | float, ...] = (
    *(
        0,
        1,
        -1,
        2,
        255,
        65535,
        2**31 - 1,
        2**31,
        -(2**31),
        2**32 - 1,
        2**32,
        2**53,
        2**53 + 1,
        2**62,
        2**63 - 1,
        -(2**63),
        10**15,
    ),
    *(0.5, -0.0, 1e-320, 1e308, -1e308, float("inf"), float("-inf"), float("nan")),
)
LARGE = (2**63, 2**64 - 1, 2**64, 10**30, -(10**30), 10**400)
#: Texts that were made to hurt: long, endless to match, steering a terminal, a spreadsheet, a page,
#: a path.
TEXTS = (
    *(
        "",
        " ",
        "\t",
        "\x00",
        "\x1b[31mred\x1b[0m\x07",
        "\x9b1m",
        "evil\u202egnp.exe\u2066\u200b\ufeff",
        "a\nb\r\nc",
        "line\u2028end",
    ),
    *(
        "=cmd|' /C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "</script><img src=x onerror=alert(1)>",
        "{{ 7 * 7 }}{% raw %}",
    ),
    *(
        "../../../../etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "file:///etc/passwd?mode=memory",
        "$(id)`id`;id",
        "%s%n%x",
        "-o",
        "--help",
    ),
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "0x10",
        "1_000",
        "١٢٣",
        "1,5",
        "1e-999",
        "--5",
        "9" * 400,
        "0." + "0" * 400 + "1",
        "NULL",
        "None",
    ),
    *(
        "ncclKernel_AllReduce(" + "1" * 80 + "!",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(" + "a, " * 60 + "!",
        "(" * 2000 + ")" * 2000,
    ),
    *(
        "void f<" + "a<" * 3000,
        "_Z" + "N" * 3000,
        "_ZN" + "9" * 40 + "aE",
        " " * 20_000,
        "x" * 100_000,
        "," * 5_000,
        '"',
        "'",
        "\\",
        "#",
    ),
    *(
        "z" + "\u0335" * 400,
        "名前 \U0001f600",
        "a" * 300 + "(" + "b" * 300,
        "[[" * 500,
        "1 GB/s " * 300,
        "\ud800",
    ),
)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _value(rng: random.Random) -> int | float | str | bytes | None:
    """A value that a cell should not have."""
    kind = rng.randrange(10)
    if kind < 6:
        return rng.choice(NUMBERS)
    if kind < 8:
        return rng.choice(TEXTS).replace("\ud800", "?")
    return rng.randbytes(rng.choice((0, 1, 7, 3000))) if kind == 8 else None


# --- bytes ----------------------------------------------------------------------------------------


def flip(data: bytearray, rng: random.Random) -> str:
    """Flip bits, one or a few hundred."""
    count = rng.choice((1, 1, 2, 8, 64, 512))
    # headers and first records decide most: half of the bits are there
    until = len(data) if rng.random() < 0.5 else min(len(data), 1024)
    for _ in range(count):
        data[rng.randrange(until)] ^= 1 << rng.randrange(8)
    return f"{count} bits flipped among {until} bytes"


def overwrite(data: bytearray, rng: random.Random) -> str:
    """Overwrite a piece by one byte again and again, or by noise."""
    at, length = rng.randrange(len(data)), rng.choice((1, 4, 8, 64, 4096))
    content = (
        bytes([rng.choice((0, 255, 127, 128, 10, 34))]) * length
        if rng.random() < 0.7
        else rng.randbytes(length)
    )
    data[at : at + length] = content
    return f"{length} bytes overwritten at {at}"


def truncate(data: bytearray, rng: random.Random) -> str:
    """Cut the end off."""
    left = rng.choice(
        (
            rng.randrange(len(data)),
            max(len(data) - rng.randrange(1, 64), 0),
            rng.randrange(min(len(data), 600)),
        )
    )
    del data[left:]
    return f"cut to {left} bytes"


def splice(data: bytearray, rng: random.Random) -> str:
    """Double, move or leave out a piece."""
    at, length = rng.randrange(len(data)), rng.choice((1, 16, 512, 4096, 65536))
    piece, to = bytes(data[at : at + length]), rng.randrange(len(data))
    what = rng.choice(("doubled", "moved", "left out", "written over"))
    if what in ("moved", "left out"):
        del data[at : at + length]
    if what == "written over":
        data[to : to + len(piece)] = piece
    elif what != "left out":
        data[to:to] = piece * (rng.choice((1, 1, 50)) if what == "doubled" else 1)
    return f"{len(piece)} bytes from {at} {what}"


def insert(data: bytearray, rng: random.Random) -> str:
    """Put NULs, noise or a hostile text into it."""
    at = rng.randrange(len(data) + 1)
    content = rng.choice(
        (
            bytes(rng.choice((1, 4096))),
            rng.randbytes(rng.choice((1, 100, 10_000))),
            _encoded(rng.choice(TEXTS)),
        )
    )
    data[at:at] = content
    return f"{len(content)} bytes put in at {at}"


def number(data: bytearray, rng: random.Random) -> str:
    """Write a hostile number in binary over a piece of the file."""
    width, value = (
        rng.choice((1, 2, 4, 8)),
        rng.choice((0, 1, -1, 2**31, 2**63, 2**32 - 1, 2**16, 127, 128)),
    )
    at = rng.randrange(max(min(len(data), rng.choice((256, len(data)))) - width, 1))
    data[at : at + width] = (value % (1 << (8 * width))).to_bytes(
        width, rng.choice(("little", "big"))
    )
    return f"{value} in {width} bytes at {at}"


BYTES: tuple[Callable[[bytearray, random.Random], str], ...] = (
    flip,
    flip,
    overwrite,
    truncate,
    splice,
    insert,
    number,
)

# --- databases ------------------------------------------------------------------------------------


_SQL = (
    "cell",
    "cell",
    "cell",
    "cells",
    "cells",
    "column",
    "table",
    "view",
    "endless",
    "virtual",
    "double",
    "empty",
    "text",
)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def database(path: Path, rng: random.Random) -> str:
    """Damage a database by SQL: cells, columns, tables, views in the place of tables."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
        # a view without end may stand in a table's place by now: statements end after so many steps
        steps = itertools.count()
        db.set_progress_handler(lambda: next(steps) > 100, 100_000)
        tables = sorted(
            row[0]
            for row in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        )
        if not tables:
            return "a database without tables"
        said = [_sql(db, rng.choice(tables), rng) for _ in range(rng.choice((1, 1, 2, 5)))]
    return "; ".join(said)


def _sql(db: sqlite3.Connection, table: str, rng: random.Random) -> str:
    name = _quoted(table)
    try:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({name})")]
        column = _quoted(rng.choice(columns))
        rows = db.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        what = rng.choice(_SQL)
        if what in ("cell", "cells"):
            value = _value(rng)
            where = (
                f"rowid IN (SELECT rowid FROM {name} LIMIT 1 OFFSET {rng.randrange(max(rows, 1))})"
                if what == "cell"
                else "1"
            )
            db.execute(f"UPDATE OR IGNORE {name} SET {column} = ? WHERE {where}", (value,))
            return f"{what} of {table}.{column} = {value!r:.40}"
        if what == "column":
            db.execute(f"ALTER TABLE {name} DROP COLUMN {column}")
        elif what == "table":
            db.execute(f"DROP TABLE {name}")
        elif what == "empty":
            db.execute(f"DELETE FROM {name}")
        elif what == "double":
            listed = ", ".join(map(_quoted, columns))
            db.execute(
                f"INSERT OR IGNORE INTO {name} ({listed}) SELECT {listed} FROM {name} LIMIT 20000"
            )
        elif what == "text":
            db.execute(f"UPDATE OR IGNORE {name} SET {column} = CAST({column} AS TEXT) || 'x'")
        else:
            db.execute(f"ALTER TABLE {name} RENAME TO kept")
            if what == "virtual":
                db.execute(
                    f"CREATE VIRTUAL TABLE {name} USING fts5({', '.join(map(_quoted, columns))})"
                )
            elif what == "endless":
                listed = ", ".join(f"i AS {_quoted(c)}" for c in columns)
                db.execute(
                    f"CREATE VIEW {name} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
                    f"i + 1 FROM n) SELECT {listed} FROM n"
                )
            else:
                db.execute(f"CREATE VIEW {name} AS SELECT * FROM kept")
        return f"{what}: {table}.{column}"
    except (sqlite3.Error, IndexError, OverflowError) as error:
        return f"nothing ({error})"


# --- documents ------------------------------------------------------------------------------------

_HOLE = "@@hole@@"


def document(text: str, rng: random.Random) -> tuple[str, str]:
    """Damage a JSON document by its values: replaced, left out, doubled, moved, nested without
    end.
    """
    whole = json.loads(text)
    said, literal = [], ""
    for _ in range(rng.choice((1, 1, 2, 6))):
        holder, key = _place(whole, rng)
        if holder is None:
            break
        what = rng.choice(("value", "value", "value", "gone", "other", "raw", "name", "many"))
        if what == "value":
            holder[key] = _json_value(rng)
        elif what == "other":
            holder[key] = rng.choice(([], {}, None, True, [None], {"": {}}, [[[]]], "", holder))
            if holder[key] is holder:
                holder[key] = (
                    json.loads(json.dumps(holder[key], default=str))
                    if not isinstance(holder[key], list | dict)
                    else {}
                )
        elif what == "gone":
            del holder[key]
        elif what == "name" and isinstance(holder, dict):
            holder[rng.choice(TEXTS)] = holder.pop(key)
        elif what == "many" and isinstance(holder, list):
            holder[key:key] = [holder[key]] * rng.choice((2, 1000))
        elif not literal:
            holder[key] = _HOLE
            depth = rng.choice((100, 100_000))
            literal = rng.choice(
                (
                    "[" * depth + "]" * depth,
                    '{"a":' * depth + "1" + "}" * depth,
                    "9" * 5000,
                    "1e999",
                    "-0",
                    "NaN",
                    "-Infinity",
                    '"\\ud800"',
                    '"\\u0000"',
                    "01",
                    '{"ts":1,"ts":2}',
                    "1.7976931348623159e308",
                    "[" * depth,
                    '"',
                    "tru",
                    "0." + "3" * 5000,
                )
            )
        said.append(f"{what} at {key!r:.30}")
    out = json.dumps(
        whole, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5, allow_nan=True
    )
    return out.replace(f'"{_HOLE}"', literal) if literal else out, ", ".join(said) + (
        f" {literal[:20]}" if literal else ""
    )


def _json_value(rng: random.Random) -> Any:
    return rng.choice(
        (rng.choice(NUMBERS), rng.choice(LARGE[:5]), rng.choice(TEXTS), str(rng.choice(NUMBERS)))
    )


def _place(whole: Any, rng: random.Random) -> tuple[Any, Any]:
    """A holder and a key in it, anywhere: each level down is as likely as to stay."""
    holder = whole
    if not isinstance(holder, dict | list) or not holder:
        return None, None
    while True:
        key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        below = holder[key]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.15:
            return holder, key
        holder = below


# --- texts ----------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\s,;:=\"'\[\]{}()<>|]+")


def words(text: str, rng: random.Random) -> tuple[str, str]:
    """Damage a text by its words and lines."""
    said = []
    for _ in range(rng.choice((1, 1, 2, 6, 30))):
        lines = text.splitlines(keepends=True) or [""]
        at = rng.randrange(len(lines)) if rng.random() < 0.6 else rng.randrange(min(len(lines), 12))
        what = rng.choice(
            (
                "word",
                "word",
                "word",
                "word",
                "gone",
                "double",
                "swap",
                "blank",
                "long",
                "mark",
                "number",
            )
        )
        if what in ("word", "number"):
            places = [m.span() for m in _WORD.finditer(lines[at])] or [(0, 0)]
            first, last = rng.choice(places)
            put = (
                rng.choice(TEXTS)
                if what == "word" and rng.random() < 0.6
                else str(rng.choice(NUMBERS + LARGE))
            )
            lines[at] = lines[at][:first] + put + lines[at][last:]
        elif what == "gone":
            del lines[at : at + rng.choice((1, 1, 10))]
        elif what == "double":
            lines[at:at] = lines[at : at + rng.choice((1, 5))] * rng.choice((1, 100))
        elif what == "swap":
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        elif what == "blank":
            lines[at:at] = rng.choice(
                ("\n", " " * 4000 + "\n", "\t" * 200, "\r\n", "\f\v", "\ufeff", "# comment\n")
            )
        elif what == "long":
            lines[at] = lines[at].rstrip("\n") * rng.choice((2, 300)) + "\n"
        else:
            first = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:first] + rng.choice("\x00\"',[}(:=\\#-\x1b;") + lines[at][first:]
        text = "".join(lines)[: 8 << 20]
        said.append(f"{what} in line {at + 1}")
    return text, ", ".join(said[:6])


# --- whichever fits -------------------------------------------------------------------------------


def _unpacked(raw: bytes) -> tuple[bytes, Callable[[bytes], bytes] | None]:
    """The content of a packed file with how to pack it again; of others the file itself."""
    with suppress(OSError, EOFError, lzma.LZMAError):
        if raw.startswith(b"\x1f\x8b"):
            return gzip.decompress(raw), lambda content: gzip.compress(content, 1, mtime=0)
        if raw.startswith(b"\xfd7zXZ"):
            return lzma.decompress(raw), lambda content: lzma.compress(content, preset=0)
    return raw, None


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file in one of the ways that fit it, and say how."""
    raw = path.read_bytes()
    if not raw:
        path.write_bytes(_encoded(rng.choice(TEXTS)))
        return "an empty file filled"
    if raw.startswith(SQLITE) and rng.random() < 0.65:
        return f"SQL: {database(path, rng)}"
    content, pack = _unpacked(raw) if rng.random() < 0.8 else (raw, None)
    said, out = (
        _inside(content, rng)
        if content and b"\0" not in content[:512] and rng.random() < 0.75
        else ("", content)
    )
    if not said:
        held = bytearray(content)
        said = ""
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            if held:
                said += ("; " if said else "") + rng.choice(BYTES)(held, rng)
        out = bytes(held)
    path.write_bytes(pack(out) if pack else out)
    return f"{'packed again: ' if pack else ''}{said}"


def _inside(content: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Damage to a document or a text; nothing where it is neither."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return "", content
    if text.lstrip("\ufeff \n").startswith(("{", "[")) and rng.random() < 0.85:
        with suppress(ValueError, RecursionError):
            out, said = document(text, rng)
            return f"JSON: {said}", _encoded(out)
    out, said = words(text, rng)
    return f"text: {said}", _encoded(out)
