"""The table of docs/reference/exit_codes.md: every command in it ends with the code that it states."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.test_commands import run_program
from tests.support.documents import DOCS, PAGES, blocks, name_of, prose

PAGE = DOCS / "reference" / "exit_codes.md"
ROWS = re.findall(r"^\| `(ssinghal [^`]+)` \| (\d+) \|", PAGE.read_text(), re.MULTILINE)
STATEMENT = re.compile(r"\b(exit codes? (?:is )?\d|exits? with (?:code )?\d|exits \d|returns? \d as exit code)", re.IGNORECASE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the commands name, and a run for those that read one."""
    folder = tmp_path_factory.mktemp("exit_codes")
    for block in blocks(PAGE):
        (folder / block.title).write_text(block.text)
    run_program(["ssinghal", "run", "sweep.yaml"], folder)
    return folder


@pytest.mark.virtual_device
@pytest.mark.parametrize(("command", "code"), ROWS, ids=[command for command, _ in ROWS])
def test_command_exits_as_stated(folder: Path, command: str, code: str) -> None:
    done: subprocess.CompletedProcess[str] = run_program(["bash", "-c", command], folder)
    assert done.returncode == int(code), done.stdout
    assert "Traceback" not in done.stdout


def test_the_table_has_a_row_for_every_command_that_finds_something() -> None:
    named = {command.split()[1] for command, _ in ROWS}
    assert named >= {
        "doctor",
        "estimate",
        "probe",
        "run",
        "remedy",
        "edge",
        "plan",
        "diagnose",
        "precision",
        "compare",
        "releases",
    }
    assert {code for _, code in ROWS} >= {"0", "1", "2"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_exit_codes_are_stated_in_the_table_alone(page: Path) -> None:
    """So that a statement elsewhere cannot become wrong: other pages link to the table."""
    if page != PAGE:
        assert STATEMENT.findall(prose(page)) == []
