"""One file per process that runs tests: a line when a test starts, and one when it has ended, so that a crash has a name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssinghal.core.files import LineFile
from ssinghal.pytest_plugin.memory.figures import Figures

_PATTERN = "tests-*.jsonl"


class Journal(LineFile):
    """Each line is written at once: what a killed process has finished is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / f"tests-{os.getpid()}.jsonl", "a")

    def start(self, test: str) -> None:
        self._line(event="start", test=test)

    def end(self, test: str, outcome: str, message: str, figures: Figures | None) -> None:
        known = {} if figures is None else {"figures": figures.to_json()}
        self._line(event="end", test=test, outcome=outcome, message=message, **known)

    def _line(self, **fields: Any) -> None:
        self.write(json.dumps(fields, separators=(",", ":")))


@dataclass(frozen=True)
class Ended:
    """How a test ended; ``crash``: its process ended before it did."""

    test: str
    outcome: str
    message: str = ""
    figures: Figures | None = None


def read_journals(folder: Path) -> Iterator[Ended]:
    """Yields the tests of all processes. A line that was cut off is that of an event that did not happen."""
    for path in sorted(folder.glob(_PATTERN)):
        running: list[str] = []
        for line in path.read_text().splitlines(keepends=True):
            if not line.endswith("\n"):
                break
            fields = json.loads(line)
            if fields["event"] == "start":
                running = [fields["test"]]
                continue
            running = []
            figures = Figures.from_json(fields["figures"]) if "figures" in fields else None
            yield Ended(fields["test"], fields["outcome"], fields["message"], figures)
        yield from (Ended(test, "crash") for test in running)
