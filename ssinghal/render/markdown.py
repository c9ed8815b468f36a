"""Cells, tables and sizes in Markdown. Texts of catalogs and logs are escaped: they can be neither markup nor a new cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ssinghal.core.tensors import Shape, format_bytes
from ssinghal.render.tables import percent

MAX_NAMES = 6
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~&])")


class Markup(str):
    """Text that is Markdown already."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Returns any text as one line that Markdown shows literally.

    >>> text("<b> a|b")
    '\\\\<b\\\\> a\\\\|b'
    """
    return Markup(_MARKUP.sub(r"\\\1", " ".join(value.split())))


def code(value: str) -> Markup:
    """Returns any text as a code span, also within a table.

    >>> code("a|b")
    '`a\\\\|b`'
    """
    line = " ".join(value.split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return Markup(f"{fence}{pad}{line}{pad}{fence}") if line else Markup("")


def shape(value: Shape) -> Markup:
    """
    >>> shape((1, 96, 2160, 3840))
    '`[1, 96, 2160, 3840]`'
    """
    return Markup(f"`[{', '.join(map(str, value))}]`")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Returns a table. Columns of numbers or sizes are right-aligned. Cells are texts (escaped unless ``Markup``), whole
    numbers, or None for an empty cell."""
    cells = [list(row) for row in rows]
    if not cells:
        return Markup("None.\n")
    numeric = [all(row[i] is None or isinstance(row[i], (int, Number)) for row in cells) for i in range(len(header))]
    lines = [_line(header), _line([Markup("---:" if right else "---") for right in numeric])]
    return Markup("\n".join([*lines, *map(_line, cells)]) + "\n")


class Number(Markup):
    """A number with its unit."""

    __slots__ = ()


def size(size_bytes: int | None) -> Number:
    return Number("unknown" if size_bytes is None else format_bytes(size_bytes))


def share(part: int, of: int) -> Number:
    """
    >>> share(1, 3), share(0, 0)
    ('33.3 %', '-')
    """
    return Number(percent(part / of) if of else "-")


def names(listed: Iterable[str]) -> Markup:
    """Returns the first few as code, and the number of the others."""
    all_ = list(listed)
    shown = ", ".join(map(code, all_[:MAX_NAMES]))
    more = len(all_) - MAX_NAMES
    return Markup(f"{shown} and {more} more" if more > 0 else shown)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, Markup):
        return cell
    if isinstance(cell, str):
        return text(cell)
    raise TypeError(f"a cell is a text or a whole number, not {type(cell).__name__}")
