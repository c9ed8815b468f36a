"""Writes the parts of the documentation that are generated from the code: a hook of mkdocs, and a command.

    python scripts/reference.py           # prints the names of the parts
    python scripts/reference.py boards    # prints one of them as Markdown
    python scripts/reference.py --write   # writes them into the pages that keep them, and prints those that changed

A page has such a part where a line reads ``<!-- generated: NAME -->``. Where a later line reads ``<!-- end: NAME -->``, the
page keeps the part between them, for those who read it as a file. The command line and the Python API are not here: the plugins
mkdocs-click and mkdocstrings generate them.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import click
from pictures import layers, purpose

from ssinghal.cli import cli

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"^<!-- generated: (\w+) -->$(?:\n.*?^<!-- end: \1 -->$)?", re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(
    r"""<(?:script|img|iframe)[^>]+src=["']?https?://|<link[^>]+href=["']?https?://(?![^>]+rel=["']?canonical)"""
)
FIRST_MINOR = 65  # of the oldest TTNN release, 0.65.0, that was tried on a virtual device


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; bars and line breaks inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(cell: object) -> str:
    return str(cell).replace("|", "\\|").replace("\n", " ")


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


class Field(NamedTuple):
    """A field of a class as its source has it. ``note``: the comment behind it, or above."""

    name: str
    type: str
    default: str
    note: str


def fields_of(cls: type) -> list[Field]:
    """The fields that a dataclass or pydantic model declares, by the names that files use."""
    source = inspect.getsource(cls)
    lines = source.splitlines()
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    return [_field(node, lines) for node in definition.body if isinstance(node, ast.AnnAssign)]


def _field(node: ast.AnnAssign, lines: Sequence[str]) -> Field:
    default = "" if node.value is None else ast.unparse(node.value)
    alias = re.search(r"alias='(\w+)'", default)
    name = alias[1] if alias else ast.unparse(node.target)
    factory = re.search(r"default_factory=(\w+)", default)
    if default.startswith("Field("):
        default = f"{factory[1]}()" if factory else next(iter(re.findall(r"^Field\((None)", default)), "")
    _, _, note = lines[(node.end_lineno or 1) - 1].partition("  # ")
    above = takewhile(lambda line: line.startswith("    # "), reversed(lines[: node.lineno - 1]))
    note = note or " ".join(line.removeprefix("    # ") for line in reversed([*above]))
    return Field(name, _plain_type(ast.unparse(node.annotation)), default, note)


def _plain_type(text: str) -> str:
    """A type without its validators: ``Annotated[Shape, PlainValidator(_shape)]`` is ``Shape``."""
    return re.sub(r"Annotated\[((?:[^\[\],]|\[[^\[\]]*\])+), (?:[^\[\]]|\[[^\[\]]*\])*\]", r"\1", text)


def _class_table(cls: type, title: str, level: int = 3) -> str:
    fields = fields_of(cls)
    noted = any(field.note for field in fields)
    header = ["field", "type", "default", *(["meaning"] if noted else [])]
    rows = [[code(f.name), code(f.type), code(f.default) or "required", *([f.note] if noted else [])] for f in fields]
    return f"{'#' * level} {title}\n\n{inspect.getdoc(cls) or ''}\n\n{table(header, rows)}"


def pytest_options() -> str:
    """Every option of the pytest plugin with its ini twin."""
    from ssinghal.pytest_plugin.memory import options as memory
    from ssinghal.pytest_plugin.options import FLAGS, LISTS, OPTIONS
    from ssinghal.pytest_plugin.virtual.options import OPTIONS as OF_SUITES

    options = (*OPTIONS, *LISTS, *FLAGS, *memory.OPTIONS, *OF_SUITES)
    rows = [[code(o.flag), code(o.key), o.help, "" if o.default is None else code(o.default)] for o in options]
    return table(["option", "ini", "meaning", "default"], sorted(rows))


def catalog_schema() -> str:
    """The classes of a catalog file."""
    from ssinghal.catalog import captured, counted, crossed, imported, placement_fields

    titles = {
        crossed.CrossedHead: "Shape sweep: top level, besides `origins` and `operators`",
        crossed.ShapeOrigin: "Shape sweep: an entry of `origins`",
        crossed.CrossedLine: "Shape sweep: a line of an operator",
        counted.CountedLine: "Captured and imported catalog: what every line has",
        counted.MoreModules: "`more` of a line",
        captured.CapturedHead: "Captured catalog: top level, besides `ops`",
        captured.Model: "Captured catalog: `model`",
        captured.Input: "Captured catalog: `input`",
        captured.Capture: "Captured catalog: `capture`",
        captured.Counts: "Captured catalog: `counts`",
        captured.CapturedLine: "Captured catalog: a line of an operator",
        imported.ImportedHead: "Imported catalog: top level, besides `operators`",
        imported.ImportedLine: "Imported catalog: a line of an operator (a shape sweep's, and these)",
        placement_fields.PlacementModel: "`placement` of a catalog",
        placement_fields.PlacementChange: "`placement` of a line",
        crossed.Oom: "`oom` of a line",
    }
    return "\n\n".join(_class_table(cls, title) for cls, title in titles.items())


def record_schema() -> str:
    """The classes of a line of records.jsonl, and of run.json."""
    from ssinghal.core import estimate, measured, record
    from ssinghal.core.case import ModuleCalls, Source
    from ssinghal.core.device_facts import DeviceFacts
    from ssinghal.core.remedy_outcome import RemedyOutcome, StrategyRejection, WorkingRemedy
    from ssinghal.core.run_info import RunInfo
    from ssinghal.core.verdict import Verdict

    titles = {
        record.RecordedCase: "A record: the call",
        Verdict: "A record: the verdict",
        record.Record: "A record: what was measured",
        measured.PlacedTensor: "An entry of `tensors`",
        measured.Usage: "`usage`",
        measured.Comparison: "`comparison`",
        estimate.Estimate: "`estimate`",
        estimate.EstimatedTensor: "An entry of `estimate.allocations`",
        Source: "An entry of `sources`, with its first module as `module_path`",
        ModuleCalls: "An entry of `sources.modules`",
        RemedyOutcome: "`remedies`",
        WorkingRemedy: "An entry of `remedies.found`",
        StrategyRejection: "An entry of `remedies.refused`",
        RunInfo: "`run.json`",
        DeviceFacts: "`device` of `run.json`",
    }
    return "\n\n".join(_class_table(cls, title) for cls, title in titles.items())


def statuses() -> str:
    """The values of ``status`` and of ``resource`` with their meanings."""
    from ssinghal.core.verdict import Resource, Status

    tables = {"status": Status, "resource": Resource}
    return "\n\n".join(table([code(name), "meaning"], _members(kind)) for name, kind in tables.items())


def _members(kind: type) -> list[list[str]]:
    """The values of an enum, each with the comment behind it."""
    members = re.findall(r'^    [A-Z0-9_]+ = "(\w+)"(?:  # (.+))?$', inspect.getsource(kind), re.MULTILINE)
    return [[code(value), note] for value, note in members]


def boards() -> str:
    """What arithmetic knows of every board."""
    from ssinghal.core.boards import board_names, load_board

    rows = []
    for board in map(load_board, board_names()):
        banks = [f"{r.num_banks} of {r.bank_bytes:,} B" for r in (board.l1, board.dram)]
        rows.append([code(board.name), board.arch, _by(board.mesh), _by(board.grid), *banks, f"{board.l1_end_bytes:,} B"])
    return table(["board", "architecture", "chips", "cores", "L1 banks", "DRAM banks", "end of L1"], rows)


def _by(pair: tuple[int, int]) -> str:
    return "x".join(map(str, pair))


def releases() -> str:
    """TTNN releases by whether they give full verdicts on a virtual device, and the versions of Python."""
    from ssinghal.core.boards import board_names
    from ssinghal.device.releases import why_not

    newest = _setting(r'^virtual = \["ttnn==(.+)"\]$', "pyproject.toml")
    versions = [*(f"0.{minor}.0" for minor in range(FIRST_MINOR, int(newest.split(".")[1]))), newest]
    rows = []
    for reason, group in groupby(versions, lambda version: why_not(version).partition(": ")[2]):
        members = list(group)
        span = members[0] if len(members) == 1 else f"{members[0]} to {members[-1]}"
        rows.append([span, "no" if reason else "yes", reason])
    requires = _setting(r'^requires-python = "(.+)"$', "pyproject.toml")
    wheels = _setting(r"^    ([\d. |]+)\) ;;$", "scripts/setup.sh").replace(" | ", " and ")
    return "\n\n".join(
        [
            table(["ttnn", "full verdicts on a virtual board", "why not"], rows),
            f"Virtual boards of all these releases: {', '.join(map(code, board_names()))}.",
            f"Python: {code(requires)}; ttnn has wheels for Python {wheels}, for Linux on x86-64 with glibc 2.34 or newer.",
            f"The extra `virtual` installs ttnn {newest}.",
        ]
    )


def _setting(pattern: str, name: str) -> str:
    (value,) = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE)
    return str(value)


def operators() -> str:
    """The support matrix as the registry declares it."""
    from ssinghal.operators import families

    parts = []
    for family, members in families().items():
        rows = [
            [
                code(info.name),
                ", ".join(map(code, info.names[1:])),
                code(info.ttnn),
                "; ".join(x.reason for x in info.limitations),
            ]
            for info in members
        ]
        parts.append(f"## {family}\n\n" + table(["operator", "also", "TTNN", "limitations"], rows))
    return "\n\n".join(parts)


def settings() -> str:
    """The config classes of TTNN that operators take, with their fields."""
    from ssinghal.operators import families
    from ssinghal.operators.settings.table import table as settings_table

    known = settings_table()
    called = {function for members in families().values() for info in members for function in info.functions}
    parts = []
    for name, fields in known.classes.items():
        if fields and called & set(known.takers(name)):
            rows = [
                [
                    code(field),
                    having.text,
                    "required" if having.required else "",
                    "" if having.releases == known.releases else ", ".join(having.releases),
                ]
                for field, having in fields.items()
            ]
            parts.append(f"### {name}\n\n" + table(["field", "kind", "", "releases, unless all"], rows))
    return "\n\n".join(parts)


def packages() -> str:
    """Every package with its layer and what it does."""
    rows = [[number, code(name), purpose(name)] for number, level in enumerate(layers()) for name in level]
    return table(["layer", "package", "what it does"], rows)


def examples() -> str:
    """The programs in examples/."""
    paths = sorted((ROOT / "examples").glob("*.py"))
    return "\n\n".join(f'```python title="examples/{path.name}"\n{path.read_text().rstrip()}\n```' for path in paths)


def _included(name: str) -> str:
    """A document of the top folder without its title, its links as a page of the site needs them."""
    text = (ROOT / name).read_text().partition("\n")[2]
    return re.sub(r"\]\(docs/", "](", text)


GENERATORS: dict[str, Callable[[], str]] = {
    "boards": boards,
    "catalog_schema": catalog_schema,
    "changelog": lambda: _included("CHANGELOG.md"),
    "contributing": lambda: _included("CONTRIBUTING.md"),
    "examples": examples,
    "operators": operators,
    "packages": packages,
    "pytest_options": pytest_options,
    "record_schema": record_schema,
    "releases": releases,
    "settings": settings,
    "statuses": statuses,
}


def filled(markdown: str) -> str:
    """A page with its generated parts."""
    return MARK.sub(lambda mark: GENERATORS[mark[1]](), markdown)


def kept(markdown: str) -> str:
    """A page as its file is: with the generated parts that it keeps, and the marks of the others."""

    def part(mark: re.Match[str]) -> str:
        start, *rest = mark[0].splitlines()
        return f"{start}\n\n{GENERATORS[mark[1]]()}\n\n{rest[-1]}" if rest else start

    return MARK.sub(part, markdown)


def write() -> Iterator[str]:
    """Writes the parts that pages keep. Yields the page of each that changed."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        if (new := kept(text)) != text:
            page.write_text(new)
            yield f"{page.relative_to(ROOT)}\n"


def commands(group: click.Command, path: str = "ssinghal") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group and itself, by the words that call it."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, f"{path} {name}")


def examples_as_code(text: str) -> str:
    """A command's help as Markdown: what click must not wrap, the examples, is code."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(_indented(part.splitlines()[1:]) if part.startswith("\b") else part for part in paragraphs)


def _indented(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line.strip()}" for line in lines)


def on_config(config: Any, **_: Any) -> Any:
    """The event of mkdocs before anything is built: mkdocs-click shows help as it stands in the commands."""
    for _path, command in commands(cli):
        command.help = examples_as_code(command.help or "")
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The event of mkdocs before a page is rendered."""
    return filled(markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """The event of mkdocs with a page's own HTML: the reference of the command line must have every command."""
    if page.file.src_uri == "reference/cli.md":
        missing = [path for path, _command in commands(cli) if f'id="{path.replace(" ", "-")}"' not in html]
        if missing:
            raise ValueError(f"the reference lacks {', '.join(missing)}")
    return html


def on_post_page(output: str, **_: Any) -> str:
    """The event of mkdocs after a page was rendered: it must load nothing from elsewhere."""
    external = EXTERNAL.search(output)
    if external:
        raise ValueError(f"the page loads from the network: {external[0]}")
    return output


def main(arguments: list[str]) -> Iterator[str]:
    if not arguments:
        yield from (f"{name}\n" for name in GENERATORS)
    if arguments == ["--write"]:
        yield from write()
        return
    for name in arguments:
        yield GENERATORS[name]() + "\n"


if __name__ == "__main__":
    sys.stdout.writelines(main(sys.argv[1:]))
