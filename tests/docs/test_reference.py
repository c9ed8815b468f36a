"""What documents name exists, and what exists is documented."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import click
import pytest

import ssinghal
from ssinghal.cli import cli
from ssinghal.cli.default_group import RUN, DefaultGroup
from ssinghal.pytest_plugin.memory import options as memory
from ssinghal.pytest_plugin.options import FLAGS, LISTS, OPTIONS, Option
from ssinghal.pytest_plugin.virtual.options import OPTIONS as OF_SUITES
from tests.support.documents import DOCS, PAGES, ROOT, anchors, name_of, program_calls, prose

HELP = {"-h", "--help"}
NO_COMMANDS = ("COMMAND", "nosuch")  # a placeholder, and the example of an error
LINK = re.compile(r"\]\(([^)\s]+)\)")
SCRIPTS = (
    "scripts/lock.py",
    "scripts/setup.sh",
    "run_all_tests.sh",
    "run_checks.sh",
    "scripts/compare_checkouts.py",
    "scripts/faults.py",
    *map(str, ROOT.glob("benchmarks/*.py")),
)


@pytest.fixture(scope="module")
def reference() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield import_module("reference")


def commands(group: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its path, the groups among them."""
    yield path, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))


COMMANDS = dict(commands())


def options_of(command: click.Command) -> set[str]:
    names = {name for p in command.params if isinstance(p, click.Option) for name in (*p.opts, *p.secondary_opts)}
    return names | HELP


def command_of(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """The path of the command that the words call, and the words after it."""
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in COMMANDS:
        path, words = (*path, words[0]), words[1:]
    if words and words[0] not in HELP and isinstance(COMMANDS[path], DefaultGroup):
        path = (*path, RUN)
    return path, words


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_option_named_exists(page: Path) -> None:
    faults = []
    for text, words in program_calls(page):
        path, rest = command_of(words)
        known = options_of(COMMANDS[path])
        if path in (("exec",), ("profile", "run")) and "--" in rest:
            rest = rest[: rest.index("--")]
        if not path and rest and not rest[0].startswith("-") and rest[0] not in NO_COMMANDS:
            faults.append(f"{text}: no command {rest[0]}")
        faults += [
            f"{text}: no option {w}"
            for word in rest
            if (w := word.partition("=")[0]).startswith("-") and w != "-" and w not in known
        ]
    assert faults == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_in_a_code_span_exists(page: Path) -> None:
    known = {name for command in COMMANDS.values() for name in options_of(command)} | {"--version"}
    known |= {option.flag for option in plugin_options()}
    known |= {option for script in SCRIPTS for option in re.findall(r"--[a-z][a-z-]+", (ROOT / script).read_text())}
    spans = re.findall(r"`(--[a-z][\w-]*)[^`]*`", prose(page))
    assert [span for span in spans if span not in known] == []


def plugin_options() -> list[Option]:
    return [*OPTIONS, *LISTS, *FLAGS, *memory.OPTIONS, *OF_SUITES]


def test_every_pytest_option_is_in_the_reference(reference: ModuleType) -> None:
    text = reference.filled((DOCS / "reference" / "pytest.md").read_text())
    assert [option.flag for option in plugin_options() if f"`{option.flag}`" not in text] == []
    assert [option.key for option in plugin_options() if f"`{option.key}`" not in text] == []


def test_command_line_reference_takes_the_complete_program() -> None:
    """mkdocs-click shows every command and option below the one that it is given."""
    text = (DOCS / "reference" / "cli.md").read_text()
    assert ":module: ssinghal.cli\n    :command: cli\n" in text
    assert not [path for path, command in COMMANDS.items() if command.hidden]


def test_every_command_is_explained_in_a_guide() -> None:
    named = {command_of(words)[0] for page in PAGES for _, words in program_calls(page)}
    groups = {path for path, command in COMMANDS.items() if isinstance(command, click.Group)}
    assert sorted(" ".join(path) for path in COMMANDS.keys() - named - groups) == []


def test_generated_parts_of_all_pages_can_be_generated(reference: ModuleType) -> None:
    used = {name for page in DOCS.rglob("*.md") for name in reference.MARK.findall(page.read_text())}
    assert used == reference.GENERATORS.keys()
    for name in used:
        assert len(reference.GENERATORS[name]()) > 100, name


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_who_reads_a_page_as_a_file_has_its_lists(reference: ModuleType, page: Path) -> None:
    """On GitHub a mark is nothing at all. A page keeps the list, as ``scripts/reference.py --write`` writes it, or names what
    prints it."""
    text = page.read_text()
    assert reference.kept(text) == text
    included = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "examples": "the folder `examples`"}
    for mark in reference.MARK.finditer(text):
        command = f"`python scripts/reference.py {mark[1]}`"
        named = included.get(mark[1], "`ssinghal operators`" if mark[1] == "operators" else command)
        assert mark[0].endswith(f"<!-- end: {mark[1]} -->") or named in text, mark[1]


@pytest.mark.parametrize("name", ["boards", "settings"])
def test_the_command_that_pages_name_prints_the_list(reference: ModuleType, name: str) -> None:
    assert "".join(reference.main([name])).strip() == reference.GENERATORS[name]().strip()
    assert "".join(reference.main([])).split() == [*reference.GENERATORS]


def test_a_part_is_written_between_its_own_marks(reference: ModuleType) -> None:
    boards = reference.GENERATORS["boards"]()
    page = "a\n<!-- generated: statuses -->\nb\n<!-- generated: boards -->\nold\n<!-- end: boards -->\nc\n"
    written = page.replace("old", f"\n{boards}\n")
    assert reference.kept(page) == reference.kept(written) == written
    assert reference.filled(page) == f"a\n{reference.GENERATORS['statuses']()}\nb\n{boards}\nc\n"


def test_fields_of_a_class_are_read_from_its_source(reference: ModuleType) -> None:
    from ssinghal.catalog.crossed import CrossedLine

    fields = {field.name: (field.type, field.default) for field in reference.fields_of(CrossedLine)}
    assert fields["in"] == ("tuple[Shape, ...] | None", "None")
    assert fields["shape"] == ("ShapeField | None", "None")
    assert list(fields) == ["shape", "in", "args", "placement", "oom"]


@pytest.mark.parametrize(("text", "plain"), [
    ("Annotated[str, _one_of(DType)]", "str"),
    ("Annotated[tuple[Shape, ...], PlainValidator(read_shapes)] | None", "tuple[Shape, ...] | None"),
    ("Mapping[str, Bytes]", "Mapping[str, Bytes]"),
])  # fmt: skip
def test_types_are_shown_without_validators(reference: ModuleType, text: str, plain: str) -> None:
    assert reference._plain_type(text) == plain


@pytest.mark.parametrize("kind", [ssinghal.Status, ssinghal.Resource])
def test_every_status_and_resource_is_explained(reference: ModuleType, kind: type[Enum]) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", reference.statuses(), re.MULTILINE))
    assert [member.value for member in kind if not rows.get(member.value)] == []


def test_examples_in_help_are_code_in_the_reference(reference: ModuleType) -> None:
    help_text = "Runs a case.\n\n\b\n  ssinghal probe add 1,2\n  ssinghal run\n\nMore."
    assert reference.examples_as_code(help_text) == "Runs a case.\n\n    ssinghal probe add 1,2\n    ssinghal run\n\nMore."


def test_a_command_without_a_section_in_the_reference_fails_the_build(reference: ModuleType) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/cli.md"))
    complete = "".join(f'<h2 id="{path.replace(" ", "-")}">' for path, _ in reference.commands(cli))
    assert reference.on_page_content(complete, page) == complete
    with pytest.raises(ValueError, match=r"the reference lacks ssinghal probe$"):
        reference.on_page_content(complete.replace('id="ssinghal-probe"', ""), page)


def test_pages_that_load_from_the_network_are_rejected(reference: ModuleType) -> None:
    assert reference.on_post_page('<a href="https://example.org">') == '<a href="https://example.org">'
    for page in ('<script src="https://example.org/a.js">', "<link rel=stylesheet href=https://example.org/a.css>"):
        with pytest.raises(ValueError, match="loads from the network"):
            reference.on_post_page(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    faults = []
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            faults.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            faults.append(f"{link}: no such heading")
    assert faults == []


def test_every_page_is_in_the_navigation() -> None:

    listed = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_every_public_name_has_a_docstring() -> None:
    names = getattr(ssinghal, "__all__", [])
    assert [name for name in names if callable(getattr(ssinghal, name)) and not getattr(ssinghal, name).__doc__] == []


def test_programs_of_the_repository_that_pages_name_exist() -> None:
    named = {
        path
        for page in PAGES
        for path in re.findall(r"\b((?:scripts|benchmarks|tests|ssinghal|examples)/[\w./-]+\.\w+)", page.read_text())
    }
    assert sorted(path for path in named if not (ROOT / path.replace("NAME", "add")).exists()) == []


def test_documented_modules_exist() -> None:
    """Programs of the documentation import what there is (they are run as well), text names it rightly."""
    named = {name for page in PAGES for name in re.findall(r"`(ssinghal(?:\.\w+)+)(?:\(|`)", prose(page))}
    faults = []
    for name in sorted(named):
        module, _, attribute = name.rpartition(".")
        path = ROOT / Path(*name.split("."))
        if not (path.is_dir() or path.with_suffix(".py").exists() or hasattr(import_module(module), attribute)):
            faults.append(name)
    assert faults == []


def test_test_paths_named_in_verification_hold_tests() -> None:
    for name in re.findall(r"`pytest ([\w/.]+)", (DOCS / "verification.md").read_text()):
        path = ROOT / name
        modules = [path] if path.suffix else list(path.glob("test_*.py"))
        assert any(
            node.name.startswith("test_")
            for module in modules
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.FunctionDef)
        ), name
