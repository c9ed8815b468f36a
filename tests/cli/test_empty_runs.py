"""Commands on a run without a record, and on names of nothing: each states what was found or expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.run_builder import a_record, write_run


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    write_run(tmp_path / "results", [a_record()], "full")
    return write_run(tmp_path / "results", [], "empty", device={"mode": "virtual", "board": "n150", "ttnn": "0.81.1"})


def test_a_report_of_an_empty_run_states_it(run, empty):
    done = run("report", str(empty))
    assert (done.code, done.out.splitlines()[0]) == (0, "0 cases: the run has no record")
    assert "no record" not in run("report", str(empty.parent / "full")).out


def test_remedies_of_a_run_without_a_case_out_of_memory(run, empty):
    for name in ("empty", "full"):
        done = run("remedy", "--run", name)
        assert (done.code, done.out) == (0, "0 cases: none is out of memory\n")


@pytest.mark.parametrize("names", [("empty", "empty"), ("empty", "full"), ("full", "empty")])
def test_no_option_is_suggested_for_an_empty_run(run, empty, names):
    done = run("compare", *names)
    has = {"empty": "no record", "full": "virtual n150, ttnn 0.81.1"}
    assert (done.code, done.out) == (2, "")
    assert done.err == f"ssinghal: nothing to compare: {', '.join(f'{name} has {has[name]}' for name in names)}\n"


@pytest.mark.parametrize(
    ("text", "shown", "reason"),
    [
        ("Out of Memory", "Out of Memory", "No such file or directory"),
        ("x" * 300, f"{'x' * 26} … (300 characters) … {'x' * 7}", "File name too long"),
    ],
)
@pytest.mark.parametrize("module", [False, True])
def test_a_text_in_place_of_a_log_has_a_hint(run, text, shown, reason, module):
    done = run("diagnose", *(("-", "--module", text) if module else (text,)))
    hint = f"ssinghal: {shown}: {reason}; expected a file, or - for a text on standard input\n"
    assert (done.code, done.out, done.err) == (2, "", hint)
