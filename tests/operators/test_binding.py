"""A case bound to its operator: its specs, its errors, and how its call is made."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ssinghal.core.case import Placement
from ssinghal.core.tensors import DType
from ssinghal.errors import InvalidCase, RegistryError
from ssinghal.operators import find_operator, make_case
from ssinghal.operators.binding import BoundCall, bind


def test_attributes_and_specs():
    """topk of [4, 64] for 8: values in the case's dtype, indices in uint16."""
    call = bind(make_case("topk", ((4, 64),), {"k": 8}))
    assert call.attrs == {"k": 8, "dim": -1, "largest": True, "sorted": True}
    assert call.results == [(4, 8), (4, 8)]
    assert [(spec.shape, spec.dtype) for spec in call.outputs] == [((4, 8), DType.BFLOAT16), ((4, 8), DType.UINT16)]
    assert [spec.shape for spec in call.inputs] == [(4, 64)]


def test_maps_that_are_placed_channels_last():
    """NCHW [2, 3, 8, 6] goes to the device as [2, 8, 6, 3]; a pool of 2x2 returns 2*4*3 = 24 rows of 3 channels."""
    added = bind(make_case("relu", ((2, 3, 8, 6),), placement=Placement(channels_last=True)))
    assert (added.shapes, added.outputs[0].shape) == ([(2, 8, 6, 3)], (2, 8, 6, 3))
    pooled = bind(make_case("max_pool2d", ((2, 3, 8, 6),), {"kernel_size": [2, 2], "stride": [2, 2]}))
    assert (pooled.shapes, pooled.results, pooled.outputs[0].shape) == ([(2, 3, 8, 6)], [(2, 3, 4, 3)], (1, 1, 24, 3))


@pytest.mark.parametrize(
    ("channels_last", "dim", "result"),
    [(True, 3, (2, 8, 6, 1)), (True, -1, (2, 8, 6, 1)), (True, 1, (2, 1, 6, 3)), (False, -1, (2, 3, 8, 1))],
)
def test_a_dim_counts_those_of_the_tensor_as_placed(channels_last, dim, result):
    """NCHW [2, 3, 8, 6] is [2, 8, 6, 3] on the device, where the last dim is the channels."""
    placement = Placement(channels_last=channels_last)
    reduced = bind(make_case("mean", ((2, 3, 8, 6),), {"dim": [dim], "keepdim": True}, placement))
    assert reduced.results == [result]


def test_nothing_is_rejected_before_it_is_read():
    unknown_attribute = replace(make_case("relu", ((4, 64),)), attrs={"slope": 1})
    call = bind(unknown_attribute)
    assert call.shapes == [(4, 64)]
    with pytest.raises(InvalidCase, match="relu: unknown attribute 'slope'"):
        _ = call.attrs
    with pytest.raises(InvalidCase, match="relu: unknown attribute 'slope'"):
        call.check()
    apart = bind(make_case("add", ((4, 64), (4, 32))))
    assert len(apart.inputs) == 2
    with pytest.raises(InvalidCase, match="do not broadcast"):
        apart.specs()
    with pytest.raises(InvalidCase, match=r"softmax takes 1 tensor operand \(self\); got 2"):
        bind(make_case("softmax", ((4, 64), (4, 64)), {"dim": -1})).check()
    with pytest.raises(InvalidCase, match=r"cat takes at least 1 tensor operand \(.*\*\); got 0"):
        bind(make_case("cat", (), {"dim": 0})).check()
    with pytest.raises(InvalidCase, match="unknown operator"):
        bind(replace(unknown_attribute, operator="reluu"))


@pytest.mark.parametrize("returned", ["ab", ("a", "b"), ["a", "b"]], ids=["one", "tuple", "list"])
def test_a_call_lists_its_results(returned):
    """Completed attributes, the operands as a list, and ``out`` reach the operator's call."""
    seen = []
    info = replace(find_operator("softmax"), call=lambda call: seen.append(call) or returned)
    case = make_case("softmax", ((4, 64),), {"dim": -1})
    call = BoundCall(case, info)
    out = {"memory_config": "dram"}
    assert call.run("ttnn", "device", ("x",), out, values=True) == (["ab"] if returned == "ab" else ["a", "b"])
    (made,) = seen
    assert (made.ttnn, made.device, made.inputs, made.out, made.values) == ("ttnn", "device", ["x"], out, True)
    assert made.case is case
    assert made.attrs == find_operator("softmax").complete_attrs({"dim": -1})


def test_the_reference_lists_its_results():
    fake = SimpleNamespace(ops=SimpleNamespace(aten=SimpleNamespace(topk=lambda x, **attrs: (x, attrs["k"]))))
    info = replace(find_operator("topk"), torch=lambda torch, tensors, attrs: torch.ops.aten.topk(*tensors, **attrs))
    assert BoundCall(make_case("topk", ((4, 64),), {"k": 8}), info).reference(fake, ["x"]) == ["x", 8]


def test_an_operator_that_ttnn_does_not_have():
    """Its case has specs and a reason, but no call."""
    call = bind(make_case("as_strided", ((4, 64),), {"size": [4, 32], "stride": [64, 1]}))
    assert call.results == [(4, 32)]
    assert [x.reason for x in call.limitations(None)] == ["TTNN tensors have no strides: a strided view has no counterpart"]
    with pytest.raises(RegistryError, match="as_strided: no TTNN call"):
        call.run(None, None, (), {})


def test_tiles_that_ttnn_maps_on_the_host():
    """A reshape to 96 rows of 64 columns writes 3x2 tiles; a relu maps none."""
    assert bind(make_case("view", ((64, 96),), {"size": [96, 64]})).host_tiles == 6
    assert bind(make_case("relu", ((64, 96),))).host_tiles == 0
