"""Edges of complete models: what cannot be tried is neither a fit nor a failure, and one's own model has an edge too."""

import json
import textwrap

import pytest

from ssinghal.capture.trace_library import SHIPPED
from ssinghal.core.verdict import Resource, Status, memory_verdict
from tests.support.environments import one_line, run_without
from tests.support.packages import needs_torch

MODULE = """
    import os, torch

    class Model(torch.nn.Module):
        def forward(self, x): return x.abs()

    def every(*shape): return Model(), torch.empty(shape)

    def even(*shape):
        if shape[2] % 64: raise ValueError("rows in twos")
        return every(*shape)

    def dies(*shape):
        if shape[2] > 704: os._exit(3)
        return every(*shape)

    def never(*shape): raise ValueError("at no size")

    def map(): return Model(), torch.empty(1, 3, 64, 96)

    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 1024)

        def forward(self, x): return self.b(torch.relu(self.a(x)))

    def tokens(*shape): return Tokens(), torch.empty(shape)

    def single(*shape): return torch.nn.Linear(4096, 4096), torch.empty(shape)

    def own(): return Model(), torch.empty(46, 8192, 8192)
"""


@pytest.fixture
def edge_of(run, tmp_path):
    """``edge_of(factory)``: the largest square of multiples of 32 rows, as JSON."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))

    def edge(factory, *arguments, shape="1,4096,640,640", goal="resolution"):
        given = ("--input", shape) if shape else ()
        done = run("plan", f"mine:{factory}", *given, "--max", goal, "--stride", "32", "--json", *arguments)
        assert all(line.startswith("searching: ") for line in done.err.splitlines()), done.err
        (one,) = json.loads(done.out)
        return done.code, one

    return edge


@pytest.mark.parametrize("status", Status)
def test_only_two_ends_of_a_run_say_whether_it_fits(status):
    assert memory_verdict(status, Resource.HOST if status is Status.OOM else None) is (True if status is Status.FITS else None)
    assert memory_verdict(status, Resource.DRAM_BUFFER) is {Status.FITS: True, Status.OOM: False}.get(status)


@needs_torch
@pytest.mark.virtual_device
def test_sizes_that_a_model_refuses_bound_nothing(edge_of):
    """Every second size cannot be built: the others have the same edge as a model that takes all."""
    code, every = edge_of("every")
    assert (code, every["confirmed"], every["no_verdict"]) == (0, True, [])
    last = every["fits"][2] // 32
    assert every["does_not"] == [1, 4096, (last + 1) * 32, (last + 1) * 32]
    code, even = edge_of("even")
    fits = last // 2 * 2
    assert (code, even["fits"][2] // 32, even["does_not"][2] // 32) == (0, fits, fits + 2)
    assert not even["confirmed"]
    (between,) = even["no_verdict"]
    assert between["input"] == [1, 4096, (fits + 1) * 32, (fits + 1) * 32]
    assert between["reason"].endswith("ValueError: rows in twos")


@needs_torch
@pytest.mark.virtual_device
def test_sizes_at_which_the_recording_dies_are_named_as_unknown(edge_of, run):
    code, edge = edge_of("dies")
    assert (code, edge["fits"], edge["does_not"], edge["confirmed"]) == (0, [1, 4096, 704, 704], None, False)
    assert edge["no_verdict"][0]["input"] == [1, 4096, 736, 736]
    assert "its process ended with code 3" in edge["no_verdict"][0]["reason"]
    text = run("plan", "mine:dies", "--input", "1,4096,640,640", "--max", "resolution", "--stride", "32").out.splitlines()
    assert text[0].endswith(": 704x704, unknown at 736x736")
    assert any(line.startswith("  no memory verdict, may fit: [1,4096,736,736]") for line in text)


@needs_torch
@pytest.mark.virtual_device
def test_a_factory_with_its_own_input_has_a_largest_batch(edge_of):
    """Input and result take 2 x 2 B x 8,192 x 8,192 = 268,435,456 B a batch, in twelve banks that have somewhat less than 1 GiB
    each: at most 12,884,901,888 B = 48 batches, of which the last would need all there is."""
    code, edge = edge_of("own", shape="", goal="batch")
    assert (code, edge["fits"], edge["does_not"], edge["confirmed"]) == (0, [47, 8192, 8192], [48, 8192, 8192], True)


@needs_torch
@pytest.mark.virtual_device
def test_what_a_run_needed_of_a_bank_is_kept_also_where_it_did_not_fit(edge_of, tmp_path):
    """Twice 47 or 48 x 65,536 tiles of 2,048 B over 12 banks: 256,683 or 262,144 tiles in the fullest, of 1,072,693,184 B."""
    edge_of("own", "-o", "runs.jsonl", shape="", goal="batch")
    runs = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    demands = {run["input_shape"][0]: run["demand"] for run in runs}
    assert demands[47] == 2 * 256_683 * 2048 / 1_072_693_184
    assert demands[48] == pytest.approx(2 * 262_144 * 2048 / 1_072_693_184, rel=1e-12)
    again = edge_of("own", "-o", "runs.jsonl", shape="", goal="batch")[1]
    assert (again["fits"][0], again["does_not"][0]) == (47, 48)
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == len(runs), "nothing is run again"


@needs_torch
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine:own", "--max", "resolution"], "an input [46,8192,8192] has no height and width"),
        (["mine:own", "--tiers"], "an input [46,8192,8192] has no height and width"),
        (["mine:map", "--tiers"], "brings an input [1,3,64,96], not [1,3,736,1280]; for other inputs let it take"),
        (["mine:map", "--max", "resolution"], "brings an input [1,3,64,96], not [1,3,96,160]; for other inputs let it take"),
        (["mine:every", "--max", "batch"], "takes the shape of its input: give --input"),
        (["mine:never", "--input", "1,1,64,64", "--max", "batch"], "ValueError: at no size"),
        (["mine:never", "--input", "1,1,64,64", "--tiers"], "ValueError: at no size"),
        (["mine:absent", "--max", "batch"], "mine has no function absent"),
        (["absent:own", "--max", "batch"], "no module absent in this folder or the environment"),
        (["other.trace.json.gz", "--max", "batch"], "mine:own makes other calls now than in this trace; give the model itself"),
    ],
)
def test_what_cannot_be_searched_is_one_line_before_a_device_opens(run, edge_of, tmp_path, monkeypatch, arguments, message):
    if arguments[0].endswith(".gz"):
        assert run("catalog", "capture", "--factory", "mine:own", "--trace", "-o", arguments[0]).code == 0
    if arguments[0].startswith("other"):
        (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE).replace("x.abs()", "x.neg()"))
    monkeypatch.setattr("ssinghal.plan.planner.Pool", lambda *arguments: pytest.fail("a device was opened"))
    done = run("plan", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (["yolo12x", "--input", "1,3,640,640", "--tiers", "--board", "n150,p150"], "ultralytics"),
        (["yolo12x", "--input", "1,3,640,640", "--max", "batch"], "ultralytics"),
        (["torchvision/resnet50", "--input", "1,3,224,224", "--max", "batch"], "torchvision"),
        (["torchvision/resnet50", "--max", "resolution"], "torchvision"),
        (
            [str(SHIPPED / "torchvision-swin_b-1280x800.trace.json.gz"), "--input", "2,3,1280,800", "--max", "batch"],
            "torchvision",
        ),
        (["torchvision/resnet50", "--max", "batch"], "ttnn"),
        (["torchvision/resnet50"], "ttnn"),
    ],
)
def test_a_missing_package_ends_a_search_before_it_starts(tmp_path, arguments, package):
    done = run_without((package,), tmp_path, "plan", *arguments)
    one_line(done, f"{package} is not installed")


@needs_torch
@pytest.mark.virtual_device
def test_policy_l1_has_an_edge_up_to_which_activations_stay_in_l1(edge_of):
    """relu holds its operand and its result: 2 x 256 x 1,024 x 2 B over 64 cores are 16,384 B of each core for each of a batch,
    and a core of an n150 has 1,393,312 - 32,768 (L1_SMALL) = 1,360,544 B, which are 83 times 16,384 and 672 B more."""
    code, edge = edge_of("tokens", "--policy", "l1", shape="82,256,1024", goal="batch")
    in_l1 = edge["in_l1"]
    assert (code, in_l1["fits"], in_l1["does_not"]) == (0, [83, 256, 1024], [84, 256, 1024])
    assert in_l1["confirmed"]
    assert edge["fits"][0] > 84, "DRAM takes more"
    moved = {tuple(run["input"]): run["activations_bytes"] for run in in_l1["runs"]}
    assert moved[83, 256, 1024] == 0
    tensor = 84 * 256 * 1024 * 2
    assert moved[84, 256, 1024] in (2 * tensor, 4 * tensor), "written to DRAM and read from it, once or for both tensors"


@needs_torch
@pytest.mark.virtual_device
def test_inputs_results_and_weights_are_no_activations_of_an_edge(edge_of):
    """One call reads the input and the weight from DRAM and writes the result there: nothing else is moved."""
    code, edge = edge_of("single", "--policy", "l1", shape="1,32,4096", goal="batch")
    assert (code, edge["in_l1"]["fits"]) == (0, edge["fits"])
    assert {run["activations_bytes"] for run in edge["in_l1"]["runs"]} == {0}
