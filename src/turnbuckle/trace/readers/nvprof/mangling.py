"""The mangling of the Itanium C++ ABI, as far as the names of kernels use it.

A name is read in bounded time and never grows beyond 64 KiB; what is not known raises `Unknown`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LONGEST: Final = 20_000
_LARGEST: Final = 1 << 16
_STEPS: Final = 20_000
#: Arguments may name parameters, but not without end.
_PASSES: Final = 8
_DEPTH: Final = 100

_BUILTIN: Final = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short",
    "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long", "n": "__int128",
    "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_D_BUILTIN: Final = {
    "h": "half", "d": "decimal64", "e": "decimal128", "f": "decimal32", "i": "char32_t", "s": "char16_t", "u": "char8_t", "a": "auto",
    "c": "decltype(auto)", "n": "decltype(nullptr)",
}  # fmt: skip
_STD: Final = {
    "t": "std", "a": "std::allocator", "b": "std::basic_string", "s": "std::string", "i": "std::istream", "o": "std::ostream",
    "d": "std::iostream",
}  # fmt: skip
_OPERATORS: Final = {
    "nw": "new", "na": "new[]", "dl": "delete", "da": "delete[]", "ps": "+", "ng": "-", "ad": "&", "de": "*", "co": "~", "pl": "+",
    "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=",
    "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=",
    "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "ss": "<=>", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",",
    "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
}  # fmt: skip
_UNARY: Final = frozenset({"ps", "ng", "ad", "de", "co", "nt"})
_BINARY: Final = frozenset(_OPERATORS) - _UNARY - {"nw", "na", "dl", "da", "pp", "mm", "cl", "ix", "pt"}
_SUFFIX: Final = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
#: A template parameter until it is known what it stands for, and reference marks behind it.
_PARAMETER: Final = re.compile("\x01(\\d+)\x02(&{0,2})")
_UNNAMED: Final = "(anonymous namespace)"


class _Type(NamedTuple):
    """A type around the name it would declare: ``int (*`` and ``)(float)``; `wrap` where a pointer to it needs brackets."""

    left: str
    right: str = ""
    wrap: bool = False

    def __str__(self) -> str:
        return self.left + self.right


class Unknown(Exception):
    """What is not known here."""


class Mangled:
    """One mangled name being read."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 2
        self.seen: list[_Type] = []
        self.arguments: list[str] = []
        self.depth = self.steps = 0

    def whole(self) -> str:
        out = self.encoding()
        rest = self.text[self.at :]
        if rest and not re.fullmatch(r"[.@][\w.@$]*", rest):
            raise Unknown
        return out + (f" [clone {rest}]" if rest else "")

    # --- characters ---

    def peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def eat(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def need(self, word: str) -> None:
        if not self.eat(word):
            raise Unknown

    def deeper(self) -> None:
        self.depth += 1
        self.steps += 1
        if self.depth > _DEPTH or self.steps > _STEPS:
            raise Unknown

    def number(self) -> int:
        found = re.compile(r"\d{1,9}").match(self.text, self.at)
        if not found:
            raise Unknown
        self.at = found.end()
        return int(found[0])

    def sequence(self) -> int:
        """``_`` is 0, ``0_`` is 1, in base 36."""
        found = re.compile(r"([0-9A-Z]{0,4})_").match(self.text, self.at)
        if not found:
            raise Unknown
        self.at = found.end()
        return int(found[1], 36) + 1 if found[1] else 0

    def remember(self, type: _Type) -> _Type:
        if len(type.left) + len(type.right) > _LARGEST:
            raise Unknown
        self.seen.append(type)
        return type

    # --- functions and names ---

    def encoding(self, returns: bool = True) -> str:
        """A function with its parameters; the type it `returns` is left out where something inside it is named."""
        self.deeper()
        name, is_template, qualifiers = self.name()
        if self.at >= len(self.text) or self.peek() in ".@E":
            self.depth -= 1
            return self.resolved(name)
        last = name.rsplit("::", 1)[-1]
        made = is_template and not re.match(r"~|operator [A-Za-z]", last) and not self.constructed
        returned = self.type() if made else None
        parameters = self.parameters()
        self.depth -= 1
        head, tail = ("", "") if returned is None or not returns else (returned.left + ("" if returned.wrap else " "), returned.right)
        return self.resolved(f"{head}{name}({parameters}){qualifiers}{tail}")

    def resolved(self, text: str) -> str:
        """Template parameters as what they stand for in this function; a substitution holds the parameter and not its value."""
        for _ in range(_PASSES):
            if "\x01" not in text:
                return text
            text = _PARAMETER.sub(self._argument_of, text)
            if len(text) > _LARGEST:
                break
        raise Unknown

    def _argument_of(self, found: re.Match[str]) -> str:
        at, marks = int(found[1]), found[2]
        if at >= len(self.arguments):
            raise Unknown
        out = self.arguments[at]
        # a reference to a reference is the weaker of the two
        if marks and out.endswith("&"):
            return out if marks == "&&" or not out.endswith("&&") else out[:-1]
        return out + marks

    def parameters(self) -> str:
        out = []
        while self.at < len(self.text) and self.peek() not in ".@E":
            out.append(str(self.type()))
        return "" if out == ["void"] else ", ".join(o for o in out if o)

    constructed = False

    def name(self) -> tuple[str, bool, str]:
        """A name, whether template arguments end it, and qualifiers of a member function."""
        self.constructed = False
        if self.eat("N"):
            return self.nested()
        if self.eat("Z"):
            return self.local()
        if self.peek() == "S" and self.peek(2) != "St":
            out = str(self.substitution())
            if self.peek() != "I":
                raise Unknown
            return out + self.template_arguments(), True, ""
        out = "std::" + self.unqualified("") if self.eat("St") else self.unqualified("")
        if self.peek() == "I":
            self.remember(_Type(out))
            return out + self.template_arguments(), True, ""
        return out, False, ""

    def nested(self) -> tuple[str, bool, str]:
        qualifiers = ""
        for letter, word in (("r", " restrict"), ("V", " volatile"), ("K", " const")):
            if self.eat(letter):
                qualifiers = word + qualifiers
        if self.eat("R"):
            qualifiers += " &"
        elif self.eat("O"):
            qualifiers += " &&"
        out, is_template, first = "", False, True
        while not self.eat("E"):
            self.deeper()
            self.depth -= 1
            is_template = False
            if self.peek() == "S" and first:
                if self.eat("St"):
                    out = "std::" + self.unqualified("std")
                else:
                    out, first = str(self.substitution()), False
                    continue
            elif self.peek() == "I" and out:
                out, is_template = out + self.template_arguments(), True
            elif self.peek() == "T" and first:
                out = self.template_parameter()
            elif self.peek(2) in ("Dt", "DT") and first:
                out = str(self.type())
                first = False
                continue
            else:
                own = self.unqualified(out)
                out = f"{out}::{own}" if out else own
            first = False
            if self.peek() != "E":
                self.remember(_Type(out))
        if not out:
            raise Unknown
        return out, is_template, qualifiers

    def local(self) -> tuple[str, bool, str]:
        kept, self.arguments = self.arguments, []
        function = self.encoding(returns=False)
        inner = self.arguments
        self.arguments = kept
        self.need("E")
        if self.eat("s"):
            self.discriminator()
            return f"{function}::string literal", False, ""
        if self.eat("d"):
            raise Unknown
        self.arguments = inner
        name, is_template, qualifiers = self.name()
        self.discriminator()
        return f"{function}::{name}", is_template, qualifiers

    def discriminator(self) -> None:
        if self.eat("__"):
            self.number()
            self.need("_")
        elif re.match(r"_\d", self.peek(2)):
            self.at += 2

    def unqualified(self, inside: str) -> str:
        c = self.peek()
        if c.isdigit() and c.isascii():
            return self.tagged(self.identifier())
        if c == "L":
            self.at += 1
            out = self.identifier()
            self.discriminator()
            return self.tagged(out)
        if re.match(r"C[1-5]", self.peek(2)) or re.match(r"D[0-5]", self.peek(2)):
            self.constructed = True
            own = re.sub(r"<.*", "", inside, flags=re.S).rsplit("::", 1)[-1]
            out = ("~" if c == "D" else "") + own
            self.at += 2
            return out
        if self.eat("Ut"):
            return f"{{unnamed type#{self.ordinal()}}}"
        if self.eat("Ul"):
            parameters = self.parameters()
            self.need("E")
            return f"{{lambda({parameters})#{self.ordinal()}}}"
        if self.eat("cv"):
            return f"operator {self.type()}"
        if self.eat("li"):
            return f'operator"" {self.identifier()}'
        word = _OPERATORS.get(self.peek(2))
        if word is None:
            raise Unknown
        self.at += 2
        return f"operator{' ' if word[0].isalpha() else ''}{word}"

    def tagged(self, out: str) -> str:
        while self.eat("B"):
            out += f"[abi:{self.identifier()}]"
        return out

    def ordinal(self) -> int:
        found = re.compile(r"(\d{0,6})_").match(self.text, self.at)
        if not found:
            raise Unknown
        self.at = found.end()
        return int(found[1]) + 2 if found[1] else 1

    def identifier(self) -> str:
        size = self.number()
        out = self.peek(size)
        if not size or len(out) < size:
            raise Unknown
        self.at += size
        return _UNNAMED if out.startswith("_GLOBAL__N_") else out

    def substitution(self) -> _Type:
        self.need("S")
        c = self.peek()
        if c in _STD and c != "t":
            self.at += 1
            return _Type(_STD[c])
        return self.seen[self.sequence()]

    # --- template arguments ---

    def template_parameter(self) -> str:
        self.need("T")
        return f"\x01{self.sequence()}\x02"

    def template_arguments(self) -> str:
        self.need("I")
        self.deeper()
        mine: list[str] = []
        while not self.eat("E"):
            mine.append(self.argument())
            if sum(map(len, mine)) > _LARGEST:
                raise Unknown
        self.arguments = mine
        self.depth -= 1
        shown = ", ".join(a for a in mine if a)
        return f"<{shown}>"

    def argument(self) -> str:
        before = self.arguments
        c = self.peek()
        if c == "L":
            out = self.literal()
        elif self.eat("X"):
            out = self.expression()
            self.need("E")
        elif self.eat("J"):
            pack = []
            while not self.eat("E"):
                pack.append(self.argument())
            out = ", ".join(p for p in pack if p)
        else:
            out = str(self.type())
        self.arguments = before
        return out

    def literal(self) -> str:
        self.need("L")
        if self.eat("_Z"):
            inner = self.encoding()
            self.need("E")
            return inner
        letter = self.peek()
        kind = str(self.type())
        found = re.compile(r"(n?)([0-9a-f]*)E").match(self.text, self.at)
        if not found:
            raise Unknown
        self.at = found.end()
        value = ("-" if found[1] else "") + found[2]
        if letter == "b":
            return {"0": "false", "1": "true"}.get(value, f"(bool){value}")
        if letter == "i":
            return value
        if letter in _SUFFIX:
            return value + _SUFFIX[letter]
        return f"({kind}){value}"

    def expression(self) -> str:
        self.deeper()
        out = self._expression()
        self.depth -= 1
        if len(out) > _LARGEST:
            raise Unknown
        return out

    def _expression(self) -> str:
        c, two = self.peek(), self.peek(2)
        if c == "L":
            return self.literal()
        if c == "T":
            return self.template_parameter()
        if two == "fp" or two == "fL":
            raise Unknown
        if self.eat("sr"):
            return self.scoped()
        if self.eat("cl"):
            parts = []
            while not self.eat("E"):
                parts.append(self.expression())
            return f"({parts[0]})({', '.join(parts[1:])})"
        if self.eat("cv"):
            kind = str(self.type())
            return f"({kind})({self.expression()})"
        if self.eat("st"):
            return f"sizeof ({self.type()})"
        if self.eat("sZ"):
            return f"sizeof...({self.template_parameter()})"
        if self.eat("sp"):
            return f"{self.expression()}..."
        if self.eat("qu"):
            one, two_, three = self.expression(), self.expression(), self.expression()
            return f"({one})?({two_}) : ({three})"
        if two in _UNARY:
            self.at += 2
            return f"{_OPERATORS[two]}({self.expression()})"
        if two in _BINARY:
            self.at += 2
            left, right = self.expression(), self.expression()
            return f"({left}){_OPERATORS[two]}({right})"
        if c.isdigit():
            out = self.identifier()
            return out + (self.kept_arguments() if self.peek() == "I" else "")
        raise Unknown

    def scoped(self) -> str:
        """A name inside a type or namespace that depends on a template."""
        if self.eat("N"):
            out = str(self.type())
            if self.peek() == "I":
                out += self.kept_arguments()
            levels = []
            while not self.eat("E"):
                levels.append(self.simple())
            out = "::".join([out, *levels])
        elif self.peek().isdigit():
            # one level before E; without it, a type
            levels = []
            while not self.eat("E"):
                levels.append(self.simple())
            out = "::".join(levels)
        else:
            out = str(self.type())
        return f"{out}::{self.simple()}"

    def simple(self) -> str:
        if self.eat("on"):
            raise Unknown
        out = self.identifier()
        return out + (self.kept_arguments() if self.peek() == "I" else "")

    def kept_arguments(self) -> str:
        """Template arguments that are not those of the function."""
        kept = self.arguments
        out = self.template_arguments()
        self.arguments = kept
        return out

    # --- types ---

    def type(self) -> _Type:
        self.deeper()
        out = self._type()
        self.depth -= 1
        return out

    def _type(self) -> _Type:
        c, two = self.peek(), self.peek(2)
        if c in _BUILTIN:
            self.at += 1
            return _Type(_BUILTIN[c])
        if c == "u":
            self.at += 1
            return self.remember(_Type(self.identifier()))
        if c in "rVK":
            return self.qualified()
        if c in "PRO":
            self.at += 1
            return self.remember(_pointer(self.type(), {"P": "*", "R": "&", "O": "&&"}[c]))
        if c == "F":
            return self.function("")
        if c == "A":
            return self.array()
        if c == "M":
            self.at += 1
            owner, member = self.type(), self.type()
            return self.remember(_pointer(member, f"{'' if member.wrap else ' '}{owner}::*"))
        if c == "D" and two[1:] in _D_BUILTIN:
            self.at += 2
            return _Type(_D_BUILTIN[two[1]])
        if self.eat("Dp"):
            return self.remember(self.type())
        if two in ("Dt", "DT"):
            self.at += 2
            out = self.expression()
            self.need("E")
            return self.remember(_Type(f"decltype ({out})"))
        if c == "T":
            own = self.remember(_Type(self.template_parameter()))
            return self.instance(own) if self.peek() == "I" else own
        if c == "S" and two != "St":
            own = self.substitution()
            return self.instance(own) if self.peek() == "I" else own
        return self.class_type()

    def instance(self, template: _Type) -> _Type:
        return self.remember(_Type(f"{template}{self.kept_arguments()}"))

    def class_type(self) -> _Type:
        kept, constructed = self.arguments, self.constructed
        name, _, _ = self.name()
        self.arguments, self.constructed = kept, constructed
        return self.remember(_Type(name))

    def qualified(self) -> _Type:
        words = []
        for letter, word in (("r", " restrict"), ("V", " volatile"), ("K", " const")):
            if self.eat(letter):
                words.append(word)
        words.reverse()
        if self.peek() == "F":
            return self.function("".join(words))
        inner = self.type()
        if inner.wrap:
            raise Unknown
        return self.remember(_Type(inner.left + "".join(words), inner.right))

    def function(self, qualifiers: str) -> _Type:
        self.need("F")
        self.eat("Y")
        returned = self.type()
        parameters = []
        while self.peek() not in ("E", "R", "O") or (self.peek() in "RO" and self.peek(2)[1:] != "E"):
            parameters.append(str(self.type()))
        if self.eat("R"):
            qualifiers += " &"
        elif self.eat("O"):
            qualifiers += " &&"
        self.need("E")
        shown = "" if parameters == ["void"] else ", ".join(p for p in parameters if p)
        return self.remember(_Type(f"{returned.left} ", f"({shown}){qualifiers}{returned.right}", True))

    def array(self) -> _Type:
        self.need("A")
        found = re.compile(r"(\d{0,12})_").match(self.text, self.at)
        if not found:
            raise Unknown
        self.at = found.end()
        inner = self.type()
        if inner.wrap:
            return self.remember(_Type(inner.left, f"[{found[1]}]{inner.right.lstrip()}", True))
        return self.remember(_Type(f"{inner.left} ", f"[{found[1]}]{inner.right}", True))


def _pointer(inner: _Type, mark: str) -> _Type:
    if inner.wrap:
        return _Type(f"{inner.left}({mark.lstrip()}", f"){' ' if inner.right.startswith('[') else ''}{inner.right}")
    if mark in ("&", "&&") and inner.left.endswith(("&", "&&")) and not inner.right:
        # a reference to a reference is the weaker of the two
        return _Type(inner.left.removesuffix("&&") + "&" if mark == "&" and inner.left.endswith("&&") else inner.left)
    return _Type(inner.left + mark, inner.right)
