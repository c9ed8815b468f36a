"""Turns a line of a captured catalog into the case that TTNN runs, or into the reason why there is none.

torch's arguments are taken as they are. Three things differ on a device: a few overloads pass a tensor where TTNN takes a
number (``expand_as``), torch has dtypes that TTNN lacks, and no tensor has rank 0 or no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

from ssinghal.catalog.captured import CapturedLine
from ssinghal.core.case import Case, Placement, Source
from ssinghal.core.tensors import DType
from ssinghal.errors import InvalidCase, RegistryError
from ssinghal.operators import families, find_operator, make_case
from ssinghal.operators.binding import BoundCall, unsharded
from ssinghal.operators.operator_info import PLACED_DTYPES, OperatorInfo
from ssinghal.operators.unsupported import unmapped_reason


@dataclass(frozen=True)
class Unmapped:
    """A captured call that no operator of the registry makes."""

    catalog: str
    overload: str
    count: int
    reason: str


class _NoCase(Exception):
    """Why a line is no case; never leaves this module."""


def captured_case(overload: str, line: CapturedLine, base: Placement, source: Source) -> Case | Unmapped:
    """Returns the call of one captured line under the operator's canonical name, or why it cannot be a case.

    Raises:
        InvalidCase: An argument that the operator does not have, or of the wrong kind.
    """
    try:
        return _case(overload, line, base, source)
    except _NoCase as reason:
        return Unmapped(source.catalog, overload, line.n, str(reason))


def _case(overload: str, line: CapturedLine, base: Placement, source: Source) -> Case:
    if overload in _REWRITTEN:
        info, line = _REWRITTEN[overload](line, base.dtype.value)
    elif overload in operators_by_overload():
        info = operators_by_overload()[overload]
    else:
        raise _NoCase(unmapped_reason(overload))
    if line.has_empty:
        raise _NoCase("a tensor without elements, which TTNN does not take")
    _check_operands(info, line)
    dtype = _dtype(info, line, base.dtype)
    placement = base if dtype is base.dtype else replace(base, dtype=dtype)
    case = make_case(info.name, line.shapes(), line.args, placement, (source,))
    call = BoundCall(unsharded(case), info)
    attrs = call.attrs
    info.check_operands(case.inputs)
    try:
        results = info.infer(call.shapes, attrs)
    except InvalidCase as error:
        raise _NoCase(f"{info.name} does not take this form of the call: {error}") from error
    if () in results:
        raise _NoCase(unmapped_reason("aten.sum.default"))
    if line.dtypes:
        _check_result(call, line)
    return case


@cache
def operators_by_overload() -> Mapping[str, OperatorInfo]:
    """Returns the operator of each overload, such as ``aten.add.Tensor``. RegistryError if two operators claim one overload."""
    table: dict[str, OperatorInfo] = {}
    for members in families().values():
        for info in members:
            for overload in info.aten:
                if overload in table or overload in _REWRITTEN:
                    other = table[overload].name if overload in table else "the overloads that are rewritten"
                    raise RegistryError(f"overload {overload} is declared by {other} and {info.name}")
                table[overload] = info
    return MappingProxyType(table)


def _check_operands(info: OperatorInfo, line: CapturedLine) -> None:
    """Refuses a call without an operand before one that it has: operands are distinguished by their order."""
    declared = [name.rstrip("?*") for name in info.operands]
    places = [declared.index(name) for name in line.inputs if name in declared]
    absent = [declared[i] for i in range(max(places, default=0)) if i not in places]
    if absent and len(places) == len(line.inputs):
        raise _NoCase(f"without {' and '.join(absent)}, but with {declared[max(places)]}: cases have no gaps among operands")


# Dtypes -------------------------------------------------------------------------------------------------------------------

_MASK = "bool"  # TTNN has no bool: masks are 0 and 1 in the dtype of the tensors they go with


def _dtype(info: OperatorInfo, line: CapturedLine, usual: DType) -> DType:
    """Returns the one dtype of a case. Scalars follow the tensors they go with, as in torch; a created tensor, its result."""
    if not line.dtypes:
        return usual
    operands = [(i, line.dtypes.get(name, usual.value), shape) for i, (name, shape) in enumerate(line.operands())]
    dtypes = {dtype for i, dtype, shape in operands if i not in info.traits.indices and shape != ()}
    dtypes = dtypes or {dtype for i, dtype, _ in operands if i not in info.traits.indices}
    if not operands:
        dtypes = {line.dtypes.get("out", usual.value)}
    dtypes.discard(_MASK)
    if len(dtypes) > 1:
        raise _NoCase(f"operands of dtypes {' and '.join(sorted(dtypes))}: a case has one")
    (name,) = dtypes or {usual.value}
    if name not in PLACED_DTYPES:
        raise _NoCase(f"TTNN has no {name}")
    return PLACED_DTYPES[name]


def _check_result(call: BoundCall, line: CapturedLine) -> None:
    """Refuses a result of another dtype than torch's: a call may promote, or name its result's dtype.

    If TTNN rejects the call, a limitation states so.
    """
    wanted = PLACED_DTYPES.get(line.dtypes.get("out", ""))
    dtype = call.outputs[0].dtype
    if wanted not in (None, dtype) and not any(call.limitations(None)):
        raise _NoCase(f"torch gives {line.dtypes['out']}, TTNN {dtype}")


# Overloads that are run as another one ------------------------------------------------------------------------------------

_Rewritten = tuple[OperatorInfo, CapturedLine]
_CAST, _EMBEDDING, _CONVOLUTION = map(find_operator, ("_to_copy", "embedding", "convolution"))
_QUOTIENT, _ROUNDED_QUOTIENT = map(find_operator, ("div", "floor_divide"))
_CONSTANT_PAD, _TRANSPOSE = map(find_operator, ("constant_pad_nd", "transpose"))
_REPLICATION_PADS = {2: find_operator("replication_pad2d"), 3: find_operator("replication_pad3d")}


def _as_other(operator: str, attribute: str) -> Callable[[CapturedLine, str], _Rewritten]:
    """Rewrites a call that takes only the shape of its second tensor: the result's, and a trace leaves that tensor out."""
    info = find_operator(operator)

    def rewrite(line: CapturedLine, dtype: str) -> _Rewritten:
        return info, _changed(line, ("self",), {attribute: list(line.inputs.get("other", line.out[0]))})

    return rewrite


def _matrix_transposed(line: CapturedLine, dtype: str) -> _Rewritten:
    """Rewrites ``x.mT`` and its relatives, which are the same for real numbers."""
    return _TRANSPOSE, _changed(line, ("self",), {"dim0": -2, "dim1": -1})


def _cast_as_other(line: CapturedLine, dtype: str) -> _Rewritten:
    return _CAST, _changed(line, ("self",), {"dtype": line.dtypes.get("out", dtype)})


def _index(line: CapturedLine, dtype: str) -> _Rewritten:
    """Rewrites a lookup of rows in a table as an embedding, the one indexing that TTNN has a kernel for."""
    table, indices = line.inputs["self"], line.inputs["indices"]
    if line.dtypes.get("indices") in ("bool", "uint8"):
        raise _NoCase("a mask picks the elements: " + unmapped_reason("aten.nonzero.default"))
    if len(table) != 2 or len(indices) != 1 or indices[0] is None:
        raise _NoCase("TTNN looks up rows of a table (one index, dim 0, rank 2) and nothing else")
    return _EMBEDDING, _renamed(line, self="weight")


def _index_select(line: CapturedLine, dtype: str) -> _Rewritten:
    if len(line.inputs["self"]) != 2 or line.args["dim"] not in (0, -2):
        raise _NoCase("TTNN looks up rows of a table (one index, dim 0, rank 2) and nothing else")
    return _EMBEDDING, _renamed(_changed(line, ("self", "index"), {}), self="weight", index="indices")


def _pad(line: CapturedLine, dtype: str) -> _Rewritten:
    """Maps the one overload for all modes to an operator for each."""
    mode = line.args.get("mode", "constant")
    if mode == "constant":
        return _CONSTANT_PAD, _changed(line, ("self",), {k: v for k, v in line.args.items() if k != "mode"})
    if mode != "replicate":
        raise _NoCase(f"TTNN pads with a constant, or by copied edges; not by {mode}")
    spatial = len(line.args["pad"]) // 2
    if spatial not in _REPLICATION_PADS:
        raise _NoCase(unmapped_reason(f"aten.replication_pad{spatial}d.default"))
    return _REPLICATION_PADS[spatial], _changed(line, ("self",), {"padding": line.args["pad"]})


def _convolution(line: CapturedLine, dtype: str) -> _Rewritten:
    """Replaces padding in words by numbers: none, or as much as keeps the size, which must be equal on both sides."""
    padding = [0] * (len(line.inputs["weight"]) - 2)
    if line.args.get("padding", "valid") == "same":
        reach = [_for_dim(line.args.get("dilation", 1), i) * (k - 1) for i, k in enumerate(line.inputs["weight"][2:])]
        if any(r % 2 for r in reach):
            raise _NoCase("padding that differs from side to side")
        padding = [r // 2 for r in reach]
    return _CONVOLUTION, _changed(line, tuple(line.inputs), {**line.args, "padding": padding})


def _for_dim(value: int | list[int], dim: int) -> int:
    return value if isinstance(value, int) else value[dim if len(value) > 1 else 0]


def _logical(operator: str) -> Callable[[CapturedLine, str], _Rewritten]:
    """Maps bitwise calls on bool to logical ones. TTNN has functions for the bits of integers, but no model here calls them."""
    info = find_operator(operator)

    def rewrite(line: CapturedLine, dtype: str) -> _Rewritten:
        if {line.dtypes.get(name, dtype) for name in line.inputs} != {_MASK}:
            raise _NoCase("bits of integers: only those of a bool are mapped, as its truth")
        return info, line

    return rewrite


def _rounded(line: CapturedLine, dtype: str) -> _Rewritten:
    """Maps a division without a rounding mode to the plain quotient."""
    return (_ROUNDED_QUOTIENT if "rounding_mode" in line.args else _QUOTIENT), line


def _changed(line: CapturedLine, operands: tuple[str, ...], args: Mapping[str, Any]) -> CapturedLine:
    """Returns ``line`` with only these of its operands, and with other arguments."""
    return line.model_copy(update={"inputs": {name: line.inputs[name] for name in operands}, "args": dict(args)})


def _renamed(line: CapturedLine, **names: str) -> CapturedLine:
    def rename(table: Mapping[str, Any]) -> dict[str, Any]:
        return {names.get(name, name): value for name, value in table.items()}

    return line.model_copy(update={"inputs": rename(line.inputs), "dtypes": rename(line.dtypes)})


_REWRITTEN: Mapping[str, Callable[[CapturedLine, str], _Rewritten]] = {
    "aten.expand_as.default": _as_other("expand", "size"),
    "aten.view_as.default": _as_other("view", "size"),
    "aten.reshape_as.default": _as_other("view", "shape"),
    "aten.type_as.default": _cast_as_other,
    **{f"aten.{name}.default": _matrix_transposed for name in ("mT", "mH", "adjoint")},
    "aten.pad.default": _pad,
    **{f"aten.conv{dims}d.padding": _convolution for dims in (1, 2, 3)},
    "aten.div.Tensor_mode": _rounded,
    "aten.div_.Tensor_mode": _rounded,
    "aten.index.Tensor": _index,
    "aten.index_select.default": _index_select,
    **{f"aten.{name}.Tensor": _logical("logical_and") for name in ("bitwise_and", "bitwise_and_", "__and__")},
    **{f"aten.{name}.Tensor": _logical("logical_or") for name in ("bitwise_or", "bitwise_or_", "__or__")},
    **{f"aten.{name}.default": _logical("logical_not") for name in ("bitwise_not", "bitwise_not_")},
}
