"""Operator names in tables: one that is mistyped fails when the table's module is imported, not when a case needs it."""

import importlib
from pathlib import Path

import pytest

from ssinghal.catalog import aten_calls
from ssinghal.errors import InvalidCase
from ssinghal.operators import named, operators
from ssinghal.operators.unsupported import UNMAPPED
from ssinghal.plan import aliasing

TABLES = {
    "plan.rules.dispatch": "leaky_relu",
    "plan.rules.along_dims": "unbind",
    "plan.rules.views": "permute",
    "plan.weights": "masked_fill",
    "plan.convolutions": "conv_transpose2d",
    "diagnose.mlir_to_case": "hardsigmoid",
    "catalog.aten_calls": "embedding",
    "capacity.parameters": "embedding",
    "remedy.rewrites": "softmax",
    "remedy.replicate_padding": "replication_pad3d",
    "remedy.strategies.form": "tilize",
    "remedy.strategies.placement": "softmax",
    "remedy.strategies.sliding_window": "avg_pool2d",
    "remedy.strategies.wide_rows": "constant_pad_nd",
}


def test_names_are_resolved_to_canonical_ones():
    assert named("ReLU concat unsafe_view") == ("relu", "cat", "view")
    with pytest.raises(InvalidCase, match=r"sofmax.*softmax"):
        named("relu sofmax")


@pytest.mark.parametrize(("module", "name"), TABLES.items())
def test_a_mistyped_operator_in_a_table_fails_at_import(module, name):
    path = Path(importlib.import_module(f"ssinghal.{module}").__file__)
    source = path.read_text(encoding="utf-8")
    mistyped = name[:3] + name[2:]  # one letter twice
    assert name in source
    code = compile(source.replace(name, mistyped), str(path), "exec")
    with pytest.raises(InvalidCase, match=rf"unknown operator '{mistyped}'.*\b{name}\b"):
        exec(code, {"__name__": f"ssinghal.{module}"})


# Kernels of torchvision, for which torch alone has no names.
TORCHVISION = {"nms", "roi_align", "deform_conv2d"}


def test_the_names_of_atens_functions_in_tables_are_names_of_torch():
    """These are no operators here, so torch must know them: views that cost nothing, overloads that run as another, …"""
    aten = pytest.importorskip("torch").ops.aten
    groups = {name for group in vars(aliasing).values() if isinstance(group, frozenset | set) for name in group}
    overloads = {*aten_calls._REWRITTEN, *(overload for info in operators().values() for overload in info.aten)}
    names = {*groups, *UNMAPPED, *(overload.removeprefix("aten.") for overload in overloads)} - TORCHVISION
    assert len(names) > 200
    assert [name for name in sorted(names) if not hasattr(aten, name.partition(".")[0])] == []
