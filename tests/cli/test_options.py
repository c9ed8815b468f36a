"""An option means the same in all commands, and each command states its purpose in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import click
import pytest

from ssinghal import __version__
from ssinghal.cli import SECTIONS, cli
from ssinghal.cli.long_help import LongHelp
from ssinghal.cli.parameter_types import BoardNames
from ssinghal.pytest_plugin.options import OPTIONS
from ssinghal.runner.tasks import MAX_WAIT_FACTOR
from tests.support.commands import COMMANDS, options
from tests.support.processes import BLOCKED

REPOSITORY = Path(__file__).parents[2]

# Starts of the help of an option that several commands have; the rest is particular to a command.
STARTS = {
    "--board": ("Board", "One board, several comma-separated, or all", "Virtual board to open", "Only this board"),
    "--device": ("How the device is opened: ", "Only this device mode: "),
    "--live": ("Other buffers that",),
    "--max": ("Find the largest that fits: ",),
    "--host-tiles": ("Skip reshapes for which TTNN would map more than N tiles on the host",),
    "--memory": ("dram or l1.", "dram, l1, or sharded: ", "Put operands into dram or l1, "),
    "--output": ("Write ", "Record ", "Folder "),
    "--seconds": ("Start no ",),
    "--timeout": ("Processor seconds of ", "Seconds of one capture, "),
    "--ttnn": ("TTNN release to run: ", "Releases"),
    "--catalog": ("Only this catalog", "All cases of a catalog"),
}
SAME = (
    "--attr", "--channels-last", "--dtype", "--input", "--layout", "--op", "--output-memory", "--results",
    "--sample", "--ttnn-log", "--workers",
)  # fmt: skip


def uses(name: str) -> dict[str, click.Option]:
    """The commands with an option of that name."""
    by_command = {" ".join(path): options(command).get(name) for path, command in COMMANDS.items()}
    return {path: option for path, option in by_command.items() if option is not None}


HOMONYMS = ("--shard",)  # the field's word for a part of a tensor, and CI's for a part of a run
SHARED = sorted({name for command in COMMANDS.values() for name in options(command) if len(uses(name)) > 1} - {*HOMONYMS})


def test_the_shared_options():
    assert {*STARTS, *SAME} <= {*SHARED}
    assert set(uses("--results")) == {
        "compare",
        "compress",
        "export-visualizer",
        "history",
        "merge",
        "recheck",
        "remedy",
        "report",
        "run",
        "sweep",
    }


@pytest.mark.parametrize("name", SHARED)
def test_an_option_of_one_name_is_written_the_same_everywhere(name):
    forms = defaultdict(list)
    for command, option in uses(name).items():
        form = (tuple(option.opts), tuple(option.secondary_opts), option.is_flag, option.make_metavar(click.Context(cli)))
        forms[form].append(command)
    assert len(forms) == 1, dict(forms)


@pytest.mark.parametrize("name", [*STARTS, *SAME])
def test_an_option_of_one_name_means_the_same_everywhere(name):
    texts = {option.help for option in uses(name).values()}
    if name in SAME:
        assert len(texts) == 1
    else:
        assert {text for text in texts if not str(text).startswith(STARTS[name])} == set()


def test_a_time_limit_of_the_device_states_its_clock():
    """Captures run without a device, and are limited by the clock alone."""
    texts = {command: str(option.help) for command, option in uses("--timeout").items()}
    texts["pytest"] = next(option.help for option in OPTIONS if option.name == "timeout")
    clock = f"(up to {MAX_WAIT_FACTOR:g} times as long by the clock)"
    of_captures = {command for command, text in texts.items() if clock not in text}
    assert of_captures == {command for command, text in texts.items() if text == "Seconds of one capture, by the clock."}
    assert {"run", "sweep", "probe", "recheck", "pytest"} <= texts.keys() - of_captures
    assert {text[:17].lower() for command, text in texts.items() if command not in of_captures} == {"processor seconds"}


def test_the_order_of_dims_states_what_dim_counts():
    """It surprises: with --channels-last, dim -1 is the channels."""
    texts = {str(option.help) for option in uses("--channels-last").values()}
    assert len(texts) == 1
    assert "attributes such as dim refer to the tensor as placed" in texts.pop()


def test_every_value_has_a_metavar_of_its_own():
    """TEXT or INTEGER would not state what is expected."""
    plain = [
        (*path, name)
        for path, command in COMMANDS.items()
        for name, option in options(command).items()
        if not option.is_flag and option.metavar is None
    ]
    assert plain == []


# Boards and releases -------------------------------------------------------------------------------------------------------

SEVERAL_BOARDS = {"edge", "estimate", "plan", "profile run", "sweep"}
SEVERAL_RELEASES = {"diagnose", "profile run", "releases run", "sweep"}


def test_which_commands_take_several_boards():
    boards = uses("--board")
    assert {command for command, option in boards.items() if isinstance(option.type, BoardNames)} == SEVERAL_BOARDS
    assert set(boards) - SEVERAL_BOARDS == {
        "baseline", "diagnose", "doctor", "exec", "history", "precision", "probe", "releases run", "remedy", "run",
    }  # fmt: skip


@pytest.mark.parametrize("command", uses("--board"))
def test_a_board_in_any_case(command):
    option = uses("--board")[command]
    value = option.type_cast_value(click.Context(cli), "N300_1X2")
    assert value == (("n300_1x2",) if command in SEVERAL_BOARDS else "n300_1x2")


@pytest.mark.parametrize("command", sorted(set(uses("--board")) - SEVERAL_BOARDS))
def test_two_boards_for_a_command_that_takes_one_are_one_line(run, command):
    done = run(*command.split(), "--board", "n150,p150")
    assert done == (2, "", "ssinghal: --board n150,p150: this command takes one board\n")


@pytest.mark.parametrize("command", sorted(SEVERAL_BOARDS))
def test_several_boards_each_once_or_all(run, command):
    option, context = uses("--board")[command], click.Context(cli)
    assert option.type_cast_value(context, "p150, N150,p150") == ("p150", "n150")
    assert {"n150", "n300", "p100", "p150", "t3k_2x4"} <= set(option.type_cast_value(context, "all"))
    assert run(*command.split(), "--board", ",") == (
        2, "", "ssinghal: --board: expected comma-separated names, like n150,p150, or all\n",
    )  # fmt: skip


@pytest.mark.parametrize("command", uses("--board"))
def test_an_unknown_board_is_one_line(run, command):
    done = run(*command.split(), "--board", "n15")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssinghal: unknown board 'n15'; did you mean n150, p150?")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("command", sorted(set(uses("--ttnn")) - SEVERAL_RELEASES))
def test_two_releases_for_a_command_that_takes_one_are_one_line(run, command):
    done = run(command, "--ttnn", "0.66.0,0.75.0")
    assert done == (2, "", "ssinghal: --ttnn 0.66.0,0.75.0: this command takes one release\n")


@pytest.mark.parametrize("command", sorted(SEVERAL_RELEASES))
@pytest.mark.parametrize("arguments", [["0.66.0,0.75.0"], ["0.66.0", "0.75.0"], ["0.66.0", "0.75.0, 0.66.0"]])
def test_several_releases_are_repeated_or_comma_separated(command, arguments):
    option = uses("--ttnn")[command]
    assert option.process_value(click.Context(cli), arguments) == ("0.66.0", "0.75.0")


def test_an_estimate_on_several_boards(run):
    """16,640 tiles of 2,048 B for each of three tensors: 260 in each of n150's 64 banks, 152 in each of p150's 110. Three times
    532,480 B exceed the 1,393,312 B of a bank of n150, three times 311,296 B fit into one of p150."""
    add = ["estimate", "add", "1,64,640,400", "1,64,640,400", "--memory", "l1", "--channels-last"]
    done = run(*add, "--board", "n150,P150")
    verdicts = [line.partition(" ")[0].rstrip(":") for line in done.out.splitlines() if line.startswith(("fits", "exceeds"))]
    assert (done.code, verdicts) == (1, ["exceeds", "fits"])
    assert [line for line in done.out.splitlines() if line in ("n150:", "p150:")] == ["n150:", "p150:"]
    assert "n150:" not in run(*add, "--board", "n150").out


# Help ----------------------------------------------------------------------------------------------------------------------


def test_the_help_lists_every_command_under_what_it_is_for(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--help").out.splitlines()
    at = {line.removesuffix(":"): number for number, line in enumerate(lines) if line.endswith(":") and line[0] != " "}
    assert list(at) == ["Options", "Bring-up", "Runs", "Catalogs", "Environment", "Your own programs"]
    listed = {heading: list(commands) for heading, commands in SECTIONS.items()}
    assert listed["Bring-up"] == ["probe", "estimate", "remedy", "edge", "plan", "precision", "diagnose"]
    runs = "run sweep merge report compare recheck history compress export-visualizer"
    assert listed["Runs"] == runs.split()
    for heading, names in listed.items():
        block = lines[at[heading] + 1 : at[heading] + 1 + len(names)]
        assert [line.split()[0] for line in block] == names
    assert max(map(len, lines)) <= 80


def test_a_summary_is_the_first_line_of_a_commands_own_help():
    summaries = {name: command.summary for commands in SECTIONS.values() for name, command in commands.items()}
    assert summaries == {name: str(COMMANDS[name,].help).splitlines()[0] for name in summaries}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_commands_help_fits_80_columns_and_begins_with_one_line(run, monkeypatch, path):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(*path, "--help").out.splitlines()
    first = lines.index("")
    assert lines[first + 1].endswith((".", "?"))
    assert lines[first + 2] == ""
    assert len(lines[first + 1]) <= 80
    assert '""' not in "".join(lines)  # an empty default
    if isinstance(COMMANDS[path], click.Group):
        assert [line for line in lines[first:] if line.endswith("...")] == []


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(run, flag):
    assert run(flag) == (0, f"ssinghal, version {__version__}\n", "")


ALL_HELP = """
import sys
from pathlib import Path
from tests.support.commands import COMMANDS
for path, command in COMMANDS.items():
    command.get_help(command.make_context(path[-1], [], resilient_parsing=True))
print(len(COMMANDS), *sys.modules)
"""


def test_no_commands_help_imports_anything_slow(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", ALL_HELP], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    count, *imported = done.stdout.split()
    assert (int(count), "sitecustomize" in imported) == (len(COMMANDS), True)
    assert not {*imported} & {"torch", "ttnn", "pydantic", "pytest", "rich", "numpy", "jinja2", "hypothesis"}


def test_the_programs_help_imports_no_command():
    code = "import atexit, sys; from ssinghal.cli import main; atexit.register(lambda: print(*sys.modules)); main()"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    imported = {name for name in done.stdout.splitlines()[-1].split() if name.startswith("ssinghal")}
    lightweight = {"ssinghal.cli.lazy_group", "ssinghal.cli.standard_error", "ssinghal.core", "ssinghal.core.signals"}
    assert imported == {"ssinghal", "ssinghal.cli", "ssinghal.errors"} | lightweight


# releases run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["run"], ["timeline"]])
def test_the_command_run_of_releases_may_be_left_out(run, words):
    done = run("releases", *words, "nowhere")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssinghal: unknown catalog 'nowhere'")


def test_options_may_come_before_the_cases_of_releases(run):
    assert run("releases", "--op", "conv2d", "nowhere").err.startswith("ssinghal: unknown catalog 'nowhere'")


def test_another_limit_of_host_tiles_has_its_reason_in_the_help_and_both_are_in_the_faq():
    """Where variants of a call are tried, a search of a few seconds must not end with the first of them."""
    limits = {
        command: (option.default, "as many variants are tried" in str(option.help))
        for command, option in uses("--host-tiles").items()
    }
    single, trials = (200_000, False), (40_000, True)
    assert limits == {
        "diagnose": trials,
        "edge": single,
        "probe": single,
        "releases run": single,
        "remedy": trials,
        "run": single,
        "sweep": single,
    }
    (paragraph,) = [text for text in (REPOSITORY / "docs" / "faq.md").read_text().split("\n\n") if "`--host-tiles`" in text]
    single_part, trials_part = paragraph.split("`remedy` and `diagnose` have ")
    assert "200,000 tiles" in single_part
    assert trials_part.startswith("40,000, ")
    for command, (limit, _) in limits.items():
        assert f"`{command}`" in (single_part if limit == 200_000 else paragraph)


# Long help -----------------------------------------------------------------------------------------------------------------


LONG = {path: command for path, command in COMMANDS.items() if isinstance(command, LongHelp)}


def shown(text: str) -> list[str]:
    """The options of a help page, by their first names, in order."""
    return re.findall(r"^  (--?[\w-]+)", text, re.MULTILINE)


def test_commands_with_many_options_name_those_to_start_with():
    assert {" ".join(path) for path in LONG} == {"edge", "plan", "probe", "remedy", "run", "sweep"}


@pytest.mark.parametrize("path", LONG, ids=" ".join)
def test_a_long_page_begins_with_five_options_and_has_each_once(run, path):
    _, first, others = re.split("Options to start with:|All other options:", run(*path, "--help").out)
    command = LONG[path]
    assert shown(first) == [one.opts[0] for one in command.first]
    assert len(command.first) == 5
    every = [one.opts[0] for one in command.get_params(click.Context(command)) if isinstance(one, click.Option)]
    assert sorted(shown(first) + shown(others)) == sorted(every)
    assert shown(others)[-1] in ("-h", "--help")
    columns = {re.match(r"  -\S+.*?  +(?=\S)", line) for line in (first + others).splitlines()}
    assert len({found.end() for found in columns if found is not None and found.end() < 36}) == 1, "one column in both parts"


def test_an_option_to_start_with_must_be_one_of_the_command():
    with pytest.raises(ValueError, match=r"^it has no option --height$"):
        LongHelp("it", first=("--height",), params=[click.Option(["--width"])])
