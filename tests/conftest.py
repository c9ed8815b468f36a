"""Fixtures that several modules of these tests share."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ssinghal.capture.client import Captures
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


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, headless. In CI it must be there."""
    found = shutil.which("chromium")
    if not found:
        assert not os.environ.get("CI"), "no chromium on the PATH: apt-get install chromium"
        pytest.skip("no chromium on the PATH: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def open_tab(browser) -> Iterator[Callable]:
    """``open_tab(path)`` opens a page in a tab; at the end: a silent console, no dialog, no request elsewhere.

    ``loads``: a folder beside the page that it may load from. ``lacks``: what is missing there, which browsers report.
    """
    faults: list[str] = []

    def open_page(path: Path, hash: str = "", width: int = 1440, loads: str = "", lacks: bool = False, **options):
        own = (path.as_uri(), *([(path.parent / loads).as_uri() + "/"] if loads else []))
        tab = browser.new_page(viewport={"width": width, "height": 900}, **options)
        tab.set_default_timeout(5000)
        tab.on(
            "console",
            lambda message: (
                None if lacks and "ERR_FILE_NOT_FOUND" in message.text else faults.append(f"console: {message.text}")
            ),
        )
        tab.on("pageerror", lambda error: faults.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda asked: None if asked.url.startswith(own) else faults.append(f"asks for {asked.url}"))
        tab.goto(path.as_uri() + hash)
        return tab

    yield open_page
    for context in browser.contexts:
        context.close()
    assert not faults
