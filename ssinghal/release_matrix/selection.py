"""What a timeline is asked for: which cases, on which releases. All of it is known before anything runs."""

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
from ssinghal.errors import HarnessError, InvalidCase
from ssinghal.estimation.estimator import read_cases
from ssinghal.operators import find_operator
from ssinghal.runs.summary import left_out

SHIPPED = SHAPES_FOLDER / "timeline"  # files of cases that come with the package: changes that releases are known for


def shipped_files() -> dict[str, Path]:
    """Name -> file, sorted."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.jsonl"))}


def cases_file(source: str) -> Path | None:
    """The file of case lines that ``source`` names: any file that is no YAML, ``-``, or one that comes with the package by its
    name. None where it names catalogs."""
    path = Path(source)
    if source == "-" or (path.is_file() and path.suffix not in (".yaml", ".yml")) or path.suffix == ".jsonl":
        return path
    return shipped_files().get(source)


def asked_cases(
    source: str,
    board: str,
    lines: Callable[[Path], Sequence[str]],
    *,
    operators: Collection[str] = (),
    per_operator: int | None = None,
) -> tuple[list[Case], list[str]]:
    """The cases of a file or of catalogs, each once, and notes on what is none.

    ``lines`` reads a file; ``operators``: names to keep; ``per_operator``: at most so many cases of each.

    Raises:
        CatalogError, InvalidCase: something in it cannot be read, or no case is selected.
    """
    file = cases_file(source)
    if file is None:
        found = expand(load_catalogs([source]), operators=operators or None)
        cases: Sequence[Case] = found.cases
        notes = [] if operators else left_out([call.count for call in found.unmapped])
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


def asked_releases(versions: Sequence[str] | None, adding: Callable[[str], None]) -> list[Release]:
    """Returns the releases of ``versions``, oldest first, or all that are here if None. Adds those that are missing and passes
    their versions to ``adding`` first.

    Raises:
        HarnessError: with a line for each that gives no full verdicts, and nothing is added then; or a line for each that
            cannot be added; or there is none.
    """
    if versions is None:
        known = known_releases()
        if not known:
            raise HarnessError("no release of ttnn is here; add one with: ssinghal releases add VERSION")
        return known
    faults = [fault for fault in map(why_not, versions) if fault]
    if faults:
        raise HarnessError("\n".join(faults))
    found = []
    for version in sorted(versions, key=Version):
        try:
            found.append(_found_or_added(version, adding))
        except HarnessError as error:
            faults.append(str(error))
    if faults:
        raise HarnessError("\n".join(faults))
    return found


def _found_or_added(version: str, adding: Callable[[str], None]) -> Release:
    try:
        return find_release(version)
    except HarnessError:
        adding(version)
        return add_release(version)
