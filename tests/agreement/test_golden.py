"""Every torch reference against the golden function that TTNN registers for the same call, over the catalogs' attributes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the references are torch's")

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.case import Placement
from ssinghal.core.tensors import DType
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, make_case
from ssinghal.operators.binding import bind
from ssinghal.runner.golden_check import GoldenTable, GoldenTask, shrunk, variants
from ssinghal.runner.golden_exceptions import EXCEPTIONS
from ssinghal.runner.pool import Pool
from ssinghal.runner.tasks import PoolOptions
from tests.support.broken_reference import BrokenReference

pytestmark = pytest.mark.virtual_device

FLOAT32 = Placement(dtype=DType.FLOAT32)
MAP = (2, 3, 4, 5)

# operator, shapes, attributes; then what its reference is replaced with: another operator's, or other attributes
MUTATIONS: tuple[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any], str, dict[str, Any]], ...] = (
    *((name, (MAP, MAP), {}, other, {}) for name, other in (("eq", "ge"), ("gt", "ge"), ("lt", "le"), ("ne", "gt"))),
    *((name, (MAP, MAP), {}, other, {}) for name, other in (("logical_and", "logical_or"), ("logical_or", "logical_xor"))),
    *((name, (MAP, MAP), {}, other, {}) for name, other in (("maximum", "minimum"), ("sub", "add"), ("div", "mul"))),
    *((name, (MAP,), {}, other, {}) for name, other in (("relu6", "relu"), ("floor", "round"), ("silu", "gelu"))),
    *((name, (MAP,), {}, other, {}) for name, other in (("hardsigmoid", "sigmoid"), ("hardswish", "silu"), ("exp", "expm1"))),
    ("gelu", (MAP,), {"approximate": "tanh"}, "", {"approximate": "none"}),
    ("hardtanh", (MAP,), {"min_val": 0.0, "max_val": 6.0}, "", {"max_val": 100.0}),
    ("clamp", (MAP,), {"min": 0.0, "max": 6.0}, "", {"max": None}),
    ("clamp_max", (MAP,), {"max": 6.0}, "", {"max": 7.0}),
    ("leaky_relu", (MAP,), {"negative_slope": 0.1}, "", {"negative_slope": 0.01}),
    ("softplus", (MAP,), {}, "", {"beta": 2}),
    ("softmax", ((4, 4),), {"dim": 0}, "", {"dim": 1}),
    ("cumsum", ((4, 4),), {"dim": 0}, "", {"dim": 1}),
    ("mean", ((4, 4),), {"dim": [0]}, "", {"dim": [1]}),
    ("topk", ((4, 8),), {"k": 2}, "", {"largest": False}),
    ("roll", (MAP,), {"shifts": [1], "dims": [3]}, "", {"shifts": [2]}),
    ("cat", ((4, 4), (4, 4)), {"dim": 0}, "", {"dim": 1}),
    ("slice", ((8, 4),), {"dim": 0, "start": 0, "end": 4}, "", {"start": 4, "end": 8}),
    ("permute", ((4, 4),), {"dims": [1, 0]}, "", {"dims": [0, 1]}),
    ("masked_fill", (MAP, MAP), {"value": -1.0}, "", {"value": -2.0}),
    ("native_layer_norm", (MAP, (5,), (5,)), {"normalized_shape": [5], "eps": 0.1}, "", {"eps": 1e-5}),
    ("native_group_norm", ((1, 64, 4, 8), (64,), (64,)), {"group": 2}, "", {"group": 4}),
    ("convolution", ((1, 8, 6, 6), (8, 4, 3, 3)), {"padding": 1, "groups": 2}, "", {"padding": 2, "dilation": 2}),
    ("upsample_bilinear2d", ((1, 32, 4, 4),), {"output_size": [8, 8]}, "", {"align_corners": True}),
    ("scaled_dot_product_attention", ((1, 2, 32, 32),) * 3, {"is_causal": True}, "", {"is_causal": False}),
)  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    choice = choose_device("golden", golden=True)
    with Pool(choice, PoolOptions.of(choice)) as opened:
        yield opened


@pytest.fixture(scope="module")
def table(pool: Pool) -> GoldenTable:
    return GoldenTable.of(expand(load_catalogs()).cases, pool)


def test_every_reference_agrees_or_has_a_reason(table: GoldenTable) -> None:
    assert table.faults == []
    assert table.too_large == ()


def test_every_operator_that_can_be_called_is_compared_or_excepted(table: GoldenTable) -> None:
    """Every one that catalogs have: a shape sweep can have it, or it is ``place``."""
    infos = [info for members in families().values() for info in members if info.call is not None]
    called = {info.name for info in infos if info.sample is not None} | {"place"}
    assert {agreement.case.operator for agreement in table.agreements} == called
    compared = {agreement.case.operator for agreement in table.agreements if agreement.agrees}
    assert called - compared == {exception.operator for exception in EXCEPTIONS if exception.when is None}


def test_the_documented_figures_are_those_of_the_table(table: GoldenTable) -> None:
    agreeing = [agreement for agreement in table.agreements if agreement.agrees]
    operators = {agreement.case.operator for agreement in agreeing}
    declared = sum(len(members) for members in families().values())
    page = (Path(__file__).parents[2] / "docs" / "verification.md").read_text()
    figures = (
        f"{len(operators)} of {declared} operators compared, in {len(agreeing):,} ways to call them: {len(agreeing):,} agree"
    )
    assert figures in page


def test_every_exception_covers_a_call(table: GoldenTable) -> None:
    met = {agreement.exception for agreement in table.agreements}
    assert [exception for exception in EXCEPTIONS if exception not in met] == []


def test_an_exception_that_no_longer_holds_is_a_fault(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    outdated = EXCEPTIONS[-1].__class__("relu", "it was another function once")
    monkeypatch.setattr("ssinghal.runner.golden_exceptions.EXCEPTIONS", (outdated,))
    (fault,) = GoldenTable.of([make_case("relu", (MAP,))], pool).faults
    assert fault.startswith("relu ")
    assert fault.endswith("agrees, although declared: it was another function once")


@pytest.mark.parametrize(("name", "shapes", "attrs", "other", "wrong"), MUTATIONS, ids=str)
def test_a_wrong_reference_is_found(pool: Pool, name: str, shapes: Any, attrs: Any, other: str, wrong: Any) -> None:
    case = make_case(name, shapes, attrs, FLOAT32)
    assert pool.run(GoldenTask(case)).result().fault == ""
    assert pool.run(BrokenReference(case, other, wrong)).result().fault


def test_a_smaller_call_has_the_attributes_of_the_larger() -> None:
    """By hand: of a depthwise convolution no channel can go, of its map all that the dilated kernel does not need."""
    depthwise = make_case("convolution", ((1, 96, 56, 56), (96, 1, 3, 3)), {"dilation": [2, 2], "groups": 96}, FLOAT32)
    small = shrunk(depthwise)
    assert small.attrs == depthwise.attrs
    assert small.inputs == ((1, 96, 5, 5), (96, 1, 3, 3))


def test_a_smaller_view_splits_and_joins_the_same_dims() -> None:
    """By hand: 8160 = 68 x 120 is divided by 2 x 2 of 68 and 2 x 2 x 2 x 3 of 120, 12 x 32 = 384 by 2 x 2 and 2 x 2 x 2 x 2."""
    small = shrunk(make_case("view", ((1, 8160, 12, 32),), {"size": [1, 68, 120, 384]}, FLOAT32))
    assert small.inputs == ((1, 17 * 5, 3, 2),)
    assert small.attrs == {"size": [1, 17, 5, 3 * 2]}


def test_invalid_and_impossible_calls_are_no_variants() -> None:
    aligned = {"output_size": [8, 8], "align_corners": True}
    impossible = make_case("upsample_bilinear2d", ((1, 32, 4, 4),), aligned)
    invalid = make_case("softmax", (MAP,), {"dim": 7})
    with pytest.raises(InvalidCase):
        bind(invalid).check()
    assert list(variants([impossible, invalid])) == []
