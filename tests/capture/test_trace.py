"""Traces: which calls a forward makes in which order, on which tensors, and how long those live.

Every model here is read from top to bottom in Python's own rules: a tensor lives as long as a name, a list or a frame holds it.
"""

import gzip
import json
import textwrap
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from ssinghal.capture import client, trace_library
from ssinghal.capture.client import Captures
from ssinghal.capture.request import CaptureRequest, Level
from ssinghal.capture.trace import (
    SUFFIX,
    Step,
    Trace,
    Value,
    ValueKind,
    logical_bytes,
    packed,
    read_trace,
    resident_bytes,
    trace_of,
    trace_text,
)
from ssinghal.capture.trace_library import SHIPPED, file_name, find_trace, trace_files, trace_for, trace_request, write_trace
from ssinghal.catalog.loader import catalog_files
from ssinghal.errors import CaptureError, InvalidCase
from tests.support.packages import installed, needs_torch

HEAD = {
    "model": {"name": "tiny", "package": "mine==1", "config": "", "params": 0, "fused": False},
    "input": {"shapes": [[2, 4]], "dtype": "bfloat16"},
    "capture": {"torch": "2.7", "level": "torch", "device": "meta", "guessed": 0},
}


def tiny():
    """x -> linear -> relu."""
    values = (
        Value((2, 4), "bfloat16", ValueKind.INPUT, 0, "input 0"),
        Value((3, 4), "bfloat16", ValueKind.WEIGHT, 1, "fc.weight"),
        Value((2, 3), "bfloat16", ValueKind.ACTIVATION, 2, "fc"),
        Value((2, 3), "bfloat16", ValueKind.ACTIVATION, 3, "act"),
    )
    steps = (
        Step("aten.linear.default", {"input": 0, "weight": 1, "bias": None}, {}, (2,), "fc"),
        Step("aten.relu.default", {"self": 2}, {}, (3,), "act", (2,)),
    )
    return Trace(HEAD, values, steps, (3,))


LARGEST = "ultralytics-yolo12x-2176x3840"


# Recording ----------------------------------------------------------------------------------------------------------------

MODULE = """
    import dataclasses, torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4, bias=False)
            self.tied = nn.Linear(4, 4, bias=False)
            self.tied.weight = self.fc.weight
            self.drop = nn.Dropout(0.5)
            self.act = nn.ReLU()
            self.register_buffer("scale", torch.full((4,), 2.0))
            self.kept = []

        def forward(self, x):
    %s

    def net(): return Net(), torch.empty(2, 4)
"""


@pytest.fixture
def recorded(captures, tmp_path, monkeypatch):
    """The trace of a model with this forward, whose input ``x`` is [2, 4]."""

    def record(body, more="", factory="net"):
        text = textwrap.dedent(MODULE) % textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
        (tmp_path / "mine.py").write_text(text + textwrap.dedent(more))
        monkeypatch.chdir(tmp_path)
        request = CaptureRequest(factory=f"mine:{factory}", level=Level.TORCH, trace=True)
        return trace_of(captures.capture(request))

    return record


def step_lines(trace):
    """One line a step: ``name operands -> results``, ``† the values that died``, ``!`` where it writes through a view."""
    lines = []
    for step in trace.steps:
        name, dead = step.overload.split(".")[1], f" † {list(step.dead)}" if step.dead else ""
        lines.append(f"{name} {list(step.inputs)} -> {list(step.results)}{dead}{' !' if step.writes else ''}")
    return lines


@needs_torch
def test_calls_come_in_order_with_the_values_that_die_after_each(recorded):
    trace = recorded("""
        y = x.abs()
        z = y.neg()
        y = y.exp()
        del z
        return y + x
    """)
    # values: 0 x, 1 abs, 2 neg, 3 exp, 4 sum; y's first tensor dies when y is bound again, z's by del, both after exp
    assert step_lines(trace) == ["abs [0] -> [1]", "neg [1] -> [2]", "exp [1] -> [3] † [1, 2]", "add [3, 0] -> [4] † [3]"]
    assert (trace.results, trace.stopped, trace.guesses, trace.left_out) == ((4,), "", {}, {})
    assert dict(trace.last_use) == {0: 3, 1: 2, 2: 1, 3: 3, 4: 4}
    assert dict(trace.last_object) == {0: 4, 1: 2, 2: 2, 3: 3, 4: 4}


@needs_torch
def test_weights_constants_and_activations_are_distinguished(recorded):
    trace = recorded("""
        y = self.fc(x) * self.scale.reshape(1, 4)
        return self.tied(y) + torch.tensor([1.0, 2.0, 3.0, 4.0]) + 1
    """)
    kinds = [(value.kind.value, value.name, value.shape) for value in trace.values]
    assert kinds == [
        ("input", "input 0", (2, 4)),
        ("weight", "fc.weight", (4, 4)),
        ("activation", "fc", (2, 4)),
        ("weight", "scale", (1, 4)),  # a view of a buffer, created by a call on constants alone
        ("activation", "(top)", (2, 4)),
        ("activation", "tied", (2, 4)),  # its weight is fc's: one value
        ("constant", "(top)", (4,)),
        ("activation", "(top)", (2, 4)),
        ("activation", "(top)", (2, 4)),
    ]
    assert [step.inputs for step in trace.steps] == [(0, 1), (2, 3), (4, 1), (5, 6), (7,)]
    assert [dict(step.args) for step in trace.steps] == [{}, {}, {}, {}, {"other": 1}]
    assert resident_bytes(trace, ValueKind.WEIGHT) == 16 * 2 + 4 * 2
    assert resident_bytes(trace, ValueKind.CONSTANT) == 4 * 4  # a literal is float32 in torch


@needs_torch
def test_a_view_is_a_value_of_its_own_on_its_base_s_storage(recorded):
    trace = recorded("""
        y = x.abs().view(4, 2)
        z = y.t()
        del y
        return z.neg()
    """)
    assert step_lines(trace) == ["abs [0] -> [1]", "view [1] -> [2] † [1]", "t [2] -> [3] † [2]", "neg [3] -> [4] † [3]"]
    assert [value.storage for value in trace.values] == [0, 1, 1, 1, 2]


@needs_torch
def test_a_view_that_is_taken_twice_is_one_value_while_it_lives_and_a_new_one_afterwards(recorded):
    trace = recorded("""
        y = x.abs()
        a = y[0]
        b = y[0]
        a = a.neg()
        b = b.exp()
        c = y[0].sin()
        return a + b + c
    """)
    # a and b are two objects of value 2, which dies with b; c looks at the same place again
    assert step_lines(trace)[:5] == [
        "abs [0] -> [1]",
        "select [1] -> [2]",
        "neg [2] -> [3]",
        "exp [2] -> [4] † [2]",
        "select [1] -> [5]",
    ]
    assert step_lines(trace)[5] == "sin [5] -> [6] † [5]"
    assert trace.left_out == {"same_tensor": 1}


@needs_torch
def test_what_is_written_in_place_is_a_new_value_for_all_objects_of_its_view(recorded):
    trace = recorded("""
        y = x.abs()
        other = y.detach()
        y.relu_()
        del y
        z = other.neg()
        del other
        return z.exp()
    """)
    assert step_lines(trace) == [
        "abs [0] -> [1]",
        "relu_ [1] -> [2] † [1]",
        "neg [2] -> [3] † [2]",
        "exp [3] -> [4] † [3]",
    ]
    assert trace.values[1].storage == trace.values[2].storage
    assert trace.left_out == {"bookkeeping": 1}


@needs_torch
def test_a_write_through_a_view_says_so_where_other_views_of_the_storage_live(recorded):
    trace = recorded("""
        y = x.abs()
        y[:, :2].neg_()
        z = y.exp()
        a, b = (z + 1).chunk(2, 1)
        a.neg_()
        return a, b, z
    """)
    assert step_lines(trace) == [
        "abs [0] -> [1]",
        "slice [1] -> [2]",
        "neg_ [2] -> [3] † [2, 3] !",  # y sees it too
        "exp [1] -> [4]",
        "add [4] -> [5]",
        "chunk [5] -> [6, 7] † [5]",
        "neg_ [6] -> [8] † [6, 1] !",  # its storage is b's too, though b sees nothing of it; y dies with the frame
    ]
    assert trace.results == (8, 7, 4)


@needs_torch
def test_a_write_into_room_made_by_calls_on_constants_says_so_too(recorded):
    trace = recorded("""
        room = x.new_zeros(2, 8)
        room[:, :4] = x
        return room.abs()
    """)
    # the slice is a constant, as nothing was computed from x in it; then the room is read, of which no call is a step
    assert step_lines(trace) == ["copy_ [1, 0] -> [2] † [2] !", "abs [3] -> [4]"]
    assert [(v.kind.value, v.shape, v.storage) for v in trace.values[1:4]] == [
        ("constant", (2, 4), 1),
        ("activation", (2, 4), 1),
        ("constant", (2, 8), 1),
    ]


@needs_torch
def test_a_real_tensor_that_is_written_is_followed_under_its_own_name(recorded):
    """A literal has values, and so is no meta tensor; torch's call runs on a stand-in of it."""
    trace = recorded("""
        given = torch.tensor([1.0, 2.0, 3.0, 4.0])
        given.add_(x.sum(0))
        y = given.neg()
        del given
        return y
    """)
    assert step_lines(trace) == ["sum [0] -> [1]", "add_ [2, 1] -> [3] † [1]", "neg [3] -> [4] † [3]"]
    assert trace.values[2].kind is ValueKind.CONSTANT


@needs_torch
def test_what_a_call_without_a_result_writes_is_its_result(recorded):
    trace = recorded("""
        y = x.abs()
        torch._foreach_add_([y], [x])
        return y.neg()
    """)
    assert step_lines(trace) == ["abs [0] -> [1]", "_foreach_add_ [1, 0] -> [2] † [1]", "neg [2] -> [3] † [2]"]
    assert dict(trace.steps[1].operands) == {"self": (1,), "other": (0,)}


@needs_torch
def test_a_call_that_returns_what_it_was_given_is_no_step(recorded):
    trace = recorded("""
        y = self.drop(x.abs())
        y = y.contiguous()
        y = y.to(y.dtype)
        return y.neg()
    """)
    assert step_lines(trace) == ["abs [0] -> [1]", "neg [1] -> [2] † [1]"]
    assert trace.left_out == {"same_tensor": 2}  # torch itself makes no call of the last one


@needs_torch
def test_one_tensor_returned_several_times_by_a_call_or_by_forward_is_one_value(recorded):
    trace = recorded("""
        a, b, c = x.abs().expand(3, 2, 4).unbind(0)
        del a
        y = b.neg()
        return y, [y, {"again": y}, c]
    """)
    assert step_lines(trace) == ["abs [0] -> [1]", "expand [1] -> [2] † [1]", "unbind [2] -> [3, 3, 3] † [2]", "neg [3] -> [4]"]
    assert trace.results == (4, 3)


@needs_torch
def test_results_in_a_dataclass_are_results(recorded):
    more = "@dataclasses.dataclass\nclass Out:\n    first: torch.Tensor\n    second: object = None\n"
    assert recorded("return Out(x.abs(), [x.neg()])", more).results == (1, 2)


@needs_torch
def test_what_the_model_keeps_lives_to_the_end(recorded):
    trace = recorded("""
        y = self.act(x)
        self.kept.append(y)
        y = y.neg()
        y = y.exp()
        return y.sum(0)
    """)
    assert step_lines(trace) == ["relu [0] -> [1]", "neg [1] -> [2]", "exp [2] -> [3] † [2]", "sum [3] -> [4] † [3]"]
    assert (trace.last_object[1], trace.last_use[1]) == (4, 1)
    assert trace.results == (4,)


@needs_torch
def test_what_a_frame_holds_dies_when_it_returns(recorded):
    more = """
    class Block(nn.Module):
        def forward(self, x):
            y = x.abs()
            return y.neg()
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
        def forward(self, x): return self.block(x).exp()
    def two(): return Two(), torch.empty(2, 4)
    """
    trace = recorded("pass", more, "two")
    assert step_lines(trace) == ["abs [0] -> [1]", "neg [1] -> [2] † [1]", "exp [2] -> [3] † [2]"]
    assert [step.at for step in trace.steps] == ["block", "block", "(top)"]


@needs_torch
def test_a_call_that_takes_only_the_form_of_an_operand_does_not_read_it(recorded):
    trace = recorded("""
        anchors = torch.arange(4.0).type_as(x)
        y = x.to(torch.float32).type_as(self.scale)
        z = y.sum(0).view_as(x[0])
        return z + anchors
    """)
    calls = {step.overload.split(".")[1]: dict(step.operands) for step in trace.steps}
    assert calls["type_as"] == {"self": 1}
    assert "view_as" not in calls  # of the shape that it has already
    assert [value.name for value in trace.values if value.is_resident] == ["(top)"]  # the anchors; the buffer is not read
    assert trace.left_out["constants"] == 2


@needs_torch
def test_one_module_in_two_places_has_the_path_of_the_place_that_runs(recorded):
    more = """
    class Part(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.act = act
        def forward(self, x): return self.act(x)
    class Shares(nn.Module):
        def __init__(self):
            super().__init__()
            act = nn.SiLU()
            self.parts = nn.ModuleList([Part(act), Part(act)])
        def forward(self, x): return self.parts[1](self.parts[0](x))
    def shares(): return Shares(), torch.empty(2, 4)
    """
    assert [step.at for step in recorded("pass", more, "shares").steps] == ["parts.0.act", "parts.1.act"]


@needs_torch
def test_a_forward_that_cannot_be_followed_is_recorded_up_to_there(recorded):
    trace = recorded("""
        y = x.abs()
        if y.sum() > 0: y = y.neg()
        return y[y > 0].exp()
    """)
    assert [step.overload for step in trace.steps] == [
        "aten.abs.default", "aten.sum.default", "aten.gt.Scalar", "aten.neg.default", "aten.gt.Scalar",
    ]  # fmt: skip
    assert trace.guesses == {"(top)": 1}
    assert "aten.index.Tensor cannot be told from shapes alone" in trace.stopped
    assert trace.results == ()


@needs_torch
def test_the_same_recording_gives_the_same_bytes(recorded):
    body = "return self.tied(self.fc(x).relu_()).chunk(2, 1)"
    assert packed(recorded(body)) == packed(recorded(body))


@needs_torch
def test_a_trace_at_another_level_and_a_model_without_a_call_are_rejected(recorded):
    with pytest.raises(CaptureError, match="a trace is recorded at level torch; leave --level aten out"):
        CaptureRequest(factory="mine:net", trace=True)
    with pytest.raises(CaptureError, match="makes no call on its inputs"):
        recorded("return x")


# Files --------------------------------------------------------------------------------------------------------------------


def test_a_trace_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "tiny.trace.json.gz"
    file.write_bytes(packed(tiny()))
    read = read_trace(file)
    assert (read, read.path) == (tiny(), file)
    assert (read.model, read.input_shapes, read.dtype) == ("mine/tiny", ((2, 4),), "bfloat16")
    assert [logical_bytes(value) for value in read.values] == [16, 24, 12, 12]
    plain = tmp_path / "tiny.json"
    plain.write_text(trace_text(tiny()))
    assert read_trace(plain) == read
    assert packed(read) == file.read_bytes()


def changed(**fields):
    return {**json.loads(trace_text(tiny())), **fields}


def step(number, **fields):
    steps = [list(row) for row in json.loads(trace_text(tiny()))["steps"]]
    names = ("overload", "operands", "args", "results", "at", "dead", "writes")
    for name, value in fields.items():
        steps[number][names.index(name)] = value
    return changed(steps=steps)


def value(number, place, given):
    values = json.loads(trace_text(tiny()))["values"]
    values[number][place] = given
    return changed(values=values)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], "a damaged trace"),
        ({"kind": "captured"}, "no trace of a model (written by: ssinghal catalog capture MODEL --input SHAPE --trace)"),
        (changed(schema=2), "a trace of schema 2; this program reads schema 1"),
        (changed(steps=[]), "no step"),
        (changed(values=[*changed()["values"], [[1], "bool", "activation", 4, ""]]), "value 4 is never created"),
        (changed(results=[9]), "value 9 is never created, or freed before it is returned"),
        (changed(results=[2]), "value 2 is never created, or freed before it is returned"),
        (changed(input={"shapes": [[1, 4]], "dtype": "bfloat16"}), "its inputs are not those of mine/tiny"),
        (changed(model={}), "KeyError: 'package'"),
        (step(0, operands={"input": 3}), "step 0 reads a value that does not exist: 3"),
        (step(1, operands={"self": "2"}), "a damaged trace"),
        (step(1, results=[0]), "step 1 creates a value that exists already, or is unknown: 0"),
        (step(1, results=[4]), "step 1 creates a value that exists already, or is unknown: 4"),
        (step(0, overload="aten.batch_norm.default", operands={}), "step 0, aten.batch_norm.default, lacks its operand input"),
        (step(1, operands={}), "lacks its operand self"),
        (step(1, overload="aten.conv2d.default", operands={"input": 2}), "aten.conv2d.default, lacks its operand weight"),
        (step(0, dead=[3]), "step 0 frees a value that does not exist: 3"),
        (step(0, dead=[2]), "step 1 reads a value that does not exist: 2"),
        (value(0, 1, "bfloat17"), "no tensor"),
        (value(0, 0, [2, -4]), "no tensor"),
        (value(0, 0, [2, 4.0]), "no tensor"),
        (value(0, 2, "output"), "ValueError"),
        (value(2, 3, "0"), "no tensor"),
    ],
)
def test_a_damaged_trace_is_one_line_that_names_it(tmp_path, data, message):
    file = tmp_path / "bad.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps(data).encode()))
    with pytest.raises(InvalidCase) as error:
        read_trace(file)
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "data", [b"", b"\x1f\x8b", packed(tiny())[:-20], packed(tiny())[:10] + b"\x00" * 40, b"\xff\xfe{}", b"{", b"[" * 100_000]
)
def test_bytes_that_are_no_trace_are_one_line(tmp_path, data):
    file = tmp_path / "bad.trace.json.gz"
    file.write_bytes(data)
    with pytest.raises(InvalidCase, match=r"bad\.trace\.json\.gz") as error:
        read_trace(file)
    assert len(str(error.value).splitlines()) == 1
    with pytest.raises(InvalidCase, match="Is a directory"):
        read_trace(tmp_path)


def test_a_trace_is_written_completely_or_not_at_all(tmp_path):
    text = trace_text(tiny())
    written = write_trace(text, tmp_path)
    assert written.path == tmp_path / "mine-tiny-2x4.trace.json.gz"
    assert write_trace(text, tmp_path) == written  # the same again
    other = trace_text(replace(tiny(), results=(0, 3)))
    with pytest.raises(InvalidCase, match="is there already and differs: name the file with -o"):
        write_trace(other, tmp_path)
    assert read_trace(written.path) == tiny()
    assert read_trace(write_trace(other, written.path).path).results == (0, 3)
    with pytest.raises(InvalidCase, match="damaged"):
        write_trace(text.replace("input 0", "in").replace('"results"', '"result"'), written.path)
    with pytest.raises(InvalidCase, match="there is no folder"):
        write_trace(text, tmp_path / "no" / "such.json")
    assert write_trace(text, tmp_path / "plain.json").path.read_text() == text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine-tiny-2x4.trace.json.gz", "plain.json"]


# Finding ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", trace_files(), ids=lambda file: file.name.partition(".")[0])
def test_built_in_traces_are_complete_and_found_by_their_model_and_input(file):
    trace = read_trace(file)
    assert file.name == file_name(trace.model, trace.input_shapes)
    assert find_trace(trace.model, trace.input_shapes).path == file
    assert find_trace(trace.model.partition("/")[2], trace.input_shapes).path == file
    assert (trace.stopped, trace.guesses) == ("", {})
    assert trace.results
    # what is computed lives no longer than torch holds it, and is read while it is held
    assert all(trace.last_use[n] <= trace.last_object[n] for n in trace.last_object if n in trace.last_use)
    assert file.stat().st_size < 40_000
    assert trace_of(trace_text(trace)) == trace


def test_the_promised_traces_are_built_in():
    expected = {
        "torchvision-resnet50-224x224", "torchvision-swin_b-1280x800", "transformers-segformer-b0-1280x800",
        "ultralytics-yolo12x-640x640", "ultralytics-yolo12x-1280x1280", LARGEST,
        "diffusers-mochi-decoder-4x60x106",
    }  # fmt: skip
    assert {file.name.partition(".")[0] for file in trace_files()} == expected
    assert not any("trace" in name for name in catalog_files())  # they are no catalogs


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (
            "yolo12x",
            None,
            "ultralytics/yolo12x: give its input; traces are there of [1,3,640,640], [1,3,1280,1280], ",
        ),
        (
            "yolo12x",
            [(8, 3, 640, 640)],
            "ssinghal catalog capture ultralytics/yolo12x --input 8,3,640,640 --trace (needs",
        ),
        ("yolo12x", [(8, 3, 640, 640)], "'ssinghal[ultralytics]'"),
        ("resnet5", None, "did you mean"),
        ("timm/vit", [(1, 3, 8, 8)], "any other: record it: ssinghal catalog capture timm/vit --input 1,3,8,8 --trace"),
        ("no/such.trace.json.gz", None, "no/such.trace.json.gz: cannot be read as a trace: No such file"),
        (str(trace_files()[0]), [(1, 3, 8, 8)], "a trace of input [1,12,4,60,106], not [1,3,8,8]"),
    ],
)
def test_a_trace_that_is_not_there_is_one_line_with_what_can_be_done(model, inputs, message):
    with pytest.raises(InvalidCase) as error:
        find_trace(model, inputs)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


class NoCaptures(Captures):
    def capture(self, request):
        raise AssertionError("nothing is to be captured")


class OneCapture(Captures):
    """Answers with the tiny trace, once."""

    def __init__(self):
        super().__init__()
        self.requests = []

    def capture(self, request):
        self.requests.append(request)
        return trace_text(tiny())


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ssinghal" / "traces"


def test_a_trace_is_captured_once_and_kept(kept, monkeypatch):
    once = OneCapture()
    first = trace_for("torchvision/resnet18", [(1, 3, 64, 64)], once)
    assert once.requests == [CaptureRequest("torchvision/resnet18", inputs=((1, 3, 64, 64),), level=Level.TORCH, trace=True)]
    assert (first, first.path.parent) == (tiny(), kept)
    assert trace_for("torchvision/resnet18", [(1, 3, 64, 64)], NoCaptures()).path == first.path
    trace_for("torchvision/resnet18", [(2, 3, 64, 64)], once)  # another input is another trace
    assert len(once.requests) == 2
    first.path.write_bytes(b"broken")
    assert trace_for("torchvision/resnet18", [(1, 3, 64, 64)], once) == tiny()
    monkeypatch.setattr(trace_library, "version", lambda package: "99")
    trace_for("torchvision/resnet18", [(1, 3, 64, 64)], once)  # and so is one of other packages
    assert len(once.requests) == 4
    assert len(list(kept.iterdir())) == 3


def test_a_built_in_trace_or_one_in_a_file_is_not_captured(kept):
    assert trace_for("resnet50", None, NoCaptures()).model == "torchvision/resnet50"
    assert trace_for("yolo12x", [(1, 3, 640, 640)], NoCaptures()).model == "ultralytics/yolo12x"
    assert trace_for(str(trace_files()[0]), None, NoCaptures()).path == trace_files()[0]
    assert not kept.exists()


def test_a_short_name_of_a_model_that_has_no_trace_is_rejected_before_anything_starts():
    with pytest.raises(InvalidCase, match="any other is named package/name"):
        trace_for("resnet18", [(1, 3, 64, 64)], NoCaptures())
    with pytest.raises(CaptureError, match="--input is missing"):
        trace_for("torchvision/resnet18", None, NoCaptures())


@needs_torch
def test_a_factory_is_recorded_each_time(recorded, captures, kept):
    recorded("return x.abs()")
    assert step_lines(trace_for("mine:net", None, captures)) == ["abs [0] -> [1]"]
    assert trace_request(trace_for("mine:net", None, captures)) == CaptureRequest(
        factory="mine:net", inputs=((2, 4),), level=Level.TORCH, trace=True
    )
    recorded("return x.neg()")
    assert step_lines(trace_for("mine:net", None, captures)) == ["neg [0] -> [1]"]
    assert not kept.exists()


@pytest.mark.parametrize("name", ["torchvision-resnet50-224x224", "transformers-segformer-b0-1280x800", LARGEST])
def test_built_in_traces_are_recorded_again_byte_for_byte(captures, name):
    """All of them: ``ssinghal catalog recapture --check``."""
    trace = read_trace(SHIPPED / f"{name}{SUFFIX}")
    head = trace.head
    pins = dict(pin.split("==") for pin in (head["model"]["package"], f"torch=={head['capture']['torch']}"))
    pins |= dict(pin.split("==") for pin in head["capture"].get("packages", ()))
    if installed(*pins) != pins:
        pytest.skip(f"needs {', '.join(f'{name}=={pin}' for name, pin in pins.items())}")
    assert captures.capture(trace_request(trace)) == trace_text(trace)


# The command --------------------------------------------------------------------------------------------------------------


@needs_torch
def test_the_command_writes_a_trace_and_prints_what_it_holds(run, recorded, captures, tmp_path, monkeypatch):
    """Here with the process that all these tests capture in."""
    monkeypatch.setattr(client, "Captures", lambda timeout: nullcontext(captures))
    recorded("return self.fc(x.abs()) + torch.tensor([1.0, 2.0, 3.0, 4.0])")
    done = run("catalog", "capture", "--factory", "mine:net", "--trace")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "mine-net-2x4.trace.json.gz: 3 calls on 6 tensors"
    assert lines[1].startswith("mine:net (mine==local, torch ")
    assert lines[2] == "weights: 32 B; constants: 16 B; both as torch stores them"
    trace = read_trace(tmp_path / "mine-net-2x4.trace.json.gz")
    assert len(trace.steps) == 3
    assert run("catalog", "capture", "--factory", "mine:net", "--trace", "-o", "-").out == trace_text(trace)
    assert run("catalog", "recapture", "--check", "mine-net-2x4.trace.json.gz").code == 0
    recorded("return x.neg()")
    done = run("catalog", "recapture", "--check", "mine-net-2x4.trace.json.gz")
    assert (done.code, done.out.splitlines()[0]) == (1, "mine-net-2x4.trace.json.gz: would change")
    assert read_trace(Path("mine-net-2x4.trace.json.gz")) == trace
    assert run("catalog", "recapture", "mine-net-2x4.trace.json.gz").code == 0
    assert step_lines(read_trace(Path("mine-net-2x4.trace.json.gz"))) == ["neg [0] -> [1]"]


def test_a_trace_at_aten_s_level_is_rejected_in_one_line(run, tmp_path):
    done = run("catalog", "capture", "torchvision/resnet18", "--input", "1,3,64,64", "--trace", "--level", "aten")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "a trace is recorded at level torch; leave --level aten out" in done.err
    assert not list(tmp_path.iterdir())
