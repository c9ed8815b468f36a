"""Runs one capture, from request to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from ssinghal.capture.catalog_lines import merged
from ssinghal.capture.child.call_recorder import MAX_CALLS, ForwardRecorder, ModulePaths, TooManyCalls
from ssinghal.capture.child.factory import call_factory, check_batch
from ssinghal.capture.child.meta_device import META, MetaFactories, MetaMode, ValueUnknown, built_on_meta, settle
from ssinghal.capture.child.sandbox import Guards
from ssinghal.capture.child.trace_recorder import TraceRecorder, tensors_in
from ssinghal.capture.request import PACKAGES, CaptureRequest, Level
from ssinghal.capture.trace import Trace, trace_text
from ssinghal.capture.zoo import DTYPE, BuiltModel, build
from ssinghal.catalog.writer import captured_text
from ssinghal.core.tensors import Shape
from ssinghal.errors import CaptureError

# What huggingface_hub raises if set to stay offline, before it tries to connect.
OFFLINE = frozenset({"EntryNotFoundError", "LocalEntryNotFoundError", "OfflineModeIsEnabled"})


class CaptureJob:
    """Builds the model, runs it on shapes, and records what it calls."""

    def __init__(self, request: CaptureRequest, guards: Guards) -> None:
        self._request = request
        self._guards = guards
        self._paths: ModulePaths | None = None

    def text(self) -> str:
        """Returns the catalog, or the trace, that was requested."""
        built = self._build()
        inputs = _prepared(built)
        self._paths = paths = ModulePaths(built.root, getattr(torch, DTYPE))
        return self._trace(built, inputs, paths) if self._request.trace else self._catalog(built, inputs, paths)

    def _catalog(self, built: BuiltModel, inputs: Sequence[torch.Tensor], paths: ModulePaths) -> str:
        recorder = ForwardRecorder(paths, inputs)
        returned, stopped = self._run(built, inputs, paths, recorder)
        self._require_calls(len(recorder.calls), stopped)
        self._check_batch(built, returned)
        lines = merged(recorder.calls, DTYPE)
        counts = {"calls": len(recorder.calls), "cases": sum(map(len, lines.values()))}
        head = {
            "schema": 1, "kind": "captured", **self._head(built, recorder, stopped),
            "counts": {**counts, "left_out": dict(sorted(recorder.left_out.items()))},
            "placement": {"dtype": DTYPE, "layout": "tile", "memory": "dram", "output_memory": "same"},
        }  # fmt: skip
        return captured_text(head, lines)

    def _trace(self, built: BuiltModel, inputs: Sequence[torch.Tensor], paths: ModulePaths) -> str:
        recorder = TraceRecorder(paths, built.root, inputs)
        returned, stopped = self._run(built, inputs, paths, recorder)
        results = recorder.results_of(returned)
        recorder.finish()
        self._require_calls(len(recorder.steps), stopped)
        self._check_batch(built, returned)
        head = self._head(built, recorder, stopped)
        head["capture"]["left_out"] = dict(sorted(recorder.left_out.items()))
        return trace_text(Trace(head, tuple(recorder.values), tuple(recorder.steps), results))

    def _require_calls(self, calls: int, stopped: str) -> None:
        if self._request.factory and self._guards.broken:
            raise CaptureError(
                f"factory {self._request.factory}: {self._guards.broken}; a capture needs neither weights nor a network"
            )
        if not calls:
            raise CaptureError(f"capture {self._request.what}: {stopped or 'it makes no call on its inputs'}")

    def described(self, error: Exception) -> str:
        """Returns an exception of the model's own code in one line, with the module that raised it."""
        if self._guards.broken:
            return f"{self._guards.broken}; a capture needs neither weights nor a network"
        if any(type(cause).__name__ in OFFLINE for cause in _causes(error)):
            return "loads weights or a configuration from a hub; build the model without (pretrained=False, from_config)"
        where = f"in {self._paths.of(error)}: " if self._paths is not None else "while it is built: "
        return f"{where}{type(error).__name__}: {_first_line(error)}".rstrip(": ")

    def _build(self) -> BuiltModel:
        request = self._request
        with built_on_meta():
            if request.factory:
                return call_factory(request.factory, next(iter(request.inputs), None))
            return build(request.model, request.inputs)

    def _check_batch(self, built: BuiltModel, returned: Any) -> None:
        """Refuses a batch that is not the factory's own unless the results follow it, which a second model shows at its own."""
        if not built.own_inputs:
            return
        with built_on_meta():
            own = call_factory(self._request.factory)
        inputs = _prepared(own)
        paths = ModulePaths(own.root, getattr(torch, DTYPE))
        check_batch(built, _shapes(self._run(own, inputs, paths, MetaMode(paths))[0]), _shapes(returned))

    def _run(
        self, built: BuiltModel, inputs: Sequence[torch.Tensor], paths: ModulePaths, recorder: MetaMode
    ) -> tuple[Any, str]:
        """Returns the result of forward, and why the recording stopped early, if it did."""
        gradients = torch.no_grad() if self._request.level is Level.ATEN else torch.inference_mode()
        returned, stopped = None, built.stopped
        with gradients, MetaFactories(), paths.followed(), recorder:
            try:
                returned = built.run(*inputs)
            except ValueUnknown as error:
                stopped = f"{error}; what comes after is not recorded"
            except TooManyCalls as error:
                stopped = f"in {paths.of(error)} after {MAX_CALLS} calls; what comes after is not recorded"
            except (NotImplementedError, RuntimeError) as error:
                if "meta tensor" not in str(error).lower():
                    raise
                stopped = f"in {paths.of(error)}: {_first_line(error)}; what comes after is not recorded"
        if not stopped and recorder.unknown:
            stopped = f"{recorder.unknown}; the model goes on without, and so does the recording"
        return returned, stopped

    def _head(self, built: BuiltModel, recorder: MetaMode, stopped: str) -> dict[str, Any]:
        """Returns what catalogs and traces state about the model, its input and the recording."""
        level = self._request.level.value
        capture: dict[str, Any] = {"torch": _version("torch"), "level": level, "device": "meta"}
        capture["guessed"] = recorder.guesses.total()
        if recorder.guesses:
            capture["guesses"] = dict(sorted(recorder.guesses.items()))
        module, _, function = self._request.factory.partition(":")
        package, _, name = self._request.model.partition("/")
        pinned = _pinned(package or module.partition(".")[0])
        model: dict[str, Any] = {"name": name or function, "package": pinned, "config": built.config}
        if self._request.factory:
            model["factory"] = self._request.factory
        elif packages := [_pinned(p) for p in PACKAGES[package][1] if _version(p)]:
            capture["packages"] = packages
        if stopped:
            capture["stopped"] = stopped
        model |= {"params": built.parameters, "fused": False}
        input_ = {"shapes": built.inputs, "dtype": DTYPE, **({"dtypes": built.dtypes} if built.dtypes else {})}
        return {"model": model, "input": input_, "capture": capture}


def _prepared(built: BuiltModel) -> list[torch.Tensor]:
    """Returns the inputs of a model, which is settled on the meta device."""
    settle(built.root, getattr(torch, DTYPE))
    dtypes = built.dtypes or (DTYPE,) * len(built.inputs)
    return [torch.empty(s, dtype=getattr(torch, d), device=META) for s, d in zip(built.inputs, dtypes, strict=True)]


def _shapes(returned: Any) -> list[Shape]:
    return [tuple(tensor.shape) for tensor in tensors_in(returned)]


def _first_line(error: BaseException) -> str:
    """Returns the first line of a message, without characters that a terminal would act on."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return "".join(c if c.isprintable() else "?" for c in line)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its causes, one after the other."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _version(package: str) -> str:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return ""


def _pinned(package: str) -> str:
    return f"{package}=={_version(package) or 'local'}"
