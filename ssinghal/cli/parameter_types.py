"""What arguments and options hold: how each is parsed, and which values a shell completes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import click
from click.shell_completion import CompletionItem

from ssinghal.catalog.placements import PLACEMENTS, parse_placements
from ssinghal.cli.memory_words import is_config, memory_text, module_name
from ssinghal.cli.streams import echo
from ssinghal.core.boards import board_names, board_note, load_board
from ssinghal.core.case_sets import Shard
from ssinghal.core.memory_config import ShardKind
from ssinghal.core.parsing import dtype_named, seconds
from ssinghal.core.tensors import DType
from ssinghal.device.releases import Release, find_release, known_releases
from ssinghal.errors import InvalidCase, unknown
from ssinghal.operators import operators
from ssinghal.runner.custom_boards import board_name

T = TypeVar("T", bound=str)
ALL = "all"


class Named(click.ParamType):  # type: ignore[type-arg] # generic in later versions of click only
    """A text that names something. ``takes_files``: or the path of a file."""

    name = "name"
    takes_files = False

    def names(self) -> Iterable[str]:
        """Returns the names that a shell completes."""
        return ()

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]
        return items if items or not self.takes_files else [CompletionItem(incomplete, type="file")]


class Seconds(Named):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return seconds(value)
        except InvalidCase as error:
            self.fail(str(error), param, ctx)


class ShardName(Named):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        return value if isinstance(value, Shard) else Shard.parse(value)


class OneOf(Named, Generic[T]):
    """One of a few names; ``what`` they are, in the message for any other."""

    def __init__(self, names: Iterable[T], what: str) -> None:
        self._known = {str(name): name for name in names}
        self._what = what

    def names(self) -> Iterable[str]:
        return self._known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if value not in self._known:
            raise InvalidCase(unknown(self._what, value, self._known))
        return self._known[value]


class DTypeName(Named):
    """A dtype by TTNN's name or a short one."""

    def names(self) -> Iterable[str]:
        return [dtype.value for dtype in DType]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DType:
        return dtype_named(module_name(value) if isinstance(value, str) else value)


class DTypeNames(DTypeName):
    """Comma-separated dtypes, each once."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        named = super().convert
        return tuple(dict.fromkeys(named(word.strip(), param, ctx) for word in value.split(",")))


class Memory(Named):
    """A memory, with shards or without. ``others``: further names that are taken, such as ``same``."""

    def __init__(self, what: str, others: Iterable[str] = ()) -> None:
        self._what, self._others = what, tuple(map(str, others))

    def names(self) -> Iterable[str]:
        return [*self._others, "dram", "l1", *(f"l1:{kind}" for kind in ShardKind)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self._others:
            return str(value)
        if self._others and ":" not in value and not is_config(value):
            raise InvalidCase(unknown(self._what, value, (*self._others, "l1:height", "l1:block@8x8")))
        return memory_text(value, self._what)


class PlacementNames(Named):
    """Comma-separated placements of a catalog's calls, each once."""

    def names(self) -> Iterable[str]:
        return PLACEMENTS

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else parse_placements(value)


class BoardName(Named):
    """A board's name in any case, or the file of a cluster descriptor, which becomes a board."""

    takes_files = True

    def names(self) -> Iterable[str]:
        return board_names()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is not None and ctx.resilient_parsing:  # a shell completes: no device is opened for it
            return value
        boards = _boards(value)
        if len(boards) != 1:
            raise InvalidCase(f"--board {value}: this command takes one board")
        return boards[0]


class BoardNames(BoardName):
    """Comma-separated boards, each once, or all that are known."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if ctx is not None and ctx.resilient_parsing:
            return value
        boards = board_names() if value == ALL else _boards(value)
        if not boards:
            raise InvalidCase("--board: expected comma-separated names, like n150,p150, or all")
        return tuple(dict.fromkeys(boards))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        items = [CompletionItem(f"{before}{comma}{name}") for name in (*self.names(), ALL) if name.startswith(last)]
        return items or super().shell_complete(ctx, param, incomplete)


def _boards(text: str) -> list[str]:
    """Returns the boards of a comma-separated list. Prints a note for each that opens not quite as its descriptor has it."""
    boards = []
    for part in filter(None, map(str.strip, text.split(","))):
        board = load_board(board_name(part)).name
        if board != part and (note := board_note(board)):
            echo(f"ssinghal: {part}: {note}", err=True)
        boards.append(board)
    return boards


class ReleaseVersion(Named):
    """A TTNN release that is installed or was added."""

    def names(self) -> Iterable[str]:
        return (release.version for release in known_releases())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Release:
        if "," in value:
            raise InvalidCase(f"--ttnn {value}: this command takes one release")
        return find_release(value)


class OperatorName(Named):
    """Kept as typed: what it may name depends on the command."""

    def names(self) -> Iterable[str]:
        return sorted(operators())


class CatalogName(Named):
    """Kept as typed: a catalog's name, a part of one, or a file."""

    takes_files = True

    def names(self) -> Iterable[str]:
        from ssinghal.catalog.loader import catalog_files  # imports pydantic, which no help text needs

        return (file.stem for file in catalog_files().values())


class OperatorOrCatalog(CatalogName):
    def names(self) -> Iterable[str]:
        return (*sorted(operators()), *super().names())
