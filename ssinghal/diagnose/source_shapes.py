"""The shapes of operands that a line of Python makes itself: ``ttnn.softmax(ttnn.reshape(x, (1, 12, 4096, 4096)))``."""

from __future__ import annotations

import ast
import re

from ssinghal.core.tensors import DType, Layout, TensorSpec
from ssinghal.errors import InvalidCase

_RESHAPES = ("reshape", "view")
_MAKES = ("randn", "rand", "zeros", "ones", "empty", "full")
_KEEPS = ("to_layout", "to_device", "to_memory_config", "from_torch", "from_device", "clone", "as_tensor", "bfloat16")
_MODULES = ("ttnn", "torch")
_UNUSUAL = re.compile(r"ROW_MAJOR|float32|bfloat[48]|int\d|half")


def operands_of(call: ast.Call) -> tuple[TensorSpec, ...]:
    """Returns the operands of ``call`` as tiles of bfloat16, which the line does not contradict.

    None are returned where the shape of one is not in the line.
    """
    if any(_UNUSUAL.search(ast.unparse(argument)) for argument in call.args):
        return ()
    shapes = [_shape(argument) for argument in call.args]
    try:
        specs = [TensorSpec(shape, DType.BFLOAT16, Layout.TILE) for shape in shapes if shape is not None]
    except InvalidCase:
        return ()
    return tuple(specs) if len(specs) == len(shapes) else ()


def _shape(node: ast.expr) -> tuple[int, ...] | None:
    """Returns the shape of the tensor that an expression makes, None where its numbers are not there."""
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func).rpartition(".")
    if name[2] in _KEEPS:
        inner = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node
        return _shape(inner) if inner is not node else None
    if name[2] not in (*_RESHAPES, *_MAKES):
        return None
    given = node.args[1:] if name[2] in _RESHAPES and name[0] in _MODULES else node.args
    given = given or [keyword.value for keyword in node.keywords if keyword.arg in ("shape", "size")]
    return _sizes(given[0]) if len(given) == 1 or (given and name[2] == "full") else _sizes(ast.Tuple(given))


def _sizes(node: ast.expr) -> tuple[int, ...] | None:
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(("Shape", "Size")):
        node = node.args[0]
    if not isinstance(node, ast.Tuple | ast.List):
        return None
    sizes = [size.value for size in node.elts if isinstance(size, ast.Constant) and isinstance(size.value, int)]
    return tuple(sizes) if sizes and len(sizes) == len(node.elts) else None
