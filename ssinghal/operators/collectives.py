"""Collectives: calls that move data between the chips of a mesh.

An operand is what each chip holds, be it a copy or its part of a tensor that is cut over the chips, and so is a result. Sizes
of results follow from the number of chips that take part: those along ``cluster_axis`` (0: down the rows of the mesh, 1: along
its columns), or all. Attributes have TTNN's names, and are passed where a case gives them. ``fabric_config`` is no argument of
the call but of ``ttnn.set_fabric_config``, by which a program connects the chips before it opens the mesh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ssinghal.core.parsing import tensor_memory
from ssinghal.core.tensors import ONE_CHIP, BufferType, Layout, Shape, TensorSpec
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators.dim_rule import DimRule
from ssinghal.operators.operator_info import (
    FABRIC,
    FABRICS,
    MESH,
    Attr,
    Attrs,
    Call,
    OperatorInfo,
    Traits,
    normal_dim,
)

TOPOLOGIES = ("Linear", "Ring")
INTERMEDIATE = "intermediate_memory_config"
COORDINATES = ("sender_coord", "receiver_coord")

DIM = {"dim": Attr("int")}
AXIS = {"cluster_axis": Attr("int|none", None)}
LINKS = {"num_links": Attr("int|none", None), "topology": Attr("str|none", None)}
WORKERS = {name: Attr("int|none", None) for name in ("chunks_per_sync", "num_workers_per_link", "num_buffers_per_channel")}
SEMAPHORES = {"use_l1_small_for_semaphores": Attr("bool|none", None)}
CONNECTED = {FABRIC: Attr("str", "FABRIC_1D")}


def _chips(attrs: Attrs) -> int:
    """Returns how many chips take part; InvalidCase for an axis that no mesh has."""
    axis = attrs.get("cluster_axis")
    if axis is None:
        return math.prod(attrs[MESH])
    if axis not in (0, 1):
        raise InvalidCase(f"cluster_axis {axis}: a mesh has axis 0, down its rows, and 1, along its columns")
    return int(attrs[MESH][axis])


def _check(attrs: Attrs) -> None:
    """Raises InvalidCase for a name that TTNN does not have, and for a chip outside the mesh."""
    for name, known in ((FABRIC, FABRICS), ("topology", TOPOLOGIES)):
        if attrs.get(name) is not None and attrs[name] not in known:
            raise InvalidCase(unknown(name, attrs[name], known))
    if attrs.get(INTERMEDIATE) is not None:
        tensor_memory(attrs[INTERMEDIATE])
    mesh = attrs[MESH]
    for name in COORDINATES:
        coordinate = attrs.get(name, (0, 0))
        if len(coordinate) != 2 or min(coordinate) < 0:
            raise InvalidCase(f"{name} {list(coordinate)}: expected row and column of a chip, as {name}=0,1")
        if mesh != ONE_CHIP and not (coordinate[0] < mesh[0] and coordinate[1] < mesh[1]):
            raise InvalidCase(f"{name} {list(coordinate)}: the mesh has {mesh[0]}x{mesh[1]} chips")


def _infer(size: Callable[[int, int], int] | None, *, each: bool = False) -> Callable[[Sequence[Shape], Attrs], list[Shape]]:
    """Returns the rule for results of which (size, chips) gives that of the dim ``dim``; None: it stays. ``each``: there is a
    result of every chip."""

    def infer(shapes: Sequence[Shape], attrs: Attrs) -> list[Shape]:
        _check(attrs)
        result, chips = list(shapes[0]), _chips(attrs)
        if size is not None:
            dim = normal_dim(attrs["dim"], len(result))
            result[dim] = size(result[dim], chips)
        return [tuple(result)] * (chips if each else 1)

    return infer


def _gathered(size: int, chips: int) -> int:
    return size * chips


def _scattered(size: int, chips: int) -> int:
    if size % chips:
        raise InvalidCase(f"a dim of {size} does not divide over {chips} chips")
    return size // chips


def _collective(
    name: str,
    infer: Callable[[Sequence[Shape], Attrs], list[Shape]],
    attrs: Mapping[str, Attr],
    **traits: Any,
) -> OperatorInfo:
    return OperatorInfo(
        names=(name,),
        aten=(),
        operands=("input",),
        ttnn=f"ttnn.{name}",
        call=lambda c: getattr(c.ttnn, name)(c.inputs[0], **_arguments(c), **({} if traits.get("output_fixed") else c.out)),
        torch=lambda torch, tensors, attrs: [],
        infer=infer,
        attrs=attrs,
        dims=DimRule(),
        traits=Traits(collective=True, temporaries=True, **traits),
    )


def _arguments(c: Call) -> dict[str, Any]:
    """Returns the attributes that the call is given, as TTNN's arguments."""
    given = {name: value for name, value in c.attrs.items() if value is not None and name not in (MESH, FABRIC)}
    for name in COORDINATES:
        if name in given:
            given[name] = c.ttnn.MeshCoordinate(*given[name])
    if "topology" in given:
        given["topology"] = getattr(c.ttnn.Topology, given["topology"])
    if INTERMEDIATE in given:
        dram = given[INTERMEDIATE] == BufferType.DRAM.value
        given[INTERMEDIATE] = c.ttnn.DRAM_MEMORY_CONFIG if dram else c.ttnn.L1_MEMORY_CONFIG
    return given


def _is_composed(inputs: Sequence[TensorSpec], attrs: Attrs) -> bool:
    """Whether ttnn.all_gather may broadcast and join the parts, with a result that goes to DRAM: of tiles that are padded in
    the dim, and, depending on the release and the bytes of a row, of rows."""
    (spec,) = inputs
    dim = normal_dim(attrs["dim"], len(spec.shape))
    return spec.layout is Layout.ROW_MAJOR or spec.shape[dim] != spec.padded_shape[dim]


OPERATORS = (
    _collective(
        "all_gather",
        _infer(_gathered),
        {**DIM, **AXIS, **LINKS, **WORKERS, **SEMAPHORES, **CONNECTED},
        may_stray=_is_composed,
    ),
    _collective(
        "reduce_scatter",
        _infer(_scattered),
        {**DIM, **AXIS, **LINKS, **WORKERS, **SEMAPHORES, INTERMEDIATE: Attr("str|none", None), **CONNECTED},
    ),
    _collective("all_reduce", _infer(None), {**AXIS, **LINKS, **CONNECTED}),
    _collective("all_broadcast", _infer(None, each=True), {**AXIS, **LINKS, **SEMAPHORES, **CONNECTED}),
    _collective("mesh_partition", _infer(_scattered), {**DIM, **AXIS}),
    _collective("broadcast", _infer(None), {"sender_coord": Attr("ints"), **AXIS, **LINKS, **CONNECTED}),
    _collective(
        "point_to_point",
        _infer(None),
        {**dict.fromkeys(COORDINATES, Attr("ints")), "topology": Attr("str", "Linear"), **CONNECTED},
        output_fixed=True,
    ),
)
