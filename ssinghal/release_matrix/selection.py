"""Selects the cases and the releases of a timeline before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from packaging.version import Version

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import SHAPES_FOLDER, load_catalogs
from ssinghal.catalog.sampling import sample
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.device.releases import Release, add_release, find_release, known_releases, why_not
from ssinghal.errors import HarnessError, InvalidCase, SeveralFaults
from ssinghal.estimation.estimator import read_cases
from ssinghal.operators import find_operator
from ssinghal.runs.summary import left_out

SHIPPED = SHAPES_FOLDER / "timeline"  # built-in files of cases: known changes between releases


def shipped_files() -> dict[str, Path]:
    """Returns the built-in files by name, sorted."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.jsonl"))}


def cases_file(source: str) -> Path | None:
    """Returns the file of case lines that ``source`` names: a file that is not YAML, ``-``, or a built-in file. None if it
    names catalogs."""
    path = Path(source)
    if source == "-" or (path.is_file() and path.suffix not in (".yaml", ".yml")) or path.suffix == ".jsonl":
        return path
    return shipped_files().get(source)


def selected_cases(
    source: str,
    board: str,
    lines: Callable[[Path], Sequence[str]],
    *,
    operators: Collection[str] = (),
    per_operator: int | None = None,
) -> tuple[list[Case], list[str]]:
    """Returns the distinct cases of a file or of catalogs, and notes on lines that are not cases.

    ``lines`` reads a file; ``operators``: names to keep; ``per_operator``: maximum number of cases of each.

    Raises:
        CatalogError, InvalidCase: a line cannot be read, or no case is selected.
    """
    file = cases_file(source)
    if file is None:
        expansion = expand(load_catalogs([source]), operators=operators or None)
        cases: Sequence[Case] = expansion.cases
        notes = [] if operators else left_out([call.count for call in expansion.unmapped])
    else:
        wanted = {find_operator(name).name for name in operators}
        read = [case for case, _ in read_cases(file, lines(file), load_board(board))]
        cases = [case for case in read if not wanted or case.operator in wanted]
        notes = []
    if per_operator is not None:
        cases = sample(cases, per_operator)
    if not cases:
        raise InvalidCase("no case is selected")
    return list({(case.name, case.key): case for case in cases}.values()), notes


def parse_versions(text: str) -> list[str]:
    """Returns the distinct versions of a comma-separated list. InvalidCase if it is empty."""
    versions = [version for version in dict.fromkeys(part.strip() for part in text.split(",")) if version]
    if not versions:
        raise InvalidCase(f"--ttnn {text!r}: expected versions like 0.66.0,0.75.0")
    return versions


def selected_releases(versions: Sequence[str] | None, adding: Callable[[str], None]) -> list[Release]:
    """Returns the releases of ``versions``, oldest first, or all that are here if None. Passes versions that are missing to
    ``adding``, then adds them.

    Raises:
        HarnessError: with a line for each release without full verdicts, and nothing is added; or a line for each that cannot
            be added; or there is no release.
    """
    if versions is None:
        known = known_releases()
        if not known:
            raise HarnessError("no release of ttnn is here; add one with: ssinghal releases add VERSION")
        return known
    errors = [error for error in map(why_not, versions) if error]
    if errors:
        raise SeveralFaults(errors)
    releases = []
    for version in sorted(versions, key=Version):
        try:
            releases.append(_found_or_added(version, adding))
        except HarnessError as error:
            errors.append(str(error))
    if errors:
        raise SeveralFaults(errors)
    return releases


def _found_or_added(version: str, adding: Callable[[str], None]) -> Release:
    try:
        return find_release(version)
    except HarnessError:
        adding(version)
        return add_release(version)
