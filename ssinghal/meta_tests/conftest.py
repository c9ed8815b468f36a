"""Fixtures that several modules of these tests share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ssinghal.capture.session import Captures
from ssinghal.cli import main


@pytest.fixture(scope="session")
def captures():
    """One process that captures: torch is imported once, each request is answered by a fork of it."""
    with Captures() as made:
        yield made


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch, capsys, tmp_path) -> Callable[..., Result]:
    """The program in this process, in an empty folder: ``run("probe", "add", ..., stdin=b"...")``."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "argv", ["ssinghal", *arguments])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Result(int(ended.value.code or 0), said.out, said.err)

    return run
