"""The public interface: what it names, what it costs, what its documentation promises, and what its functions return."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ssinghal
from ssinghal import BufferType, DeviceUnavailable, HarnessError, InvalidCase, Placement, Prediction, Status, make_case
from ssinghal.capture.trace import read_trace
from ssinghal.capture.trace_library import trace_files
from tests.support.run_builder import a_record, write_run

PUBLIC = {name: getattr(ssinghal, name) for name in ssinghal.__all__}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
# Each map goes to an n150 as [1, 640, 400, 64]: 640 * 13 * 2 tiles of 2,048 B, 260 of them in each of 64 L1 banks. Three do not
# fit: two leave 1,393,312 - 2 * 532,480 = 328,352 B of a bank.
L1_NHWC = Placement(memory=BufferType.L1, channels_last=True)
LARGE = make_case("add", ((1, 64, 640, 400), (1, 64, 640, 400)), placement=L1_NHWC)
MESSAGE = (
    "Out of Memory: Not enough space to allocate 34078720 B L1 buffer across 64 banks, where each bank needs to store "
    "532480 B, but bank size is 1393312 B (allocated: 1064960 B, free: 328352 B, largest free block: 328352 B)"
)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, ssinghal; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {PATH!r}); {code}"], **TEXT)
    assert done.returncode == 0, done.stderr
    others = set(done.stdout.split()) - sys.stdlib_module_names - {"__main__"}
    assert others == {"ssinghal"}


PATH = str(Path(ssinghal.__file__).parents[1])
TEXT = {"capture_output": True, "text": True, "timeout": 60}


def test_type_checkers_and_python_see_the_same_names():
    block = next(node for node in ast.parse(Path(ssinghal.__file__).read_text()).body if isinstance(node, ast.If))
    imports = {(alias.name, node.module) for node in block.body for alias in node.names}
    assert sorted(name for name, _ in imports) == sorted(ssinghal.__all__)
    for name, module in imports:
        assert PUBLIC[name] is getattr(importlib.import_module(module), name)


def test_all_errors_are_public():
    errors = importlib.import_module("ssinghal.errors")
    raised = {n for n, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, HarnessError)}
    assert raised == {n for n, value in CLASSES.items() if issubclass(value, Exception)}


def test_an_unknown_name_is_an_attribute_error_with_the_nearest():
    with pytest.raises(AttributeError, match="unknown attribute of ssinghal 'find_remedy'; did you mean find_remedies"):
        ssinghal.find_remedy  # noqa: B018
    assert set(ssinghal.__all__) <= set(dir(ssinghal))
    assert not hasattr(ssinghal, "Case_")


def test_the_changelog_names_modules_that_exist():
    """Where programs find what moved."""
    rows = re.findall(r"^  \|.*\| (.*) \|$", (Path(PATH) / "CHANGELOG.md").read_text(), re.MULTILINE)
    modules = {name for row in rows for name in re.findall(r"`(ssinghal[\w.]*)`", row)}
    assert len(modules) > 15
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_document_arguments_results_and_errors(name):
    """A caller reads units there (elements, bytes, seconds), and what may be raised."""
    function = FUNCTIONS[name]
    text = inspect.getdoc(function)
    sections = re.split(r"\n\n(Args|Returns|Raises|Examples):\n", text)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    parameters = inspect.signature(function).parameters
    assert re.findall(r"^    (\w+): \S", found.get("Args", ""), re.MULTILINE) == list(parameters)
    assert "Examples" in found
    if name == "board_names":
        return
    assert "Returns" in found
    named = re.findall(r"^    (\w+): ", found["Raises"], re.MULTILINE)
    assert named
    assert {issubclass(CLASSES[error], HarnessError) for error in named} == {True}
    takes_shapes = {"case", "inputs", "input_shape"} & set(parameters)
    assert not takes_shapes or "in elements" in text
    for unit, parameter in (("Seconds", "timeout_s"), ("Bytes", "l1_small_bytes")):
        assert parameter not in parameters or f"{parameter}: {unit}" in text


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_classes_document_what_they_hold(name):
    value = CLASSES[name]
    text = value.__dict__.get("__doc__") or ""
    assert text.strip()
    assert not text.startswith(f"{name}("), "the text that dataclass writes"
    if dataclasses.is_dataclass(value):
        assert [field.name for field in dataclasses.fields(value) if not is_documented(field.name, value)] == []


def is_documented(field, kind):
    """In the text of a class, or in comments above a field or its group of fields."""
    for owner in kind.__mro__[:-1]:
        commented = re.search(rf"^    # .*\n(    \w+: .*\n)*?    {field}: ", inspect.getsource(owner), re.MULTILINE)
        if commented or re.search(rf"\b{field}\b", owner.__doc__ or ""):
            return True
    return False


@pytest.mark.parametrize("name", sorted([*FUNCTIONS, "TensorSpec"]))
def test_examples_in_the_documentation_run(name):
    """Those that need a device are compiled only."""
    examples = doctest.DocTestFinder(recurse=False).find(PUBLIC[name], name)
    assert [example for test in examples for example in test.examples] != []
    for test in examples:
        runner = doctest.DocTestRunner(verbose=False)
        assert runner.run(test).failed == 0
        for example in test.examples:
            compile(example.source, name, "single")


def test_runs_are_read_and_compared(tmp_path):
    before = write_run(tmp_path, [a_record("relu"), a_record("add")], run="1")
    after = write_run(tmp_path, [a_record("relu", status=Status.OOM), a_record("tanh")], run="2")
    changes = ssinghal.compare_runs(ssinghal.read_run(before), ssinghal.read_run("2", tmp_path))
    assert {kind: count for kind, count in changes.counts.items() if count} == {"new-oom": 1, "new-case": 1, "lost-fit": 1}
    assert [record.op for record in ssinghal.read_run(str(after)).records] == ["relu", "tanh"]
    with pytest.raises(HarnessError, match="no run '3'"):
        ssinghal.read_run("3", tmp_path)


def test_a_log_is_a_text_or_a_file(tmp_path):
    file = tmp_path / "failure.log"
    file.write_text(f"RuntimeError: {MESSAGE}\n")
    for log in (file, str(file), file.read_text()):
        (diagnosis,) = ssinghal.diagnose_log(log, call=LARGE, replay=False)
        assert diagnosis.failure.verdict.shortfall_bytes == 532_480 - 328_352
        assert (diagnosis.case.key, diagnosis.replays) == (LARGE.key, ())
    with pytest.raises(InvalidCase, match=r"nothing\.log: No such file"):
        ssinghal.diagnose_log(tmp_path / "nothing.log")


def test_bad_input_is_an_error_of_ours(tmp_path):
    with pytest.raises(InvalidCase, match="unknown board 'n15'"):
        ssinghal.open_pool("n15")
    with pytest.raises(DeviceUnavailable, match="unknown device mode"):
        ssinghal.find_remedies(LARGE, device="virtal")
    with pytest.raises(HarnessError, match=r"releases add 9\.9\.9"):
        ssinghal.open_pool(ttnn="9.9.9")
    with pytest.raises(InvalidCase, match="unknown policy"):
        ssinghal.plan_model("torchvision/resnet50", policy="porter")


@pytest.mark.virtual_device
def test_a_case_is_probed_and_remedied():
    with ssinghal.open_pool("n150", "virtual", workers=1) as pool:
        record = ssinghal.probe(LARGE, pool)
    verdict = record.verdict
    assert (record.status, verdict.bytes_per_bank, verdict.free_bytes) == (Status.OOM, 532_480, 328_352)
    assert record.estimate.verdict is Prediction.EXCEEDS
    report = ssinghal.find_remedies(LARGE, "n150", "virtual", compare_values=False, probes=3)
    assert report.remedies.found
    small = ssinghal.find_remedies(make_case("relu", ((1, 32, 64),)), device="virtual", compare_values=False)
    assert small.verdict.status is Status.FITS


@pytest.mark.virtual_device
def test_a_log_is_replayed():
    (diagnosis,) = ssinghal.diagnose_log(MESSAGE, call=LARGE, device="virtual", remedies=False)
    assert diagnosis.replays[0].result.verdict.bytes_per_bank == 532_480
    assert diagnosis.remedies is None


@pytest.mark.virtual_device
def test_a_model_is_planned(tmp_path):
    model = next(str(file) for file in trace_files() if "resnet50" in file.name)
    plan = ssinghal.plan_model(model, board="n150", search=False)
    assert plan.result.status is Status.FITS
    assert 0 < plan.result.peak_bytes < plan.result.dram_bank_bytes
    shape = read_trace(Path(model)).input_shapes[0]
    with pytest.raises(InvalidCase, match="a trace of input"):
        ssinghal.plan_model(model, (2, *shape[1:]))
