"""Runs the few PTX instructions that our kernels are made of, one thread after the other: slow,
exact and without a device.

An instruction that it does not know, a register that nobody set, or an address outside the memory
given stops it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np

#: Type of PTX -> form of `struct`.
FORMS = {"u32": "<I", "u64": "<Q", "b64": "<Q", "f32": "<f", "f64": "<d"}
COMPARED = {
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "ne": lambda a, b: a != b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "neu": lambda a, b: a != b,
}


@dataclass
class Kernel:
    """Parameters in their order with their types, and instructions with the labels that stand
    before them.
    """

    parameters: dict[str, str]
    code: list[tuple[str, str, list[str]]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


def kernels(text: str) -> dict[str, Kernel]:
    """Every entry of a module."""
    out = {}
    for name, parameters, body in re.findall(
        r"\.visible \.entry (\w+)\(([^)]*)\)\s*\{(.*?)\n\}", text, re.DOTALL
    ):
        own = Kernel(dict(reversed(p.split()[1:]) for p in parameters.split(",") if p.strip()))
        own.parameters = {k: v.lstrip(".") for k, v in own.parameters.items()}
        for line in body.split("\n"):
            line = line.strip()
            if label := re.fullmatch(r"(\w+):", line):
                own.labels[label[1]] = len(own.code)
            elif line and not line.startswith(".reg"):
                guard, rest = re.fullmatch(r"(?:@(%\w+)\s+)?(.*);", line).groups()  # type: ignore[union-attr]
                word, _, operands = rest.partition(" ")
                own.code.append((guard or "", word, re.findall(r"\{[^}]*\}|[^,\s][^,]*", operands)))
        out[name] = own
    return out


class Device:
    """One memory from address 4096 on, and a clock that every instruction moves."""

    def __init__(self, size: int) -> None:
        self.memory, self.used, self.clock = bytearray(size), 0, 0

    def place(self, values: np.ndarray) -> int:
        """Copy values into the memory -> their address."""
        at = self.used
        raw = values.tobytes()
        self.memory[at : at + len(raw)] = raw
        self.used += (len(raw) + 255) // 256 * 256
        assert self.used <= len(self.memory)
        return at + 4096

    def values(self, address: int, like: np.ndarray) -> np.ndarray:
        return np.frombuffer(
            bytes(self.memory[address - 4096 : address - 4096 + like.nbytes]), dtype=like.dtype
        )

    def run(self, kernel: Kernel, blocks: int, threads: int, *values: int) -> None:
        """All threads of a grid, each to its end."""
        assert len(values) == len(kernel.parameters)
        given = dict(zip(kernel.parameters, values, strict=True))
        for block in range(blocks):
            for thread in range(threads):
                special = {
                    "%ctaid.x": block,
                    "%ntid.x": threads,
                    "%tid.x": thread,
                    "%nctaid.x": blocks,
                }
                self._thread(kernel, given, special)

    def _thread(self, kernel: Kernel, given: dict[str, int], special: dict[str, int]) -> None:
        registers: dict[str, float] = {}
        at = 0
        while True:
            guard, word, operands = kernel.code[at]
            at, self.clock = at + 1, self.clock + 1
            if guard and not registers[guard]:
                continue
            if word == "ret":
                return
            if word == "bra":
                at = kernel.labels[operands[0]]
            elif word != "membar.sys":
                self._step(word.split("."), operands, registers, given, special)

    def _step(
        self,
        word: list[str],
        operands: list[str],
        registers: dict[str, float],
        given: dict[str, int],
        special: dict[str, int],
    ) -> None:
        kind = word[-1]
        if word[:2] == ["ld", "param"]:
            registers[operands[0]] = given[operands[1].strip("[]")]
            return
        if word[0] in ("ld", "st"):
            assert "global" in word
            self._access(word, operands, registers)
            return
        if operands[-1] in ("%clock64", "%globaltimer"):
            registers[operands[0]] = self.clock
            return
        read = [self._value(o, registers, special) for o in operands[1:]]
        registers[operands[0]] = self._result(word, kind, read)

    def _value(self, operand: str, registers: dict[str, float], special: dict[str, int]) -> float:
        if operand in special:
            return special[operand]
        if operand.startswith("%"):
            return registers[operand]
        if operand.startswith("0d"):
            return float(struct.unpack(">d", bytes.fromhex(operand[2:]))[0])
        if operand.startswith("0f"):
            return float(struct.unpack(">f", bytes.fromhex(operand[2:]))[0])
        return int(operand)

    def _result(self, word: list[str], kind: str, read: list[float]) -> float:
        if word[0] == "setp":
            return COMPARED[word[1]](*read)
        if word[:2] == ["mul", "wide"]:
            return read[0] * read[1]
        result = {
            "mov": lambda: read[0],
            "cvta": lambda: read[0],
            "cvt": lambda: read[0],
            "add": lambda: read[0] + read[1],
            "sub": lambda: read[0] - read[1],
            "mul": lambda: read[0] * read[1],
            "div": lambda: read[0] // read[1],
            "rem": lambda: read[0] % read[1],
            "shl": lambda: int(read[0]) << int(read[1]),
            "fma": lambda: read[0] * read[1] + read[2],
        }[word[0]]()
        to = (
            word[2]
            if word[0] == "cvt" and word[1] == "rn"
            else word[1]
            if word[0] == "cvt"
            else kind
        )
        if to == "f32":
            return float(np.float32(result))
        return float(result) if to == "f64" else int(result) % (1 << (32 if to == "u32" else 64))

    def _access(self, word: list[str], operands: list[str], registers: dict[str, float]) -> None:
        form, store = FORMS[word[-1]], word[0] == "st"
        where, names = (operands[0], operands[1]) if store else (operands[1], operands[0])
        at = int(registers[where.strip("[]")]) - 4096
        assert at % struct.calcsize(form) == 0 and ("v2" in word) == names.startswith("{")
        for k, name in enumerate(n.strip() for n in names.strip("{}").split(",")):
            here = at + k * struct.calcsize(form)
            assert 0 <= here <= self.used - struct.calcsize(form)
            if store:
                struct.pack_into(form, self.memory, here, registers[name])
            else:
                registers[name] = struct.unpack_from(form, self.memory, here)[0]
