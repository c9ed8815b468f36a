"""Reading runs: complete records are kept, the rest is reported, and records that cannot be added up are kept apart."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssinghal.core.case import ModuleCalls, Source
from ssinghal.core.measured import Comparison
from ssinghal.core.record import SCHEMA_VERSION
from ssinghal.errors import HarnessError
from ssinghal.runs.folders import earlier_runs, find_run
from ssinghal.runs.index import STORE, Store
from ssinghal.runs.reader import counted, read_run
from tests.support.run_builder import RUN, a_record, write_run


def lines_of(folder: Path) -> list[str]:
    return (folder / "records.jsonl").read_text().splitlines(keepends=True)


def test_what_was_written_is_read(tmp_path):
    source = Source("yolo", "ultralytics/yolo12x", "4320x7680", 3, (ModuleCalls("model.0", 2),), 1, 1)
    oom = {"total_bytes": 34078720, "bytes_per_bank": 532480, "banks": 64, "bank_bytes": 1393312, "free_bytes": 328352}
    written = [
        a_record(shape=(1, 64, 640, 400), status="oom", verdict=oom, sources=[source], listed=(1, 64, 640, 400)),
        a_record("add", inputs=[[1, 3, 8, 8], [1, 3, 8, 8]]),
    ]
    run = read_run(write_run(tmp_path, written))
    first, second = run.records
    assert (run.id, run.losses, len(run.groups)) == (RUN, (), 1)
    assert first.sentence == "L1 bank needs 532,480 B, 328,352 B free (output)"
    assert first.sources == (source,)
    assert written[0]["sources"][0]["module_path"] == "model.0"
    assert first.failed is not None
    assert first.failed.label == "output"
    assert (second.op, second.inputs, second.status.value) == ("add", ((1, 3, 8, 8), (1, 3, 8, 8)), "fits")
    assert counted(run.records) == {"fits": 1, "oom": 1}


def test_a_record_that_names_only_first_modules_is_read(tmp_path):
    """As earlier versions wrote it: who makes the other two calls is not known, nor who has a shape of a sweep."""
    old = {"catalog": "yolo", "model": "ultralytics/yolo12x", "input_size": "4320x7680", "count": 3, "module_path": "model.0"}
    sources = [old, {**old, "count": 1}, {**old, "count": 0}, {**old, "module_path": ""}]
    record = {**a_record(), "sources": sources}
    (read,) = read_run(write_run(tmp_path, [record])).records
    assert [(s.catalog, s.model, s.input_size, s.count) for s in read.sources] == [
        ("yolo", "ultralytics/yolo12x", "4320x7680", count) for count in (3, 1, 0, 3)
    ]
    assert [(s.modules, s.other_modules, s.other_calls) for s in read.sources] == [
        ((ModuleCalls("model.0", 1),), 0, 2),
        ((ModuleCalls("model.0", 1),), 0, 0),
        ((ModuleCalls("model.0", 0),), 0, 0),
        ((), 0, 0),
    ]
    assert read.sources[0].where == "model.0, then modules not recorded"
    broken = {**record, "sources": [{**old, "count": "many"}]}
    (tmp_path / "broken").mkdir()
    run = read_run(write_run(tmp_path / "broken", [record, broken]))
    assert len(run.records) == 1
    assert "not a complete record, skipped" in run.losses[0]


def test_a_truncated_line_is_skipped_and_reported(tmp_path):
    """A killed run leaves it. The number of selected cases shows how many are missing."""
    records = [a_record(shape=(1, 1, 32, 32 * n)) for n in range(1, 5)]
    folder = write_run(tmp_path, records, selected=9)
    path = folder / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rstrip(b"\n").rindex(b"\n") + 41])
    run = read_run(folder)
    assert len(run.records) == 3
    assert run.losses == (
        f"{path}:4: not a complete record, skipped: truncated after 40 B; was the run killed?",
        "6 of 9 selected cases have no record: the run was interrupted or is still in progress",
    )


@pytest.mark.parametrize(("stated", "losses"), [(2, ("interrupted: 2 of 3 cases were not run",)), (0, ()), (None, ())])
def test_an_interrupted_run_is_incomplete_though_no_record_is_missing(tmp_path, stated, losses):
    """Runs of earlier versions (None) do not state which of their cases they reached."""
    records = [a_record(), *(a_record(op, status="not_run", mode="none") for op in ("gelu", "silu"))]
    folder = write_run(tmp_path, records, unreached=stated or 0)
    if stated is None:
        head = json.loads((folder / "run.json").read_text())
        del head["unreached"]
        (folder / "run.json").write_text(json.dumps(head))
    run = read_run(folder)
    assert (len(run.records), run.losses, run.lacks_records) == (3, losses, False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("null\n", "Input should be an object"),
        ("{}\n", "op: Field required"),
        ("\0\0\0\n", "Invalid JSON"),
        ('{"schema": 1, "op": 7}\n', "op: Input should be a valid string"),
        ("[" * 100_000 + "\n", "recursion"),
    ],
)
def test_a_corrupt_line_is_skipped_and_reported(tmp_path, line, reason):
    folder = write_run(tmp_path, [a_record(), a_record(shape=(1, 1, 64, 64))])
    first, second = lines_of(folder)
    (folder / "records.jsonl").write_text(first + line + second)
    run = read_run(folder)
    assert len(run.records) == 2
    (loss,) = run.losses
    assert loss.startswith(f"{folder / 'records.jsonl'}:2: not a complete record, skipped: ")
    assert reason in loss


def test_a_record_with_an_unknown_status_is_skipped(tmp_path):
    """No verdict is better than a wrong one."""
    folder = write_run(tmp_path, [a_record(), {**a_record(shape=(1, 1, 64, 64)), "status": "passed"}])
    run = read_run(folder)
    assert counted(run.records) == {"fits": 1}
    assert "status: Input should be" in run.losses[0]


@pytest.mark.parametrize("place", ["records", "info"])
def test_a_newer_schema_is_rejected_by_its_number(tmp_path, place):
    newer = SCHEMA_VERSION + 1
    folder = write_run(tmp_path, [a_record(), a_record(shape=(1, 1, 64, 64))])
    if place == "records":
        first, second = lines_of(folder)
        (folder / "records.jsonl").write_text(
            first + json.dumps({"later": True, "schema": newer, "op": ["new"]}) + "\n" + second
        )
        where = f"{folder / 'records.jsonl'}:2"
    else:
        info = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**info, "schema": newer}))
        where = str(folder / "run.json")
    with pytest.raises(HarnessError) as refused:
        read_run(folder)
    assert (
        str(refused.value)
        == f"{where}: records of schema {newer}; this ssinghal reads up to {SCHEMA_VERSION}: use a newer version"
    )


def test_complete_records_of_a_newer_schema_are_rejected_too(tmp_path):
    folder = write_run(tmp_path, [{**a_record(), "schema": SCHEMA_VERSION + 1}])
    with pytest.raises(HarnessError, match=f"records of schema {SCHEMA_VERSION + 1}"):
        read_run(folder)


def test_boards_modes_and_releases_are_kept_apart(tmp_path):
    records = [
        a_record(),
        a_record(shape=(1, 1, 64, 64)),
        a_record(board="p150"),
        a_record(mode="silicon"),
        a_record(ttnn="0.76.0"),
    ]
    run = read_run(write_run(tmp_path, records))
    assert {str(g.setting): len(g.records) for g in run.groups} == {
        "virtual n150, ttnn 0.81.1": 2,
        "virtual p150, ttnn 0.81.1": 1,
        "silicon n150, ttnn 0.81.1": 1,
        "virtual n150, ttnn 0.76.0": 1,
    }


def test_cases_that_no_device_answered_belong_to_their_board_where_that_is_clear(tmp_path):
    never = a_record(shape=(1, 1, 96, 96), status="not_run", mode="none")
    (group,) = read_run(write_run(tmp_path / "one", [a_record(), never])).groups
    assert counted(group.records) == {"fits": 1, "not_run": 1}
    two = read_run(write_run(tmp_path / "two", [a_record(), a_record(mode="silicon"), never]))
    assert sorted(str(g.setting) for g in two.groups) == [
        "no device, n150, ttnn 0.81.1",
        "silicon n150, ttnn 0.81.1",
        "virtual n150, ttnn 0.81.1",
    ]


def test_cases_that_were_repeated_alone_are_remarked(tmp_path):
    lost = "crash: the process that ran the call ended with SIGKILL"
    again = [a_record(shape=(1, 1, 32, 32 * n), measured={"retried": lost}) for n in (1, 2)]
    run = read_run(write_run(tmp_path / "one", [a_record(), *again]))
    assert [record.retried for record in run.records] == ["", lost, lost]
    assert run.remarks == ("2 cases answered at the second attempt, alone: the process of the first was lost",)
    assert read_run(write_run(tmp_path / "two", [a_record()])).remarks == ()


def test_the_last_of_two_records_of_a_case_counts_and_that_is_reported(tmp_path):
    run = read_run(write_run(tmp_path, [a_record(), a_record(status="timeout")], selected=1))
    assert counted(run.records) == {"timeout": 1}
    assert "1 repeated records; the last answer for each case counts" in run.remarks[0]
    assert run.losses == ()


def test_an_answer_counts_before_a_case_that_no_device_answered(tmp_path):
    """Whichever comes last: a restarted run must not count a case twice, or lose its verdict."""
    never = a_record(status="not_run", mode="none")
    for name, records in (("before", [never, a_record()]), ("after", [a_record(), never])):
        (group,) = read_run(write_run(tmp_path / name, records, selected=1)).groups
        assert counted(group.records) == {"fits": 1}


@pytest.mark.parametrize(
    "odd",
    [
        {"dtype": "float64"},
        {"layout": "foo"},
        {"memory": "bar"},
        {"total_bytes": 10**90},  # 2^272, the bound of a request, is less than 10^82
        {"bank_bytes": 10**30},
        {"estimate": {"verdict": "fits", "bank_bytes": 10**30}},
        {"bytes_per_bank": -1},
        {"inputs": [[1, -1, 32, 32]]},
        {"inputs": [[1, 2**70]]},
        {"duration_s": -1.0},
        {"usage": {"l1_bytes": 1}},
        {"decided_by": "<b>"},
        {"device_mode": "mock"},
        {"resident": {"l1": -32}},
        {"comparison": {"pcc": "high", "max_abs_error": 0.0, "min_pcc": 0.999, "fault": ""}},
        {"estimate": {"verdict": "fits", "peak_bytes_per_bank": {"l1": -1}}},
        {
            "tensors": [
                {
                    "label": "output",
                    "shape": [1],
                    "dtype": "bfloat16",
                    "layout": "tile",
                    "memory": "l1",
                    "logical_bytes": 2,
                    "allocated_bytes": 2048,
                    "booked_bytes": -1,
                }
            ]
        },
        {"sources": [{"catalog": "c", "count": -3}]},
    ],
)
def test_a_record_with_an_invalid_value_is_skipped(tmp_path, odd):
    run = read_run(write_run(tmp_path, [a_record(), {**a_record(shape=(1, 1, 64, 64)), **odd}]))
    assert len(run.records) == 1
    assert "records.jsonl:2: not a complete record, skipped: " in run.losses[0]


@pytest.mark.parametrize(
    "odd", [{"started": 5}, {"command": {"a": 1}}, {"device": {"l1": 5}}, {"device": [1]}, {"selected": "all"}, 7]
)
def test_an_invalid_header_is_ignored_and_reported(tmp_path, odd):
    folder = write_run(tmp_path, [a_record()])
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**head, **odd} if isinstance(odd, dict) else odd))
    run = read_run(folder)
    assert len(run.records) == 1
    assert "run.json: not a run's header (" in run.remarks[0]


def test_numerics_are_stated_as_they_were_compared(tmp_path):
    (group,) = read_run(write_run(tmp_path, [a_record()])).groups
    assert group.numerics == "numerics not run: memory verdicts only"
    agrees = a_record(mode="silicon", measured={"comparison": Comparison(0.9999, 0.01, 0.999)})
    compared = [agrees, a_record(mode="silicon", shape=(1, 1, 64, 64))]
    (group,) = read_run(write_run(tmp_path / "card", compared)).groups
    assert group.numerics == "numerics compared for 1 of 2 cases"


@pytest.mark.parametrize(
    ("fields", "shape", "subject"),
    [
        ({"shape": (1, 3, 72, 80), "channels_last": True, "listed": (1, 3, 72, 80)}, (1, 3, 72, 80), (1, 72, 80, 3)),
        ({"shape": (1, 3, 72, 80), "channels_last": False}, (1, 3, 72, 80), (1, 3, 72, 80)),
        ({"op": "addmm", "inputs": [[512], [1000, 64], [64, 512]]}, (1000, 64), (1000, 64)),
        ({"op": "full", "inputs": [], "attrs": {"size": [4, 96], "fill_value": 0.0}}, (4, 96), (4, 96)),
        (
            {"op": "view", "inputs": [[1, 640, 400, 64]], "attrs": {"size": [1, 64, 640, 400]}, "listed": (1, 64, 640, 400),
             "channels_last": False},
            (1, 64, 640, 400),
            (1, 64, 640, 400),
        ),
    ],
)  # fmt: skip
def test_a_case_is_known_by_one_shape_and_its_tensor_as_placed(tmp_path, fields, shape, subject):
    (read,) = read_run(write_run(tmp_path, [a_record(**fields)])).records
    assert read.shape == shape
    assert read.subject is not None
    assert read.subject.shape == subject


def test_runs_are_found_by_path_id_and_its_start(tmp_path):
    first = write_run(tmp_path, [a_record()], run="20260101T000000.000000Z")
    second = write_run(tmp_path, [a_record()], run="20260102T000000.000000Z")
    (tmp_path / "latest").symlink_to(second.name)
    assert find_run(None, tmp_path) == find_run("latest", tmp_path) == second
    assert find_run(str(first), tmp_path) == first
    assert find_run(str(first / "records.jsonl"), tmp_path) == first
    (first / "run.json").unlink()
    assert find_run(str(first / "records.jsonl"), tmp_path) == first / "records.jsonl"
    assert find_run("20260101", tmp_path) == first
    with pytest.raises(HarnessError) as missing:
        find_run("nosuch", tmp_path)
    known = f"latest, a run's folder, a records.jsonl, or the start of the id of a run in {tmp_path}"
    assert str(missing.value) == f"no run 'nosuch': expected {known}"
    wrong = {"2026": "2 ids of runs in", "": "no run ''", "1999": "no run '1999'", str(tmp_path): "expected a run's folder"}
    for text, message in wrong.items():
        with pytest.raises(HarnessError, match=message):
            find_run(text, tmp_path)
    with pytest.raises(HarnessError, match=rf"expected a run's folder, .*; its last run is {tmp_path}/latest$"):
        find_run(str(tmp_path), tmp_path)
    with pytest.raises(HarnessError, match="no run in"):
        find_run(None, tmp_path / "nowhere")


def test_a_run_without_a_file_of_records_is_found_where_it_is_to_be_resumed(tmp_path):
    """As after a kill between run.json and records.jsonl."""
    folder = write_run(tmp_path, [a_record()], run="20260101T000000.000000Z")
    (folder / "records.jsonl").unlink()
    (tmp_path / "other").mkdir()
    for text in (folder.name, "20260101", str(folder)):
        assert find_run(text, tmp_path, begun=True) == folder
        with pytest.raises(HarnessError, match=r"no run '2026|expected a run's folder, with records\.jsonl in it"):
            find_run(text, tmp_path)
    with pytest.raises(HarnessError, match=r"other: expected a run's folder, with run\.json in it$"):
        find_run(str(tmp_path / "other"), tmp_path, begun=True)
    with pytest.raises(HarnessError, match="no run 'oth'"):
        find_run("oth", tmp_path, begun=True)


def test_the_earlier_run_is_the_last_with_equal_options(tmp_path):
    def a_run(day: int, **options):
        folder = write_run(tmp_path, [a_record()], run=f"2026010{day}T000000.000000Z")
        info = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps({**info, "options": {"catalogs": [], **options}}))
        return folder

    first, _ = a_run(1, results="here", workers=1), a_run(2, per_operator=3)
    third = a_run(3, results="there", workers=2, as_json=True)
    assert list(earlier_runs(third)) == [first]
    assert list(earlier_runs(first)) == []
    assert list(earlier_runs(third / "records.jsonl")) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(garbage=st.binary(max_size=300), at=st.integers(0, 5000))
def test_garbage_never_hides_a_complete_record_before_it(tmp_path, garbage, at):
    """Whatever overwrites the file from some byte on, the complete lines before it are read, or the file is rejected."""
    folder = tmp_path / RUN
    if not folder.exists():
        write_run(tmp_path, [a_record(shape=(1, 1, 32, 32 * n)) for n in range(1, 4)])
        (folder / "whole").write_bytes((folder / "records.jsonl").read_bytes())
    whole = (folder / "whole").read_bytes()
    (folder / "records.jsonl").write_bytes(whole[:at] + garbage)
    expected = whole[:at].count(b"\n")
    try:
        run = read_run(folder)
    except HarnessError:
        assert expected == 0 or b"schema" in garbage
        return
    assert len(run.records) >= expected


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("name", ["op", "operator", "key", "id", "board", "ttnn"])
def test_a_name_of_several_lines_is_no_record(tmp_path, name, end):
    """It would break the lines of every table that it is in."""
    good = a_record()
    folder = write_run(tmp_path, [good, {**good, name: f"a{end}b"}])
    run = read_run(folder)
    assert len(run.records) == 1
    (loss,) = (line for line in run.losses if ":2: " in line)
    assert "not a complete record" in loss
    assert "\n" not in loss + "".join(run.losses)


@pytest.mark.parametrize("read", [read_run, lambda path: Store(path.parent / STORE).index(path)], ids=["objects", "index"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"status": "fits"', '"status": "error", "status": "fits"'),
        ('"op": "relu"', '"op": "gelu", "op": "relu"'),
        ('"board": "n150"', '"board": "p150", "board": "n150"'),
        *[('"attrs": {}', f'"attrs": {{"alpha": {odd}}}') for odd in ("NaN", "Infinity", "-Infinity", "1e400", "[-1e400]")],
        *[('"duration_s": 0.0', f'"duration_s": {odd}') for odd in ("NaN", "Infinity", "1e400")],
        *[
            ('"comparison": null', f'"comparison": {{"pcc": {odd}, "max_abs_error": 0.0, "min_pcc": 0.9}}')
            for odd in ("NaN", "1e400")
        ],
        ('"attrs": {}', '"attrs": {}, "of_a_later_version": NaN'),
    ],
)
def test_what_json_does_not_have_is_no_record(tmp_path, old, new, read):
    folder = write_run(tmp_path, [a_record(shape=(1, 1, 64, 64)), a_record()])
    first, second = lines_of(folder)
    assert old in second
    (folder / "records.jsonl").write_text(first + second.replace(old, new, 1))
    read(folder)
    run = read_run(folder)
    assert len(run.records) == 1
    assert "records.jsonl:2: not a complete record, skipped: " in run.losses[0]
