"""A case bound to its operator: its complete attributes, the specs of its tensors, and the call itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ssinghal.core.boards import mesh_boards
from ssinghal.core.case import Case, OutputMemory, RequestedOutput
from ssinghal.core.memory_config import BufferType, MemoryRequest, Sharding, ShardKind
from ssinghal.core.mesh import ShardDim
from ssinghal.core.sharding import complete
from ssinghal.core.tensors import ONE_CHIP, Board, DType, Layout, MemoryConfig, Shape, TensorSpec, check_shape
from ssinghal.errors import InvalidCase, RegistryError, unknown
from ssinghal.operators import find_operator
from ssinghal.operators.mesh_parts import on_each_chip
from ssinghal.operators.operator_info import (
    FABRIC,
    FABRICS,
    MESH,
    Attrs,
    Call,
    Limitation,
    MapResult,
    OperatorInfo,
    flat_nhwc,
    plain_specs,
    to_nhwc,
    working_shapes,
)
from ssinghal.operators.settings import check_board, check_name, settings_of, table
from ssinghal.operators.settings.activations import of_operands, of_results
from ssinghal.operators.settings.passing import Passing, built


@dataclass(frozen=True)
class BoundCall:
    """A case with its operator. Everything else is computed when first read, and raises InvalidCase where it has no answer.

    >>> call = bind(make_case("softmax", ((2, 64),), {"dim": -1}))
    >>> call.attrs, call.results
    ({'dim': -1, 'half_to_float': False, 'dtype': None}, [(2, 64)])
    """

    case: Case
    info: OperatorInfo
    # Decides what is left open of shards. Without one, ``inputs`` and ``outputs`` of a call with shards are not known, and
    # operands that are cut over chips are complete.
    board: Board | None = None
    # Leaves the shards out of ``inputs`` and ``outputs``.
    is_unsharded: bool = False

    @cached_property
    def on_chip(self) -> Case:
        """The call that each chip of the board makes, on its part of every operand; the case itself where none is cut."""
        mesh = self.board.mesh if self.board else ONE_CHIP
        if self.board and mesh == ONE_CHIP and self.is_distributed:
            what = "runs on a mesh of chips" if self.info.traits.collective else "has an operand that is cut over chips"
            raise InvalidCase(f"{self.info.name} {what}; {self.board.name} is one chip, expected {' or '.join(mesh_boards())}")
        return on_each_chip(self.case, mesh) if self.board else self.case

    def shard_dim(self, position: int) -> ShardDim | None:
        """Returns how the operand at ``position`` is cut over the chips, for TTNN's record of who holds what.

        None where it is placed in another shape than it was written in: its dims are then others, and no verdict needs them.
        """
        dim = self.case.placement.operand(position).shard_dim
        moved = dim is None or self.inputs[position].shape != self.on_chip.inputs[position]
        return None if moved else dim

    @cached_property
    def attrs(self) -> Attrs:
        """With the operator's defaults, without settings; those of collectives with the mesh too."""
        given = self.case.attrs
        settings = self.settings
        for name in given:
            if name not in self.info.attrs and name not in settings:
                check_name(self.info, name)
        stated = {name: given[name] for name in given if name not in settings} if settings else given
        attrs = self.info.complete_attrs(stated)
        if self.info.traits.collective:
            attrs[MESH] = self.board.mesh if self.board else ONE_CHIP
        return attrs

    @cached_property
    def settings(self) -> Attrs:
        """The attributes that are arguments of TTNN's call alone, such as a program config, in their JSON form."""
        given = self.case.attrs
        if self.info.attrs.keys() >= given.keys():
            return {}
        known = settings_of(self.info)
        return {name: value for name, value in given.items() if name in known}

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The TTNN functions that get the settings: that of this very call, where the operator states it."""
        choose, in_place = self.info.traits.function, self.info.traits.in_place_with
        for name, function in in_place.items():
            if name in self.settings:
                return (function,)
        others = tuple(function for function in self.info.functions if function not in in_place.values())
        return others if choose is None else (choose(self.shapes, self.attrs),)

    @property
    def in_place(self) -> bool:
        """Whether the result is input 0."""
        if self.info.traits.in_place or any(name in self.settings for name in self.info.traits.in_place_with):
            return True
        return any(self._configured("inplace"))

    def _configured(self, name: str) -> Iterator[Any]:
        """Yields the value of a setting of this name, and of a field of this name in a config."""
        for config in (self.settings, *self.settings.values()):
            if isinstance(config, Mapping) and config.get(name):
                yield config[name]

    @property
    def fabric(self) -> str | None:
        """How the chips must be connected for the call, a name of TTNN's FabricConfig; None: not at all, or it is invalid."""
        default = self.info.attrs.get(FABRIC)
        name = self.case.attrs.get(FABRIC, default.default) if default else None
        return name if name in FABRICS else None

    @cached_property
    def shapes(self) -> list[Shape]:
        """Of the operands, as ``infer`` and ``torch`` take them."""
        return working_shapes(self.info, self.on_chip)

    @cached_property
    def results(self) -> list[Shape]:
        """Shapes of the results, as torch gives them."""
        return self.info.infer(self.shapes, self.attrs)

    @cached_property
    def inputs(self) -> list[TensorSpec]:
        """Each operand as it goes to the device."""
        place = self.info.place
        specs = plain_specs(self.on_chip) if place is None else place(self.on_chip, self.shapes, self.attrs)
        return [self._operand(position, spec) for position, spec in enumerate(specs)]

    @property
    def placeable(self) -> list[TensorSpec]:
        """Each operand as it is: all that is known of an incomplete call. None where they cannot be cut over the chips."""
        try:
            return plain_specs(self.on_chip)
        except InvalidCase:
            return []

    @property
    def is_distributed(self) -> bool:
        """Whether the chips of a mesh hold different values, or exchange them."""
        return self.info.traits.collective or self.case.placement.is_cut

    def _operand(self, position: int, spec: TensorSpec) -> TensorSpec:
        """Returns the spec of an operand with its own dtype, layout and memory, where the case has them, and its shards."""
        placement = self.on_chip.placement
        if placement.is_plain:
            return spec
        own = placement.operand(position)
        request = own.memory or self.usual_request(position, spec)
        changed = replace(spec, dtype=own.dtype or spec.dtype, layout=own.layout or spec.layout, memory=request.interleaved)
        if position == 0:
            request = self._as_ttnn_shards(changed, request)
        return self._in_shards(changed, request)

    def _as_ttnn_shards(self, spec: TensorSpec, request: MemoryRequest) -> MemoryRequest:
        """Returns the request with the shards that the operator itself makes of operand 0, where the case leaves them open."""
        own, sharding = self.info.traits.own_shards, request.sharding
        if own is None or sharding is None or self.board is None or request.buffer is not BufferType.L1:
            return request
        if sharding.kind is ShardKind.ND or sharding.cores is not None or sharding.shape is not None:
            return request
        return replace(request, sharding=own(self.shapes, self.attrs, self.settings, sharding, spec, self.board.grid))

    def usual_request(self, position: int, spec: TensorSpec) -> MemoryRequest:
        """Returns the memory of an operand that has none of its own. ``spec``: the operand in a case without shards."""
        placement = self.case.placement
        if placement.sharding is None or spec.memory != placement.memory_config:
            return MemoryRequest(spec.memory.buffer)
        return MemoryRequest(BufferType.DRAM) if position in self.info.traits.weights else placement.request

    def _in_shards(self, spec: TensorSpec, request: MemoryRequest) -> TensorSpec:
        if request.sharding is None:
            return spec
        if self.is_unsharded:
            return replace(spec, memory=request.interleaved)
        if self.board is None:
            raise RegistryError(f"{self.info.name}: the shards of {self.case.id} depend on the board")
        return complete(spec, request.buffer, request.sharding, self.board)

    @cached_property
    def outputs(self) -> list[TensorSpec]:
        """Each result as TTNN must return it."""
        dtypes = self._output_dtypes()
        results = self.results
        return [self._output(s, dtype, alike=s == results[0]) for s, dtype in zip(results, dtypes, strict=True)]

    def _output_dtypes(self) -> list[DType]:
        placement, declared = self.on_chip.placement, self.info.traits.output_dtypes
        typed = [
            position for position in range(self._leader, len(self.on_chip.inputs)) if position not in self.info.traits.untyped
        ]
        usual = (None if placement.is_plain or not typed else placement.operand(typed[0]).dtype) or placement.dtype
        results = self.results  # first: the dtypes are those of shapes that go together
        dtypes = declared(usual, self.shapes, self.attrs) if callable(declared) else declared
        return [placement.output_dtype or (dtypes[i] if i < len(dtypes) else None) or usual for i in range(len(results))]

    @property
    def _leader(self) -> int:
        """Position of the operand that the result follows: the first that is no weight and holds no indices, else the first."""
        if self.info.traits.in_place:
            return 0
        skipped = {*self.info.traits.weights, *self.info.traits.indices}
        return next((position for position in range(len(self.on_chip.inputs)) if position not in skipped), 0)

    def _output(self, shape: Shape, dtype: DType, *, alike: bool) -> TensorSpec:
        placement, traits = self.on_chip.placement, self.info.traits
        check_shape(shape, f"{self.info.name}: output shape")
        if self.in_place and not traits.in_place:
            return self.inputs[0]
        own_layout = None if placement.is_plain else placement.operand(self._leader).layout
        layout = traits.output_layout or own_layout or placement.layout
        if traits.result_form is not None:
            shape, form_layout = traits.result_form(shape, self.attrs)
            layout = form_layout or layout
        elif traits.nhwc:
            shape = to_nhwc(shape) if traits.nhwc is MapResult.NHWC else flat_nhwc(shape)
        if self.settings:
            layout = Layout.TILE if dtype.is_block_float else self.layout_setting or layout
        memory = placement.output_config
        if memory is None or traits.output_fixed:
            memory = MemoryConfig(traits.ttnn_output) if traits.ttnn_output else placement.memory_config
        spec = TensorSpec(shape, dtype, layout, memory, traits.row_alignment if layout is Layout.ROW_MAJOR else 1)
        if traits.in_place and not placement.is_plain:
            return replace(spec, memory=self.inputs[0].memory)
        if placement.is_plain or traits.output_fixed or placement.output_config is None:
            return spec
        if placement.output_memory is not OutputMemory.SAME:
            request = MemoryRequest(memory.buffer, self._output_shards(alike=alike))
            return self._in_shards(spec, self._on_leaders_cores(request))
        return self._like_first(spec)

    @property
    def layout_setting(self) -> Layout | None:
        """The layout that a setting requests of the result. TTNN ignores it for block floats, and in some of its programs."""
        named = list(self._configured("output_layout"))
        return Layout(named[0].lower()) if named else None

    @property
    def is_layout_open(self) -> bool:
        """Whether TTNN decides the layout of the result: a setting requests it, or an operand has another than the case's."""
        placement = self.on_chip.placement
        own = {operand.layout or placement.layout for operand in placement.operands}
        return self.layout_setting is not None or not own <= {placement.layout}

    def _output_shards(self, *, alike: bool) -> Sharding | None:
        """Returns the requested shards of a result. Their shape is the first one's: a result that is not ``alike`` is in shards
        of that kind on the same cores."""
        sharding = self.on_chip.placement.output_sharding
        return sharding if sharding is None or alike else replace(sharding, shape=None)

    def _like_first(self, spec: TensorSpec) -> TensorSpec:
        """Returns the spec of a result in the memory of the operand that it follows: in the same shards where they hold it,
        else in shards of that kind on the same cores."""
        leader = self._leader
        request = self.on_chip.placement.operand(leader).memory or self.on_chip.placement.request
        if request.sharding is None:
            return replace(spec, memory=request.interleaved)
        first = self.inputs[leader] if self.inputs else None
        if first is not None and first.memory.shard is not None:
            plain = replace(first, memory=spec.memory)  # shards pad rows, so that only unsharded specs compare
            if (plain.layout, plain.padded_2d) == (spec.layout, spec.padded_2d):
                return replace(spec, memory=first.memory)
        request = replace(request, sharding=replace(request.sharding, shape=None))
        return self._in_shards(spec, self._on_leaders_cores(request))

    def _on_leaders_cores(self, request: MemoryRequest) -> MemoryRequest:
        """Returns the request for a result on the cores of the operand that it follows, where that is sharded alike and the
        case leaves them open: many operators refuse other cores. A convolution chooses those of its result by itself."""
        sharding, leader = request.sharding, self.inputs[self._leader].memory if self.inputs else None
        if sharding is None or leader is None or leader.shard is None or self.info.traits.own_shards is not None:
            return request
        alike = (request.buffer, sharding.kind) == (leader.buffer, leader.shard.kind)
        if not alike or sharding.cores is not None or sharding.shape is not None:
            return request
        chosen = replace(sharding, cores=leader.shard.cores, orientation=leader.shard.orientation)
        return replace(request, sharding=chosen)

    @property
    def requested_output(self) -> RequestedOutput:
        """What the call requests of its result."""
        placement = self.on_chip.placement
        config = placement.output_config
        if config is not None and not placement.is_plain and self.outputs:
            config = self.outputs[0].memory
        return RequestedOutput(config, placement.output_dtype)

    @property
    def is_plain(self) -> bool:
        """Whether all tensors are interleaved and alike, and no argument is a setting of TTNN's own."""
        return self.case.placement.is_plain and not self.settings

    @property
    def is_output_open(self) -> bool:
        """Whether TTNN decides where the result goes: it gets no memory config, or may not keep to it."""
        placement, traits = self.on_chip.placement, self.info.traits
        if placement.output_config is None or traits.output_fixed:
            return True
        return traits.may_stray is not None and traits.may_stray(self.inputs, self.attrs)

    def check(self) -> None:
        """Raises InvalidCase unless the number of operands, the attributes and the shapes go together."""
        self.info.check_operands(self.on_chip.inputs)
        _ = self.results
        if self.settings:
            self._check_settings()

    def _check_settings(self) -> None:
        """Raises InvalidCase for a setting that this call does not take, or that contradicts an attribute or the board."""
        taken = settings_of(self.info, self.functions)
        for name in self.settings:
            if name not in taken:
                called = " or ".join(f"ttnn.{function}" for function in self.functions)
                raise InvalidCase(f"{self.info.name}: {unknown(f'setting of {called}, which this call runs,', name, taken)}")
        if self.info.traits.check_settings is not None:
            self.info.traits.check_settings(self.settings, self.attrs)
        if self.board is not None:
            check_board(self.info.name, self.settings, taken, self.board)

    def settings_by_function(self, *, merged: bool = True) -> dict[str, Attrs]:
        """Returns the settings for each TTNN function of the call that takes some. ``merged``: also those that the operator
        itself passes, merged with its attributes."""
        left_out = () if merged else self.info.traits.merged_settings
        found = {}
        for function in self.functions:
            taken = settings_of(self.info, (function,))
            found[function] = {n: v for n, v in self.settings.items() if n in taken and n not in left_out}
        return {function: settings for function, settings in found.items() if settings}

    def specs(self) -> tuple[list[TensorSpec], list[TensorSpec]]:
        """Operands and results of a checked call."""
        self.check()
        outputs = self.outputs  # first: it checks the results' shapes, from which some operands' specs are built
        return self.inputs, outputs

    def limitations(self, board: Board | None) -> Iterator[Limitation]:
        """Known reasons why TTNN cannot make the call; on ``board``, or on any where it is None."""
        return (x for x in self.info.limitations if x.applies(self.info, self.on_chip, self.attrs, board))

    @property
    def host_tiles(self) -> int:
        """Output tiles that TTNN maps on the host for the call, at 1 to 70 us each."""
        host_map = self.info.traits.host_map
        return host_map(self.inputs, self.outputs) if host_map else 0

    def run(self, ttnn: Any, device: Any, tensors: Sequence[Any], out: Mapping[str, Any], *, values: bool = False) -> list[Any]:
        """Calls TTNN and lists the results. ``out`` and ``values``: see ``Call``."""
        if self.info.call is None:
            raise RegistryError(f"{self.info.name}: no TTNN call")
        arguments = device, list(tensors), self.attrs, dict(out), self.on_chip, values, self.settings
        if not self.settings:
            return _listed(self.info.call(Call(ttnn, *arguments)))
        keywords = {
            function: {name: built(ttnn, value, table().functions[function][name]) for name, value in settings.items()}
            for function, settings in self.settings_by_function(merged=False).items()
        }
        passing = Passing(ttnn, keywords)
        results = _listed(self.info.call(Call(passing.ttnn, *arguments)))
        passing.check(self.info.name)
        return results

    def reference(self, torch: Any, tensors: Sequence[Any]) -> list[Any]:
        """torch's results on tensors of ``shapes``."""
        if not self.settings:
            return _listed(self.info.torch(torch, tensors, self.attrs))
        activated = of_operands(torch, self.settings, tensors)
        return of_results(torch, self.settings, _listed(self.info.torch(torch, activated, self.attrs)))


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def bind(case: Case, board: Board | None = None) -> BoundCall:
    """Finds the operator of ``case``; InvalidCase where there is none of that name. ``board``: decides what the case leaves
    open of its shards."""
    return BoundCall(case, find_operator(case.operator), board)


def specs_of(case: Case, board: Board | None = None) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Operands and results of a complete call; InvalidCase where operands, attributes or shapes do not go together."""
    return bind(case, board).specs()


def unsharded(case: Case) -> Case:
    """The case with all tensors interleaved, whose specs need no board."""
    placement = case.placement
    if placement.is_plain:
        return case
    operands = tuple(replace(own, memory=own.memory and MemoryRequest(own.memory.buffer)) for own in placement.operands)
    return replace(case, placement=replace(placement, sharding=None, output_sharding=None, operands=operands))


def unsharded_specs(case: Case) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Operands and results as of ``specs_of``, interleaved: shards, which depend on the board, change no logical bytes."""
    if any(operand.shard_dim is not None for operand in case.placement.operands):
        return specs_of(unsharded(case))
    return BoundCall(case, find_operator(case.operator), is_unsharded=True).specs()


def largest_bytes(case: Case) -> int:
    """Logical bytes of the largest operand, of the largest result where there is none; InvalidCase as of ``specs_of``."""
    operands, results = unsharded_specs(case)
    return max(spec.logical_bytes for spec in operands or results)
