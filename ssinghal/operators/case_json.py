"""Cases as JSON objects, one a line: what ``probe --from`` reads and what a record repeats."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ssinghal.core.case import AS_CASE, Case, OperandPlacement, OutputMemory, Placement
from ssinghal.core.memory_config import Sharding
from ssinghal.core.mesh import shard_dim_from_json
from ssinghal.core.parsing import dtype_named, one_of
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import BufferType, DType, Layout
from ssinghal.errors import CatalogError, InvalidCase, unknown
from ssinghal.operators import make_case

T = TypeVar("T")

MAX_FAULTS = 100  # that are stated of a file
MAX_NESTING = 16  # no ATen argument nests deeper than a list of lists
KEYS = (
    *("op", "inputs", "attrs", "dtype", "layout", "memory", "output_memory", "channels_last", "l1_small_size"),
    *(MIXED_KEYS := ("output_dtype", "operands")),  # only of calls that have them
)
_RECORD_KEYS = {"schema", "key", "status"}  # of a line of records.jsonl, which has the case among others
OPERAND_KEYS = ("dtype", "layout", "memory", "shard_dim")


def case_from_json(fields: Any) -> Case:
    """Builds the case of a JSON object, as lines of ``probe --from`` have it. A line of ``records.jsonl`` is one, too: its case
    is taken, and nothing else of it.

    Only ``op`` is required (and ``inputs``, but for creation operators). Keys left out take the defaults: bfloat16, tile,
    dram, output with its inputs, channels-last and L1_SMALL as the operator needs.

    Args:
        fields: The object: ``op``, ``inputs`` (shapes in elements), ``attrs``, ``dtype``, ``layout``, ``memory`` (such as
            ``l1:block@8x8``), ``output_memory``, ``output_dtype``, ``channels_last``, ``l1_small_size`` in bytes, and
            ``operands``, a list with what differs for each input.

    Returns:
        The case.

    Raises:
        InvalidCase: A key or a value is wrong; the text states which, and what was expected.

    Examples:
        >>> case_from_json({"op": "relu", "inputs": [[1, 1, 3136, 64]], "memory": "l1:height@8x8"}).id
        '1x1x3136x64-l1:height@8x8'
    """
    if not isinstance(fields, Mapping):
        raise InvalidCase(f"expected a JSON object, got {type(fields).__name__}")
    if fields.keys() >= _RECORD_KEYS:
        fields = {key: fields[key] for key in KEYS if key in fields}
    for key in fields:
        if key not in KEYS:
            raise InvalidCase(unknown("key", str(key), KEYS))
    name = fields.get("op")
    if not isinstance(name, str):
        raise InvalidCase(f"op: expected an operator's name, got {name!r}")
    inputs = fields.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(s, list) for s in inputs):
        raise InvalidCase(f"inputs: expected a list of shapes like [[1, 64, 80, 80]], got {inputs!r}")
    attrs = {} if fields.get("attrs") is None else fields["attrs"]
    if not isinstance(attrs, dict):
        raise InvalidCase(f"attrs: expected an object, got {attrs!r}")
    memory = memory_request(fields.get("memory", BufferType.DRAM))
    output_memory, output_sharding = result_memory(fields.get("output_memory", OutputMemory.SAME))
    output_dtype = fields.get("output_dtype")
    placement = Placement(
        dtype=dtype_named(fields.get("dtype", DType.BFLOAT16)),
        layout=one_of(Layout, "layout", fields.get("layout", Layout.TILE)),
        memory=memory.buffer,
        output_memory=output_memory,
        channels_last=_optional(fields, "channels_last", bool),
        l1_small_bytes=_optional(fields, "l1_small_size", int),
        sharding=memory.sharding,
        output_sharding=output_sharding,
        output_dtype=None if output_dtype is None else dtype_named(output_dtype, "output_dtype"),
        operands=_operands(fields.get("operands"), len(inputs)),
    )
    return make_case(name, tuple(tuple(s) for s in inputs), attrs, placement)


def result_memory(value: Any) -> tuple[OutputMemory, Sharding | None]:
    """Returns where the result goes, and its shards: of ``same``, ``ttnn`` or a memory such as ``l1:block@8x8``."""
    if not isinstance(value, str) or ":" not in value:
        return one_of(OutputMemory, "output_memory", value), None
    request = memory_request(value, "output_memory")
    return OutputMemory(request.buffer.value), request.sharding


def operand_from_json(fields: Any, where: str) -> OperandPlacement:
    """Returns what an operand has of its own; InvalidCase states what is wrong, and ``where``."""
    if fields is None:
        return AS_CASE
    if not isinstance(fields, Mapping):
        raise InvalidCase(f"{where}: expected an object with {', '.join(OPERAND_KEYS)}, or null, got {fields!r}")
    for key in fields:
        if key not in OPERAND_KEYS:
            raise InvalidCase(f"{where}: {unknown('key', str(key), OPERAND_KEYS)}")
    try:
        dim = shard_dim_from_json(fields["shard_dim"]) if fields.get("shard_dim") is not None else None
    except InvalidCase as error:
        raise InvalidCase(f"{where}: {error}") from None
    return OperandPlacement(
        dtype=dtype_named(fields["dtype"]) if fields.get("dtype") is not None else None,
        layout=one_of(Layout, "layout", fields["layout"]) if fields.get("layout") is not None else None,
        memory=memory_request(fields["memory"]) if fields.get("memory") is not None else None,
        shard_dim=dim,
    )


def _operands(values: Any, count: int) -> tuple[OperandPlacement, ...]:
    """Returns the placements of operands, none where none differs from the case's."""
    if values is None:
        return ()
    if not isinstance(values, (list, tuple)) or len(values) > count:
        raise InvalidCase(f"operands: expected a list of at most {count} objects, one per input, got {values!r}")
    operands = [operand_from_json(value, f"operands[{number}]") for number, value in enumerate(values)]
    while operands and operands[-1] == AS_CASE:
        operands.pop()
    return tuple(operands)


def parse_json(text: str) -> Any:
    """JSON without what its readers disagree on: a key given twice, NaN and infinities, whole numbers beyond 64 bits.

    Raises:
        InvalidCase: one of these, or nested more than ``MAX_NESTING`` deep.
        json.JSONDecodeError: not JSON.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=unique_keys, parse_constant=_number, parse_float=_number, parse_int=_whole_number
        )
    except RecursionError:
        raise InvalidCase("nested too deep") from None
    level = [value]
    for _ in range(MAX_NESTING):
        level = [inner for outer in level for inner in _inside(outer)]
    if level:
        raise InvalidCase("nested too deep")
    return value


def read_lines(path: Path, lines: Iterable[str], parse: Callable[[Any], T]) -> list[T]:
    """What ``parse`` makes of each line's JSON; blank lines are skipped.

    Raises:
        CatalogError: the first lines that are no JSON, or for which ``parse`` raises InvalidCase, as ``file:line: what``. If
            several lines are no JSON and none is, the file is of another kind, which is one error.
    """
    parsed: list[T] = []
    faults: list[str] = []
    faulty = other = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            parsed.append(parse(parse_json(line)))
            continue
        except json.JSONDecodeError as error:
            other += 1
            fault = f"{path}:{number}: not JSON: {error.msg} (column {error.colno})"
        except InvalidCase as error:
            fault = f"{path}:{number}: {error}"
        faulty += 1
        if faulty <= MAX_FAULTS:
            faults.append(fault)
    if other > 1 and other == faulty and not parsed:
        raise CatalogError([f"{path}: none of its {other:,} lines is JSON; expected JSONL, one object a line"])
    if faulty > len(faults):
        faults.append(f"{path}: {faulty - len(faults):,} more lines with faults")
    if faults:
        raise CatalogError(faults)
    return parsed


def unique_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as a dict; InvalidCase for a key that comes twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidCase(f"{key} is given twice")
        found[key] = value
    return found


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidCase(f"{text} is not a finite number")
    return value


def _whole_number(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= 2**63:
        raise InvalidCase(f"{text[:20]}{'…' if len(text) > 20 else ''} is beyond 64 bits")
    return int(text)


def _optional(fields: Mapping[str, Any], key: str, kind: type) -> Any:
    value = fields.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is None or (is_count if kind is int else isinstance(value, bool)):
        return value
    raise InvalidCase(f"{key}: expected {'true or false' if kind is bool else 'a whole number of bytes'}, got {value!r}")
