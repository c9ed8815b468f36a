"""A gather along one dim as a compiler lowers it: the dim in front, all others as one row, row-major, an embedding by index.

Each index then copies a whole row, however wide the rest of the tensor made it. Where the indices only repeat the first and the
last element, the gather is replicate padding, which slices and a concat do without such rows.
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
# Whose result has the values of its one tensor, in the same order.
_KEEPING = ("ttnn.reshape", "ttnn.to_layout", "ttnn.to_device", "ttnn.from_device", "ttnn.to_memory_config")
_WHOLE_NUMBERS = (DType.UINT8, DType.UINT16, DType.UINT32, DType.INT32)
_DENSE = re.compile(r"dense<([^<>\"]*)>\s*:\s*tensor<((?:\d{1,9}x){1,8})[su]?i\d+[,>].*", re.DOTALL)
MAX_INDICES = 1 << 16


@dataclass(frozen=True)
class Gather:
    """``source``: the tensor before it was turned; ``count`` elements are taken along its ``dim``. ``indices``: which, where
    the module has them as a constant, and leaves no doubt which constant it is."""

    source: TensorSpec
    dim: int
    count: int
    indices: tuple[int, ...] = ()

    @property
    def indices_known(self) -> bool:
        return bool(self.indices)

    @property
    def padding(self) -> tuple[int, int] | None:
        """Elements before and after, where it pads by repeating the edges; all before where the indices are not known, which is
        the same memory. None where it does something else."""
        size = self.source.shape[self.dim]
        if not self.indices:
            return (self.count - size, 0) if self.count > size else None
        before = next((i for i, index in enumerate(self.indices) if index), 1) - 1
        after = self.count - size - before
        edges = [0] * before + list(range(size)) + [size - 1] * after
        return (before, after) if before >= 0 and after >= 0 and list(self.indices) == edges else None

    def case(self) -> Case:
        """Replicate padding of the source, as slices and concat.

        Raises:
            InvalidCase: it is no replicate padding, or not along one of the last dims of a map or a volume.
        """
        rank, padding = len(self.source.shape), self.padding
        if padding is None or rank not in _PAD:
            raise InvalidCase(
                f"a gather of {self.count} along dim {self.dim} of {format_shape(self.source.shape)} is no padding"
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
        """Whether it is replicate padding, where ``padding`` says that it can be."""
        if self.indices_known:
            return "the gather is replicate padding"
        more = self.count - self.source.shape[self.dim]
        return (
            "the gather may be replicate padding (the indices are not in the text;"
            f" {more} more than there were, taken as all in front)"
        )

    def line(self) -> str:
        known = f" by indices {_runs(self.indices)}" if self.indices else ""
        return (
            f"part of a gather: {self.count} elements along dim {self.dim} of {format_shape(self.source.shape)}{known},"
            f" lowered to an embedding of whole rows of {self.source.volume // self.source.shape[self.dim]:,} values"
        )


def gather_of(failing: Operation | None, module: Sequence[Operation]) -> Gather | None:
    """The gather that ``failing`` is a step of; None where the module shows none."""
    if failing is None or failing.name not in _STEPS:
        return None
    at = Places(module).of(failing).at
    if at is None:
        return None
    function, at = function_of(at, module)
    start = at - _STEPS.index(failing.name)
    steps = [op for op in function[max(start - 4, 0) : max(start + 8, 0)] if op.name in _STEPS]
    for first in range(len(steps) - 3):
        found = steps[first : first + 4]
        if tuple(op.name for op in found) == _STEPS and function[at] in found and _is_chain(found):
            return _gather(found, function, module)
    return None


def _is_chain(steps: Sequence[Operation]) -> bool:
    """Each takes what the one before it gave."""
    return all(a.results and a.results[0].name in {value.name for value in b.operands} for a, b in pairwise(steps))


def _gather(steps: Sequence[Operation], function: Sequence[Operation], module: Sequence[Operation]) -> Gather | None:
    permute, reshape, rows, embedding = steps
    source = next((value.spec for value in permute.operands if value.spec), None)
    matrix = next((value.spec for value in reshape.results if value.spec), None)
    order, made = permute.attributes.get("permutation"), next((value.spec for value in embedding.results if value.spec), None)
    if source is None or matrix is None or made is None or not isinstance(order, list) or not order or len(matrix.shape) != 2:
        return None
    dim = order[0]
    if not isinstance(dim, int) or not 0 <= dim < len(source.shape) or matrix.shape[0] != source.shape[dim]:
        return None
    count = made.volume // matrix.shape[1]
    taken = [value for value in embedding.operands if value.name != rows.results[0].name]
    known = len(taken) == 1 and taken[0].spec is not None and taken[0].spec.volume == count <= MAX_INDICES
    before = function[: function.index(embedding)]
    return Gather(source, dim, count, _indices(taken[0], before, module, count) if known else ())


# Indices --------------------------------------------------------------------------------------------------------------------


def _indices(taken: MlirValue, before: Sequence[Operation], module: Sequence[Operation], count: int) -> tuple[int, ...]:
    """The values of ``taken``, an operand of ``count`` elements. ``before``: what its function does until then. None at all
    where it is no constant, or may be another one."""
    constants = [operation for operation in module if operation.name == "ttnn.constant" and _volume(operation) == count]
    if taken.name.startswith("%arg"):  # evaluated once, by a function that returns it
        found = constants[0] if len(constants) == 1 and _is_returned(constants[0], module) else None
    else:
        found = _constant(taken, before)
        alike = [other for other in constants if found and other.results[0].name == found.results[0].name]
        found = found if len(alike) == 1 else None  # more: the name may be of another function, by an operation not read
    numbers = _numbers(found) if found and _is_whole(taken) else ()
    return numbers if len(numbers) == count else ()


def _constant(value: MlirValue, before: Sequence[Operation]) -> Operation | None:
    """The constant that ``value`` is, itself or in another form."""
    for at in reversed(range(len(before))):
        operation = before[at]
        if value.name in (result.name for result in operation.results):
            if operation.name == "ttnn.constant":
                return operation
            tensors = [operand for operand in operation.operands if operand.spec is not None]
            is_form = operation.name in _KEEPING and len(tensors) == 1 and _is_whole(tensors[0])
            return _constant(tensors[0], before[:at]) if is_form else None
    return None


def _is_returned(constant: Operation, module: Sequence[Operation]) -> bool:
    """Whether nothing else is made of it where it is: what follows only gives it another form."""
    names = {value.name for value in constant.results}
    for operation in module[module.index(constant) + 1 :]:
        takes = any(value.name in names for value in operation.operands)
        if not takes and any(value.name in names for value in operation.results):
            return True  # the name is another function's
        if takes and operation.name in _KEEPING and all(map(_is_whole, operation.results)):
            names |= {value.name for value in operation.results}
        elif takes and operation.name != "ttnn.deallocate":
            return False
    return True


def _is_whole(value: MlirValue) -> bool:
    return value.spec is not None and value.spec.dtype in _WHOLE_NUMBERS


def _volume(constant: Operation) -> int | None:
    """Elements of its result, as the text of its value says."""
    found = _DENSE.fullmatch(str(constant.attributes.get("value", "")))
    return math.prod(map(int, found[2].split("x")[:-1])) if found and constant.results else None


def _numbers(constant: Operation) -> tuple[int, ...]:
    """``dense<[[0, -1]]> : tensor<1x2xi32>``, or ``dense<2>``, which all elements are; none of a text that says less."""
    found, volume = _DENSE.fullmatch(str(constant.attributes.get("value", ""))), _volume(constant)
    if found is None or volume is None:
        return ()
    parts = [part.strip() for part in found[1].replace("[", " ").replace("]", " ").split(",")]
    if not all(re.fullmatch(r"-?\d{1,18}", part) for part in parts):
        return ()
    return tuple(map(int, parts)) if "[" in found[1] else tuple(map(int, parts)) * volume


def _runs(indices: Sequence[int]) -> str:
    """
    >>> _runs([0, 0, 0, 1, 2, 3])
    '0 (3 times), 1, 2, 3'
    """
    told = [(index, len(list(same))) for index, same in groupby(indices)]
    return ", ".join(f"{index} ({count} times)" if count > 1 else str(index) for index, count in told)
