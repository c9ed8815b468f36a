"""What ``ssinghal catalog import`` does with a table and with a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ssinghal.cli.streams import echo
from ssinghal.core.files import write_given
from ssinghal.errors import InvalidCase, cut

if TYPE_CHECKING:
    from ssinghal.catalog.placement_fields import PlacementModel
    from ssinghal.catalog.recorded.importer import RecordedImport

_SHOWN = 150  # characters of a reason


def import_csv(file: Path, target: Path, placement: PlacementModel, skip_unreadable: bool) -> None:
    """Writes the catalog of an operator list; InvalidCase where rows cannot be read and are not to be skipped."""
    from ssinghal.catalog.csv_import import read_list
    from ssinghal.catalog.loader import write_checked

    imported = read_list(file, placement)
    _show(imported.faults)
    if imported.unused:
        echo(f"{file}: ignored columns: {', '.join(imported.unused)}", err=True)
    unreadable = len(imported.faults)
    _check(file, "row", imported.rows, unreadable, bool(imported.text), skip_unreadable)
    write_checked(imported.text, target)
    echo(f"{target}: {number(imported.lines, 'line')} of {number(imported.rows - unreadable, 'row')}")
    if unreadable:
        echo(f"{number(unreadable, 'row')} left out")
    if imported.completed:
        completed = number(imported.completed, "row")
        echo(f"{completed} with one shape of a call that takes more: the operator adds the others")


def import_recording(file: Path, target: Path, refused: Path | None, skip_unreadable: bool) -> None:
    """Writes the catalog of a recording, and counts the calls that are no cases by their reasons.

    Raises:
        InvalidCase: Lines are damaged and not to be skipped, or no call is a case.
    """
    from ssinghal.catalog.loader import write_checked
    from ssinghal.catalog.recorded.importer import read_recording

    if refused is not None and not refused.parent.is_dir():
        raise InvalidCase(f"{refused}: there is no folder {refused.parent}")
    imported = read_recording(file)
    _show(imported.faults)
    damaged = len(imported.faults)
    if damaged and not skip_unreadable:
        _check(file, "line", imported.calls + damaged, damaged, bool(imported.text), skip_unreadable)
    rejected = sum(one.count for one in imported.refused)
    if imported.text:
        write_checked(imported.text, target)
        echo(f"{target}: {number(imported.lines, 'line')} of {number(imported.calls - rejected, 'call')}")
    if damaged:
        echo(f"{number(damaged, 'line')} left out")
    if rejected:
        echo("\n".join(_refusals(imported, rejected)))
    if refused is not None:
        write_given(refused, "".join(f"{one}\n" for one in imported.refused))
    if not imported.text:
        why = f"none of {number(imported.calls, 'call')} is a case" if imported.calls else "has no calls"
        raise InvalidCase(f"{file}: {why}; no catalog is written")


def _refusals(imported: RecordedImport, rejected: int) -> list[str]:
    rows = [f"  {count:,} x {function}: {cut(reason, _SHOWN)}" for function, reason, count in imported.reasons]
    return [f"{number(rejected, 'call')} of {imported.calls:,} are no cases:", *rows]


def _show(faults: Sequence[str]) -> None:
    for error in faults:
        echo(error, err=True)


def _check(file: Path, what: str, read: int, unreadable: int, has_text: bool, skip_unreadable: bool) -> None:
    """Raises InvalidCase where nothing is to be written."""
    if not has_text or (unreadable and not skip_unreadable):
        advice = "; --skip-unreadable writes the others" if has_text else ""
        why = f"{unreadable:,} of {number(read, what)} cannot be read" if read else f"has no {what}s"
        raise InvalidCase(f"{file}: {why}; nothing is written{advice}")


def number(count: int, what: str) -> str:
    """
    >>> number(1, "row"), number(2_000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
