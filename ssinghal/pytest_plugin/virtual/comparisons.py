"""Replaces comparisons with a read-back by comparisons of the expectation with itself, so that a test goes on after them.

What compares is found by its name: the functions of torch and NumPy for tests, and those of the suite's own modules. A function
is called with the expected values in the shape of those read back, so that it returns what it returns for equal values, and
still fails for shapes that differ.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from ssinghal.pytest_plugin.virtual.read_backs import ReadBacks, is_array

_OF_LIBRARIES = {
    "torch.testing": ("assert_close",),
    "numpy": ("allclose", "array_equal", "array_equiv"),
    "numpy.testing": (
        "assert_allclose",
        "assert_almost_equal",
        "assert_approx_equal",
        "assert_array_almost_equal",
        "assert_array_almost_equal_nulp",
        "assert_array_equal",
        "assert_array_less",
        "assert_array_max_ulp",
        "assert_equal",
    ),
}
_COMPARES = re.compile(
    r"(?:^|_)(?:pcc|ulp|allclose|close|equal|corr\w*|psnr|snr|mse|similarity|metrics?|quality|accuracy|match\w*|comp|compare\w*)"
    r"(?:_|$)"
)
_OWN = __file__.rpartition("/pytest_plugin/")[0]
_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
Function = Callable[..., Any]


def neutralise(read_backs: ReadBacks) -> None:
    """Replaces what compares in all modules that are imported so far, until ``read_backs`` are restored."""
    wrapped: dict[Any, Function] = {}
    for module, name in [*_in_libraries(), *_in_suite()]:
        function = getattr(module, name)
        if function not in wrapped:
            wrapped[function] = _comparing(function, read_backs)
        read_backs.replace(module, name, lambda original: wrapped[original])


def _in_libraries() -> Iterator[tuple[ModuleType, str]]:
    for path, names in _OF_LIBRARIES.items():
        if sys.modules.get(path.partition(".")[0]) is not None:
            module = import_module(path)  # NumPy imports its own when it is used
            yield from ((module, name) for name in names if hasattr(module, name))


def _in_suite() -> Iterator[tuple[ModuleType, str]]:
    """Yields the functions of modules that belong to no library, and whatever these import by name."""
    compared = {id(getattr(module, name)) for module, name in _in_libraries()}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if not file or not is_of_suite(file):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in compared or (isinstance(value, FunctionType) and compares(name)):
                yield module, name


def is_of_suite(file: str) -> bool:
    """Whether a file is neither one of Python's or an installed package's, nor one of this plugin."""
    return not file.startswith((*_LIBRARIES, _OWN))


def compares(name: str) -> bool:
    """Whether a function of this name compares values.

    >>> [name for name in ("assert_with_pcc", "comp_allclose", "test_equal", "compute", "closest") if compares(name)]
    ['assert_with_pcc', 'comp_allclose']
    """
    return not name.startswith(("test_", "pytest_", "_pytest")) and _COMPARES.search(name.lower()) is not None


def _comparing(function: Function, read_backs: ReadBacks) -> Function:
    @wraps(function)
    def compare(*args: Any, **kwargs: Any) -> Any:
        arrays = [value for value in (*args, *kwargs.values()) if is_array(value)]
        read = [value for value in arrays if read_backs.knows(value)]
        if not read:
            return function(*args, **kwargs)
        read_backs.is_used = True
        expected = next((value for value in arrays if not read_backs.knows(value)), _ramp(read[0]))
        if any(_size(value) != _size(expected) for value in read):
            return function(*args, **kwargs)
        is_same = all(tuple(value.shape) == tuple(expected.shape) for value in arrays)

        def replaced(value: Any) -> Any:
            return _like(value, expected) if is_array(value) and read_backs.knows(value) else value

        try:
            result = function(*map(replaced, args), **{name: replaced(value) for name, value in kwargs.items()})
        except AssertionError:
            if is_same:  # an expectation that does not equal itself: it has NaN
                read_backs.has_escaped = True
            else:
                read_backs.differs_in_shape = True
            raise
        read_backs.was_compared = True
        if result is not None and "assert" not in function.__name__:  # what asserts has judged it
            read_backs.has_verdict = True
        return result

    return compare


def _size(array: Any) -> int:
    size = 1
    for length in array.shape:
        size *= int(length)
    return size


def _like(array: Any, expected: Any) -> Any:
    """Returns the expected values in the shape of an array, as torch or NumPy has it."""
    if type(array).__module__ == "numpy" and hasattr(expected, "detach"):
        expected = expected.detach().float().numpy()
    elif type(array).__module__ == "torch" and not hasattr(expected, "detach"):
        expected = sys.modules["torch"].as_tensor(expected)
    return expected.reshape(array.shape)


def _ramp(array: Any) -> Any:
    """Returns values that correlate with themselves, in the shape and type of an array."""
    library = sys.modules[type(array).__mro__[0].__module__.partition(".")[0]]
    values = library.arange(_size(array)) % 7 + 1
    kind = array.dtype
    return (values.to(kind) if hasattr(values, "to") else values.astype(kind)).reshape(tuple(array.shape))
