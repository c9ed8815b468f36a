"""``ssinghal catalog capture`` and ``recapture``: real models to catalogs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ssinghal.capture.request import DEFAULT_TIMEOUT_S, CaptureRequest, Level
from ssinghal.cli.options import timeout_option_of
from ssinghal.cli.progress import track
from ssinghal.errors import InvalidCase
from ssinghal.specs import format_shape
from ssinghal.values import one_of, parse_shape

if TYPE_CHECKING:
    from ssinghal.catalog.schema import CapturedCatalog

timeout_option = timeout_option_of(DEFAULT_TIMEOUT_S, "Time one capture may take.")


@click.command("capture")
@click.argument("model", required=False, default="")
@click.option("--input", "input_", metavar="SHAPE", help="Shape of the model's input, e.g. 1,3,640,640.")
@click.option("--factory", default="", metavar="MODULE:FUNCTION", help="Your own: a function that returns (module, inputs).")
@click.option("--level", default="aten", show_default=True, help="aten: calls that reach kernels; torch: calls the code makes.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File or folder; - for standard output [default: here].")
@timeout_option
def capture_command(model: str, input_: str | None, factory: str, level: str, output: Path | None, timeout: float) -> None:
    """Record every call that a model makes at one input size, without weights, and write them as a catalog.

    \b
      ssinghal catalog capture ultralytics/yolo12x --input 1,3,4320,7680
      ssinghal catalog capture diffusers/mochi-decoder --input 1,12,4,60,106 --level torch
      ssinghal catalog capture --factory my_models.segmenter:small -o my.yaml

    Models are named package/name: torchvision, timm, transformers, diffusers, ultralytics. The same command with the same
    packages gives the same bytes.
    """
    from ssinghal.capture.session import capture, write_capture

    inputs = () if input_ is None else (tuple(parse_shape(input_)),)
    request = CaptureRequest(model, factory, inputs, one_of(Level, "level", level))
    if output is not None and str(output) != "-" and not (output if output.is_dir() else output.parent).is_dir():
        raise InvalidCase(f"{output}: there is no folder {output.parent}")
    text = capture(request, timeout)
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    click.echo("\n".join(_summary(write_capture(text, Path() if output is None else output))))


def _summary(catalog: CapturedCatalog) -> list[str]:
    from ssinghal.coverage import coverage

    head = catalog.head
    took = ", ".join(map(format_shape, head.input.shapes))
    lines = [
        f"{catalog.path}: {head.counts.calls} calls in {head.counts.cases} lines",
        f"{head.model.full_name} ({head.model.package}, torch {head.capture.torch}), input {took}, level {head.capture.level}",
    ]
    mapped = coverage([catalog]).total
    lines.append(f"cases: {mapped}")
    if mapped.mapped_calls < mapped.calls:
        lines.append(f"why the others are none: ssinghal operators --missing --catalog {catalog.path}")
    if head.counts.left_out:
        lines.append("left out: " + ", ".join(f"{n} {why}" for why, n in head.counts.left_out.items()))
    if head.capture.guessed:
        where = ", ".join(f"{n} in {path}" for path, n in head.capture.guesses.items())
        lines.append(f"values guessed that only a real run knows: {where}")
    if head.capture.stopped:
        lines.append(f"stopped: {head.capture.stopped}")
    return lines


@click.command("recapture")
@click.argument("catalogs", nargs=-1)
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 where a file would change.")
@timeout_option
def recapture_command(catalogs: tuple[str, ...], check: bool, timeout: float) -> None:
    """Capture the named captured catalogs again (default: all of the product) and say which files changed."""
    from ssinghal.capture.session import Captures, request_of, write_capture
    from ssinghal.catalog.reading import load_catalogs
    from ssinghal.catalog.schema import CapturedCatalog

    captured = [c for c in load_catalogs(catalogs or None) if isinstance(c, CapturedCatalog)]
    if not captured:
        raise InvalidCase("recapture: none of these catalogs was captured from a model")
    changed = 0
    with Captures(timeout) as captures:
        for catalog in track(captured, "capturing", len(captured)):
            text = captures.capture(request_of(catalog))
            if text == catalog.path.read_text(encoding="utf-8"):
                continue
            changed += 1
            if not check:
                write_capture(text, catalog.path)
            click.echo(f"{catalog.path}: {'would change' if check else 'changed'}")
    click.echo(f"{len(captured) - changed} of {len(captured)} captured catalogs are as they were")
    sys.exit(1 if check and changed else 0)
