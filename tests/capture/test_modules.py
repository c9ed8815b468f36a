"""Which module makes a call how often: a catalog, its cases and the report's statistics against hooks of torch itself."""

from __future__ import annotations

import importlib.util
import textwrap
from collections import Counter

import pytest

from ssinghal.capture.client import write_capture
from ssinghal.capture.request import CaptureRequest
from ssinghal.catalog.expansion import expand
from ssinghal.core.case import ModuleCalls
from ssinghal.report.statistics import Facts
from ssinghal.runs.reader import read_run
from tests.support.packages import needs_torch
from tests.support.run_builder import a_record, write_run

# A block that is used twice, calls between children and at the top, one activation in two places, a module that runs twice.
REPEATS = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.norm = nn.GroupNorm(2, 8)
            self.conv = nn.Conv2d(8, 8, 3, padding=1)
            self.act = act
        def forward(self, x):
            return F.silu(x + self.act(self.conv(F.silu(self.norm(x)))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            act = nn.ReLU()
            self.stem = nn.Conv2d(3, 8, 3, padding=1)
            self.down = nn.ModuleList([Block(act), Block(act), Block(nn.GELU())])
            self.head = nn.Linear(8, 8)
        def forward(self, x):
            x = F.silu(self.stem(x))
            for block in self.down:
                x = block(x)
            x = self.down[1](x) + x
            return self.head(self.head(F.relu(x).mean((2, 3))))

    def net():
        return Net(), torch.empty(2, 3, 16, 16)
"""


def counted_by_torch(net, inputs):
    """Returns the number of calls by (overload, shapes, module), the innermost module that is running by its own hooks.

    The path of a module in two places is that below the module that runs it.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    calls, running = Counter(), ["(top)"]
    paths = {}
    for path, module in net.named_modules(remove_duplicate=False):
        paths.setdefault(module, []).append(path or "(top)")

    def enter(module, args):
        parent = running[-1]
        (path,) = {p for p in paths[module] if len(paths[module]) == 1 or p.rpartition(".")[0] == parent}
        running.append(path)

    for module in paths:
        module.register_forward_pre_hook(enter)
        module.register_forward_hook(lambda module, args, result: running.pop() and None)

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            shapes = tuple(tuple(t.shape) for t in args if isinstance(t, torch.Tensor))
            calls[f"aten.{func.__name__}", shapes, running[-1]] += 1
            return func(*args, **kwargs or {})

    with torch.no_grad(), Counting():
        net(*inputs)
    return calls


@pytest.fixture
def net_and_catalog(captures, tmp_path, monkeypatch):
    """The net in this process, and the catalog of its capture."""
    import torch

    monkeypatch.chdir(tmp_path)
    (tmp_path / "repeats.py").write_text(textwrap.dedent(REPEATS))
    catalog = write_capture(captures.capture(CaptureRequest(factory="repeats:net")), tmp_path)
    spec = importlib.util.spec_from_file_location("repeats", tmp_path / "repeats.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.Net().eval().to(torch.bfloat16)
    return net, catalog


@needs_torch
def test_every_module_makes_as_many_calls_as_hooks_count(net_and_catalog):
    import torch

    net, catalog = net_and_catalog
    counted = counted_by_torch(net, [torch.zeros(2, 3, 16, 16, dtype=torch.bfloat16)])
    listed = Counter()
    for overload, lines in catalog.sections.items():
        for line in lines:
            for made in line.modules:
                listed[overload, tuple(line.inputs.values()), made.path] += made.calls
    assert listed == Counter({call: n for call, n in counted.items() if call[0] in catalog.sections})
    assert {call[0] for call in counted} - set(catalog.sections) <= {"aten.t.default", "aten.detach.default"}
    assert listed.total() == catalog.head.counts.calls
    (silu,) = catalog.sections["aten.silu.default"]
    assert list(silu.at.items()) == [("(top)", 1), ("down.0", 2), ("down.1", 4), ("down.2", 2)]
    relu = {line.out: dict(line.at) for line in catalog.sections["aten.relu.default"]}
    assert relu == {((2, 8, 16, 16),): {"down.0.act": 1, "down.1.act": 2, "(top)": 1}}


@needs_torch
def test_failing_calls_by_module_are_those_that_hooks_count(net_and_catalog, tmp_path):
    """Every silu and addmm fails: the report's statistics have the hooks' counts, and they add up to the failing calls."""
    import torch

    net, catalog = net_and_catalog
    counted = counted_by_torch(net, [torch.zeros(2, 3, 16, 16, dtype=torch.bfloat16)])
    failing = {"silu": "aten.silu.default", "addmm": "aten.addmm.default"}
    records = [
        a_record(
            case.operator,
            inputs=case.inputs,
            attrs=dict(case.attrs),
            sources=case.sources,
            status="oom" if case.operator in failing else "fits",
        )
        for case in expand([catalog]).cases
    ]
    (model,) = Facts.of(read_run(write_run(tmp_path, records)).groups[0]).models
    expected = Counter()
    for (overload, _, path), n in counted.items():
        expected.update({(failing_op, path): n for failing_op, name in failing.items() if name == overload})
    assert Counter({(m.record.op, m.path): m.calls for m in model.modules}) == expected
    assert expected.total() == model.failing_calls == 1 + 2 * 4 + 2
    assert (ModuleCalls("head", 2),) in [source.modules for record in model.oom for source in record.sources]
