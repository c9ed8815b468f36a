"""An error's text as logs, test frameworks, mail and terminals show it: for the tests that read them back."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

SAMPLES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "data" / "error_samples.yaml").read_text())


def message(sample: dict[str, Any]) -> str:
    return str(sample["text"]).rpartition("\ninfo:\n")[2]


def raised(sample: dict[str, Any]) -> str:
    """``RuntimeError: …``, as the last lines of a traceback."""
    kind = sample.get("type", "RuntimeError")
    return f"{kind}: {sample['text']}" if sample["text"] else kind


def traceback(sample: dict[str, Any]) -> str:
    frame = '  File "model.py", line 41, in forward\n    y = ttnn.add(a, b)\n'
    return f"Traceback (most recent call last):\n{frame}{raised(sample)}\n"


def pytest_lines(sample: dict[str, Any], start: str = "", end: str = "") -> str:
    first, *rest = raised(sample).split("\n")
    lines = [f"{start}E       {first}{end}", *(f"{start}E       {line}{end}" for line in rest)]
    shown = "\n".join(
        ["____________ test_add[1] ____________", "", ">       ttnn.add(a, b)", *lines, "", "tests/test_a.py:9: RuntimeError"]
    )
    return f"{shown}\n=== short test summary info ===\nFAILED tests/test_a.py::test_add[1] - {first[:60]}...\n"


def coloured(sample: dict[str, Any]) -> str:
    return pytest_lines(sample, "\x1b[1m\x1b[31m", "\x1b[0m")


def critical(sample: dict[str, Any]) -> str:
    """TT-Metalium's log, and the next record of it. It logs what TTNN throws; Python's own errors it does not."""
    if "type" in sample:
        return traceback(sample)
    time = "2026-01-01 10:00:00.000"
    first = f"{time} | critical |          Always | TT_FATAL: {message(sample)} (assert.hpp:104)"
    return f"{first}\n{time} | info     |          Device | Closing device\n"


def by_words(sample: dict[str, Any]) -> str:
    """A mail client's: at most 80 columns, broken between words."""
    lines = traceback(sample).split("\n")
    return "\n".join(textwrap.fill(line, 80, break_long_words=False, break_on_hyphens=False) for line in lines) + "\n\nThanks\n"


def by_columns(sample: dict[str, Any], columns: int = 80) -> str:
    """A terminal's: broken after so many characters wherever that is; spaces at the end of a line are lost."""
    lines = traceback(sample).split("\n")
    return "\n".join(line[i : i + columns].rstrip() for line in lines for i in range(0, max(1, len(line)), columns))


def quoted(sample: dict[str, Any]) -> str:
    return "\n".join(f"> {line}" for line in by_words(sample).split("\n"))


def fenced(sample: dict[str, Any]) -> str:
    return f"My model fails with\n\n```\n{traceback(sample)}```\n\nWhat can I do?\n"


def prefixed(prefix: str) -> Callable[[dict[str, Any]], str]:
    return lambda sample: "".join(f"{prefix}{line}\n" for line in traceback(sample).split("\n"))


def twice(sample: dict[str, Any]) -> str:
    return critical(sample) + traceback(sample)


WRAPPINGS: dict[str, Callable[[dict[str, Any]], str]] = {
    "traceback": traceback,
    "pytest": pytest_lines,
    "coloured pytest": coloured,
    "critical line": critical,
    "critical line, then traceback": twice,
    "80 columns, words": by_words,
    "80 columns, anywhere": by_columns,
    "100 columns, anywhere": lambda sample: by_columns(sample, 100),
    "quoted": quoted,
    "fenced": fenced,
    "time": prefixed("2025-11-04T12:00:00.1234567Z "),
    "indented": prefixed("    "),
    "MPI": prefixed("[1,0]<stderr>:"),
    "rank": prefixed("[rank3]: "),
    "worker": prefixed("(Worker pid=123) "),
    "Windows": lambda sample: traceback(sample).replace("\n", "\r\n"),
    "after a progress bar": lambda sample: "50%|###  | 1/2\r" + traceback(sample),
}
