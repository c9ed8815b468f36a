"""A session without a device: TTNN's golden functions make the calls, on TTNN's own host tensors. For development only.

The tensors are rounded as TTNN rounds them; no kernel runs and no memory is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.case import RequestedOutput
from ssinghal.core.device_facts import DeviceFacts, DeviceMode
from ssinghal.core.mesh import ShardDim
from ssinghal.core.tensors import Board, BufferType, TensorSpec
from ssinghal.device.conversion import layout_of
from ssinghal.device.modes import DeviceChoice
from ssinghal.device.session import MemoryView, Session
from ssinghal.errors import NoGolden, NotProven


class GoldenSession(Session):
    """Opens nothing. Calls get host tensors and golden functions; whatever asks for memory raises NotProven. Needs torch."""

    def __init__(self, choice: DeviceChoice) -> None:
        super().__init__(choice, with_torch=True)
        self._module = self.ttnn
        self.ttnn = _Namespace(self._module, load_board(choice.board), "ttnn")

    def _open(self) -> Any:
        return _Grid(self.ttnn, load_board(self.choice.board))

    def close(self) -> None:
        """There is nothing to close."""

    def _prove(self) -> DeviceFacts:
        board = load_board(self.choice.board)
        return DeviceFacts(
            mode=DeviceMode.GOLDEN,
            board=board.name,
            arch=board.arch,
            grid=board.grid,
            ttnn=version("ttnn"),
            reason=self.choice.reason,
            proof="no device: TTNN's golden functions on host tensors, no memory is measured",
        )

    def memory(self, buffer: BufferType) -> MemoryView:
        raise NotProven("golden functions run on the host: no memory is measured")

    def empty(self, spec: TensorSpec, ttnn: Any = None, shard_dim: ShardDim | None = None) -> Any:
        raise NotProven("golden functions run on the host: nothing is placed on a device")

    def from_torch(self, values: Any, spec: TensorSpec) -> Any:
        """Returns a host tensor with ``values`` as TTNN rounds them to the dtype of ``spec``."""
        ttnn = self._module
        return _Form(ttnn, getattr(ttnn, spec.dtype.value), layout_of(ttnn, spec.layout), is_named=True).placed(values)

    def rounded(self, values: Any, spec: TensorSpec) -> Any:
        return self.to_torch(self.from_torch(values, spec))

    def to_torch(self, tensor: Any) -> Any:
        return self._module.to_torch(tensor)

    def output_arguments(self, output: RequestedOutput, ttnn: Any = None) -> dict[str, Any]:
        """Returns no memory config: there is no memory."""
        return {}


class _Grid:
    """Stands in for the device where a call asks how many cores there are."""

    def __init__(self, ttnn: Any, board: Board) -> None:
        self._grid = ttnn.CoreCoord(*board.grid)

    def compute_with_storage_grid_size(self) -> Any:
        return self._grid


class _Namespace:
    """A module of TTNN whose operations are their golden functions, and whose other names are its own."""

    def __init__(self, module: Any, board: Board, name: str, root: Any = None) -> None:
        self._module, self._board, self._name, self._root = module, board, name, root or module

    def __getattr__(self, name: str) -> Any:
        path = f"{self._name}.{name}"
        if path == "ttnn.get_memory_view":
            return lambda device, buffer: SimpleNamespace(total_bytes_per_bank=self._board.l1.bank_bytes)
        if path == "ttnn.empty":
            return self._undefined
        if path == "ttnn.determine_expected_group_norm_dram_grid_size":
            raise AttributeError(path)  # it asks the device; callers know how to do without it
        value = getattr(self._module, name)
        if isinstance(value, ModuleType):
            return _Namespace(value, self._board, path, self._root)
        if isinstance(value, (type, Enum)) or not callable(value):
            return value
        return lambda *args, **kwargs: _run(self._root, path, value, args, kwargs)

    def _undefined(self, shape: Sequence[int], **form: Any) -> Any:
        """Returns a tensor without values: whatever reads them gives NaN."""
        return _Form.of(self._root, (), form).placed(import_module("torch").full(tuple(shape), float("nan")))


def _run(ttnn: Any, path: str, operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls the golden function of ``operation`` with values, and makes host tensors of its results."""
    form = _Form.of(ttnn, args, kwargs)
    golden = getattr(operation, "golden_function", None)
    if golden is None:
        raise NoGolden(f"TTNN registers no golden function for {path}")
    given = {key: value for key, value in kwargs.items() if value is not None}
    arguments, keywords = _of_one_dtype(operation.preprocess_golden_function_inputs(args, given))
    try:
        returned = golden(*arguments, **keywords)
    except ModuleNotFoundError as error:
        raise NoGolden(f"the golden function of {path} imports {error.name}, which TTNN's wheel lacks") from error
    except Exception as error:  # code that TTNN's own tests call may raise anything; it becomes the verdict of this call
        raise RuntimeError(f"golden function of {path}: {type(error).__name__}: {error}") from error
    if returned is None:
        raise NoGolden(f"the golden function of {path} gives no result for these arguments")
    if isinstance(returned, (list, tuple)):
        return [form.placed(tensor) for tensor in returned]
    return form.placed(returned)


def _of_one_dtype(values: Any) -> Any:
    """Returns arguments with float tensors in float32, if they have several dtypes: torch convolves those of one dtype only."""
    torch = import_module("torch")
    tensors = list(_nested(torch.Tensor, values))
    if len({tensor.dtype for tensor in tensors if tensor.is_floating_point()}) < 2:
        return values
    return _mapped(values, lambda x: x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x)


def _mapped(values: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(values, dict):
        return {key: _mapped(value, change) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(_mapped(value, change) for value in values)
    return change(values)


def _nested(kind: type, values: Any) -> Iterator[Any]:
    if isinstance(values, kind):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _nested(kind, value)
    elif isinstance(values, dict):
        yield from _nested(kind, list(values.values()))


@dataclass(frozen=True)
class _Form:
    """The dtype and layout of results: those that a call names, else those of its first operand that holds no indices."""

    ttnn: Any
    dtype: Any
    layout: Any
    is_named: bool

    @classmethod
    def of(cls, ttnn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Form:
        given = [*args, *kwargs.values()]
        operands = list(_nested(ttnn.Tensor, given))
        operand = next((x for x in operands if x.dtype in _floats(ttnn)), next(iter(operands), None))
        named = next((value for value in given if isinstance(value, ttnn.DataType)), None)
        layout = next((value for value in given if isinstance(value, ttnn.Layout)), None)
        dtype = named or (operand.dtype if operand is not None else ttnn.bfloat16)
        return cls(ttnn, dtype, layout or (operand.layout if operand is not None else ttnn.TILE_LAYOUT), named is not None)

    def placed(self, values: Any) -> Any:
        """Returns a host tensor. A mask has the operand's dtype, as TTNN has no bool; indices of floats are uint32."""
        torch, ttnn, dtype = import_module("torch"), self.ttnn, self.dtype
        floats = _floats(ttnn)
        is_count = not values.is_floating_point() and values.dtype is not torch.bool
        if is_count and dtype in floats and not self.is_named:
            dtype = ttnn.uint32
        layout = ttnn.TILE_LAYOUT if dtype in (ttnn.bfloat8_b, ttnn.bfloat4_b) else self.layout
        return ttnn.from_torch(values.to(torch.float32 if dtype in floats else torch.int32), dtype=dtype, layout=layout)


def _floats(ttnn: Any) -> tuple[Any, ...]:
    return (ttnn.float32, ttnn.bfloat16, ttnn.bfloat8_b, ttnn.bfloat4_b)
