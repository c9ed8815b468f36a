"""The command line: one module per command, each a thin layer over the library."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import sys
import traceback
from typing import TextIO

import click
from click.shell_completion import shell_complete

from ssinghal import __version__
from ssinghal.cli.lazy_group import LazyCommand, LazyGroup
from ssinghal.cli.standard_error import let_standard_error_fail
from ssinghal.core.signals import ENDING
from ssinghal.errors import (
    LINE_LIMIT,
    WORKING_FOLDER_GONE,
    CatalogError,
    HarnessError,
    cut,
    is_working_folder_gone,
    one_line,
    visible,
)

PROGRAM = "ssinghal"
COMPLETION_VARIABLE = "_SSINGHAL_COMPLETE"
SECTIONS = {
    "Bring-up": {
        "probe": LazyCommand("ssinghal.cli.probe:probe", "Run a call on a device and report whether it fits."),
        "estimate": LazyCommand("ssinghal.cli.estimate:estimate", "Estimate by arithmetic alone whether a call fits."),
        "remedy": LazyCommand("ssinghal.cli.remedy:remedy", "Search for changes that make a call fit."),
        "edge": LazyCommand("ssinghal.cli.edge:edge", "Find the largest or smallest size of a call that fits."),
        "plan": LazyCommand("ssinghal.cli.plan:plan_command", "Run a complete model on a virtual board: does it fit?"),
        "precision": LazyCommand("ssinghal.cli.precision:precision", "Compare bytes and storage error of block-float dtypes."),
        "diagnose": LazyCommand("ssinghal.cli.diagnose:diagnose", "Explain the failures in a log and how to fix them."),
    },
    "Runs": {
        "run": LazyCommand("ssinghal.cli.run:run", "Run complete catalogs on a device and record every case."),
        "sweep": LazyCommand("ssinghal.cli.sweep:sweep", "Run catalogs on boards, releases, placements and dtypes."),
        "merge": LazyCommand("ssinghal.cli.merge:merge", "Join the runs of all parts of a selection into one run."),
        "report": LazyCommand("ssinghal.cli.report:report", "Write a run's report: page, documents, CSV and JSON."),
        "compare": LazyCommand("ssinghal.cli.compare:compare", "Report what changed from one run to another."),
        "recheck": LazyCommand("ssinghal.cli.recheck:recheck", "Repeat cases of a run in fresh processes and compare."),
        "history": LazyCommand("ssinghal.cli.history:history", "Show how the cases at a shape ended in every run."),
        "compress": LazyCommand("ssinghal.cli.compress:compress", "Compress the records of runs."),
        "export-visualizer": LazyCommand(
            "ssinghal.cli.visualizer:export_visualizer", "Write a run's cases for ttnn-visualizer."
        ),
    },
    "Catalogs": {
        "catalog": LazyCommand("ssinghal.cli.catalog:catalog", "Check, list, search, compare and create shape catalogs."),
        "operators": LazyCommand("ssinghal.cli.operators:operators", "List the operators, their layouts and limitations."),
    },
    "Environment": {
        "doctor": LazyCommand("ssinghal.cli.doctor:doctor", "Check the environment and suggest fixes."),
        "releases": LazyCommand("ssinghal.cli.releases:releases", "Manage TTNN releases and run the same cases on each."),
        "baseline": LazyCommand("ssinghal.cli.baseline:baseline", "Record what TTNN's allocator books for catalog cases."),
        "completion": LazyCommand("ssinghal.cli.completion:completion", "Print the completion script of a shell."),
    },
    "Your own programs": {
        "profile": LazyCommand("ssinghal.cli.profile:profile", "Record where the memory of any TTNN program goes."),
        "exec": LazyCommand("ssinghal.cli.exec_command:execute", "Run any TTNN program on the virtual device."),
    },
}


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


@click.group(cls=LazyGroup, sections=SECTIONS, context_settings=CONTEXT)
@click.version_option(__version__, "-V", "--version")
def cli() -> None:
    """Which TTNN operator at which shape runs out of which memory on a Tenstorrent board, by how many bytes, and why.

    Without a card, TTNN itself runs on a virtual board: memory verdicts are real, values are not.
    """


class _Terminated(BaseException):
    """A signal came that ends the program. No Exception, so that nothing but the end of the program handles it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.number = number


def _terminate(number: int, _: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the program at once
    raise _Terminated(signal.Signals(number))


def main() -> None:
    """Runs the program. Errors are one line on standard error: exit code 2, 130 after Ctrl-C, 141 where the reader is gone,
    143 after SIGTERM and 129 after SIGHUP, which end it as Ctrl-C does: processes that it started end, and unfinished files are
    removed."""
    let_standard_error_fail()
    handled = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]  # not what nohup ignores
    for number in handled:
        signal.signal(number, _terminate)
    try:
        if instruction := os.environ.get(COMPLETION_VARIABLE):
            sys.exit(shell_complete(cli, {}, PROGRAM, COMPLETION_VARIABLE, instruction))
        with cli.make_context(PROGRAM, sys.argv[1:], color=False if os.environ.get("NO_COLOR") else None) as context:
            cli.invoke(context)
        code = 0
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        _drop(sys.stdout)
        code = 128 + signal.SIGPIPE
    except (KeyboardInterrupt, click.Abort):
        code = _fail("interrupted", 128 + signal.SIGINT)
    except _Terminated as ended_by:
        code = _fail(f"ended by {ended_by.number.name}", 128 + ended_by.number)
    except click.ClickException as error:
        code = _fail(cut(" ".join(error.format_message().split()), LINE_LIMIT))
    except CatalogError as error:
        lines = [line if re.match(r".+?:\d+: ", line) else f"{PROGRAM}: {line}" for line in error.faults]
        click.echo(visible("\n".join(lines)), err=True)
        code = 2
    except HarnessError as error:
        code = _fail(str(error))
    except OSError as error:
        code = _fail(one_line(_os_error(error)))
    except MemoryError as error:
        error.__traceback__ = None  # its frames hold what filled the memory
        code = _fail(_out_of_memory())
    for number in handled:
        signal.signal(number, signal.SIG_DFL)
    sys.exit(code)


def _fail(lines: str, code: int = 2) -> int:
    for line in lines.splitlines():
        click.echo(visible(f"{PROGRAM}: {line}"), err=True)
    return code


def _os_error(error: OSError) -> str:
    """Names what could not be read or written."""
    reason = error.strerror or str(error)
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    if frame.f_code is click.echo.__code__:
        _drop(sys.stdout)
        return f"cannot write standard output: {reason}"
    if error.errno == errno.EMFILE:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        reason = f"{reason}: a process may open {limit:,} (ulimit -n): raise that limit"
    if error.errno == errno.ENOMEM:
        return _out_of_memory()
    is_relative = error.filename is None or not os.path.isabs(str(error.filename))
    if is_relative and isinstance(error, FileNotFoundError) and is_working_folder_gone():
        return WORKING_FOLDER_GONE
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _out_of_memory() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    known = "" if limit == resource.RLIM_INFINITY else f", of which it may have {limit:,} B (ulimit -v)"
    return f"the command ran out of host memory{known}"


def _drop(*streams: TextIO | None) -> None:
    """Discards what is left to write, which Python would try to do once more when it exits."""
    for stream in filter(None, streams):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
