"""Starts a tracker when the program opens a device, and stops it when the program closes that or ends."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ssinghal.tracker.records import VERSION, RecordFile
from ssinghal.tracker.tracker import Tracker

FOLDER_VARIABLE = "SSINGHAL_PROFILE"  # where records go; a program without it is not followed
_OPENING = ("open_device", "open_mesh_device", "CreateDevice")
_CLOSING = ("close_device", "close_mesh_device", "CloseDevice")
_ENDING = ("end_graph_capture", "end_graph_capture_to_file")
_METHODS = ("to", "deallocate", "cpu", "reshape", "pad", "pad_to_tile", "unpad", "unpad_from_tile", "__getitem__")


def watch_imports(folder: str) -> None:
    """Follows ttnn from when the program imports it; records go to ``folder``."""
    sys.meta_path.insert(0, _TtnnFinder(folder))


class _TtnnFinder(MetaPathFinder):
    """Finds ttnn as Python would, and has its module followed once it is imported."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "ttnn":
            return None
        sys.meta_path.remove(self)
        spec = find_spec("ttnn")
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_follow(module: ModuleType) -> None:
                run(module)
                Follower(module, self._folder)

            spec.loader.exec_module = run_and_follow  # type: ignore[method-assign]
        return spec


class Follower:
    """Passes each call of ttnn on to the tracker of the device that is open, if one is."""

    def __init__(self, ttnn: Any, folder: str) -> None:
        self._module, self._folder = ttnn, folder
        self._file: RecordFile | None = None
        self._tracker: Tracker | None = None
        for name in filter(lambda name: hasattr(ttnn, name), _OPENING):
            setattr(ttnn, name, self._opening(getattr(ttnn, name)))
        for name in filter(lambda name: hasattr(ttnn, name), _CLOSING):
            setattr(ttnn, name, self._closing(getattr(ttnn, name)))
        operation = type(ttnn.relu)
        operation.__call__ = self._operation(operation.__call__)
        for name in filter(lambda name: hasattr(ttnn.Tensor, name), _METHODS):
            setattr(ttnn.Tensor, name, self._method(f"Tensor.{name}", getattr(ttnn.Tensor, name)))
        self._is_captured: bool | None = None  # whether calls are dispatched while the program captures a graph by itself
        ttnn.graph.begin_graph_capture = self._beginning(ttnn.graph.begin_graph_capture)
        for name in filter(lambda name: hasattr(ttnn.graph, name), _ENDING):
            setattr(ttnn.graph, name, self._ending(getattr(ttnn.graph, name)))
        atexit.register(self._stop)

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def opening(*args: Any, **kwargs: Any) -> Any:
            device = function(*args, **kwargs)
            if self._tracker is None:
                self._tracker = Tracker(self._module, device, self._opened_file())
            return device

        return opening

    def _opened_file(self) -> RecordFile:
        if self._file is None or self._file.pid != os.getpid():
            self._file = RecordFile(self._folder)
            self._file.write("program", version=VERSION, argv=sys.argv, pid=os.getpid(), folder=os.getcwd())
        return self._file

    def _closing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def closing(*args: Any, **kwargs: Any) -> Any:
            self._stop()
            return function(*args, **kwargs)

        return closing

    def _stop(self) -> None:
        if self._tracker is not None:
            tracker, self._tracker = self._tracker, None
            if self._is_captured is None:
                tracker.stop()

    def _beginning(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def begin(*args: Any, **kwargs: Any) -> Any:
            if self._tracker is None or self._tracker.is_within:
                return function(*args, **kwargs)
            self._tracker.pause()
            mode = args[0] if args else kwargs.get("run_mode")
            self._is_captured = mode != self._module.graph.RunMode.NO_DISPATCH
            return function(*args, **kwargs)

        return begin

    def _ending(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def end(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if self._tracker is not None and self._is_captured is not None:
                dispatched, self._is_captured = self._is_captured, None
                self._tracker.resume(result if dispatched else [])
            return result

        return end

    def _operation(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(operation: Any, *args: Any, **kwargs: Any) -> Any:
            if self._tracker is None:
                return function(operation, *args, **kwargs)
            return self._tracker.call(operation.python_fully_qualified_name, function, (operation, *args), kwargs)

        return call

    def _method(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._tracker is None:
                return function(*args, **kwargs)
            return self._tracker.call(name, function, args, kwargs)

        return call
