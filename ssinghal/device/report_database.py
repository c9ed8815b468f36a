"""TTNN's report database of a call, as ttnn-visualizer opens it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ssinghal.core.tensors import TensorSpec
from ssinghal.device.session import Session

T = TypeVar("T")


def reported(session: Session, call: Callable[[], T], folder: Path, title: str, facts: Mapping[str, str]) -> T:
    """Runs ``call`` and writes TTNN's report database of it into the new ``folder``.

    ``title``: its name in that program's list of reports. ``facts``: added to its metadata. An error of ``call`` is raised
    once the report is written. The session must be one ``with_torch``: TTNN's recorder of arguments imports torch.
    """
    ttnn = session.ttnn
    folder.mkdir()
    capture = folder / "graph_capture.json"
    try:
        with _recording(ttnn, capture):
            return call()
    finally:
        recorded = json.loads(capture.read_text())
        recorded["devices"] = recorded["devices"] or _recorded_devices(session, capture)
        recorded["metadata"] |= {"git_url": "", **facts}  # or else it has the URL of the repository around ttnn
        capture.write_text(json.dumps(recorded))
        ttnn.graph.import_report(capture, folder)
        for file in folder.glob(f"{capture.stem}.*"):
            file.unlink()  # the database has all of its content
        with ttnn.manage_config("report_name", title):
            ttnn.save_config_to_json_file(str(folder / "config.json"))


@contextmanager
def _recording(ttnn: Any, file: Path) -> Iterator[None]:
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    try:
        yield
    finally:
        ttnn.graph.end_graph_capture_to_file(str(file))


def _recorded_devices(session: Session, capture: Path) -> Any:
    """Returns the devices of a record that allocates a tile: one without an allocation names no device."""
    file = capture.with_suffix(".devices.json")
    with _recording(session.ttnn, file):
        session.empty(TensorSpec((32, 32))).deallocate()
    return json.loads(file.read_text())["devices"]
