"""What earlier runs know of cases: answers that stand in for a probe, and how long each took. Imports neither torch nor ttnn.

An answer is taken where the same device, code and limits must repeat it (``index_rows.stands_in``): never a timeout, crash or
error, nor the second answer of a case that was repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from ssinghal.core.case import Case
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.errors import HarnessError
from ssinghal.runs.index import SHORT_BUSY_S, STORE, NotAStore, Store
from ssinghal.runs.index_rows import ALWAYS, FOR_REMEDIES
from ssinghal.runs.parsing import identity_of, parse_record

# Of each case the last run that has an answer, and there the name that was probed: SQLite takes the other columns from the
# row with the maximum.
_ANSWERS = """
SELECT c.key, json_set(o.body, '$.ttnn', s.ttnn), r.duration_s, coalesce(g.run, u.run),
  max(printf('%s %012.6f', u.started, r.duration_s))
FROM json_each(:keys) k CROSS JOIN cases c ON c.key = k.value CROSS JOIN results r ON r.case_id = c.id
JOIN runs u ON u.id = r.run JOIN settings s ON s.id = r.setting JOIN outcomes o ON o.id = r.outcome
LEFT JOIN origins g ON g.id = r.origin
WHERE u.answerer = :answerer AND NOT r.retried
  AND (o.stands_in = :always OR (o.stands_in = :for_remedies AND (:searcher = '' OR u.searcher = :searcher)))
GROUP BY c.key"""
_DURATIONS = """
SELECT c.key, max(r.duration_s)
FROM json_each(:keys) k CROSS JOIN cases c ON c.key = k.value CROSS JOIN results r ON r.case_id = c.id
WHERE r.setting IN (SELECT id FROM settings WHERE device_mode = :mode AND board = :board)
GROUP BY c.key"""


@dataclass(frozen=True)
class EarlierAnswer:
    """The answer of an earlier run for all cases of one key."""

    # The record without estimate and sources, as JSON.
    text: str
    # Seconds that it took there.
    duration_s: float
    # The id of the run that probed it.
    run: str
    # What is open now, and must have answered.
    device: DeviceFacts

    def record(self, case: Case, *, remedies: bool) -> Record | None:
        """Returns the record of ``case`` with the run it was taken from; None if the answer is that of another call or device,
        as keys are short and files of records can be mixed up. ``remedies``: whether the remedies that were found are kept.

        Raises:
            NotAStore: The index holds something else.
        """
        try:
            known = parse_record(self.text)
        except ValueError as error:
            raise NotAStore(
                f"the index of runs holds no record for {case.key}; rebuild it with: ssinghal history --rebuild"
            ) from error
        if {**identity_of(known), "op": ""} != {**case.identity(), "op": ""} or known.operator != case.operator:
            return None
        device = self.device
        if (known.device_mode, known.board, known.ttnn, known.mesh) != (device.mode, device.board, device.ttnn, device.mesh):
            return None
        kept = known.remedies if remedies else None
        return known.standing_for(case, duration_s=self.duration_s, taken_from=self.run, remedies=kept)


class EarlierRuns:
    """The runs in the folder ``results``, by their index.

    Raises:
        HarnessError: The index cannot be used.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._store = Store(results / STORE)

    def sync(self, progress: Callable[[list[Path]], Iterable[Path]] = iter) -> None:
        """Indexes what is new, such as a run that was killed. Without it, answers are those of the runs in the index."""
        if self._results.is_dir():
            self._store.sync(self._results, progress)

    def answers(
        self, keys: Collection[str], device: DeviceFacts, answerer: str, searcher: str = ""
    ) -> dict[str, EarlierAnswer]:
        """Returns the answers of ``answerer``, which has ``device`` open, by the keys of the cases, as far as there are any.
        ``searcher``: what must have searched for the remedies of those that are out of memory; "" if remedies are not wanted.
        """
        if not answerer or not self._store.exists():
            return {}
        values = {
            "keys": json.dumps(list(keys)),
            "answerer": answerer,
            "searcher": searcher,
            "always": ALWAYS,
            "for_remedies": FOR_REMEDIES,
        }
        with self._store.reading() as db:
            rows = db.execute(_ANSWERS, values)
            return {key: EarlierAnswer(text, duration, run, device) for key, text, duration, run, _ in rows}

    def durations(self, keys: Collection[str], device: DeviceFacts) -> dict[str, float]:
        """Returns how many seconds the cases took at most on such a board, whatever the code and the release; {} if the index
        cannot be used, as they only decide the order."""
        values = {"keys": json.dumps(list(keys)), "mode": device.mode.value, "board": device.board}
        try:
            store = Store(self._store.path, SHORT_BUSY_S)
            if not store.exists():
                return {}
            with store.reading() as db:
                return dict(db.execute(_DURATIONS, values).fetchall())
        except HarnessError:
            return {}
