"""Follows values that were read back from a virtual device, all of which are meaningless, through torch until something uses
them.

A read-back is known by the call that makes it; what torch computes of it is known by a torch function mode, which sees each
call of torch while a test runs. The tensors stay plain ones. NumPy has no such mode: an array that was made of a read-back, or
is a view of one, is known, but not what NumPy computes of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial, wraps
from threading import Thread
from typing import Any
from weakref import ref

_TO_HOST = ("ttnn.from_device", "ttnn.copy_device_to_host_tensor")  # operations whose result is a tensor on the host
# Methods of a tensor whose result is its values.
_OF_HOST_TENSORS = ("to_torch", "to_torch_with_padded_shape", "to_numpy", "to_list", "item", "__repr__")
_SHOWN = ("__repr__", "__format__")  # methods that print values
# What torch calls when a value becomes one of Python's or of NumPy's, where it cannot be followed any more.
_ESCAPES = frozenset(
    (
        "__array__",
        "__bool__",
        "__complex__",
        "__contains__",
        "__float__",
        "__index__",
        "__int__",
        "item",
        "numpy",
        "tolist",
        *_SHOWN,
    )
)
_INTO_FIRST = frozenset(("__setitem__", "__set__"))  # calls that change their first operand and return nothing

_DEPTH = 4  # arguments of a call, the list of them, and lists in these

Function = Callable[..., Any]


class ReadBacks:
    """What was read back in this process, and what the test that runs does with it."""

    def __init__(self) -> None:
        self._known: dict[int, ref[Any]] = {}  # tensors and arrays of read-backs by their id, as long as they exist
        self._replaced: list[tuple[Any, str, Any]] = []
        self.start_test()

    def start_test(self) -> None:
        """Forgets what the test before did; what was read back stays known, as fixtures of a module hold it."""
        self.is_used = False  # a value was read back, or one that was is used
        self.has_escaped = False  # what Python computes from here on may depend on one
        self.was_compared = False  # a comparison with one was replaced
        self.has_verdict = False  # and returned that values are equal, which the test may have expected not to be
        self.differs_in_shape = False  # a comparison failed for a reason that is no value
        self._is_on_host = False  # tensors of ttnn on the host may be copies of the device's

    # Where values come from ---------------------------------------------------------------------------------------------------

    def follow(self, ttnn: Any) -> None:
        """Notes from now on what ttnn reads back."""
        operation = type(ttnn.relu)
        self.replace(operation, "__call__", self._operation)
        self.replace(ttnn.Tensor, "cpu", self._to_host)
        self.replace(Thread, "start", self._start)
        for name in _OF_HOST_TENSORS:
            if hasattr(ttnn.Tensor, name):
                self.replace(ttnn.Tensor, name, lambda function: self._to_values(function, ttnn))

    def replace(self, owner: Any, name: str, wrap: Callable[[Function], Function]) -> None:
        """Replaces a function until ``restore``."""
        function = getattr(owner, name)
        self._replaced.append((owner, name, function))
        setattr(owner, name, wrap(function))

    def restore(self) -> None:
        while self._replaced:
            setattr(*self._replaced.pop())

    def _operation(self, function: Function) -> Function:
        @wraps(function)
        def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            result = function(operation, *args, **kwargs)
            if operation.python_fully_qualified_name in _TO_HOST:
                self._is_on_host = self.is_used = True
            return result

        return call

    def _to_host(self, function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._is_on_host = self.is_used = True
            return function(*args, **kwargs)

        return call

    def _to_values(self, function: Function, ttnn: Any) -> Function:
        @wraps(function)
        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            is_read_back = self._is_on_host or tensor.storage_type() == ttnn.StorageType.DEVICE
            result = function(tensor, *args, **kwargs)
            if is_read_back and not (function.__name__ in _SHOWN and _is_shown_by_pytest()):
                self.is_used = True
                if not self._mark(result):
                    self.has_escaped = True
            return result

        return call

    # What becomes of them -----------------------------------------------------------------------------------------------------

    def knows(self, value: Any) -> bool:
        """Whether a tensor or an array is a read-back, or was computed of one."""
        while self._known and is_array(value):
            known = self._known.get(id(value))
            if known is not None and known() is value:
                return True
            value = getattr(value, "base", None)  # of a view in NumPy
        return False

    def _mark(self, value: Any) -> bool:
        """Marks all tensors and arrays in a value; returns whether there are any."""
        arrays = [one for one in flat(value) if is_array(one)]
        for one in arrays:
            self._known[id(one)] = ref(one, partial(self._forget, id(one)))
        return bool(arrays)

    def _forget(self, key: int, ended: ref[Any]) -> None:
        if self._known.get(key) is ended:
            del self._known[key]

    def mode(self) -> AbstractContextManager[Any]:
        """Returns a context in which torch's calls are followed."""
        from torch.overrides import TorchFunctionMode

        follow = self._torch_call

        class ReadBackMode(TorchFunctionMode):  # type: ignore[misc]
            def __torch_function__(
                self, function: Function, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
            ) -> Any:
                return follow(function, args, kwargs or {})

        return ReadBackMode()

    def _start(self, function: Function) -> Function:
        """Follows torch's calls in a thread too, as torch has a mode per thread."""

        @wraps(function)
        def start(thread: Thread) -> None:
            run = thread.run  # of its class, or of one derived from it

            def followed() -> None:
                try:
                    with self.mode():
                        run()
                finally:
                    del thread.run  # which refers to the thread, and so would keep its tensors

            if sys.modules.get("torch") is not None:
                thread.run = followed  # type: ignore[method-assign]
            function(thread)

        return start

    def _torch_call(self, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        result = function(*args, **kwargs)
        if not self._known or not any(map(self.knows, flat((args, kwargs)))):
            return result
        name = getattr(function, "__name__", "")
        if name in _SHOWN and _is_shown_by_pytest():
            return result
        self.is_used = True
        self._mark(result)
        if name in _INTO_FIRST:
            self._mark(args[0])
        if name in _ESCAPES:
            self.has_escaped = True
        if name not in ("allclose", "equal"):
            return result
        is_same = name == "allclose" or tuple(args[0].shape) == tuple(args[1].shape)
        self.has_verdict = self.has_verdict or is_same
        self.was_compared = True
        return is_same


def _is_shown_by_pytest() -> bool:
    """Whether pytest prints what a failed assertion or a report names, which is no use of it by the test."""
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("_pytest._io"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def flat(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Yields what nested lists, tuples and dicts hold; of lists of plain numbers, which may be long, nothing."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)) and depth:
        if depth < _DEPTH - 1 and value and isinstance(value[0], (int, float)):
            return
        for one in value:
            yield from flat(one, depth - 1)
    else:
        yield value


def is_array(value: Any) -> bool:
    """Whether a value is a tensor of torch or an array of NumPy."""
    return any(kind.__module__ in ("torch", "numpy") and kind.__name__ in ("Tensor", "ndarray") for kind in type(value).__mro__)
