"""Texts of files that others wrote stand in lines of output: none makes a line there that the program did not write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.device_facts import DeviceFacts
from ssinghal.core.record import Record
from ssinghal.core.run_info import RunInfo
from ssinghal.errors import CatalogError, HarnessError, cut, one_line
from ssinghal.runs.folders import head_of, read_head
from ssinghal.runs.parsing import parse_record, problem_of
from ssinghal.runs.reader import read_run
from ssinghal.runs.summary import Summary
from tests.support.broken_texts import LINE_ENDS, broken_fields
from tests.support.processes import Suite, catalog_text, oom_module
from tests.support.run_builder import a_record, write_run

FORGED = "silicon p150, ttnn 9"
HEADS = [(name, value) for name, value in broken_fields(RunInfo, "a<end>b")]
# Texts that TTNN, torch or an operating system wrote: of several lines at times, and written as one where they stand in one.
FREE = ("message", "reason", "usage_note", "retried", "fault", "padding_cause")
# The arguments of a call are any values, which ``Case.id`` writes as one line.
OF_A_CALL = ("attrs", "operands")
RECORDS = [
    (name, value)
    for name, value in broken_fields(Record, "a<end>b")
    if name.split(".")[-1] not in FREE and name not in OF_A_CALL
]


def ended(value: Any, end: str) -> Any:
    return json.loads(json.dumps(value).replace("<end>", json.dumps(end)[1:-1]))


def merged(given: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    """``changed`` in ``given``: objects are merged, and what else is there is replaced."""
    both = {key: merged(given[key], changed[key]) for key in given.keys() & changed.keys() if isinstance(given[key], dict)}
    return {**given, **changed, **both}


def with_head(tmp_path: Path, changed: dict[str, Any]) -> Path:
    folder = write_run(tmp_path, [a_record()])
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(merged(head, changed)))
    return folder


@pytest.mark.parametrize(("field", "changed"), HEADS, ids=str)
def test_a_head_with_a_text_of_several_lines_is_refused_by_its_field(tmp_path, field, changed):
    for number, end in enumerate(LINE_ENDS):
        check_refused(with_head(tmp_path / str(number), ended(changed, end)), field)


def check_refused(folder: Path, field: str) -> None:
    info, (remark,) = head_of(folder / "run.json")
    assert (info, remark.splitlines()) == (RunInfo(), [remark])
    assert remark.startswith(f"{folder / 'run.json'}: ")
    assert field.split(".")[-1] in remark
    with pytest.raises(HarnessError) as refused:
        read_head(folder)
    assert len(str(refused.value).splitlines()) == 1


def test_every_text_of_a_head_is_tried():
    """So that the tests above are not empty: some fields of each kind, of both classes."""
    names = {name for name, _ in HEADS}
    assert {"run", "versions", "options", "merged", "resumed", "finished", "totals", "device.board", "device.proof"} <= names
    assert {"op", "stage", "test", "sources.catalog", "sources.modules.path", "tensors.label"} <= {name for name, _ in RECORDS}


@pytest.mark.parametrize("command", [("report",), ("compare", "{run}"), ("history", "--rebuild"), ("run", "--resume")])
@pytest.mark.parametrize(
    "changed",
    [
        {"versions": {"ttnn": f"0.81.1\n{FORGED}"}},
        {"resumed": [f"x\nrun fake: 20 of 20\r\n{FORGED}"]},
        {"merged": ["a", f"b\u2028{FORGED}", f"c\n{FORGED}"]},
        {"run": f"a\n{FORGED}", "started": f"a\n{FORGED}"},
    ],
)
def test_no_command_prints_a_line_of_a_head(run, tmp_path, changed, command):
    folder = with_head(tmp_path / "results", changed)
    other = write_run(tmp_path / "other", [a_record()])
    done = run(*(word.format(run=other) for word in command), *([] if command[0] == "history" else [str(folder)]))
    assert not [line for line in (done.out + done.err).splitlines() if line.startswith(("silicon", "run fake"))]


@pytest.mark.parametrize(("_", "changed"), HEADS, ids=str)
def test_a_head_is_written_so_that_it_is_read(tmp_path, _, changed):
    """A folder's name, an argument or the words of an error may be of several lines."""
    folder = with_head(tmp_path, {})
    texts = ended(changed, "\n")
    texts |= {"device": DeviceFacts(**texts["device"])} if "device" in texts else {}
    (folder / "run.json").write_text(RunInfo(**texts).text())
    assert head_of(folder / "run.json")[1] == []
    assert head_of(folder / "run.json")[0] != RunInfo()


@pytest.mark.parametrize(("field", "changed"), RECORDS, ids=str)
def test_a_name_of_several_lines_in_a_record_is_a_loss(field, changed):
    """Other fields of the object may be lacking, too: all that is wrong is looked at."""
    for end in LINE_ENDS:
        with pytest.raises(ValidationError) as refused:
            parse_record(json.dumps({**a_record(), **ended(changed, end)}))
        wrong = [error for error in refused.value.errors() if error["type"] == "string_pattern_mismatch"]
        found = {".".join(str(part) for part in error["loc"] if isinstance(part, str)) for error in wrong}
        assert any(name.startswith(field) for name in found), found
        assert len(problem_of(refused.value).splitlines()) == 1


@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
def test_a_message_of_several_lines_is_one_line_of_a_summary(tmp_path, end):
    error = {**a_record(status="error"), "message": f"a{end}{FORGED}"}
    assert len(Summary.of([error]).lines()) == len(Summary.of([{**error, "message": "a"}]).lines())
    (record,) = read_run(write_run(tmp_path, [error])).records
    assert record.sentence.splitlines() == [record.sentence]
    assert FORGED in record.sentence


@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
@pytest.mark.parametrize("field", ["title", "model", "input", "at"])
def test_a_catalog_with_a_name_of_several_lines_is_a_fault(tmp_path, field, end):
    line = {"shape": [1, 32, 32]}
    catalog = yaml.safe_load(catalog_text({"relu": [line]}))
    place = catalog if field == "title" else catalog["origins"][0]
    place.update({"title": "a"} if field == "title" else {"model": "a", "input": "b", "at": "c"})
    place.pop("none", None)
    place[field] = f"a{end}{FORGED}"
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(catalog))
    with pytest.raises(CatalogError) as refused:
        load_catalogs([path])
    named = [fault for fault in refused.value.faults if field in fault]
    assert "expected a text of one line" in named[0]
    assert len(str(refused.value).splitlines()) == len(refused.value.faults)


@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
def test_an_error_is_one_line_and_faults_are_one_line_each(end):
    text = f"/a{end}b: no such file"
    assert str(HarnessError(text)).splitlines() == [str(HarnessError(text))]
    assert str(CatalogError([text, text])).count("\n") == 1
    assert len(str(CatalogError([text, text])).splitlines()) == 2
    assert len(cut(text, 500).splitlines()) == len(one_line(text).splitlines()) == 1


def test_an_environment_of_several_lines_is_an_error_of_one(run, tmp_path, monkeypatch):
    (tmp_path / "a\nb").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a\nb"))
    done = run("run", "--resume", str(tmp_path / "a\nb"))
    assert (done.code, done.err.count("\n")) == (2, 1)


@pytest.mark.parametrize("end", ["\n", "\u2028", "\x85"], ids=ascii)
def test_a_test_in_a_file_of_such_a_name_has_a_record_that_is_read(tmp_path, end):
    suite = Suite(tmp_path, {"relu": [{"shape": [1, 32, 32]}]}, {f"test_a{end}b.py": oom_module("relu")})
    code, output = suite.run("-k", "memory_estimation")
    assert code == 0, output
    run = read_run(suite.latest)
    (record,) = run.records
    assert (run.losses, record.test.split("::")[0]) == ((), f"test_a{ascii(end)[1:-1]}b.py")
