"""Runs made by hand for the tests that read them: real cases and records, verdicts as the test says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssinghal.core.boards import load_board
from ssinghal.core.case import Source
from ssinghal.core.json_values import plain
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.core.verdict import Resource, Status, Verdict
from ssinghal.estimation.estimator import estimate
from ssinghal.operators.case_json import case_from_json

RUN = "20260102T030405.000000Z"
TTNN = "0.81.1"


def a_record(
    op: str = "relu",
    shape: Sequence[int] = (1, 64, 640, 400),
    *,
    status: Status | str = Status.FITS,
    board: str = "n150",
    mode: str = "virtual",
    ttnn: str = TTNN,
    inputs: Sequence[Sequence[int]] | None = None,
    sources: Iterable[Source] = (),
    listed: Sequence[int] | None = None,
    measured: Mapping[str, Any] | None = None,
    verdict: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A record as ``records.jsonl`` has it. ``inputs``: of the call, else ``shape`` alone. ``fields``: of the case (memory,
    attrs, …). ``verdict``: numbers of the message, beside the status; for an OOM those of an L1 output unless told."""
    case = case_from_json(
        {"op": op, "inputs": [list(s) for s in ([shape] if inputs is None else inputs)], "memory": "l1", **fields}
    )
    made = estimate(case, load_board(board))
    numbers: dict[str, Any] = dict(verdict or {})
    if Status(status) is Status.OOM:
        numbers = {"resource": Resource.L1_BUFFER, "stage": "output", "error_type": "RuntimeError", **numbers}
    record = Record.of(
        case,
        Verdict(Status(status), **numbers),
        device_mode=mode,
        board=board,
        ttnn=ttnn,
        estimate=made.stored(),
        **(measured or {}),
    ).to_json()
    record["sources"] = [plain(source) for source in sources]
    return {**record, "run": RUN, **({"listed_shape": list(listed)} if listed else {})}


def write_run(parent: Path, records: Sequence[Mapping[str, Any]], run: str = RUN, **info: Any) -> Path:
    """A run's folder with these records, as if it had ended well."""
    folder = parent / run
    folder.mkdir(parents=True)
    lines = [json.dumps({**record, "run": run}) + "\n" for record in records]
    (folder / "records.jsonl").write_text("".join(lines))
    first = records[0] if records else {}
    device = {"mode": first.get("device_mode", ""), "board": first.get("board", ""), "ttnn": first.get("ttnn", "")}
    head = {
        "started": "2026-01-02T03:04:05+00:00",
        "command": "ssinghal run",
        "commit": "abc",
        "device": device,
        "versions": {},
    }
    described = RunInfo(run, **{"selected": len(records), "options": {}, **head, **info})
    (folder / "run.json").write_text(json.dumps(plain(described)))
    return folder
