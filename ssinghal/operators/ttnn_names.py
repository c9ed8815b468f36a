"""TTNN's dotted names of functions, and the operators that make those calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from ssinghal.operators import PREFIX, families
from ssinghal.operators.operator_info import OperatorInfo

# Other names that TTNN has for a function: the same call.
SYNONYMS = {
    "ttnn.clip": "ttnn.clamp",
    "ttnn.div": "ttnn.divide",
    "ttnn.mul": "ttnn.multiply",
    "ttnn.sub": "ttnn.subtract",
    "ttnn.div_": "ttnn.divide_",
    "ttnn.mul_": "ttnn.multiply_",
    "ttnn.sub_": "ttnn.subtract_",
    "ttnn.swish": "ttnn.silu",
    "ttnn.sigmoid_accurate": "ttnn.sigmoid",
    "ttnn.Tensor.__getitem__": "ttnn.slice",
    "ttnn.Tensor.reshape": "ttnn.reshape",
    "Tensor.reshape": "ttnn.reshape",
}

# Functions of TTNN that are no operators, and why.
_TRANSFER = "moves a tensor between host and device: no operator runs"
NOT_OPERATIONS = {
    "ttnn.from_torch": _TRANSFER,
    "ttnn.to_torch": _TRANSFER,
    "ttnn.to_device": _TRANSFER,
    "ttnn.from_device": _TRANSFER,
    "ttnn.Tensor.to": _TRANSFER,
    "Tensor.to": _TRANSFER,
    "ttnn.as_tensor": _TRANSFER,
    "ttnn.load_tensor": _TRANSFER,
    "ttnn.dump_tensor": _TRANSFER,
    "ttnn.copy_host_to_device_tensor": _TRANSFER,
    "ttnn.copy_device_to_host_tensor": _TRANSFER,
    "ttnn.deallocate": "frees a tensor: nothing is allocated",
    "ttnn.empty": "places a tensor: no operator runs",
    "ttnn.allocate_tensor_on_device": "places a tensor: no operator runs",
    "ttnn.synchronize_device": "waits for the device: no operator runs",
}


def functions_of(info: OperatorInfo) -> tuple[str, ...]:
    """Returns the dotted names of the TTNN functions that an operator calls, in the order of their declaration.

    >>> from ssinghal.operators import find_operator
    >>> functions_of(find_operator("addmm"))
    ('ttnn.addmm', 'ttnn.linear')
    """
    names = (name.strip().removeprefix(PREFIX) for name in info.ttnn.split(",") if name.strip())
    return tuple(f"{PREFIX}{name}" for name in names)


@cache
def ttnn_operators() -> Mapping[str, str]:
    """Returns the operator's canonical name by TTNN's dotted name of the function: ``ttnn.transformer.concatenate_heads``.

    A function that several operators call is the operator of that name, else of the first that calls nothing else: ``ttnn.max``
    is ``max``, and not ``amax``; ``ttnn.permute`` not ``movedim``. A function that only occurs within composed calls is none.
    """
    infos = [info for members in families().values() for info in members]
    table: dict[str, str] = {}
    for claims in (_named_alike, _called_alone):
        for info in infos:
            for function in claims(info):
                if function not in NOT_OPERATIONS:
                    table.setdefault(function, info.name)
    for synonym, function in SYNONYMS.items():
        if function in table:
            table[synonym] = table[function]
    return MappingProxyType(table)


def _named_alike(info: OperatorInfo) -> Iterator[str]:
    return (function for function in functions_of(info) if function.rpartition(".")[2] in info.names)


def _called_alone(info: OperatorInfo) -> Iterator[str]:
    """An operator in place is not the plain call of its function."""
    functions = functions_of(info)
    return iter(functions if len(functions) == 1 and not info.traits.in_place else ())
