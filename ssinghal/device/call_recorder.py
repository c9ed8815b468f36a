"""The calls of TTNN that were made, and the Python that makes them again.

A ``Transcript`` stands where ``ttnn`` stands: every call goes through to TTNN and is noted, so the code that is shown to a
user is the code that ran. It holds no tensor, since one that lives on in a note would still fill its banks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from types import ModuleType
from typing import Any

from ssinghal.device.code_writer import Expression, NotedCall, Ref, python, references, script_lines

Observer = Callable[[str, Sequence[Any], Sequence[Any]], None]
"""Told of each call that returned: its function, the tensors it took, those it gave."""


@dataclass
class Transcript:
    """``ttnn``: what operators are given instead of the module. ``names``: of tensors, where they have one of their own."""

    module: Any
    device: Any
    observe: Observer | None = None
    calls: list[NotedCall] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    _numbers: dict[int, int] = field(default_factory=dict)
    _values: dict[int, tuple[Any, Expression]] = field(default_factory=dict)
    _count: int = 0
    _piece: int | None = None

    @property
    def ttnn(self) -> Any:
        return _Namespace(self, self.module, "ttnn")

    def named(self, tensor: Any, name: str) -> Any:
        self.names[self._number(tensor)] = name
        return tensor

    @contextmanager
    def piece(self, number: int) -> Iterator[None]:
        """Calls made meanwhile are those of one piece of many, which are shown as one loop where they are alike."""
        self._piece = number
        try:
            yield
        finally:
            self._piece = None

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.module.Tensor)

    def call(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        noted = NotedCall(
            name, tuple(map(self._noted, args)), tuple((k, self._noted(v)) for k, v in kwargs.items()), (), piece=self._piece
        )
        operands = [t for value in (*args, *kwargs.values()) for t in self._tensors(value)]
        try:
            returned = function(*args, **kwargs)
        except BaseException:
            self.calls.append(replace(noted, raised=True))
            raise
        results = list(self._tensors(returned))
        is_list = isinstance(returned, (list, tuple))
        self.calls.append(replace(noted, results=tuple(self._result(t, noted) for t in results), is_list=is_list))
        if self.observe is not None:
            self.observe(name, operands, results)
        return returned

    def made(self, name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A value that is no tensor, such as a memory config: it is written where it is used."""
        written = [python(self._noted(a), {}) for a in args]
        written += [f"{k}={python(self._noted(v), {})}" for k, v in kwargs.items()]
        self._values[id(value)] = (value, Expression(f"{name}({', '.join(written)})"))
        return value

    def constant(self, name: str, value: Any) -> Any:
        """What TTNN has under a name, such as a slice type: it is written by that name."""
        if not isinstance(value, (bool, int, float, str)) or isinstance(value, Enum):
            self._values[id(value)] = (value, Expression(name))
        return value

    def _tensors(self, value: Any) -> Iterator[Any]:
        if self.is_tensor(value):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._tensors(item)

    def _result(self, tensor: Any, call: NotedCall) -> int:
        """The number of a result: that of an operand, where TTNN gave it back, else a new one. Python gives the address of a
        tensor that is gone to another one."""
        number = self._numbers.get(id(tensor))
        if number is None or Ref(number) not in references(call):
            number = self._numbers[id(tensor)] = self._count
            self._count += 1
        return number

    def _number(self, tensor: Any) -> int:
        number = self._numbers.get(id(tensor))
        if number is None:
            raise ValueError("a tensor that no noted call gave: its code cannot be written")
        return number

    def _noted(self, value: Any) -> Any:
        if self.is_tensor(value):
            return Ref(self._number(value))
        if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, Enum)):
            return value
        if isinstance(value, Mapping):
            return tuple((k, self._noted(v)) for k, v in value.items())
        if isinstance(value, (list, tuple, range)):
            return [self._noted(v) for v in value]
        if isinstance(value, (set, frozenset)):
            return Expression("{" + ", ".join(python(self._noted(v), {}) for v in value) + "}")
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
        """The calls as lines of Python, a tensor deleted after its last use, pieces that are alike as a loop."""
        return script_lines(self.calls, self.names)


class _Namespace:
    """A module of TTNN, or TTNN itself, whose functions are noted when they are called."""

    def __init__(self, transcript: Transcript, module: Any, name: str) -> None:
        self._transcript, self._module, self._name = transcript, module, name

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        path = f"{self._name}.{name}"
        if isinstance(value, ModuleType):
            return _Namespace(self._transcript, value, path)
        if isinstance(value, type):
            return value if issubclass(value, Enum) or name == "Tensor" else _Maker(self._transcript, value, path)
        if callable(value) and not isinstance(value, Enum):
            return lambda *args, **kwargs: self._transcript.call(path, value, args, kwargs)
        return self._transcript.constant(path, value)


class _Maker:
    """A class of TTNN: what it makes is noted as the expression that makes it."""

    def __init__(self, transcript: Transcript, kind: type, path: str) -> None:
        self._transcript, self._kind, self._path = transcript, kind, path

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._transcript.made(self._path, self._kind(*args, **kwargs), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)
