"""Declares every operator: its TTNN call, torch reference, shapes, limitations and what it allocates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ssinghal.core.case import DEFAULT_L1_SMALL_BYTES, Case, KnownOom, OutputMemory, Placement, Source
from ssinghal.core.tensors import Shape, check_shape
from ssinghal.errors import InvalidCase, RegistryError, unknown
from ssinghal.operators.operator_info import OperatorInfo, to_nhwc

FAMILIES = (
    *("elementwise", "matmul", "shape", "reduction", "pooling", "normalization", "convolution", "creation", "placing"),
    *("collectives", "in_place", "moving", "attention"),
)

PREFIX = "ttnn."

# Aliases with their own suite: names under which the operator lists run one operator separately.
SUITE_ALIASES = frozenset(
    {"clampmin", "concat", "geluactivation", "leakyrelu", "linalgvectornorm", "maxpool2d", "silu_inplace"}
    | {"split_with_sizes", "splitwithsizes", "unsafeview"}
)


@cache
def families() -> Mapping[str, tuple[OperatorInfo, ...]]:
    """Returns each family's operators, in the order of their declaration."""
    return MappingProxyType({f: import_module(f"ssinghal.operators.{f}").OPERATORS for f in FAMILIES})


@cache
def operators() -> Mapping[str, OperatorInfo]:
    """Returns the operators by each of their names. RegistryError when two operators claim one name."""
    table: dict[str, OperatorInfo] = {}
    for members in families().values():
        for info in members:
            for name in info.names:
                if name in table:
                    raise RegistryError(f"operator name {name!r} is declared by {table[name].name} and {info.name}")
                table[name] = info
    return MappingProxyType(table)


def find_operator(name: str) -> OperatorInfo:
    """Returns the operator of this name, or of this function of TTNN (``ttnn.transformer.concatenate_heads``).

    Raises:
        InvalidCase: No operator has the name: with the nearest ones, or the reason why the name is no operator.
    """
    return operators()[case_name(name)]


def case_name(name: str) -> str:
    """Returns the name that a case of the operator has: ``name``, which may be an alias, or what is behind ``ttnn.``, or the
    canonical name for a function of TTNN. InvalidCase as of ``find_operator``."""
    from ssinghal.operators.unsupported import NOT_OPERATORS

    bare, table = name.removeprefix(PREFIX), operators()
    if bare in table:
        return bare
    if bare in NOT_OPERATORS:
        raise InvalidCase(f"{bare!r} is not an operator: {NOT_OPERATORS[bare]}")
    return _operator_of_function(name, table)


def _operator_of_function(function: str, table: Mapping[str, OperatorInfo]) -> str:
    from ssinghal.operators.ttnn_names import NOT_OPERATIONS, ttnn_operators

    if function in NOT_OPERATIONS:
        raise InvalidCase(f"{function!r} is not an operator: it {NOT_OPERATIONS[function]}")
    known = ttnn_operators()
    for full in (function, f"{PREFIX}{function}"):
        if full in known:
            return known[full]
    if "." in function:
        raise InvalidCase(unknown("operator", function, known))
    raise InvalidCase(unknown("operator", function, table))


def named(names: str) -> tuple[str, ...]:
    """Returns the canonical names of the operators in ``names``, which are separated by blanks.

    Tables of operators elsewhere are built by it, so that a mistyped name fails at import: InvalidCase with the nearest names.
    """
    return tuple(find_operator(name).name for name in names.split())


def suite_name(name: str) -> str:
    """Returns the name whose test modules run this operator name: itself or, for most aliases, the canonical name."""
    return name if name in SUITE_ALIASES else find_operator(name).name


def make_case(
    name: str,
    inputs: tuple[Shape, ...],
    attrs: Mapping[str, Any] | None = None,
    placement: Placement = Placement(),
    sources: tuple[Source, ...] = (),
    known_oom: KnownOom | None = None,
    listed_shape: Shape | None = None,
) -> Case:
    """Builds a case, the one way to do so: looks up the name, checks the shapes, completes the operator's placement.

    A creation operator (``ones``) takes its ``size`` from the attributes or as its one listed shape. With channels-last it is
    written NCHW like any other shape, and turned here, so that the case holds the size as placed.

    Args:
        name: An operator's name, one of its aliases, or TTNN's dotted name of the function.
        inputs: Shapes of the operands in elements, in the order of the ATen schema.
        attrs: The other arguments of the ATen schema by name, such as ``{"dim": -1}``.
        placement: Dtype, layout and memory on the device; what it leaves open is the operator's choice.
        sources: Where the case comes from.
        known_oom: What a card reported of it.
        listed_shape: The shape of the catalog that the operands were built from.

    Returns:
        The case.

    Raises:
        InvalidCase: The name is unknown, or a shape is impossible. Missing operands and wrong attributes are the device's to
            reject.

    Examples:
        >>> make_case("softmax", ((1, 8, 1024, 1024),), {"dim": -1}).id
        '1x8x1024x1024-dim=-1-dram'
    """
    name = case_name(name)
    info = operators()[name]
    attrs = dict(attrs or {})
    if not info.attrs.keys() >= attrs.keys():
        from ssinghal.operators.settings import with_canonical_settings

        attrs = with_canonical_settings(info, attrs)
    for shape in inputs:
        check_shape(shape, f"{name}: input shape")
    if not info.operands:
        if inputs and "size" not in attrs:
            attrs["size"] = list(inputs[0])
            inputs = inputs[1:]
        if placement.channels_last and isinstance(attrs.get("size"), (list, tuple)):
            attrs["size"] = list(to_nhwc(tuple(attrs["size"])))
    if info.traits.ttnn_places and placement.output_memory is OutputMemory.SAME:
        placement = replace(placement, output_memory=OutputMemory.TTNN)
    is_map = bool(info.traits.nhwc)
    l1_small_bytes = info.traits.l1_small_bytes
    if is_map and not placement.is_plain:  # TTNN exchanges the edges of shards through tables in L1_SMALL
        l1_small_bytes = l1_small_bytes or DEFAULT_L1_SMALL_BYTES
    placement = _completed(placement, not info.operands, is_map, l1_small_bytes)
    return Case(info.name, name, inputs, attrs, placement, sources, known_oom, listed_shape)


@lru_cache(maxsize=4096)  # a catalog has few placements, but nobody bounds them
def _completed(placement: Placement, creates: bool, nhwc: bool, l1_small_bytes: int) -> Placement:
    """``placement`` with what it leaves to the operator. One that ``creates`` has no operand whose memory or order of dims
    its result could follow."""
    if creates:
        output_memory = OutputMemory.SAME if placement.output_memory is OutputMemory.TTNN else placement.output_memory
        placement = replace(placement, output_memory=output_memory, channels_last=False)
    return replace(
        placement,
        channels_last=nhwc if placement.channels_last is None else placement.channels_last,
        l1_small_bytes=l1_small_bytes if placement.l1_small_bytes is None else placement.l1_small_bytes,
    )
