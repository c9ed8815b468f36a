"""Writes Python: identifiers, calls that are broken into lines, and constants that several calls share."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any

from ssinghal.device.code_writer import Expression, Ref
from ssinghal.errors import InvalidCase
from ssinghal.plan.program.transcript import UNWRITTEN

WIDTH = 116
LONG = 48  # characters of an expression that gets a name of its own
USUAL = {"ttnn.DRAM_MEMORY_CONFIG": "DRAM", "ttnn.L1_MEMORY_CONFIG": "L1"}
RESERVED = frozenset("x weights device state constants check ttnn torch observed tensors result model".split())


def identifier(path: str) -> str:
    """Returns a Python name for the path of a module.

    >>> identifier("layer1.0.conv1"), identifier("0.lambda"), identifier("")
    ('layer1_0_conv1', 'm0_lambda', 'm')
    """
    name = re.sub(r"\W+", "_", path).strip("_")
    name = name if name and not name[0].isdigit() else f"m{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


class Names:
    """Gives names, each once."""

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._taken = {*RESERVED, *taken}

    def take(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


class Settings:
    """Constants of the program: what is long, or what several calls share, under a name."""

    def __init__(self) -> None:
        self._names = Names()
        self._by_text: dict[str, str] = {}

    def lines(self) -> list[str]:
        written: list[str] = []
        for text, name in self._by_text.items():
            written += broken(f"{name} = ", text)
        return written

    def named(self, wanted: str, text: str) -> str:
        """Returns the name of the constant with this value."""
        if text not in self._by_text:
            self._by_text[text] = self._names.take(wanted)
        return self._by_text[text]

    def expression(self, text: str) -> str:
        """Returns an expression of TTNN, by its name where it is long.

        Raises:
            InvalidCase: No Python is known for it.
        """
        if text.startswith(UNWRITTEN):
            raise InvalidCase(f"a call takes a {text.removeprefix(UNWRITTEN)} of TTNN, which cannot be written as Python")
        for usual, name in USUAL.items():
            text = re.sub(rf"{re.escape(usual)}\b", name, text)
        return text if len(text) <= LONG else self.named(_name_of(text), text)

    def options(self, wanted: str, arguments: Sequence[tuple[str, Any]]) -> str:
        """Returns the name of a dict of arguments without tensors."""
        written = ", ".join(f"{key}={self.python(value, _no_tensor)}" for key, value in arguments)
        return self.named(wanted, f"dict({written})")

    def python(self, value: Any, name_of: Callable[[int], str]) -> str:
        """Returns an argument as Python; ``name_of`` a tensor."""
        if isinstance(value, Ref):
            return name_of(value.number)
        if isinstance(value, Expression):
            return self.expression(value.text)
        if isinstance(value, tuple) and value and all(isinstance(v, tuple) and len(v) == 2 for v in value):
            return "{" + ", ".join(f"{key!r}: {self.python(item, name_of)}" for key, item in value) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.python(item, name_of) for item in value) + "]"
        return repr(value)


def _no_tensor(number: int) -> str:
    raise InvalidCase(f"tensor {number} is an option of a call, which cannot be written as a constant")


def _name_of(text: str) -> str:
    """Returns a name for an expression: of a sharded memory its kind, shards and cores, of a convolution's config its shards;
    else its class.

    >>> _name_of("ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(per_core_M=1)")
    'MATMUL_MULTI_CORE_REUSE_MULTI_CAST_1D_PROGRAM_CONFIG'
    """
    sharded = re.match(r"ttnn\.MemoryConfig\(ttnn\.TensorMemoryLayout\.(\w+),.*\]\), \[([\d, ]+)\]", text)
    if sharded:
        return f"{sharded[1]}_{sharded[2].replace(', ', 'X')}_ON_{_cores(text)}"
    shards = re.search(r"shard_layout=ttnn\.TensorMemoryLayout\.(\w+)", text)
    if shards and text.startswith("ttnn.Conv2dConfig("):
        return f"CONV_{shards[1]}" + ("_FREES_INPUT" if "deallocate_activation=True" in text else "")
    kind = text.partition("(")[0].rpartition(".")[2]
    return re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=\dD)(?=[A-Z])", "_", kind).upper()


def _cores(text: str) -> str:
    """Returns the columns and rows of the cores in an expression, or their number where they are no rectangle."""
    ranges = re.findall(r"CoreRange\(ttnn\.CoreCoord\((\d+), (\d+)\), ttnn\.CoreCoord\((\d+), (\d+)\)\)", text)
    sizes = [(int(c) - int(a) + 1, int(d) - int(b) + 1) for a, b, c, d in ranges]
    if len(sizes) == 1:
        return f"{sizes[0][0]}X{sizes[0][1]}"
    return f"{sum(columns * rows for columns, rows in sizes)}_CORES"


def broken(start: str, text: str, indent: str = "", end: str = "") -> list[str]:
    """Returns ``start + text + end``, where ``text`` may be a call, in lines of at most ``WIDTH`` columns if that can be."""
    line = f"{indent}{start}{text}{end}"
    opening = text.find("(")
    if len(line) <= WIDTH or opening < 0 or not text.endswith(")"):
        return [line]
    inner = f"{indent}    "
    lines, current = [f"{indent}{start}{text[: opening + 1]}"], ""
    for part in _arguments(text[opening + 1 : -1]):
        if current and len(f"{inner}{current} {part},") > WIDTH:
            lines.append(f"{inner}{current}")
            current = ""
        if len(f"{inner}{part},") > WIDTH:
            lines += broken("", part, inner, ",")
        else:
            current = f"{current} {part}," if current else f"{part},"
    return [*lines, *([f"{inner}{current}"] if current else []), f"{indent}){end}"]


def _arguments(text: str) -> list[str]:
    """Splits arguments at commas outside of brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def quoted(text: str) -> str:
    """Returns a string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shared_name(paths: Sequence[str]) -> str:
    """Returns a name for modules that are alike: what their paths have in common.

    >>> shared_name(["layer1.1", "layer1.2"]), shared_name(["encoder.layer_1", "encoder.layer_2"])
    ('layer1.block', 'encoder.layer')
    >>> shared_name(["model.6.m.0.attn", "model.6.m.1.attn"]), shared_name(["model.11", "model.17"])
    ('model.6.m.attn', 'model.block')
    """
    parts = [path.split(".") for path in paths]
    named = [[_without_number(part) for part in path] for path in parts]
    shared = [
        column[0] if len(set(column)) == 1 else names[0]
        for column, names in zip(zip(*parts, strict=False), zip(*named, strict=False), strict=True)
        if len(set(column)) == 1 or (names[0] and len(set(names)) == 1)
    ]
    ends_alike = named[0][-1] and len({path[-1] for path in named}) == 1
    return ".".join(shared if ends_alike else [*shared, "block"])


def _without_number(part: str) -> str:
    """Returns a part of a path without the number at its end, "" for a number alone."""
    return re.sub(r"_?\d+$", "", part)


def sentence_lines(text: str, indent: str) -> list[str]:
    """Returns a docstring of one sentence, in lines."""
    lines = wrap(text, WIDTH - len(indent) - 6)
    lines = [f'"""{lines[0]}', *lines[1:]]
    return [f"{indent}{line}" for line in [*lines[:-1], f'{lines[-1]}"""']]
