"""``ssinghal plan`` as a program: its output, its files, and one line for each kind of bad input."""

import json
import re
from pathlib import Path

import pytest

from ssinghal.capture.trace import packed, read_trace, trace_text
from ssinghal.capture.trace_library import trace_files

REPOSITORY = Path(__file__).parents[2]
RESNET = "torchvision/resnet50"


@pytest.fixture
def small(tmp_path):
    """Returns a file with the first four calls of resnet50: conv, batch norm, relu, pool."""
    trace = read_trace(next(file for file in trace_files() if "resnet50" in file.name))
    data = json.loads(trace_text(trace))
    data["steps"] = data["steps"][:4]
    data["results"] = list(data["steps"][-1][3])
    data["values"] = data["values"][: data["results"][-1] + 1]
    path = tmp_path / "small.trace.json"
    path.write_text(json.dumps(data))
    return path


def test_a_plan_shows_its_verdict_its_peak_and_the_audit(run, small):
    done = run("plan", str(small), "--journal", "journal.jsonl", "--html", "plan.html")
    assert done.code == 0, done.err
    assert "policy port v2" in done.out
    assert "FITS: peak" in done.out
    assert "numerics not run" in done.out
    assert "computed and allocated bytes differ by 0 B" in done.out
    lines = [json.loads(line) for line in (small.parent / "journal.jsonl").read_text().splitlines()]
    assert [line["operator"] for line in lines] == ["convolution", "relu", "max_pool2d"]
    assert "<svg" in (small.parent / "plan.html").read_text()


def test_every_column_and_kind_of_line_is_explained_where_the_output_points_to(run, small):
    done = run("plan", str(small), "--policy", "both", "--board", "n150")
    lines = done.out.splitlines()
    legend = "all banks together: two lower bounds, then an estimate; the run decides. Columns and lines: "
    assert lines[2] == f"{legend}docs/plan.md, Read the output"
    text = (REPOSITORY / "docs" / "plan.md").read_text()
    assert "\n## Read the output\n" in text
    headers = [line for line in lines if line.startswith(("by arithmetic", "largest live values", "board, policy"))]
    assert len(headers) == 4
    columns = [column for header in headers for column in re.split(r" {2,}", header)[1:]]
    assert len(columns) > 20
    for column in [*columns, "peak at step", "program cache", "within calls", "padding", "L1 tensors", "L1_SMALL", "checked"]:
        assert re.search(rf"(`|^\| ){re.escape(column)}", text, re.MULTILINE), column
    assert "docs/plan.md, Read the output" in " ".join(run("plan", "--help").out.split())


def test_json_has_every_step_and_both_policies(run, small):
    done = run("plan", str(small), "--policy", "both", "--board", "n150,p150", "--json")
    assert done.code == 0, done.err
    plans = [one["plan"] for one in json.loads(done.out)]
    assert [(p["board"], p["policy"]["name"]) for p in plans] == [
        ("n150", "port"), ("n150", "eager"), ("p150", "port"), ("p150", "eager"),
    ]  # fmt: skip
    assert [len(p["steps"]) for p in plans] == [3, 4, 3, 4]  # port folds the batch norm
    assert {p["numerics"] for p in plans} == {"not run"}
    assert all(p["checked"] == p["total_steps"] + 1 for p in plans)


def test_a_policy_from_a_file(run, small):
    (small.parent / "mine.yaml").write_text("base: port\nfold_batch_norm: false\n")
    done = run("plan", str(small), "--policy", "mine.yaml", "--json")
    (one,) = json.loads(done.out)
    assert (one["plan"]["policy_name"], len(one["plan"]["steps"])) == ("mine v2", 4)


def test_weights_in_another_dtype_are_part_of_the_policy(run, small):
    """The first convolution, [64, 3, 7, 7]: prepared in whole tiles of bfloat16 or bfloat8_b, 2,048 or 1,088 B, as its bias."""
    (small.parent / "narrow.yaml").write_text("base: port\nweights: bfloat8_b\n")
    plans = []
    for how in ([], ["--weights", "bfloat8_b"], ["--policy", "narrow.yaml"]):
        done = run("plan", str(small), "--json", "--html", "plan.html", *how)
        assert done.code == 0, done.err
        plans.append(json.loads(done.out)[0]["plan"])
        assert ("weights: bfloat8_b" in (small.parent / "plan.html").read_text()) == bool(how)
    wide, narrow, filed = plans
    assert [one["policy"]["weights"] for one in plans] == [None, "bfloat8_b", "bfloat8_b"]
    assert [one["policy_name"] for one in plans] == ["port v2", "port v2+weights=bfloat8_b", "narrow v2+weights=bfloat8_b"]
    assert narrow["peak"]["weights_bytes"] * 2048 == wide["peak"]["weights_bytes"] * 1088
    assert filed["peak"] == narrow["peak"]
    (small.parent / "narrow.yaml").write_text("base: port\nweights: bf9\n")
    done = run("plan", str(small), "--policy", "narrow.yaml")
    assert (done.code, done.out) == (2, "")
    assert "narrow.yaml: unknown weights 'bf9'" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_model"], "unknown traced model 'no_such_model'"),
        (["yolo12x"], "give its input"),
        (["nothing.trace.json.gz"], "nothing.trace.json.gz: cannot be read as a trace"),
        ([RESNET, "--board", "n15"], "unknown board 'n15'; did you mean"),
        ([RESNET, "--board", ","], "--board: expected comma-separated names"),
        ([RESNET, "--board", "none.yaml"], "none.yaml"),
        ([RESNET, "--policy", "porter"], "unknown policy 'porter'; did you mean port?"),
        ([RESNET, "--policy", "no.yaml"], "no.yaml: No such file"),
        ([RESNET, "--rewrite", "softmax"], "softmax_in_place"),
        ([RESNET, "--weights", "bfloat9_b"], "unknown --weights 'bfloat9_b'; did you mean bfloat8_b"),
        ([RESNET, "--weights", "float32"], "unknown --weights 'float32'; did you mean bfloat8_b"),
        ([RESNET, "--max", "width"], "unknown --max 'width'; known: batch, resolution"),
        (["yolo12x", "--max", "batch"], "give its input"),
        ([RESNET, "--html", "/nosuch/x.html"], "cannot write /nosuch/x.html: there is no folder /nosuch"),
        ([RESNET, "--max", "batch", "--html", "/nosuch/x.html"], "cannot write /nosuch/x.html: there is no folder /nosuch"),
        ([RESNET, "-o", "runs.jsonl"], "-o holds the runs of --max and --tiers"),
        ([RESNET, "--ttnn", "0.70.0"], "gives no full verdicts"),
        ([RESNET, "--ttnn", "9.9.9"], "ssinghal releases add 9.9.9"),
        ([RESNET, "--input", "1,3,0,224"], "0"),
    ],
)
def test_bad_input_costs_a_line(run, arguments, message):
    done = run("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[port]", "expected a mapping"),
        ("base: portt", "base: unknown policy 'portt'"),
        ("fold: true", "unknown key 'fold'"),
        ("fold_batch_norm: 1", "fold_batch_norm: expected true or false, got 1"),
        ("lifetime: never", "lifetime"),
        ("rewrites: sdpa", "rewrites: expected a list"),
        ("a: [", "(file): is not YAML"),
        ("", "bad.yaml:1: (file): is empty"),
        ("base: l1\nbase: port", "bad.yaml:2: base: the key is given twice, first in line 1"),
    ],
)
def test_a_bad_policy_file_costs_a_line(run, small, text, message):
    (small.parent / "bad.yaml").write_text(text)
    done = run("plan", str(small), "--policy", "bad.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ssinghal: bad.yaml:")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("policy", ["port", "l1"])
def test_an_input_without_elements_costs_a_line(run, small, policy):
    data = json.loads(small.read_text())
    number = next(n for n, value in enumerate(data["values"]) if value[2] == "input")
    data["values"][number][0] = data["input"]["shapes"][0] = [0, 3, 224, 224]
    small.write_text(json.dumps(data))
    done = run("plan", str(small), "--policy", policy)
    assert (done.code, done.out) == (2, "")
    assert "[0, 3, 224, 224]: expected sizes of at least 1, got 0" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_recording_that_stopped_is_rejected_unless_partial(run, small):
    data = json.loads(small.read_text())
    data["capture"]["stopped"] = "in head: aten.nonzero.default depends on values"
    small.write_text(json.dumps(data))
    done = run("plan", str(small))
    assert done.code == 2
    assert "the recording is not the complete model (in head: aten.nonzero" in done.err
    assert "--partial" in done.err
    done = run("plan", str(small), "--partial")
    assert done.code == 0
    assert "note: only the recorded part: in head" in done.out


def test_calls_without_an_operator_decide_nothing_unless_allowed(run, small):
    data = json.loads(small.read_text())
    data["steps"][2][0] = "aten.erfinv_.default"  # relu_, under a name that no operator has
    small.write_text(json.dumps(data))
    done = run("plan", str(small))
    assert done.code == 1
    assert "UNSUPPORTED: stand-ins produce" in done.out
    assert "aten.erfinv_.default: no operator declares this overload" in done.out
    assert run("plan", str(small), "--allow-stand-ins").code == 0


@pytest.mark.parametrize(("shape", "placed_bytes"), [([1, 1, 1, 1, 1, 1, 64, 56, 56], 401_408), ([0, 64], 0)])
def test_a_result_that_no_device_tensor_can_be_has_one_stand_in(run, small, shape, placed_bytes):
    """The last call, under a name that no operator has: of rank 9, and without elements. As torch stores them, in bfloat16."""
    data = json.loads(small.read_text())
    data["steps"][3][0] = "aten.erfinv.default"
    data["values"][data["steps"][3][3][0]][0] = shape
    small.write_text(json.dumps(data))
    done = run("plan", str(small), "--allow-stand-ins", "--json")
    assert done.code == 0, done.err
    (one,) = json.loads(done.out)
    (stand_in,) = one["plan"]["stand_ins"]
    assert (stand_in["overload"], stand_in["result_bytes"]) == ("aten.erfinv.default", placed_bytes)
    assert one["plan"]["status"] == "fits"


def test_the_largest_batch_has_both_sides_and_resumes(run, small, monkeypatch):
    """A trace in a file has only its own input, so the model is named; runs are taken from the file."""
    arguments = ("plan", RESNET, "--input", "1,3,224,224", "--max", "batch", "--json")
    trace = read_trace(small)
    monkeypatch.setattr("ssinghal.plan.recordings.trace_for", lambda model, inputs, captures: batched(trace, inputs[0][0]))
    monkeypatch.setattr("ssinghal.plan.input_sizes.MAX_VALUES", 4)
    done = run(*arguments, "-o", "runs.jsonl")
    assert done.code == 0, done.err
    (edge,) = json.loads(done.out)
    assert (edge["fits"], edge["does_not"], edge["confirmed"]) == ([4, 3, 224, 224], None, True)
    lines = (small.parent / "runs.jsonl").read_text()
    again = run(*arguments, "-o", "runs.jsonl")
    assert again.out == done.out
    assert (small.parent / "runs.jsonl").read_text() == lines
    (small.parent / "other.jsonl").write_text('{"op": "add"}\n')
    rejected = run(*arguments, "-o", "other.jsonl")
    assert (rejected.code, "other.jsonl:1: not a run of a model's edge" in rejected.err) == (2, True)


def batched(trace, batch):
    """Returns the trace with another batch, which is the first dim of all activations of the small model."""
    from dataclasses import replace

    values = tuple(v if v.is_resident else replace(v, shape=(batch, *v.shape[1:])) for v in trace.values)
    head = {**trace.head, "input": {**trace.head["input"], "shapes": [[batch, *trace.input_shapes[0][1:]]]}}
    return replace(trace, values=values, head=head)


def test_a_crash_leaves_the_journal_and_ends_the_plan(run, small, monkeypatch):
    """The time limit ends the worker in the middle, as a crash of native code would."""
    done = run("plan", str(small), "--journal", "journal.jsonl", "--timeout", "0.001")
    assert done.code == 1
    assert "TIMEOUT: no answer within 0.001 s" in done.out
    assert "steps were done" in done.out


def test_a_packed_trace_is_read_too(run, small):
    small.with_suffix(".gz").write_bytes(packed(read_trace(small)))
    assert run("plan", str(small.with_suffix(".gz"))).code == 0
