"""Notes the calls of TTNN that fail, and nothing else: a program runs as without it, call by call.

Python 3.12 reports an exception where it is raised, at no cost to what raises none. There the device is still as the call found
it. Before 3.12, and beyond ``_LIMIT``, a call is known only by the exception that ends the program or a test.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping
from traceback import walk_tb
from types import FrameType, MappingProxyType
from typing import Any

from ssinghal.tracker import NO_TRACE_VARIABLE
from ssinghal.tracker.arguments import ArgumentWriter
from ssinghal.tracker.crashes import note_crashes
from ssinghal.tracker.description import Description
from ssinghal.tracker.records import VERSION, RecordFile
from ssinghal.tracker.traces import MOCK_VARIABLE, note_captures, stand_ins
from ssinghal.tracker.tracker import ERROR_LIMIT, described_device

_LIMIT = 100  # calls that are described where they fail: a sweep may catch thousands
_HEADS = ("TT_FATAL", "TT_THROW", "std::bad_alloc")  # of what TTNN raises
_NOW: Mapping[FrameType, int] = MappingProxyType({})
_CHAIN = 20  # exceptions that led to one another

_watchers: list[Watcher] = []  # of this process: one, once ttnn is imported


def watch(ttnn: Any, folder: str) -> None:
    """Watches ttnn in this process; what it notes goes to ``folder``."""
    watcher = Watcher(ttnn, folder)
    _watchers.append(watcher)
    note_crashes(folder)
    if os.environ.get(MOCK_VARIABLE):
        if os.environ.get(NO_TRACE_VARIABLE):
            for name, function in stand_ins(ttnn).items():
                setattr(ttnn, name, function)
        else:
            note_captures(ttnn, watcher.captured)
    atexit.register(watcher.end)  # before ttnn's own, which was registered earlier
    _report_raised(watcher)


def note_uncaught(error: BaseException) -> None:
    """Notes that a test failed by an exception; nothing where ttnn is not watched."""
    for watcher in _watchers:
        watcher.uncaught(error)


def _report_raised(watcher: Watcher) -> None:
    monitoring = getattr(sys, "monitoring", None)
    free = () if monitoring is None else (tool for tool in (4, 3) if monitoring.get_tool(tool) is None)
    tool = next(iter(free), None)
    if monitoring is None or tool is None:
        return
    monitoring.use_tool_id(tool, "ssinghal exec")
    monitoring.register_callback(tool, monitoring.events.RAISE, watcher.raised)
    monitoring.set_events(tool, monitoring.events.RAISE)


class Watcher:
    """Describes calls that fail, each with the device as it was, in the form of ``tracker.records``.

    Besides, its kinds of records are: ``raised``, a failure whose device is not known (``n``, ``name``, empty for a method,
    ``stack``, ``error``, ``test``); ``failed``, the number ``n`` of one whose exception ended the program or a test;
    ``capture``, a call of a trace or an event (``name``, ``stack``).
    """

    def __init__(self, ttnn: Any, folder: str) -> None:
        self._module, self._folder = ttnn, folder
        self._package = os.path.dirname(ttnn.__file__) + os.sep
        self._file: RecordFile | None = None
        self._numbers: dict[str, int] = {}  # of the calls that failed, by text
        self._calls = 0

    def raised(self, code: object, offset: int, error: BaseException) -> None:
        """Is called for each exception, in each frame that it passes; the first time its traceback has that frame alone."""
        kind = type(error)
        if kind not in (RuntimeError, MemoryError, SystemExit):
            return
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:
            return
        if kind is SystemExit:
            self.uncaught(error)  # the program ends while it handles one, which is then the context
        elif self._calls < _LIMIT:
            self._safely(error, trace.tb_frame)

    def uncaught(self, error: BaseException) -> None:
        """Notes that a program, or a test of it, ended by an exception, if that or one that led to it is of TTNN."""
        try:
            self._find(error)
        except Exception:  # noqa: BLE001 (a fault of the notes never reaches the program)
            return

    def _find(self, error: BaseException) -> None:
        for one in _chain(error):
            text = str(one)[:ERROR_LIMIT]
            if text not in self._numbers and type(one) in (RuntimeError, MemoryError):
                passed = list(walk_tb(one.__traceback__))
                if passed:
                    self._safely(one, passed[-1][0], dict(passed))
            if text in self._numbers:
                self._opened_file().write("failed", n=self._numbers[text])
                return

    def captured(self, name: str, frame: FrameType) -> None:
        """Notes a call of a trace."""
        try:
            file = self._opened_file()
            file.write("capture", name=name, stack=Description(self._module, file, ()).stack(frame))
        except Exception:  # noqa: BLE001 (a fault of the notes never reaches the program)
            return

    def end(self) -> None:
        """Notes the exception that ends the program, which Python has printed by then."""
        error = getattr(sys, "last_value", None)
        if isinstance(error, BaseException):
            self.uncaught(error)

    def _safely(self, error: BaseException, frame: FrameType, lines: Mapping[FrameType, int] = _NOW) -> None:
        """Describes the call that ``frame`` is in. ``lines``: of frames that have gone on since."""
        try:
            text = str(error)
            found = _operation(frame, self._package)
            if text.startswith(_HEADS) or (found is not None and isinstance(error, MemoryError)):
                described = Description(self._module, self._opened_file(), ())
                noted = {"stack": described.stack(frame, lines), "error": [type(error).__name__, text[:ERROR_LIMIT]]}
                self._describe(noted, described, found)
        except Exception:  # noqa: BLE001 (a fault of the notes never reaches the program)
            return

    def _describe(self, noted: dict[str, Any], described: Description, operation: FrameType | None) -> None:
        file = self._opened_file()
        noted.update(n=self._calls, name="")
        is_test = "_pytest.runner" in sys.modules  # of this process, not of one that started it
        noted["test"] = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] if is_test else ""
        values = operation.f_locals if operation is not None else {}
        args, kwargs = tuple(values.get("function_args", ())), dict(values.get("function_kwargs", {}))
        device = next(_devices(self._module, (args, kwargs)), None)
        if operation is not None:
            noted["name"] = values["self"].python_fully_qualified_name
        facts = self._facts(device)
        if facts is None:
            file.write("raised", **noted)  # a method, a call of host tensors alone, or a device that is closed by now
        else:
            file.write("device", **facts)
            noted["in"] = described.tensors((args, kwargs))
            noted["arguments"] = ArgumentWriter(self._module, device).written(args, kwargs)
            file.write("call", **noted, gap=[], ev=[], view={}, others=0)
        self._numbers[noted["error"][1]] = self._calls
        self._calls += 1

    def _facts(self, device: Any) -> dict[str, Any] | None:
        try:
            return None if device is None else described_device(self._module, device)
        except RuntimeError:
            return None

    def _opened_file(self) -> RecordFile:
        if self._file is None or self._file.pid != os.getpid():
            self._file = RecordFile(self._folder)
            self._numbers.clear()
            self._calls = 0
            self._file.write("program", version=VERSION, argv=sys.argv, pid=os.getpid(), folder=os.getcwd())
        return self._file


def _operation(frame: FrameType | None, package: str) -> FrameType | None:
    """Returns the frame of the outermost operation that TTNN's own frames are in, seen from the one that raised."""
    found = None
    while frame is not None and frame.f_code.co_filename.startswith(package):
        if frame.f_code.co_name == "__call__" and "function_args" in frame.f_code.co_varnames and "self" in frame.f_locals:
            found = frame
        frame = frame.f_back
    return found


def _devices(ttnn: Any, value: Any, depth: int = 6) -> Iterator[Any]:
    """Yields the devices among arguments, then those of their tensors."""
    tensors = []
    pending = [(value, depth)]
    while pending:
        one, left = pending.pop()
        if isinstance(one, ttnn.MeshDevice):
            yield one
        elif isinstance(one, ttnn.Tensor):
            tensors.append(one)
        elif isinstance(one, dict) and left:
            pending += [(item, left - 1) for item in one.values()]
        elif isinstance(one, (list, tuple)) and left:
            pending += [(item, left - 1) for item in one]
    for tensor in tensors:
        if tensor.storage_type() == ttnn.StorageType.DEVICE and (device := tensor.device()) is not None:
            yield device


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_CHAIN):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
