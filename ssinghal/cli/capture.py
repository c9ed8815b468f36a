"""``ssinghal catalog capture`` and ``recapture``: catalogs and traces of real models."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ssinghal.capture.request import DEFAULT_TIMEOUT_S, CaptureRequest, Level
from ssinghal.capture.trace import SUFFIX, Trace, ValueKind, read_trace, resident_bytes, trace_text
from ssinghal.capture.trace_library import trace_files, trace_request, write_trace
from ssinghal.cli import options
from ssinghal.cli.parameter_types import CatalogName, OneOf
from ssinghal.cli.progress import track
from ssinghal.cli.streams import echo
from ssinghal.core.tensors import Shape, format_bytes, format_shape
from ssinghal.errors import InvalidCase

if TYPE_CHECKING:
    from ssinghal.catalog.captured import CapturedCatalog

_timeout_option = options.seconds("--timeout", DEFAULT_TIMEOUT_S, "Seconds of one capture, by the clock.")


@click.command("capture")
@click.argument("model", required=False, default="")
@options.input_shape
@click.option("--factory", metavar="MODULE:FUNCTION", help="Your own model: a function that returns (module, inputs).")
@click.option("--trace", "as_trace", is_flag=True, help="Record the calls in order with the tensors' lifetimes, for plan.")
@click.option(
    "--level",
    type=OneOf(Level, "level"),
    metavar="LEVEL",
    help="aten: calls that reach kernels; torch: calls the code makes [default: aten, for a trace torch].",
)
@options.output(options.PATH, "Write to this file or folder; - for standard output [default: here].")
@_timeout_option
def capture_command(
    model: str,
    input_shape: Shape | None,
    factory: str | None,
    as_trace: bool,
    level: Level | None,
    output: Path | None,
    timeout: float,
) -> None:
    """Record a model's calls as a catalog or a trace.

    \b
      ssinghal catalog capture ultralytics/yolo12x --input 1,3,4320,7680
      ssinghal catalog capture diffusers/mochi-decoder --input 1,12,4,60,106 --level torch
      ssinghal catalog capture torchvision/resnet50 --input 8,3,224,224 --trace
      ssinghal catalog capture --factory my_models.segmenter:small -o my.yaml

    Records every call at one input size, without weights. Models are named package/name: torchvision, timm, transformers,
    diffusers, ultralytics. The same command with the same packages gives the same bytes. A trace is compressed JSON; it is
    written uncompressed to standard output and to a file *.json.
    """
    from ssinghal.capture.client import capture, write_capture

    inputs = () if input_shape is None else (input_shape,)
    request = CaptureRequest(model, factory or "", inputs, level or (Level.TORCH if as_trace else Level.ATEN), as_trace)
    if output is not None and str(output) != "-" and not (output if output.is_dir() else output.parent).is_dir():
        raise InvalidCase(f"{output}: there is no folder {output.parent}")
    text = capture(request, timeout)
    if str(output) == "-":
        echo(text, nl=False)
        return
    target = Path() if output is None else output
    lines = _trace_summary(write_trace(text, target)) if as_trace else _summary(write_capture(text, target))
    echo("\n".join(lines))


def _summary(catalog: CapturedCatalog) -> list[str]:
    from ssinghal.catalog.coverage import coverage

    header = catalog.head
    lines = [
        f"{catalog.path}: {header.counts.calls} calls in {header.counts.cases} lines",
        _recorded(
            header.model.full_name, header.model.package, header.capture.torch, header.input.shapes, header.capture.level
        ),
    ]
    mapped = coverage([catalog]).total
    lines.append(f"cases: {mapped}")
    if mapped.mapped_calls < mapped.calls:
        lines.append(f"reasons for the others: ssinghal operators --missing --catalog {catalog.path}")
    return lines + _limits(header.counts.left_out, header.capture.guesses or {}, header.capture.stopped or "")


def _trace_summary(trace: Trace) -> list[str]:
    capture = trace.head["capture"]
    weights, constants = (resident_bytes(trace, kind) for kind in (ValueKind.WEIGHT, ValueKind.CONSTANT))
    return [
        f"{trace.path}: {len(trace.steps)} calls on {len(trace.values)} tensors",
        _recorded(trace.model, trace.head["model"]["package"], capture["torch"], trace.input_shapes, capture["level"]),
        f"weights: {format_bytes(weights)}; constants: {format_bytes(constants)}; both as torch stores them",
        *_limits(trace.left_out, trace.guesses, trace.stopped),
    ]


def _recorded(model: str, package: str, torch: str, inputs: Iterable[Shape], level: str) -> str:
    return f"{model} ({package}, torch {torch}), input {', '.join(map(format_shape, inputs))}, level {level}"


def _limits(left_out: Mapping[str, int], guesses: Mapping[str, int], stopped: str) -> list[str]:
    """Returns what a recording leaves out, what it had to guess, and where it ended early."""
    lines = []
    if left_out:
        lines.append("left out: " + ", ".join(f"{n} {why}" for why, n in left_out.items()))
    if guesses:
        lines.append(f"guessed values that only a real run knows: {', '.join(f'{n} in {at}' for at, n in guesses.items())}")
    if stopped:
        lines.append(f"stopped: {stopped}")
    return lines


@click.command("recapture")
@click.argument("catalogs", type=CatalogName(), nargs=-1, metavar="[CATALOG|TRACE]...")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 where a file would change.")
@_timeout_option
def recapture_command(catalogs: tuple[str, ...], check: bool, timeout: float) -> None:
    """Capture catalogs and traces again and list changes.

    Captures the named ones again [default: all built-in ones] and lists the files that changed. A trace is named by its file.
    """
    from ssinghal.capture.client import Captures

    captured = _captured(catalogs)
    if not captured:
        raise InvalidCase("recapture: none of these catalogs was captured from a model")
    changed = 0
    with Captures(timeout) as captures:
        for old in track(captured, "capturing", len(captured)):
            text = captures.capture(old.request)
            if text == old.text:
                continue
            changed += 1
            if not check:
                old.write(text)
            echo(f"{old.path}: {'would change' if check else 'changed'}")
    echo(f"{len(captured) - changed} of {len(captured)} captured catalogs and traces are unchanged")
    sys.exit(1 if check and changed else 0)


class _CaptureResult(NamedTuple):
    path: Path
    text: str
    request: CaptureRequest
    write: Callable[[str], object]


def _captured(named: Sequence[str]) -> list[_CaptureResult]:
    from ssinghal.capture.client import request_of, write_capture
    from ssinghal.catalog.captured import CapturedCatalog
    from ssinghal.catalog.loader import load_catalogs

    files = [Path(name) for name in named if name.endswith(SUFFIX)] if named else trace_files()
    rest = [name for name in named if not name.endswith(SUFFIX)]
    catalogs = load_catalogs(rest or None) if rest or not named else []
    captured = [
        _CaptureResult(c.path, c.path.read_text(encoding="utf-8"), request_of(c), partial(write_capture, target=c.path))
        for c in catalogs
        if isinstance(c, CapturedCatalog)
    ]
    recorded = map(read_trace, files)
    return captured + [
        _CaptureResult(t.path, trace_text(t), trace_request(t), partial(write_trace, target=t.path)) for t in recorded
    ]
