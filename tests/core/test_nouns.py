"""Numbers with their nouns, and lines with a number of one."""

from __future__ import annotations

import io

import pytest

from ssinghal.cli.diagnose import _header
from ssinghal.cli.progress import counting
from ssinghal.core.nouns import counted
from ssinghal.diagnose.log_reader import read_log


@pytest.mark.parametrize(("count", "text"), [(0, "0 cases"), (1, "1 case"), (2, "2 cases"), (1_000, "1,000 cases")])
def test_only_one_is_singular(count, text, capsys):
    assert counted(count, "case") == text
    list(counting(range(count), "probing", count))
    assert capsys.readouterr().err.splitlines()[0] == f"probing: {text}"


@pytest.mark.parametrize(("count", "text"), [(1, "1 line"), (2, "2 lines")])
def test_lines_of_a_log(count, text):
    assert _header(read_log(io.BytesIO(b"all is well\n" * count), "log"))[0] == f"log: no failure in {text}"
