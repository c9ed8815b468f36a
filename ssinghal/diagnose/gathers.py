"""A gather along one dim as a compiler lowers it: the dim in front, all others as one row, row-major, an embedding by index.

Each index then copies a whole row, however wide the rest of the tensor made it. Where the indices only repeat the first and the
last element, the gather is replicate padding, which slices and a concat do without such rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ssinghal.cases import Case, Placement
from ssinghal.diagnose.reading import Operation
from ssinghal.errors import InvalidCase
from ssinghal.operators import make_case
from ssinghal.specs import TensorSpec, format_shape

_STEPS = ("ttnn.permute", "ttnn.reshape", "ttnn.to_layout", "ttnn.embedding")
_PAD = {4: ("replication_pad2d", 2), 5: ("replication_pad3d", 3)}


@dataclass(frozen=True)
class Gather:
    """``source``: the tensor before it was turned; ``count`` elements are taken along its ``dim``. ``indices``: which, where a
    constant of the module tells."""

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
    at = _position(failing, module)
    if at is None:
        return None
    start = at - _STEPS.index(module[at].name)
    steps = [op for op in module[max(start - 4, 0) : start + 8] if op.name in _STEPS]
    for first in range(len(steps) - 3):
        found = steps[first : first + 4]
        if tuple(op.name for op in found) == _STEPS and module[at] in found and _is_chain(found):
            return _gather(found, module)
    return None


def _position(failing: Operation | None, module: Sequence[Operation]) -> int | None:
    if failing is None or failing.name not in _STEPS:
        return None
    names = [value.name for value in failing.results]
    return next((i for i, op in enumerate(module) if op.name == failing.name and [v.name for v in op.results] == names), None)


def _is_chain(steps: Sequence[Operation]) -> bool:
    """Each takes what the one before it gave."""
    return all(a.results and a.results[0].name in {value.name for value in b.operands} for a, b in pairwise(steps))


def _gather(steps: Sequence[Operation], module: Sequence[Operation]) -> Gather | None:
    permute, reshape, _, embedding = steps
    source = next((value.spec for value in permute.operands if value.spec), None)
    matrix = next((value.spec for value in reshape.results if value.spec), None)
    order, made = permute.attributes.get("permutation"), next((value.spec for value in embedding.results if value.spec), None)
    if source is None or matrix is None or made is None or not isinstance(order, list) or not order or len(matrix.shape) != 2:
        return None
    dim = order[0]
    if not isinstance(dim, int) or not 0 <= dim < len(source.shape) or matrix.shape[0] != source.shape[dim]:
        return None
    count = made.volume // matrix.shape[1]
    told = [values for values in _constants(module) if len(values) == count]
    return Gather(source, dim, count, told[0] if len(told) == 1 else ())


def _constants(module: Sequence[Operation]) -> Iterator[tuple[int, ...]]:
    """Whole numbers that the module has as constants."""
    for op in module:
        if op.name == "ttnn.constant":
            text = str(op.attributes.get("value", ""))
            inside = text.partition("<")[2].partition(">")[0]
            if re.fullmatch(r"[\[\]\d,\s]+", inside):
                yield tuple(int(number) for number in re.findall(r"\d+", inside))


def _runs(indices: Sequence[int]) -> str:
    """
    >>> _runs([0, 0, 0, 1, 2, 3])
    '0 (3 times), 1, 2, 3'
    """
    told = [(index, len(list(same))) for index, same in groupby(indices)]
    return ", ".join(f"{index} ({count} times)" if count > 1 else str(index) for index, count in told)


__all__ = ["Gather", "gather_of"]
