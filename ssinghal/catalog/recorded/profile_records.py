"""Reads the records of ``ssinghal profile``: every call of a program with its arguments, tensors and line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ssinghal.catalog.recorded.calls import Entry, Fault, RecordedCall, RecordedTensor, Refused
from ssinghal.catalog.recorded.files import lines, parsed, read_text
from ssinghal.catalog.recorded.tensors import read_memory
from ssinghal.catalog.recorded.values import read_value
from ssinghal.core.memory_config import MemoryRequest
from ssinghal.core.parsing import dtype_named
from ssinghal.core.tensors import BufferType, Layout, check_shape
from ssinghal.errors import CatalogError, InvalidCase
from ssinghal.tracker.records import VERSION

PATTERN = "records-*.jsonl"


def entries(file: Path) -> Iterator[Entry]:
    """Yields every call of a process that returned, and why others are none."""
    reader: _Records | None = None
    text = read_text(file)
    complete = text[: text.rfind("\n") + 1]  # a killed process may leave a line without an end
    for number, line in lines(complete):
        where = f"{file}:{number}"
        try:
            record = parsed(line, file, number)
            if not isinstance(record, dict) or "k" not in record:
                raise InvalidCase("expected a record of a profile")
            if record["k"] == "program":
                if record.get("version") != VERSION:
                    raise InvalidCase(f"a profile of version {record.get('version')}; expected {VERSION}")
                reader = _Records(record)
            if reader is None:
                raise InvalidCase("expected the program in the first line")
            entry = reader.read(record, where)
        except CatalogError as error:
            entry = Fault(where, str(error).partition(": ")[2])
        except InvalidCase as error:
            entry = Fault(where, str(error))
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            entry = Fault(where, f"not a complete record of a profile ({error!r})")
        if entry is not None:
            yield entry


class _Records:
    """What the records of a process refer to by number."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        argv = program["argv"]
        self._model = Path(str(argv[0])).stem if isinstance(argv, list) and argv else ""
        self._folder = str(program.get("folder", ""))
        self._specs: dict[int, RecordedTensor | InvalidCase] = {}
        self._sites: dict[int, str] = {}
        self._stacks: dict[int, list[int]] = {}
        self._given: dict[int, Mapping[str, Any]] = {}
        self._l1_small_bytes: int | None = None

    def read(self, record: Mapping[str, Any], where: str) -> Entry | None:
        kind = record["k"]
        if kind == "site":
            file = str(record["file"])
            inside = self._folder and file.startswith(self._folder + os.sep)
            self._sites[record["n"]] = f"{os.path.relpath(file, self._folder) if inside else file}:{int(record['line'])}"
        elif kind == "stack":
            self._stacks[record["n"]] = list(record["sites"])
        elif kind == "given":
            self._given[record["n"]] = dict(record["values"])
        elif kind == "spec":
            try:
                self._specs[record["n"]] = _tensor(record)
            except InvalidCase as error:  # no case has such a tensor
                self._specs[record["n"]] = error
        elif kind == "device":
            self._l1_small_bytes = int(record["memories"].get("l1_small", (0, 0))[1])
        elif kind == "call":
            return self._call(record, where)
        return None

    def _call(self, record: Mapping[str, Any], where: str) -> Entry:
        function = record["name"] if record["name"].startswith("ttnn.") else f"ttnn.{record['name']}"
        sites = self._stacks[record["stack"]]
        module = self._sites[sites[0]] if sites else ""
        try:
            operands = [self._spec(number) for number, _ in record["in"]]
            results = tuple(self._spec(number) for number, _ in record.get("out") or ())
            values = record.get("arguments") if "error" in record else self._given.get(record.get("given", -1))
            if values is None:
                if "given" in record or "error" in record:
                    return Refused(where, function, "its arguments are too long to be recorded")
                return RecordedCall(function, operands, {}, results, False, **self._origin(module, where))
            args = [read_value(value, operands) for value in values["args"]]
            kwargs = {name: read_value(value, operands) for name, value in values["kwargs"].items()}
        except InvalidCase as error:
            return Refused(where, function, str(error))
        return RecordedCall(function, args, kwargs, results, True, **self._origin(module, where))

    def _origin(self, module: str, where: str) -> dict[str, Any]:
        return {"model": self._model, "module": module, "where": where, "l1_small_bytes": self._l1_small_bytes}

    def _spec(self, number: int) -> RecordedTensor:
        spec = self._specs[number]
        if isinstance(spec, InvalidCase):
            raise InvalidCase(str(spec))
        return spec


def _tensor(record: Mapping[str, Any]) -> RecordedTensor:
    shape, dtype, layout = check_shape(tuple(record["shape"])), dtype_named(record["dtype"]), Layout(record["layout"])
    if record["memory"] is None:
        return RecordedTensor(shape, dtype, layout)
    if record.get("config"):
        config = parsed(record["config"], Path("config"))
        return RecordedTensor(shape, dtype, layout, read_memory(config))
    if record["memory"] not in (BufferType.DRAM, BufferType.L1):
        raise InvalidCase(f"a tensor in {record['memory']}; expected dram or l1")
    return RecordedTensor(shape, dtype, layout, MemoryRequest(BufferType(record["memory"])))
