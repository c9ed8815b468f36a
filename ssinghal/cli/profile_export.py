"""``ssinghal profile export``: a profile for viewers that people have."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ssinghal import __version__
from ssinghal.cli import options
from ssinghal.cli.parameter_types import OneOf
from ssinghal.cli.streams import echo
from ssinghal.core.files import write_given
from ssinghal.core.tensors import TextEnum
from ssinghal.errors import HarnessError, InvalidCase, unknown
from ssinghal.profile.model import Profile


class Format(TextEnum):
    SPEEDSCOPE = "speedscope"
    COLLAPSED = "collapsed"
    PERFETTO = "perfetto"
    MEMORY_VIZ = "memory_viz"
    VISUALIZER = "visualizer"


NAMES = {
    Format.SPEEDSCOPE: "speedscope.json",
    Format.COLLAPSED: "collapsed.txt",
    Format.PERFETTO: "perfetto.json",
    Format.MEMORY_VIZ: "memory_viz.pickle",
    Format.VISUALIZER: "visualizer",
}


@click.command("export")
@click.argument("source", type=options.PATH, metavar="PROFILE")
@click.option(
    "--format",
    "form",
    type=OneOf(Format, "format"),
    required=True,
    metavar="FORMAT",
    help="speedscope, collapsed, perfetto, memory_viz or visualizer.",
)
@click.option("--of", "memory", metavar="MEMORY", help="Memory to collapse: dram, l1, l1_small or trace [default: l1].")
@options.output(options.PATH, "Write to this file, for visualizer to this folder [default: named as the format, in PROFILE].")
def export(source: Path, form: Format, memory: str | None, output: Path | None) -> None:
    """Write a profile for a viewer.

    \b
      ssinghal profile export profiles/unet --format speedscope
      ssinghal profile export profiles/unet --format collapsed --of dram -o dram.txt
      ssinghal profile export profiles/unet --format visualizer

    PROFILE is a folder, or the file of one process in it.

    \b
      speedscope  bytes of each memory at its peak, by stack: speedscope.app
      collapsed   the same of one memory, a line a stack: flamegraph.pl, inferno
      perfetto    calls and counters of memory over time: ui.perfetto.dev
      memory_viz  every allocation and free: PyTorch's memory_viz page
      visualizer  operations, tensors and buffers: ttnn-visualizer
    """
    from ssinghal.profile.reading import read_profiles, record_files

    if memory is not None and form is not Format.COLLAPSED:
        raise click.UsageError("--of requires --format collapsed")
    profiles = read_profiles(source)
    if len(profiles) > 1:
        raise HarnessError(f"{source}: has the profiles of {len(profiles)} processes; name the file of one of them")
    target = output or (source if source.is_dir() else source.parent) / NAMES[form]
    try:
        _WRITERS[form](profiles[0], target, memory or "l1")
    except InvalidCase as error:
        raise InvalidCase(f"{record_files(source)[0]}: {error}") from error
    echo(str(target))


def _speedscope(profile: Profile, path: Path, memory: str) -> None:
    from ssinghal.profile.exports.speedscope import speedscope

    write_given(path, json.dumps(speedscope(profile, __version__)))


def _collapsed(profile: Profile, path: Path, memory: str) -> None:
    from ssinghal.profile.exports.collapsed import collapsed

    if memory not in profile.peaks:
        raise InvalidCase(unknown("memory in this profile", memory, profile.peaks))
    write_given(path, collapsed(profile, memory))


def _perfetto(profile: Profile, path: Path, memory: str) -> None:
    from ssinghal.profile.exports.perfetto import perfetto

    write_given(path, json.dumps(perfetto(profile)))


def _memory_viz(profile: Profile, path: Path, memory: str) -> None:
    from ssinghal.profile.exports.memory_viz import memory_viz

    write_given(path, pickle.dumps(memory_viz(profile)))


def _visualizer(profile: Profile, path: Path, memory: str) -> None:
    from ssinghal.profile.exports.visualizer import write_report
    from ssinghal.report.visualizer_export import REPORTS

    name = Path(profile.argv[0]).stem if profile.argv else "program"
    with _folder(path), TemporaryDirectory(dir=path, prefix=".making-") as making:
        try:
            write_report(profile, Path(making, "new"))
        except sqlite3.OperationalError as error:  # such as a full disk
            raise HarnessError(f"cannot write {path}: {error}") from error
        (path / REPORTS).mkdir(parents=True, exist_ok=True)
        if (path / REPORTS / name).exists():
            (path / REPORTS / name).rename(Path(making, "old"))
        Path(making, "new").rename(path / REPORTS / name)


@contextmanager
def _folder(path: Path) -> Iterator[None]:
    """Makes a folder with those above it; removes what it made and nothing was put into, if the block fails."""
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()
        raise


_WRITERS: dict[Format, Callable[[Profile, Path, str], None]] = {
    Format.SPEEDSCOPE: _speedscope,
    Format.COLLAPSED: _collapsed,
    Format.PERFETTO: _perfetto,
    Format.MEMORY_VIZ: _memory_viz,
    Format.VISUALIZER: _visualizer,
}
