"""Reads tensors from a PyTorch, NumPy or safetensors file. Nothing in the file is executed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pickle import UnpicklingError
from tokenize import TokenError
from typing import Any

from ssinghal.errors import InvalidCase, cut

MAX_DEPTH = 8  # of nested dicts and lists in a PyTorch file
NAME_LIMIT = 120
# What the three readers raise for truncated files and other kinds of files
_UNREADABLE = (
    *(OSError, RuntimeError, ValueError, EOFError, LookupError, TypeError, AssertionError),
    *(SyntaxError, TokenError, UnpicklingError, struct.error),
)


def check_file(path: Path) -> Path:
    """Returns ``path``, without opening it; InvalidCase where it is no file or of an unknown kind."""
    if path.suffix.lower() not in _READERS:
        raise InvalidCase(f"{path}: expected a file of tensors that ends in {', '.join(_READERS)}")
    if not path.is_file():
        raise InvalidCase(f"{path}: no such file")
    return path


def read_tensors(torch: Any, path: Path) -> list[tuple[str, Any]]:
    """Returns names and tensors in the order of the file. A single tensor without a name is named after the file.

    Raises:
        InvalidCase: the file cannot be read, or has no tensor.
    """
    try:
        content = _READERS[path.suffix.lower()](torch, path)
    except _UNREADABLE as error:
        raise InvalidCase(f"{path}: not a readable {path.suffix.lower()} file: {_first_line(error)}") from error
    except MemoryError as error:
        raise InvalidCase(f"{path}: needs more host memory than the limit") from error
    tensors = [(_shown(name or path.stem), tensor) for name, tensor in _tensors(torch, "", content, MAX_DEPTH)]
    if not tensors:
        raise InvalidCase(f"{path}: has no tensor")
    return tensors


def _torch_file(torch: Any, path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True)


def _numpy_file(torch: Any, path: Path) -> Any:
    array = import_module("numpy").load(path, allow_pickle=False)
    return torch.from_numpy(array)


def _safetensors_file(torch: Any, path: Path) -> Any:
    try:
        safetensors = import_module("safetensors")
        load = import_module("safetensors.torch").load_file
    except ImportError as error:
        raise InvalidCase(f"{path}: reading it needs the package safetensors") from error
    try:
        return load(path)
    except safetensors.SafetensorError as error:
        raise ValueError(_first_line(error)) from error


def _tensors(torch: Any, name: str, content: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yields the tensors of nested dicts and lists with joined names."""
    if isinstance(content, torch.Tensor):
        yield name, content
    elif depth and isinstance(content, Mapping):
        for key, value in content.items():
            yield from _tensors(torch, f"{name}.{key}" if name else str(key), value, depth - 1)
    elif depth and isinstance(content, Sequence) and not isinstance(content, (str, bytes)):
        for index, value in enumerate(content):
            yield from _tensors(torch, f"{name}.{index}" if name else str(index), value, depth - 1)


_READERS: Mapping[str, Callable[[Any, Path], Any]] = {
    ".pt": _torch_file,
    ".pth": _torch_file,
    ".npy": _numpy_file,
    ".safetensors": _safetensors_file,
}


def _shown(name: str) -> str:
    return cut(name if name.isprintable() else ascii(name), NAME_LIMIT)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
