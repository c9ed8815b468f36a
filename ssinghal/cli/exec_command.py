"""``ssinghal exec``: the user's own program on the virtual device."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from ssinghal import tracker
from ssinghal.cli import options
from ssinghal.cli.exec_report import report_run
from ssinghal.cli.requests import DeviceRequest, collected
from ssinghal.cli.streams import echo
from ssinghal.core.device_facts import DeviceMode
from ssinghal.core.signals import ENDING
from ssinghal.device.virtual import apply_environment, environment_for
from ssinghal.device.virtual_cache import scratch_folder
from ssinghal.errors import HarnessError, InvalidCase

INJECTED = Path(tracker.__file__).with_name("inject")  # a folder that comes first on a program's PYTHONPATH


@click.command("exec", context_settings={"allow_interspersed_args": False})
@collected(DeviceRequest, "device", options.board(None, "Virtual board to open"), options.release, options.ttnn_log)
@click.option("--plain", is_flag=True, help="Set the environment alone: no report of a call that runs out of memory.")
@click.option("--no-trace", is_flag=True, help="Leave out traces and waiting on events, which crash a virtual device.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(device: DeviceRequest, plain: bool, no_trace: bool, command: tuple[str, ...]) -> None:
    """Run any TTNN program on the virtual device.

    \b
      ssinghal exec --board n150 -- python my_model.py
      ssinghal exec --ttnn 0.66.0 python repro.py
      ssinghal exec -- pytest my_tests

    Works for any program, pytest included: it sees TTNN's own memory verdicts, as on a card. Every value read back is
    meaningless. python and pytest are those of the environment that ssinghal runs in. The exit code is the program's.

    Only the environment is set; no call of TTNN is changed. If the program ends because a call ran out of memory, its line, the
    call in the words of probe and changes that make it fit follow on standard error; if native code crashes, its line.

    TTNN crashes where a trace is captured or replayed on a virtual device. With --no-trace begin_trace_capture,
    end_trace_capture, execute_trace, release_trace and wait_for_event do nothing: what is captured runs once, as it is called.
    """
    if plain and no_trace:
        raise click.UsageError("--plain sets the environment alone, which --no-trace excludes")
    if plain:
        sys.exit(run_program("exec", device, command).exit_code)
    variables = {"PYTHONPATH": str(INJECTED), tracker.NO_TRACE_VARIABLE: "1" if no_trace else ""}
    with scratch_folder() as notes:
        ended = run_program("exec", device, command, {**variables, tracker.FAILURES_VARIABLE: str(notes)})
        if ended.stopped_by is None:
            try:
                report_run(notes, ended.exit_code, device)
            except (HarnessError, OSError) as error:  # the exit code stays the program's
                echo(f"ssinghal: {error}", err=True)
    sys.exit(ended.exit_code)


class Ended(NamedTuple):
    """How a program ended; 128 + n for signal n, as in a shell. ``stopped_by``: the signal that was passed on to it."""

    exit_code: int
    stopped_by: signal.Signals | None = None


def run_program(
    name: str,
    device: DeviceRequest,
    command: tuple[str, ...],
    variables: Mapping[str, str] | None = None,
    stdout: Path | None = None,
) -> Ended:
    """Runs a program on the virtual device, with ``variables`` set as well; folders in PYTHONPATH go before the program's own.

    ``stdout``: the file for its standard output; it then reads an empty input. Without it, both are ours.

    Raises:
        InvalidCase: there is no such program; ``name``: of the command that was given it.
    """
    choice = replace(device, mode=DeviceMode.VIRTUAL).choose()
    environ = {**os.environ, "PATH": _search_path()}
    program = find_program(name, command)
    with scratch_folder() as scratch:
        apply_environment(environment_for(choice, scratch, environ, release=device.release), environ)
        added = dict(variables or {})
        paths = [added.pop("PYTHONPATH", ""), *(device.release.import_paths if device.release is not None else ())]
        if any(paths):
            environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*paths, environ.get("PYTHONPATH")]))
        environ.update(
            {name: value for name, value in os.environ.items() if name.startswith("TTNN_")}
        )  # those of the user apply
        environ.update(added)
        echo(
            f"ssinghal: virtual {choice.board}: memory verdicts are TTNN's own, every value read back is meaningless", err=True
        )
        return _run([program, *command[1:]], environ, stdout)


def find_program(name: str, command: tuple[str, ...]) -> str:
    """Returns the path of a program; raises InvalidCase if there is none. ``name``: of the command that was given it."""
    program = path_of(command[0])
    if program is None:
        raise InvalidCase(f"{name}: no program {command[0]!r} on PATH")
    return program


def path_of(program: str) -> str | None:
    """Returns the path of a program as it would run here, None if there is none."""
    return shutil.which(program, path=_search_path())


def _search_path() -> str:
    """The programs of the environment that ssinghal runs in come first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _run(command: list[str], environ: dict[str, str], stdout: Path | None) -> Ended:
    """Signals that end a program are passed on for it to handle; not a closed terminal where that is ignored (``nohup``)."""
    child: subprocess.Popen[bytes] | None = None
    received: list[int] = []

    def forward(number: int, _: object) -> None:
        received.append(number)
        if child is not None and (number != signal.SIGINT or not _typed_here()):
            child.send_signal(number)

    passed_on = [number for number in ENDING if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, forward) for number in passed_on}
    try:
        with nullcontext() if stdout is None else stdout.open("wb") as output:
            child = subprocess.Popen(command, env=environ, stdin=output and subprocess.DEVNULL, stdout=output)
        for number in [*received]:
            child.send_signal(number)
        code = child.wait()
        return Ended(code if code >= 0 else 128 - code, signal.Signals(received[-1]) if received else None)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _typed_here() -> bool:
    """Whether Ctrl-C came from a terminal with this program in its foreground: it has then reached the child as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
