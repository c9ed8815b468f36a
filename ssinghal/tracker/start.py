"""Starts a tracker when the program opens a device, and stops it when the program closes that or ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from ssinghal.tracker import SHADOW_VARIABLE
from ssinghal.tracker.records import VERSION, RecordFile
from ssinghal.tracker.traces import TRACES, stand_ins
from ssinghal.tracker.tracker import Tracker

_OPENING = ("open_device", "open_mesh_device", "CreateDevice", "CreateDevices")
_CLOSING = ("close_device", "close_mesh_device", "CloseDevice", "CloseDevices")
_ENDING = ("end_graph_capture", "end_graph_capture_to_file")
# What is no operation, but allocates, or uses what is on the device.
_METHODS = (
    *("to", "deallocate", "cpu", "reshape", "pad", "pad_to_tile", "unpad", "unpad_from_tile", "__getitem__"),
    *("to_torch", "to_torch_with_padded_shape", "to_list", "to_numpy", "item", "__repr__"),
)
_FUNCTIONS = (
    *("prepare_conv_weights", "prepare_conv_bias", "prepare_conv_transpose2d_weights", "prepare_conv_transpose2d_bias"),
    *TRACES,
)
_SUBMESHES = ("create_submesh", "create_submeshes")
_MARK = "is_followed"  # an attribute of the function that passes operations on

Function = Callable[..., Any]


class Follower:
    """Passes each call of ttnn on to the tracker of the device that is open, if one is."""

    def __init__(self, ttnn: Any, folder: str, *, has_shadows: bool | None = None) -> None:
        """``has_shadows``: whether calls are repeated without dispatch to know their program buffers; by default as the
        environment says."""
        self._module, self._folder = ttnn, folder
        self._has_shadows = bool(os.environ.get(SHADOW_VARIABLE)) if has_shadows is None else has_shadows
        self._replaced: list[tuple[Any, str, Any]] = []
        self._file: RecordFile | None = None
        self._tracker: Tracker | None = None
        self._span = ""  # the named part of the program that calls belong to
        self.missed = 0  # calls with a result on a device whose opening was not seen
        self._is_captured: bool | None = None  # whether calls are dispatched while the program captures a graph by itself
        for names, wrap in ((_OPENING, self._opening), (_CLOSING, self._closing)):
            for name in names:
                self._replace(_modules(ttnn), name, wrap)
        self._replace((ttnn.graph,), "begin_graph_capture", self._beginning)
        for name in _ENDING:
            self._replace((ttnn.graph,), name, self._ending)
        self._replace((type(ttnn.relu),), "__call__", self._operation)
        for name in _METHODS:
            self._replace((ttnn.Tensor,), name, partial(self._method, f"Tensor.{name}"))
        standing_in = stand_ins(ttnn)
        for name in dict.fromkeys((*_FUNCTIONS, *standing_in)):
            self._replace((ttnn,), name, partial(self._method, f"ttnn.{name}", stand_in=standing_in.get(name)))
        for name in _SUBMESHES:
            self._replace((ttnn.MeshDevice,), name, self._dividing)
        atexit.register(self.stop)

    @staticmethod
    def is_following(ttnn: Any) -> bool:
        """Returns whether calls of ttnn are passed on already."""
        return hasattr(type(ttnn.relu).__call__, _MARK)

    def follow(self, device: Any) -> None:
        """Starts a tracker for an open device."""
        self._tracker = Tracker(self._module, device, self._opened_file(), has_shadows=self._has_shadows)
        self._tracker.start()
        self._span = ""
        self._follow()

    def stop(self) -> None:
        """Stops the tracker."""
        if self._tracker is not None:
            tracker, self._tracker = self._tracker, None
            tracker.stop()

    def leave(self) -> None:
        """Stops the tracker, and leaves ttnn as it was before."""
        self.stop()
        for owner, name, function in reversed(self._replaced):
            setattr(owner, name, function)
        self._replaced.clear()
        atexit.unregister(self.stop)

    def span(self, name: str) -> None:
        """Begins a named part of the program, such as a test, and ends the one before; an empty name ends that alone."""
        if name != self._span and self._tracker is not None and self._tracker.span(name):
            self._span = name

    def end_span(self) -> None:
        """Ends the named part of the program, and books what was freed since the last call, even if there is no such part."""
        if self._tracker is not None and self._tracker.span(""):
            self._span = ""

    def _follow(self) -> Tracker | None:
        """Returns the tracker that is to record a call; under pytest, the call belongs to the test that is running."""
        self.span(os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0])
        return self._tracker

    def _unrecorded(self, result: Any) -> Any:
        """Counts a call without a tracker: a program may have taken ``open_device`` from ttnn before that was followed."""
        if isinstance(result, self._module.Tensor):
            self.missed += result.storage_type() == self._module.StorageType.DEVICE
        return result

    def _replace(self, owners: tuple[Any, ...], name: str, wrap: Callable[[Function], Function]) -> None:
        """Wraps what the owners have by this name, if they have it: one function for all of them."""
        wrapped: dict[Any, Function] = {}
        for owner in owners:
            function = getattr(owner, name, None)
            if function is not None:
                self._replaced.append((owner, name, function))
                setattr(owner, name, wrapped.setdefault(function, wrap(function)))

    def _opening(self, function: Function) -> Function:
        @wraps(function)
        def opening(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            opened = function(*args, **kwargs)
            for device in _devices(opened):
                if self._tracker is None:
                    self.follow(device)
                else:
                    self._tracker.leave_out(device)
            return opened

        return opening

    def _dividing(self, function: Function) -> Function:
        @wraps(function)
        def dividing(*args: Any, **kwargs: Any) -> Any:
            divided = function(*args, **kwargs)
            if self._tracker is not None:
                for submesh in _devices(divided):
                    self._tracker.leave_out(submesh)
            return divided

        return dividing

    def _opened_file(self) -> RecordFile:
        if self._file is None or self._file.pid != os.getpid():
            self._file = RecordFile(self._folder)
            self._file.write("program", version=VERSION, argv=sys.argv, pid=os.getpid(), folder=os.getcwd())
        return self._file

    def _closing(self, function: Function) -> Function:
        @wraps(function)
        def closing(*args: Any, **kwargs: Any) -> Any:
            if self._tracker is not None and self._tracker.device in _devices(*args, *kwargs.values()):
                self.stop()
            return function(*args, **kwargs)

        return closing

    def _beginning(self, function: Function) -> Function:
        @wraps(function)
        def begin(*args: Any, **kwargs: Any) -> Any:
            if self._tracker is not None and self._tracker.pause():
                mode = args[0] if args else kwargs.get("run_mode")
                self._is_captured = mode != self._module.graph.RunMode.NO_DISPATCH
            return function(*args, **kwargs)

        return begin

    def _ending(self, function: Function) -> Function:
        @wraps(function)
        def end(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if self._tracker is not None and self._is_captured is not None:
                dispatched, self._is_captured = self._is_captured, None
                self._tracker.resume(result if dispatched else [])
            return result

        return end

    def _operation(self, function: Function) -> Function:
        @wraps(function)
        def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True  # pytest shows a failing test as it is without a recording
            tracker = self._follow()
            if tracker is None:
                return self._unrecorded(function(operation, *args, **kwargs))
            return tracker.call(operation.python_fully_qualified_name, function, (operation, *args), kwargs)

        setattr(call, _MARK, True)
        return call

    def _method(self, name: str, function: Function, *, stand_in: Function | None = None) -> Function:
        made = stand_in or function

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            tracker = self._follow()
            if tracker is None:
                return self._unrecorded(made(*args, **kwargs))
            return tracker.call(name, made, args, kwargs, is_skipped=stand_in is not None)

        return call


def _modules(ttnn: Any) -> tuple[Any, ...]:
    """Returns the modules in which TTNN has the functions that open and close devices."""
    named = (sys.modules.get(f"{ttnn.__name__}.{name}") for name in ("device", "distributed", "distributed.distributed"))
    return (ttnn, *(module for module in named if module is not None))


def _devices(*values: Any) -> list[Any]:
    """Returns the devices among arguments or results: TTNN has several of them in lists and dictionaries."""
    found = []
    for value in values:
        if isinstance(value, (list, tuple, dict)):
            found += _devices(*(value.values() if isinstance(value, dict) else value))
        else:
            found.append(value)
    return found
