"""The start of a run. Its device is opened before its folder is made, so that a run that cannot start leaves none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssinghal.core.closing import Closing
from ssinghal.runner.probers import Prober
from ssinghal.runner.sweep import Opened
from ssinghal.runs.writer import RunFolder, new_run

if TYPE_CHECKING:
    from ssinghal.catalog.choosing import Chosen  # imports pydantic, which no help text needs


class OpenDevice(Closing):
    """A device that is open before the sweep that uses it begins.

    Raises:
        HarnessError: It does not open.
    """

    def __init__(self, opened: Opened) -> None:
        self._stack = ExitStack()
        self.prober = self._stack.enter_context(opened())

    @contextmanager
    def opened(self) -> Iterator[Prober]:
        """Hands the device to a sweep, which closes it."""
        with self._stack:
            yield self.prober

    def close(self) -> None:
        self._stack.close()


def new_folder(results: Path, options: Mapping[str, Any], chosen: Chosen, ttnn: str | None = None) -> RunFolder:
    """Makes the folder of a new run of all cases that were chosen, and links ``latest`` to it.

    ``options``: as they are written, of which ``shard`` is one. ``ttnn``: the release, None for the installed one.

    Raises:
        HarnessError: It cannot be written.
    """
    info = new_run(Path.cwd(), options, len(chosen.cases))
    versions = info.versions if ttnn is None else {**info.versions, "ttnn": ttnn}
    info = replace(info, versions=versions, shard=str(options["shard"] or ""))
    return RunFolder(results, replace(info, selected_of_all=chosen.of_all, selection_sha256=chosen.digest))
