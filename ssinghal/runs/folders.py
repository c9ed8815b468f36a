"""Finds the folders of runs and reads their ``run.json``. Imports neither torch nor ttnn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ssinghal.core.files import exists, open_file
from ssinghal.core.run_info import RunInfo
from ssinghal.errors import HarnessError
from ssinghal.runs.latest import LATEST
from ssinghal.runs.line_files import COMPRESSED, RECORDS, lines_file
from ssinghal.runs.option_types import option_fault
from ssinghal.runs.parsing import check_schema, problem_of, schema_of

_HEAD = TypeAdapter(RunInfo)

INFO = "run.json"
MAX_HEAD_BYTES = 2**24  # of it: options and facts of a device
_BLOCK = 2**16
# Options of run and pytest that decide no verdict.
_INDIFFERENT = {
    "results",
    "workers",
    "incremental",
    "fresh",
    "boards",
    "versions",
    "as_json",
    "ttnn_log",
    "ttnn-log",
    "policy",
    "remedies",
}


def find_run(text: str | None, results: Path, *, begun: bool = False) -> Path:
    """Returns the folder or file of a run.

    Args:
        text: A path, the id of a run in ``results`` or the start of one, or ``latest`` (None too) for the last run.
        results: The folder of the runs.
        begun: Whether a run that was killed before it had a file of records is meant as well.

    Raises:
        HarnessError: There is no such run, or several ids start with the text.
    """
    if text in (None, LATEST):
        latest = results / LATEST
        if not _is_run(latest, begun):
            raise HarnessError(f"no run in {results}: expected {latest}; name a run, or start with: ssinghal run")
        return latest.resolve()
    if text and exists(text):
        path = Path(text).resolve()
        if path.name in (RECORDS, COMPRESSED) and (path.parent / INFO).is_file():
            return path.parent
        if path.is_dir() and not _is_run(path, begun):
            last = f"; its last run is {Path(text) / LATEST}" if _is_run(path / LATEST, begun) else ""
            raise HarnessError(f"{text}: expected a run's folder, with {INFO if begun else RECORDS} in it{last}")
        return path
    known = [path for path in _folders(results, begun) if path.name.startswith(text)] if text else []
    exact = [path for path in known if path.name == text]
    if len(known) == 1 or exact:
        return (exact or known)[0]
    if known:
        raise HarnessError(
            f"run {text!r}: {len(known)} ids of runs in {results} start with it: {', '.join(p.name for p in known[:5])}"
        )
    raise HarnessError(
        f"no run {text!r}: expected {LATEST}, a run's folder, a {RECORDS}, or the start of the id of a run in {results}"
    )


def run_folders(results: Path) -> list[Path]:
    """Returns the folders of the runs in ``results``, the oldest first."""
    return _folders(results)


def _folders(results: Path, begun: bool = False) -> list[Path]:
    if not results.is_dir():
        return []
    return sorted(p for p in results.iterdir() if not p.is_symlink() and _is_run(p, begun))


def _is_run(folder: Path, begun: bool) -> bool:
    return lines_file(folder) is not None or (begun and (folder / INFO).is_file())


def earlier_runs(path: Path) -> Iterator[Path]:
    """Yields earlier runs next to the folder ``path``, the last one first: those with the same options, board and device mode.
    There are none if ``path`` has no ``run.json``."""
    selection = _selection(path) if path.is_dir() else {}
    for other in reversed(run_folders(path.parent)):
        if selection and other.name < path.name and _selection(other) == selection:
            yield other


def _selection(folder: Path) -> dict[str, Any]:
    """Returns what decided which cases were run, and on which device; {} if that is not known."""
    try:
        head, _ = head_of(folder / INFO)
    except HarnessError:  # of a newer version
        return {}
    deciding = {name: value for name, value in head.options.items() if name not in _INDIFFERENT}
    return {**deciding, "opened": [head.device.mode, head.device.board]} if head.options else {}


def read_head(folder: Path) -> RunInfo:
    """Returns what the ``run.json`` of a run holds.

    Raises:
        HarnessError: There is none, or it is not a run's header, or one of a newer version.
    """
    path = folder / INFO
    if not path.is_file():
        raise HarnessError(f"{folder}: expected a run's folder, with {INFO} in it")
    head = _checked(path)
    if isinstance(head, str):
        raise HarnessError(head)
    return head


def head_bytes(path: Path) -> bytes:
    """Returns the content of a ``run.json``; OSError where it cannot be read, ValueError where it is too large to be one."""
    data = bytearray()
    with open_file(path) as file:
        while block := file.read(_BLOCK):  # a larger one would be allocated for any file, however small
            data += block
            if len(data) > MAX_HEAD_BYTES:
                raise ValueError(f"more than {MAX_HEAD_BYTES:,} B")
    return bytes(data)


def head_of(path: Path) -> tuple[RunInfo, list[str]]:
    """Returns what a ``run.json`` holds; nothing, and a remark, where that is not a run's header.

    Raises:
        HarnessError: It cannot be read, or is one of a newer version.
    """
    try:
        head = _checked(path)
    except FileNotFoundError:
        return RunInfo(), []
    if isinstance(head, str):
        return RunInfo(), [f"{head}; the run's options and device are not known"]
    return head, []


def _checked(path: Path) -> RunInfo | str:
    """Returns what a ``run.json`` holds, or why it is not a run's header.

    Raises:
        FileNotFoundError: There is none.
        HarnessError: It cannot be read, or is one of a newer version.
    """
    try:
        data = head_bytes(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HarnessError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        return f"{path}: not a run's header ({error})"
    check_schema(schema_of(data), path)
    try:
        head = _HEAD.validate_json(data, strict=True)
    except ValidationError as error:
        return f"{path}: not a run's header ({problem_of(error)})"
    fault = option_fault(head.options)
    return f"{path}: {fault}" if fault else head
