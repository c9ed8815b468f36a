"""DuckDB, as this program uses it: in memory, bounded, reading and writing one private folder alone. Imports it when needed.

Nothing is installed or loaded over a network, and no file outside of the folder can be named, whatever the data hold.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssinghal.core.closing import Closing
from ssinghal.core.temporary_folder import TemporaryFolder
from ssinghal.errors import HarnessError

if TYPE_CHECKING:
    import duckdb

MEMORY_MIB = 768
MAX_THREADS = 8


class Duck(Closing):
    """A database in memory beside a private folder for its files, which goes with it. ``folder``: one that the caller removes.

    Raises:
        HarnessError: A query failed, for want of memory or disk, say.
    """

    def __init__(self, folder: Path | None = None, *, threads: int | None = None) -> None:
        import duckdb

        self._error = duckdb.Error
        self._held = None if folder is not None else TemporaryFolder()
        self.folder = folder or (self._held.path if self._held is not None else Path())
        count = threads or min(MAX_THREADS, len(os.sched_getaffinity(0)))
        self._db: duckdb.DuckDBPyConnection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": f"{MEMORY_MIB}MiB",
                "threads": count,
                "temp_directory": str(self.folder / "spill"),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        self._db.execute(f"SET allowed_directories = [{text(str(self.folder))}]")
        self._db.execute("SET enable_external_access = false")
        self._db.execute("SET lock_configuration = true")

    def close(self) -> None:
        self._db.close()
        if self._held:
            self._held.close()

    def run(self, query: str, values: Sequence[Any] = ()) -> None:
        with self._stated():
            self._db.execute(query, list(values))

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Returns all rows of an answer."""
        with self._stated():
            return self._db.execute(query, list(values)).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Returns the only row of an answer."""
        (found,) = self.rows(query, values)
        return found

    @contextmanager
    def _stated(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise HarnessError(f"cannot count records: {str(error).splitlines()[0]}") from error


def text(value: str) -> str:
    """Returns a text as SQL has it, where no parameter can be."""
    return "'" + value.replace("'", "''") + "'"
