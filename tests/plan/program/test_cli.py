"""``ssinghal plan --write``: the file, and one line for each model or request of which no program can be written."""

import ast
import json

import pytest

from ssinghal.capture.trace import read_trace, trace_text
from ssinghal.capture.trace_library import trace_files

pytestmark = pytest.mark.virtual_device


@pytest.fixture
def resnet():
    """Returns the trace of resnet50 as JSON, cut to its first four calls: conv, batch norm, relu, pool."""
    trace = read_trace(next(file for file in trace_files() if "resnet50" in file.name))
    data = json.loads(trace_text(trace))
    data["steps"] = data["steps"][:4]
    data["results"] = list(data["steps"][-1][3])
    data["values"] = data["values"][: data["results"][-1] + 1]
    return data


@pytest.fixture
def refused(run, tmp_path):
    """Returns the one line with which a plan of a trace refuses to write a program."""

    def refused(data, *options):
        (tmp_path / "model.trace.json").write_text(json.dumps(data))
        done = run("plan", "model.trace.json", *options, "--write", "program.py")
        assert (done.code, (tmp_path / "program.py").exists()) == (2, False)
        return done.err.strip().splitlines()[-1]

    return refused


def test_a_program_is_written_and_imports_nothing_of_this_package(run, resnet, tmp_path):
    (tmp_path / "model.trace.json").write_text(json.dumps(resnet))
    done = run("plan", "model.trace.json", "--write", "program.py")
    assert done.code == 0, done.err
    tree = ast.parse((tmp_path / "program.py").read_text())
    imported = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in ast.walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom))}  # fmt: skip
    assert {name.partition(".")[0] for name in imported} == {
        "argparse",
        "collections",
        "dataclasses",
        "torch",
        "torchvision",
        "ttnn",
    }
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"build_model", "prepare_weights", "forward", "main"} <= functions
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_model_that_nothing_builds_is_refused(refused, resnet):
    resnet["model"]["package"] = "mine==local"
    assert refused(resnet).endswith("since the trace names no package or factory to build it")


def test_a_part_of_a_model_is_refused(refused, resnet):
    resnet["capture"]["stopped"] = "in head: a value is unknown"
    reason = "no program can be written of a part of the model (in head: a value is unknown)"
    assert refused(resnet, "--partial").endswith(reason)


def test_a_plan_that_does_not_fit_is_refused(refused, resnet):
    """A map of 224x224 in 64 channels takes more L1_SMALL than 32 B for the indices of its pool."""
    assert "does not fit" in refused(resnet, "--l1-small", "32")


def test_a_call_that_ttnn_lacks_is_refused(refused, resnet):
    """as_strided has no operator, and so a stand-in."""
    pool = resnet["steps"][3]
    pool[0], pool[2] = "aten.as_strided.default", {"size": [1, 64, 56, 56], "stride": [1, 1, 1, 1]}
    assert "no operator makes step 2 aten.as_strided.default in maxpool" in refused(resnet, "--allow-stand-ins")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--board", "n150,p150"), "one board and one policy make one program"),
        (("--policy", "both"), "one board and one policy make one program"),
        (("--max", "batch"), "not with --max or --tiers"),
    ],
)
def test_several_plans_are_refused(refused, resnet, options, reason):
    assert refused(resnet, *options).endswith(reason)


def test_a_file_in_no_folder_is_refused_first(run, tmp_path):
    done = run("plan", "torchvision/resnet50", "--write", str(tmp_path / "none" / "program.py"))
    assert done.code == 2
    assert "there is no folder" in done.err
