"""Records calls of TTNN, and writes the Python that makes them again.

A ``Transcript`` takes the place of ``ttnn``: every call is passed on to TTNN and recorded, so the code that is shown to a user
is the code that ran. It references no tensor, since that would keep the tensor allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from types import ModuleType
from typing import Any

from ssinghal.device.code_writer import Expression, RecordedCall, Ref, python, references, script_lines

# Called after each call that returned, with its function, its operands and its results.
Observer = Callable[[str, Sequence[Any], Sequence[Any]], None]


@dataclass
class Transcript:
    """The recorded calls. ``ttnn``: passed to operators instead of the module. ``names``: of tensors that have a given name."""

    module: Any
    device: Any
    observe: Observer | None = None
    calls: list[RecordedCall] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _values: dict[int, tuple[Any, Expression]] = field(default_factory=dict)
    _count: int = 0
    _piece: int | None = None

    @property
    def ttnn(self) -> Any:
        return _Namespace(self, self.module, "ttnn")

    def named(self, tensor: Any, name: str) -> Any:
        """Gives a tensor a name in the code; returns the tensor."""
        self.names[self._number(tensor)] = name
        return tensor

    @contextmanager
    def piece(self, number: int) -> Iterator[None]:
        """Marks the calls made meanwhile as those of one of several pieces, which become a loop where they are alike."""
        self._piece = number
        try:
            yield
        finally:
            self._piece = None

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.module.Tensor)

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Makes a call and records it."""
        keywords = tuple((key, self._recorded(value)) for key, value in kwargs.items())
        recorded = RecordedCall(name, tuple(map(self._recorded, args)), keywords, (), piece=self._piece)
        operands = [t for value in (*args, *kwargs.values()) for t in self._tensors(value)]
        try:
            returned = function(*args, **kwargs)
        except BaseException:
            self.calls.append(replace(recorded, raised=True))
            raise
        results = list(self._tensors(returned))
        if not results and not operands:
            return returned  # a question, such as how large a bank is, whose answer is written where it is used
        is_list = isinstance(returned, (list, tuple))
        self.calls.append(replace(recorded, results=tuple(self._result(t, recorded) for t in results), is_list=is_list))
        if self.observe is not None:
            self.observe(name, operands, results)
        return returned

    def instance(self, name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records the expression of a value that is not a tensor, such as a memory config; it is written where it is used."""
        arguments = [python(self._recorded(a), {}) for a in args]
        arguments += [f"{k}={python(self._recorded(v), {})}" for k, v in kwargs.items()]
        self._values[id(value)] = (value, Expression(f"{name}({', '.join(arguments)})"))
        return value

    def constant(self, name: str, value: Any) -> Any:
        """Records the name of a value of TTNN, such as a slice type."""
        if not isinstance(value, (bool, int, float, str)) or isinstance(value, Enum):
            self._values[id(value)] = (value, Expression(name))
        return value

    def _tensors(self, value: Any) -> Iterator[Any]:
        if self.is_tensor(value):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._tensors(item)

    def _result(self, tensor: Any, call: RecordedCall) -> int:
        """Returns the number of a result: that of an operand if TTNN returned it, else a new one.

        Python reuses the id of a tensor that no longer exists.
        """
        number = self._numbers.get(id(tensor))
        if number is None or Ref(number) not in references(call):
            number = self._numbers[id(tensor)] = self._count
            self._count += 1
        return number

    def _number(self, tensor: Any) -> int:
        number = self._numbers.get(id(tensor))
        if number is None:
            raise ValueError("a tensor that no recorded call returned: its code cannot be written")
        return number

    def _recorded(self, value: Any) -> Any:
        if self.is_tensor(value):
            return Ref(self._number(value))
        if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
            return value
        if isinstance(value, Mapping):
            return tuple((k, self._recorded(v)) for k, v in value.items())
        if isinstance(value, (list, tuple, range)):
            return [self._recorded(v) for v in value]
        if isinstance(value, (set, frozenset)):
            return Expression("{" + ", ".join(python(self._recorded(v), {}) for v in value) + "}")
        if id(value) in self._values:
            return self._values[id(value)][1]
        return Expression(self._expression(value))

    def _expression(self, value: Any) -> str:
        module = self.module
        kind = type(value).__name__
        if value is self.device:
            return "device"
        if kind == "MemoryConfig" and value in (module.DRAM_MEMORY_CONFIG, module.L1_MEMORY_CONFIG):
            return "ttnn.DRAM_MEMORY_CONFIG" if value == module.DRAM_MEMORY_CONFIG else "ttnn.L1_MEMORY_CONFIG"
        if kind == "DataType":
            return f"ttnn.{value.name.lower()}"
        if kind == "Layout":
            return f"ttnn.{value.name}_LAYOUT"
        if hasattr(value, "name") and hasattr(module, kind):
            return f"ttnn.{kind}.{value.name}"
        return str(value)

    # Python -----------------------------------------------------------------------------------------------------------

    def source(self) -> list[str]:
        """Returns the calls as lines of Python, with tensors deleted after their last use and equal pieces as a loop."""
        return script_lines(self.calls, self.names)


class _Namespace:
    """A module of TTNN, or TTNN itself, whose functions are recorded when they are called."""

    def __init__(self, transcript: Transcript, module: Any, name: str) -> None:
        self._transcript, self._module, self._name = transcript, module, name

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        path = f"{self._name}.{name}"
        if isinstance(value, ModuleType):
            return _Namespace(self._transcript, value, path)
        if isinstance(value, type):
            return value if issubclass(value, Enum) or name == "Tensor" else _Class(self._transcript, value, path)
        if callable(value) and not isinstance(value, Enum):
            return lambda *args, **kwargs: self._transcript.call(path, value, args, kwargs)
        return self._transcript.constant(path, value)


class _Class:
    """A class of TTNN, whose instances are recorded as the expression that creates them."""

    def __init__(self, transcript: Transcript, kind: type, path: str) -> None:
        self._transcript, self._kind, self._path = transcript, kind, path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._transcript.instance(self._path, self._kind(*args, **kwargs), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)
