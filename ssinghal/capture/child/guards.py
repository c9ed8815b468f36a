"""A capture needs neither weights nor a network: what reaches for one is refused, whoever's code it is."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

WEIGHT_SUFFIXES = (".bin", ".ckpt", ".h5", ".msgpack", ".npz", ".onnx", ".pt", ".pth", ".safetensors", ".tflite")
NETWORK_EVENTS = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request")
QUIET = {
    "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "DIFFUSERS_OFFLINE": "1",
    "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "true", "YOLO_VERBOSE": "false", "CUDA_VISIBLE_DEVICES": "",
    "TOKENIZERS_PARALLELISM": "false", "TQDM_DISABLE": "1", "MPLBACKEND": "agg",
}  # fmt: skip


class Forbidden(OSError):
    """Something in the model's code wanted weights or a network."""


class Guards:
    """From ``start`` on, opening a network connection or a weight file fails. ``broken`` holds the first attempt."""

    def __init__(self) -> None:
        self.broken: str | None = None
        self._on = False

    def start(self, settings_folder: Path) -> None:
        """``settings_folder``: where packages may write what they like to keep in the user's home."""
        os.environ.update(
            QUIET, YOLO_CONFIG_DIR=str(settings_folder), HF_HOME=str(settings_folder), MPLCONFIGDIR=str(settings_folder)
        )
        sys.addaudithook(self._audit)
        self._on = True

    def guard_safetensors(self) -> None:
        """Its files are opened outside Python, where no audit event tells of them."""
        safetensors = sys.modules.get("safetensors")
        if safetensors is None:
            return
        for module in (safetensors, sys.modules.get("safetensors.torch")):
            for name in ("safe_open", "load_file", "load"):
                if hasattr(module, name):
                    setattr(module, name, self._refuse_weights)

    def _refuse_weights(self, *args: Any, **kwargs: Any) -> Any:
        raise self._broken(f"loads weights ({args[0] if args and isinstance(args[0], (str, os.PathLike)) else 'safetensors'})")

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event in NETWORK_EVENTS and not (event == "socket.connect" and isinstance(args[1], str)):  # a path is a local socket
            raise self._broken(f"opens a network connection ({_target(event, args)})")
        if (
            event == "open"
            and isinstance(args[0], (str, bytes, os.PathLike))
            and os.fsdecode(args[0]).endswith(WEIGHT_SUFFIXES)
        ):
            raise self._broken(f"loads weights ({os.fsdecode(args[0])})")

    def _broken(self, what: str) -> Forbidden:
        self.broken = self.broken or what
        return Forbidden(what)


def _target(event: str, args: tuple[Any, ...]) -> str:
    return str(args[0] if event != "socket.connect" else args[1])
