"""Refuses access to weights and the network during a capture, which needs neither."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

WEIGHT_SUFFIXES = (".bin", ".ckpt", ".h5", ".msgpack", ".npz", ".onnx", ".pt", ".pth", ".safetensors", ".tflite")
NETWORK_EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendmsg", "socket.sendto")
# Functions that open files outside Python, without an audit event, or take any file for weights.
LOADERS = (
    ("torch", "load"), ("torch.jit", "load"), ("torch", "from_file"), ("safetensors", "safe_open"),
    ("safetensors.torch", "load"), ("safetensors.torch", "load_file"), ("safetensors.numpy", "load_file"),
)  # fmt: skip
QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DIFFUSERS_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true", "YOLO_VERBOSE": "false", "CUDA_VISIBLE_DEVICES": "",
    "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "MPLBACKEND": "agg",
}  # fmt: skip


class Forbidden(OSError):
    """The model's code tried to use weights or the network."""


class Guards:
    """From ``start`` on, opening a network connection or a weight file fails. ``broken`` holds the first attempt."""

    def __init__(self) -> None:
        self.broken: str | None = None

    def start(self, settings_folder: Path) -> None:
        """``settings_folder``: where packages may write what they would keep in the user's home."""
        os.environ.update(
            QUIET, YOLO_CONFIG_DIR=str(settings_folder), HF_HOME=str(settings_folder), MPLCONFIGDIR=str(settings_folder)
        )
        self._refuse_loaders()
        sys.addaudithook(self._audit)

    def _refuse_loaders(self) -> None:
        for module, name in LOADERS:
            if find_spec(module.partition(".")[0]) is not None:
                setattr(import_module(module), name, self._refuse_weights)

    def _refuse_weights(self, *args: Any, **kwargs: Any) -> Any:
        raise self._broken(f"loads weights ({args[0] if args and isinstance(args[0], (str, os.PathLike)) else 'from memory'})")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event in NETWORK_EVENTS and not (event == "socket.connect" and isinstance(args[1], str)):  # a path is a local socket
            raise self._broken(f"opens a network connection ({_target(event, args)})")
        if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)) and not set("wax+") & set(args[1] or "r"):
            path = os.fsdecode(args[0])
            if path.lower().endswith(WEIGHT_SUFFIXES):
                raise self._broken(f"loads weights ({path})")

    def _broken(self, what: str) -> Forbidden:
        self.broken = self.broken or what
        return Forbidden(what)


def _target(event: str, args: tuple[Any, ...]) -> str:
    return str(args[0] if event != "socket.connect" else args[1])
