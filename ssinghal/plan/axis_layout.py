"""Describes how the values of a model lie in device tensors, so that views cost nothing, as with torch's strides.

A device tensor is written row by row, so it has an order of axes. An ``AxisLayout`` states which axes (*atoms*) form each dim
of the model's tensor, and in which order the device has them. Reshapes, permutes and transposes change the dims but not that
order: they cost nothing until a call needs the axes in another order. Atoms of size 1 do not exist.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ssinghal.core.tensors import Shape

Atoms = tuple[int, ...]


class Shuffle(NamedTuple):
    """A change of a device tensor's order: reshaped to ``shape``, then permuted by ``dims``."""

    shape: Shape
    dims: tuple[int, ...]

    @property
    def result(self) -> Shape:
        return tuple(self.shape[d] for d in self.dims)


@dataclass(frozen=True)
class AxisLayout:
    """``sizes``: of the atoms. ``dims``: the atoms of each dim, outermost first. ``order``: all atoms in the device's order."""

    sizes: Shape
    dims: tuple[Atoms, ...]
    order: Atoms

    @staticmethod
    def plain(shape: Sequence[int], order: Sequence[int] | None = None) -> AxisLayout:
        """Returns the layout of a tensor whose dims are on the device in ``order`` (default: as they are).

        >>> AxisLayout.plain((1, 64, 8, 8), (0, 2, 3, 1)).order  # channels last: atoms 1, 2 (height, width), then 0 (channels)
        (1, 2, 0)
        """
        real = [d for d, size in enumerate(shape) if size != 1]
        atoms = {d: i for i, d in enumerate(real)}
        dims = tuple((atoms[d],) if d in atoms else () for d in range(len(shape)))
        placed = range(len(shape)) if order is None else order
        return AxisLayout(tuple(shape[d] for d in real), dims, tuple(atoms[d] for d in placed if d in atoms))

    @property
    def shape(self) -> Shape:
        return tuple(self._size(atoms) for atoms in self.dims)

    @property
    def volume(self) -> int:
        return math.prod(self.sizes)

    def _size(self, atoms: Sequence[int]) -> int:
        return math.prod(self.sizes[a] for a in atoms)

    def atoms_of(self, dims: Sequence[int]) -> Atoms:
        """Returns the atoms in the order of a device tensor whose dims are ``dims`` of this one."""
        return tuple(a for d in dims for a in self.dims[d])

    @property
    def is_plain(self) -> bool:
        return self.has_order(range(len(self.dims)))

    def has_order(self, dims: Sequence[int]) -> bool:
        """Returns whether the device has the dims in this order."""
        return self.order == self.atoms_of(dims)

    def permuted(self, dims: Sequence[int]) -> AxisLayout:
        """Returns the layout after a permute, which leaves the device tensor as it is."""
        return AxisLayout(self.sizes, tuple(self.dims[d] for d in dims), self.order)

    def viewed(self, shape: Sequence[int]) -> AxisLayout | None:
        """Returns the layout of the same elements under another shape; None where the order on the device prevents it."""
        merged = self._merged()
        sizes, order = list(merged.sizes), list(merged.order)
        remaining = [a for atoms in merged.dims for a in atoms]
        dims: list[Atoms] = []
        for size in shape:
            taken: list[int] = []
            missing = size
            while missing > 1:
                atom = remaining.pop(0)
                if missing % sizes[atom] == 0:
                    missing //= sizes[atom]
                elif sizes[atom] % missing == 0:
                    sizes.append(sizes[atom] // missing)  # the inner part becomes a separate atom
                    sizes[atom] = missing
                    order.insert(order.index(atom) + 1, len(sizes) - 1)
                    remaining.insert(0, len(sizes) - 1)
                    missing = 1
                else:
                    return None
                taken.append(atom)
            dims.append(tuple(taken))
        return AxisLayout(tuple(sizes), tuple(dims), tuple(order))

    def with_last_dim_swapped(self, inner: int) -> AxisLayout:
        """Returns the layout whose last dim, (outer, ``inner``), is (inner, outer) on the device: another order of features.

        The last dim must be one atom that is last on the device.
        """
        (atom,) = self.dims[-1]
        sizes = (*self.sizes, inner)
        outer = self.sizes[atom] // inner
        sizes = tuple(outer if i == atom else size for i, size in enumerate(sizes))
        new = len(self.sizes)
        return AxisLayout(sizes, (*self.dims[:-1], (atom, new)), (*self.order[:-1], new, atom))

    def _merged(self) -> AxisLayout:
        """Returns one long dim, in which atoms that are neighbours in the tensor and on the device are joined."""
        logical = [a for atoms in self.dims for a in atoms]
        place = {atom: i for i, atom in enumerate(self.order)}
        runs: list[list[int]] = []
        for atom in logical:
            if runs and place[atom] == place[runs[-1][-1]] + 1:
                runs[-1].append(atom)
            else:
                runs.append([atom])
        first = {run[0]: i for i, run in enumerate(runs)}
        order = tuple(first[a] for a in self.order if a in first)
        return AxisLayout(tuple(self._size(run) for run in runs), (tuple(range(len(runs))),), order)

    def device_dims(self) -> list[int] | None:
        """Returns the dims in the order of the device, those of size 1 before the one that follows them.

        None where the atoms of a dim are not together and in order.
        """
        place = {atom: i for i, atom in enumerate(self.order)}
        keys: list[tuple[int, int]] = []
        following = len(self.order)
        for d in reversed(range(len(self.dims))):
            atoms = self.dims[d]
            if atoms:
                start = place[atoms[0]]
                if self.order[start : start + len(atoms)] != atoms:
                    return None
                following = start
            keys.append((following, d))
        return [d for _, d in sorted(keys)]

    def shuffle(self, dims: Sequence[int], device: Sequence[int] = (), *, by_dims: bool = False) -> Shuffle | None:
        """Returns the change that brings the device tensor into the order of ``dims``; None where it has that order.

        It has as few axes as possible, or the dims of ``device``, the present shape, where these need no splitting.
        ``by_dims``: no axis joins two dims.
        """
        return self._shuffle(self.atoms_of(dims), device, by_dims)

    def shuffle_last(self, device: Sequence[int] = ()) -> Shuffle | None:
        """Returns the change after which the last dim is innermost on the device, and all else is in the order that it has;
        None where it is so. See ``shuffle``."""
        return self._shuffle(self.with_last_innermost().order, device, False)

    def has_heads(self, device: Sequence[int]) -> bool:
        """Returns whether a device tensor of shape ``device``, [batch, heads, length, size], has (heads, size) as its last dim,
        so that its heads can be joined."""
        return len(device) == 4 and self.shuffle_last(device) == Shuffle(tuple(device), (0, 2, 1, 3))

    def with_last_innermost(self) -> AxisLayout:
        """Returns the layout after the change that ``shuffle_last`` returns."""
        last = self.dims[-1]
        return AxisLayout(self.sizes, self.dims, (*(a for a in self.order if a not in last), *last))

    def with_last_dim(self, size: int) -> AxisLayout:
        """Returns the layout with a last dim of another size, innermost on the device, as a product of matrices makes it.

        >>> AxisLayout.plain((2, 3, 8), (1, 0, 2)).with_last_dim(5).shape
        (2, 3, 5)
        """
        last = self.dims[-1]
        kept = [a for a in range(len(self.sizes)) if a not in last]
        number = {atom: i for i, atom in enumerate(kept)}
        new = (len(kept),) if size > 1 else ()
        dims = (*(tuple(number[a] for a in atoms) for atoms in self.dims[:-1]), new)
        order = (*(number[a] for a in self.order if a in number), *new)
        return AxisLayout((*(self.sizes[a] for a in kept), *([size] if new else [])), dims, order)

    def _shuffle(self, target_order: Atoms, device: Sequence[int], by_dims: bool) -> Shuffle | None:
        if self.order == target_order:
            return None
        target = {atom: i for i, atom in enumerate(target_order)}
        home = {atom: d if by_dims else 0 for d, atoms in enumerate(self.dims) for atom in atoms}
        runs: list[list[int]] = []
        for atom in self.order:
            if runs and target[atom] == target[runs[-1][-1]] + 1 and home[atom] == home[runs[-1][-1]]:
                runs[-1].append(atom)
            else:
                runs.append([atom])
        runs = self._split_at_dims(device, runs) or runs
        first = [target[run[0]] if run else -1 for run in runs]  # dims of size 1 go first
        permutation = sorted(range(len(runs)), key=lambda i: first[i])
        return Shuffle(tuple(self._size(run) for run in runs), tuple(permutation))

    def _split_at_dims(self, device: Sequence[int], runs: list[list[int]]) -> list[list[int]]:
        """Returns the runs split at the edges of the device's dims; none where a dim has parts of several runs."""
        starts = {run[0] for run in runs}
        remaining, parts = list(self.order), []
        for size in device:
            taken: list[int] = []
            while self._size(taken) < size and remaining:
                taken.append(remaining.pop(0))
            if self._size(taken) != size or starts & set(taken[1:]):
                return []
            parts.append(taken)
        return [] if remaining else parts
