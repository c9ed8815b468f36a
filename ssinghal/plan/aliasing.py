"""Shows which values of a trace need no memory of their own, and which maps are channels-last: facts about torch's calls.

A *root* is the value whose buffer others share. The names of functions are ATen's, without overload.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod

from ssinghal.capture.trace import Step, Trace, ValueKind

Roots = list[int]
_Rule = Callable[
    [int, Step, int], "int | None"
]  # number of a step, the step, one of its results -> the value that it shares with

# The same elements in another shape or order. Some of these are copies in torch, where strides allow no view.
VIEWS = frozenset(
    "alias clone contiguous detach expand expand_as flatten movedim permute ravel reshape reshape_as squeeze swapaxes swapdims"
    " t transpose unflatten unsqueeze view view_as".split()
)
CASTS = frozenset("_to_copy to type_as".split())
NORMS = frozenset("batch_norm native_batch_norm _native_batch_norm_legit_no_training".split())
CONVOLUTIONS = frozenset("conv1d conv2d conv3d convolution".split())
TRANSPOSED_CONVOLUTIONS = frozenset("conv_transpose1d conv_transpose2d conv_transpose3d".split())
# The result is a map, [N, C, ...], whatever the operands are.
_RETURN_MAPS = CONVOLUTIONS | NORMS | {"group_norm", "native_group_norm", "instance_norm", "pixel_shuffle", "pixel_unshuffle"}
_RETURN_MAPS_PREFIXES = ("conv_transpose", "max_pool", "avg_pool", "adaptive_", "upsample_", "_upsample_")
# The result is no map, even of maps: dims get another meaning.
_NO_MAPS = VIEWS - {"alias", "clone", "contiguous", "detach"} | frozenset(
    "baddbmm bmm linear matmul mm scaled_dot_product_attention softmax _softmax".split()
)
_ROW_BY_ROW = frozenset(
    "chunk layer_norm linear native_layer_norm rms_norm select slice split split_with_sizes tensor_split unbind".split()
)
# Each element of the result depends on many: no such call can write over its operand.
_READS_MANY = (
    CONVOLUTIONS
    | TRANSPOSED_CONVOLUTIONS
    | frozenset(
        "addmm baddbmm bmm cumsum flip gather index linear matmul mm roll scaled_dot_product_attention sort"
        " take_along_dim".split()
    )
)
ROW_RANK, MAP_RANK = 3, 4
_WRITE_IN_PLACE = frozenset("copy_ fill_ silu_ zero_".split())  # also on the device


def name_of(step: Step) -> str:
    """Returns the name of a step's function: ``aten.conv2d.default`` is ``conv2d``."""
    return step.overload.partition(".")[2].partition(".")[0]


class Sharing:
    """The values of one trace that share memory. Every ``Roots`` holds the root of each value."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._names = [name_of(step) for step in trace.steps]

    @cached_property
    def by_storage(self) -> Roots:
        """As in torch: views of one storage share it, and so does what is written in place."""
        first: dict[int, int] = {}
        return [first.setdefault(value.storage, number) for number, value in enumerate(self._trace.values)]

    @cached_property
    def in_place(self) -> Roots:
        """Only what is written in place shares: every view is a separate tensor."""
        return self._roots(self._written)

    @cached_property
    def free_views(self) -> Roots:
        """As in a port with lazy views: slices are copies, all other views cost nothing, and batch norms are folded.

        TTNN has few operators that write in place; the result of any other call that does so in torch is separate.
        """
        values = self._trace.values

        def rule(number: int, step: Step, result: int) -> int | None:
            source = step.inputs[0] if step.inputs else result
            same_size = prod(values[source].shape) == prod(values[result].shape)
            if number in self.folded or (self._names[number] in VIEWS and same_size):
                return source
            return self._written(number, step, result) if self._names[number] in _WRITE_IN_PLACE else None

        return self._roots(rule)

    @cached_property
    def least(self) -> Roots:
        """The lower bound of every policy: views, slices, casts and folded norms cost nothing."""
        return self._roots(self._free)

    @cached_property
    def least_in_place(self) -> Roots:
        """As ``least``, and a result takes the buffer of an operand of its shape that has no later reader.

        Unless each of its elements depends on many.
        """
        trace = self._trace

        def rule(number: int, step: Step, result: int) -> int | None:
            free = self._free(number, step, result)
            if free is not None or self._names[number] in _READS_MANY:
                return free
            shape = trace.values[result].shape
            dying = (n for n in step.inputs if trace.last_use[n] == number and trace.values[n].shape == shape)
            return next((n for n in dying if not trace.values[n].is_resident), None)

        return self._roots(rule)

    @cached_property
    def folded(self) -> Mapping[int, Step]:
        """Batch norms by their step, each with the convolution before it, whose result has no other reader."""
        reads = Counter(n for step in self._trace.steps for n in set(step.inputs))
        reads.update(self._trace.results)
        named = list(zip(self._trace.steps, self._names, strict=True))
        alone = {s.results[0]: s for s, name in named if name in CONVOLUTIONS and reads[s.results[0]] == 1}
        norms = ((number, step.inputs[0]) for number, (step, name) in enumerate(named) if name in NORMS)
        return {number: alone[source] for number, source in norms if source in alone}

    @cached_property
    def rows(self) -> frozenset[int]:
        """Values that a port keeps as rows of their last dim: what is cut or computed row by row, and what is like that."""
        values = self._trace.values
        rows: set[int] = set()
        for step, name in zip(self._trace.steps, self._names, strict=True):
            for result in step.results:
                like = any(n in rows and values[n].shape == values[result].shape for n in step.inputs)
                if values[result].shape and (name in _ROW_BY_ROW or (like and name not in _NO_MAPS)):
                    rows.add(result)
        return frozenset(rows - self.maps)

    @cached_property
    def maps(self) -> frozenset[int]:
        """Values of [N, C, ...] that a port keeps channels-last; rows [N, C, L] where a convolution creates them.

        Those are images, the results of convolutions, pools and norms of maps, and what is computed from such maps without
        giving their dims another meaning.
        """
        values = self._trace.values
        maps = {n for n, v in enumerate(values) if v.kind is ValueKind.INPUT and len(v.shape) >= MAP_RANK}
        for step, name in zip(self._trace.steps, self._names, strict=True):
            returns_map = name in _RETURN_MAPS or name.startswith(_RETURN_MAPS_PREFIXES)
            least_rank = ROW_RANK if name in CONVOLUTIONS else MAP_RANK
            for result in step.results:
                rank = len(values[result].shape)
                like = any(n in maps and len(values[n].shape) == rank for n in step.inputs)
                if (returns_map and rank >= least_rank) or (like and name not in _NO_MAPS):
                    maps.add(result)
        return frozenset(maps)

    def _free(self, number: int, step: Step, result: int) -> int | None:
        storage_root = self.by_storage[result]
        if storage_root != result:
            return storage_root
        if step.inputs and (number in self.folded or self._names[number] in VIEWS | CASTS):
            return step.inputs[0]
        return None

    def _written(self, number: int, step: Step, result: int) -> int | None:
        """Returns the operand that an in-place call writes."""
        if not self._names[number].endswith("_"):
            return None
        storage = self._trace.values[result].storage
        return next((n for n in step.inputs if self._trace.values[n].storage == storage), None)

    def _roots(self, rule: _Rule) -> Roots:
        roots = list(range(len(self._trace.values)))
        for number, step in enumerate(self._trace.steps):
            for result in step.results:
                base = rule(number, step, result)
                if base is not None:
                    roots[result] = roots[base]
        return roots
