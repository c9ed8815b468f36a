"""The values of a catalog file as types of pydantic, each with the check that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, StrictInt

from ssinghal.core.case import OperandPlacement, OutputMemory
from ssinghal.core.memory_config import MemoryRequest, Sharding
from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import MAX_DIM, MAX_RANK, BufferType, Shape, check_shape
from ssinghal.errors import InvalidCase, one_line, unknown
from ssinghal.operators.case_json import operand_from_json, result_memory

Operand = Shape | tuple[Shape | None, ...]

MAX_MODULES = 64  # that a line names
MAX_NESTING = 16  # of the arguments of a call
PINNED = r"^[\w.-]+==\S+$"
FUNCTION = r"^\w+(\.\w+)*:\w+(\.\w+)*$"
TORCH_DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)


def _shape(value: Any) -> Shape:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of sizes, got {value!r}")
    if len(value) > MAX_RANK:
        raise ValueError(f"rank {len(value)} is outside 1..{MAX_RANK}")
    try:
        return check_shape(tuple(value))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def read_shapes(value: Any) -> tuple[Shape, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of shapes, got {value!r}")
    return tuple(_shape(item) for item in value)


def _tensor(value: Any) -> Shape:
    """Reads a shape as torch has it: ``[]`` is a scalar, a size may be 0."""
    if not isinstance(value, list):
        raise ValueError(f"expected a list of sizes, got {value!r}")
    if len(value) > MAX_RANK:
        raise ValueError(f"rank {len(value)} is outside 0..{MAX_RANK}")
    for size in value:
        if type(size) is not int or not 0 <= size <= MAX_DIM:
            raise ValueError(f"shape {value}: size {size!r} is not a whole number in 0..{MAX_DIM}")
    return tuple(value)


def read_tensors(value: Any) -> tuple[Shape, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of shapes, got {value!r}")
    return tuple(_tensor(item) for item in value)


def read_operand(value: Any) -> Operand:
    """Reads one shape, or a list of shapes (the tensors of cat) in which null is an absent one (the indices of index)."""
    if isinstance(value, list) and value and (value[0] is None or isinstance(value[0], list)):
        return tuple(None if item is None else _tensor(item) for item in value)
    return _tensor(value)


def read_outputs(value: Any) -> tuple[Shape, ...]:
    """Reads one shape, or a list of shapes, as a tuple of shapes."""
    return read_tensors(value) if isinstance(value, list) and value and isinstance(value[0], list) else (_tensor(value),)


def _argument(value: Any) -> Any:
    if not _is_plain(value, MAX_NESTING):
        raise ValueError(f"{value!r} is not a number, a text, true, false, null or a list or a mapping of them")
    return value


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(isinstance(key, str) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return isinstance(value, (int, float, bool, str, type(None)))


def _request(value: Any) -> MemoryRequest:
    try:
        return memory_request(_tensor_memory(value))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _result(value: Any) -> tuple[OutputMemory, Sharding | None]:
    try:
        return result_memory(value)
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _operand_placements(value: Any) -> tuple[OperandPlacement, ...]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of what operands have of their own, got {value!r}")
    try:
        return tuple(operand_from_json(fields, f"operand {number}") for number, fields in enumerate(value, 1))
    except InvalidCase as error:
        raise ValueError(str(error)) from error


def _tensor_memory(value: Any) -> Any:
    if value == BufferType.L1_SMALL:
        raise ValueError("tensors go to 'dram' or 'l1'; l1_small is TTNN's own")
    return value


def _whole(value: Any) -> Any:
    """Refuses 1.0 and true, which equal 1."""
    if isinstance(value, (bool, float)):
        raise ValueError(f"expected a whole number, got {value!r}")
    return value


def _torch_dtype(value: Any) -> Any:
    if value not in TORCH_DTYPES:
        raise ValueError(unknown("dtype", str(value), TORCH_DTYPES))
    return value


def _of_one_line(value: str) -> str:
    """Refuses a text that would break the lines of output, and of records, that it is in."""
    if one_line(value) != value:
        raise ValueError(f"expected a text of one line, got {value!r}")
    return value


def _modules(value: Any) -> Any:
    """Reads a module, or modules with the number of their calls."""
    if isinstance(value, str) and value:
        return _of_one_line(value)
    counts = value.items() if isinstance(value, dict) else ()
    if not counts or not all(isinstance(path, str) and path and type(calls) is int and calls > 0 for path, calls in counts):
        raise ValueError(f"expected a module, or modules with their calls like {{block.0: 2, (top): 1}}, got {value!r}")
    if len(counts) > MAX_MODULES:
        raise ValueError(f"names {len(counts)} modules; expected at most {MAX_MODULES}, and the number of the others in more")
    for path, _ in counts:
        _of_one_line(path)
    return value


def _result_text(value: tuple[OutputMemory, Sharding | None]) -> str:
    memory, sharding = value
    return f"{memory}:{sharding}" if sharding else memory.value


def _operands_json(value: tuple[OperandPlacement, ...]) -> list[Any]:
    return [operand.to_json() for operand in value]


SchemaNumber = Annotated[Literal[1], BeforeValidator(_whole)]
ShapeField = Annotated[Shape, PlainValidator(_shape)]
Count = Annotated[StrictInt, Field(ge=1)]
Amount = Annotated[StrictInt, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
Name = Annotated[Text, AfterValidator(_of_one_line)]  # stands in lines of output and in records
TorchDType = Annotated[str, BeforeValidator(_torch_dtype)]
Pinned = Annotated[str, Field(pattern=PINNED)]
Function = Annotated[str, Field(pattern=FUNCTION)]
Modules = Annotated[str | Mapping[str, int], PlainValidator(_modules)]
Arguments = Mapping[str, Annotated[Any, PlainValidator(_argument)]]
Request = Annotated[MemoryRequest, PlainValidator(_request), PlainSerializer(str)]
Result = Annotated[tuple[OutputMemory, Sharding | None], PlainValidator(_result), PlainSerializer(_result_text)]
Operands = Annotated[tuple[OperandPlacement, ...], PlainValidator(_operand_placements), PlainSerializer(_operands_json)]


class CatalogModel(BaseModel):
    """The base of every mapping of a catalog: unknown keys are faults.

    ``read_apart``: keys that the mapping has beside the fields, as the lists of a catalog. ``never``: fields that no file may
    have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    read_apart: ClassVar[tuple[str, ...]] = ()
    never: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def keys(cls) -> list[str]:
        """Returns the keys that a file may have in this mapping."""
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        return [key for key in (*fields, *cls.read_apart) if key not in cls.never]
