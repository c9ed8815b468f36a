"""Recognises a gather along one dim as a compiler lowers it: the dim in front, all others as one row, an embedding by index.

Each index then copies a complete row, however wide the rest of the tensor makes it. Where the indices only repeat the first and
the last element, the gather is replicate padding, which slices and a concat do without such rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ssinghal.core.case import Case, Placement
from ssinghal.core.tensors import DType, TensorSpec, format_shape
from ssinghal.diagnose.model import MlirValue, Operation
from ssinghal.diagnose.parse.mlir_module import Places, function_of
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case

_STEPS = ("ttnn.permute", "ttnn.reshape", "ttnn.to_layout", "ttnn.embedding")
_PAD = {4: ("replication_pad2d", 2), 5: ("replication_pad3d", 3)}
# Operations whose result has the values of their one tensor, in the same order.
_KEEPING = ("ttnn.reshape", "ttnn.to_layout", "ttnn.to_device", "ttnn.from_device", "ttnn.to_memory_config")
_INTEGERS = (DType.UINT8, DType.UINT16, DType.UINT32, DType.INT32)
_DENSE = re.compile(r"dense<([^<>\"]*)>\s*:\s*tensor<((?:\d{1,9}x){1,8})[su]?i\d+[,>].*", re.DOTALL)
MAX_INDICES = 1 << 16


@dataclass(frozen=True)
class Gather:
    """A gather of ``count`` elements along ``dim`` of ``source``, the tensor before it was transposed.

    ``indices``: those of the elements, where the module has them as a constant and leaves no doubt which constant it is.
    """

    source: TensorSpec
    dim: int
    count: int
    indices: tuple[int, ...] = ()

    @property
    def indices_known(self) -> bool:
        return bool(self.indices)

    @property
    def padding(self) -> tuple[int, int] | None:
        """The number of elements before and after, where the gather pads by repeating the edges, else None.

        All are before where the indices are unknown, which needs the same memory.
        """
        size = self.source.shape[self.dim]
        if not self.indices:
            return (self.count - size, 0) if self.count > size else None
        before = next((i for i, index in enumerate(self.indices) if index), 1) - 1
        after = self.count - size - before
        edges = [0] * before + list(range(size)) + [size - 1] * after
        return (before, after) if before >= 0 and after >= 0 and list(self.indices) == edges else None

    def case(self) -> Case:
        """Returns replicate padding of the source, as slices and concat.

        Raises:
            InvalidCase: it is not replicate padding, or not along one of the last dims of a map or a volume.
        """
        rank, padding = len(self.source.shape), self.padding
        if padding is None or rank not in _PAD:
            raise InvalidCase(
                f"a gather of {self.count} along dim {self.dim} of {format_shape(self.source.shape)} is not padding"
            )
        name, spatial = _PAD[rank]
        if self.dim < rank - spatial:
            raise InvalidCase(f"{name} pads the last {spatial} dims, not dim {self.dim}")
        pad = [0] * 2 * spatial
        last = rank - 1 - self.dim
        pad[2 * last], pad[2 * last + 1] = padding
        spec = self.source
        placement = Placement(spec.dtype, spec.layout, spec.memory.buffer, channels_last=False)
        return make_case(name, (spec.shape,), {"padding": pad}, placement)

    def padding_line(self) -> str:
        """Returns a line on whether the gather is replicate padding, for one that ``padding`` allows to be."""
        if self.indices_known:
            return "the gather is replicate padding"
        more = self.count - self.source.shape[self.dim]
        return (
            "the gather may be replicate padding (the indices are not in the text;"
            f" {more} more elements than before, assumed to be all in front)"
        )

    def line(self) -> str:
        known = f" by indices {_runs(self.indices)}" if self.indices else ""
        return (
            f"part of a gather: {self.count} elements along dim {self.dim} of {format_shape(self.source.shape)}{known},"
            f" lowered to an embedding of complete rows of {self.source.volume // self.source.shape[self.dim]:,} values"
        )


def gather_of(failing: Operation | None, module: Sequence[Operation]) -> Gather | None:
    """Returns the gather that ``failing`` is a step of; None where the module shows none."""
    if failing is None or failing.name not in _STEPS:
        return None
    at = Places(module).of(failing).at
    if at is None:
        return None
    function, at = function_of(at, module)
    start = at - _STEPS.index(failing.name)
    steps = [op for op in function[max(start - 4, 0) : max(start + 8, 0)] if op.name in _STEPS]
    for first in range(len(steps) - 3):
        four = steps[first : first + 4]
        if tuple(op.name for op in four) == _STEPS and function[at] in four and _is_chain(four):
            return _gather(four, function, module)
    return None


def _is_chain(steps: Sequence[Operation]) -> bool:
    """Returns whether each step takes the result of the one before it."""
    return all(a.results and a.results[0].name in {value.name for value in b.operands} for a, b in pairwise(steps))


def _gather(steps: Sequence[Operation], function: Sequence[Operation], module: Sequence[Operation]) -> Gather | None:
    permute, reshape, rows, embedding = steps
    source = next((value.spec for value in permute.operands if value.spec), None)
    matrix = next((value.spec for value in reshape.results if value.spec), None)
    result = next((value.spec for value in embedding.results if value.spec), None)
    order = permute.attributes.get("permutation")
    if source is None or matrix is None or result is None or not isinstance(order, list) or not order or len(matrix.shape) != 2:
        return None
    dim = order[0]
    if not isinstance(dim, int) or not 0 <= dim < len(source.shape) or matrix.shape[0] != source.shape[dim]:
        return None
    count = result.volume // matrix.shape[1]
    indices = [value for value in embedding.operands if value.name != rows.results[0].name]
    known = len(indices) == 1 and indices[0].spec is not None and indices[0].spec.volume == count <= MAX_INDICES
    before = function[: function.index(embedding)]
    return Gather(source, dim, count, _indices(indices[0], before, module, count) if known else ())


# Indices --------------------------------------------------------------------------------------------------------------------


def _indices(operand: MlirValue, before: Sequence[Operation], module: Sequence[Operation], count: int) -> tuple[int, ...]:
    """Returns the values of an operand of ``count`` elements; none where it is not a constant, or may be several.

    ``before``: the operations of its function that come before it.
    """
    constants = [operation for operation in module if operation.name == "ttnn.constant" and _volume(operation) == count]
    if operand.name.startswith("%arg"):  # evaluated once, by a function that returns it
        constant = constants[0] if len(constants) == 1 and _is_returned(constants[0], module) else None
    else:
        constant = _constant(operand, before)
        alike = [other for other in constants if constant and other.results[0].name == constant.results[0].name]
        constant = constant if len(alike) == 1 else None  # with several, the name may belong to another function
    numbers = _numbers(constant) if constant and _is_integer(operand) else ()
    return numbers if len(numbers) == count else ()


def _constant(value: MlirValue, before: Sequence[Operation]) -> Operation | None:
    """Returns the constant that ``value`` is, directly or in another layout, shape or memory."""
    for operation in reversed(before):
        if value.name not in (result.name for result in operation.results):
            continue
        if operation.name == "ttnn.constant":
            return operation
        tensors = [operand for operand in operation.operands if operand.spec is not None]
        if operation.name not in _KEEPING or len(tensors) != 1 or not _is_integer(tensors[0]):
            return None
        value = tensors[0]
    return None


def _is_returned(constant: Operation, module: Sequence[Operation]) -> bool:
    """Returns whether the operations after ``constant`` in its function only change its layout, shape or memory."""
    names = {value.name for value in constant.results}
    for operation in module[module.index(constant) + 1 :]:
        takes = any(value.name in names for value in operation.operands)
        if not takes and any(value.name in names for value in operation.results):
            return True  # the name belongs to the next function
        if takes and operation.name in _KEEPING and all(map(_is_integer, operation.results)):
            names |= {value.name for value in operation.results}
        elif takes and operation.name != "ttnn.deallocate":
            return False
    return True


def _is_integer(value: MlirValue) -> bool:
    return value.spec is not None and value.spec.dtype in _INTEGERS


def _volume(constant: Operation) -> int | None:
    """Returns the number of elements of a constant, from the text of its value."""
    dense = _DENSE.fullmatch(str(constant.attributes.get("value", "")))
    return math.prod(map(int, dense[2].split("x")[:-1])) if dense and constant.results else None


def _numbers(constant: Operation) -> tuple[int, ...]:
    """Parses ``dense<[[0, -1]]> : tensor<1x2xi32>``, or ``dense<2>`` for equal elements; any other text has no numbers."""
    dense, volume = _DENSE.fullmatch(str(constant.attributes.get("value", ""))), _volume(constant)
    if dense is None or volume is None:
        return ()
    parts = [part.strip() for part in dense[1].replace("[", " ").replace("]", " ").split(",")]
    if not all(re.fullmatch(r"-?\d{1,18}", part) for part in parts):
        return ()
    return tuple(map(int, parts)) if "[" in dense[1] else tuple(map(int, parts)) * volume


def _runs(indices: Sequence[int]) -> str:
    """Formats indices with repeated ones counted.

    >>> _runs([0, 0, 0, 1, 2, 3])
    '0 (3 times), 1, 2, 3'
    """
    runs = [(index, len(list(same))) for index, same in groupby(indices)]
    return ", ".join(f"{index} ({count} times)" if count > 1 else str(index) for index, count in runs)
