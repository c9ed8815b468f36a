"""Opens the device of a test with the parameters that TT-Metal's own fixtures take, and closes it after the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ssinghal.device.session import import_ttnn


@contextmanager
def opened_device(params: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the one device of the board, as the default device.

    It is opened anew for each test, in 3 ms: neither tensors that a failure keeps alive, nor buffers of the program cache, nor
    a test that closes the device or opens a second one reach the next test.
    """
    ttnn = import_ttnn(with_torch=True)
    with _fabric(ttnn, params) as others:
        device = ttnn.open_device(device_id=0, **others)
        previous = ttnn.GetDefaultDevice()
        ttnn.SetDefaultDevice(device)
        try:
            yield device
        finally:
            ttnn.SetDefaultDevice(previous)
            ttnn.close_device(device)


@contextmanager
def opened_mesh(request: int | tuple[int, int] | None, params: Mapping[str, Any]) -> Iterator[Any]:
    """Yields a mesh of that many devices in a row, or of rows and columns; None: of all that the board has.

    Skips the test where the board has fewer.
    """
    ttnn = import_ttnn(with_torch=True)
    available = ttnn.get_num_devices()
    rows, columns = (1, request if request is not None else available) if not isinstance(request, tuple) else request
    if rows * columns > available:
        pytest.skip(f"needs {rows * columns} devices, the board has {available}")
    with _fabric(ttnn, params) as others:
        shape = None if request is None else ttnn.MeshShape(rows, columns)
        mesh = ttnn.open_mesh_device(shape, **others)
        try:
            yield mesh
        finally:
            ttnn.close_mesh_device(mesh)


@contextmanager
def _fabric(ttnn: Any, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields what TTNN takes when it opens a device; the fabric is set up before that, and switched off afterwards."""
    others = dict(params)
    fabric = others.pop("fabric_config", None)
    tensix = others.pop("fabric_tensix_config", None)
    reliability = others.pop("reliability_mode", None)
    kind, axis = others.pop("dispatch_core_type", None), others.pop("dispatch_core_axis", None)
    if kind is not None or axis is not None:
        others["dispatch_core_config"] = ttnn.DispatchCoreConfig(kind, axis)
    if fabric is None:
        yield others
        return
    more = {"reliability_mode": reliability, "fabric_tensix_config": tensix}
    ttnn.set_fabric_config(fabric, **{name: value for name, value in more.items() if value is not None})
    try:
        yield others
    finally:
        ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
