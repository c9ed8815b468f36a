"""README and docs/ as data: their fenced blocks, commands, links and headings."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [path for name in ("README.md", "CONTRIBUTING.md") if (path := ROOT / name).exists()] + sorted(DOCS.rglob("*.md"))
LANGUAGES = {"bash", "console", "python", "yaml", "json", "csv", "text"}
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: +title=\"(?P<title>[^\"]+)\")? *$")
_MARK = re.compile(r"^ *<!-- not run: (?P<reason>.+) -->$")
_IN_CLONE = "<!-- runs in the clone -->"


@dataclass(frozen=True)
class Block:
    """A fenced block. ``title``: the file that it shows.

    Marks above it: ``<!-- not run: … -->`` with the reason, ``skipped``; ``<!-- runs in the clone -->``, ``in_clone``.
    """

    page: Path
    line: int
    language: str
    title: str
    skipped: str
    in_clone: bool
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"

    @property
    def steps(self) -> list[Step]:
        """The commands of a bash block, or those of a console block with the output that it shows."""
        if self.language == "bash":
            return [Step(command, None) for command in _commands(self.text)]
        steps = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            while command.endswith("\\"):
                line, _, output = output.partition("\n")
                command += "\n" + line
            steps.append(Step(command, output))
        return steps


@dataclass(frozen=True)
class Step:
    """A command; ``output`` None where none is shown."""

    command: str
    output: str | None


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    lines = page.read_text().splitlines()
    parsed, number = [], 0
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence:
            indent = fence["indent"]
            end = lines.index(f"{indent}```", number + 1)
            above = lines[number - 1].strip() if number else ""
            mark = _MARK.match(above)
            text = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end]) + "\n"
            reason = mark["reason"] if mark else ""
            parsed.append(Block(page, number + 1, fence["language"], fence["title"] or "", reason, above == _IN_CLONE, text))
            number = end
        number += 1
    return parsed


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def _commands(script: str) -> Iterator[str]:
    """Commands of a script: lines, with those that a backslash continues; comments and empty lines left out."""
    for line in re.sub(r"\\\n\s*", "", script).splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line


def program_calls(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Every call of ``ssinghal`` that a page names, in blocks and in code spans, with its words after the program's name."""
    for block in blocks(page):
        if block.language in ("bash", "console"):
            for step in block.steps:
                for part in re.split(r"\||&&|\|\||;", step.command):
                    yield from _call(part)
    for span in re.findall(r"`(ssinghal [^`]+)`", prose(page)):
        yield from _call(span)


def _call(text: str) -> Iterator[tuple[str, list[str]]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a code span with a lone quote
        words = text.split()
    if words[:3] == ["python", "-m", "ssinghal"]:
        words = words[2:]
    if words and words[0] == "ssinghal":
        yield text.strip(), words[1:]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs and code hosts make them."""
    headings = re.findall(r"^#+ (.+?) *#*$", prose(page), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading).replace("`", "") for heading in headings]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in plain}
