"""Levers on the settings, shards, weights and form of a call: what each proposes runs again as a script."""

import pytest

from ssinghal.core.tensors import DType, TensorSpec
from ssinghal.operators.case_json import case_from_json
from ssinghal.remedy.config_changes import smaller_programs, with_fields, without_blocks, without_program
from ssinghal.remedy.placements import narrowed
from ssinghal.remedy.strategies.linear import Product, product_of
from ssinghal.remedy.trial import Impact
from tests.remedy.test_shards import by_impact, check_scripts, pools, solved

__all__ = ["pools"]
virtual = pytest.mark.virtual_device
GRID = {"compute_with_storage_grid_size": [8, 8]}
MULTICAST = {
    "type": "MatmulMultiCoreReuseMultiCastProgramConfig",
    **GRID, "in0_block_w": 64, "out_subblock_h": 1, "out_subblock_w": 4, "per_core_M": 8, "per_core_N": 32,
    "transpose_mcast": False, "fuse_batch": True,
}  # fmt: skip
GELU = {"fused_activation": {"type": "UnaryWithParam", "op_type": "GELU"}}


def matmul(**attrs):
    return {"op": "matmul", "inputs": [[1, 1, 2048, 2048], [2048, 8192]], "attrs": attrs}


# Program configs -------------------------------------------------------------------------------------------------------


def test_blocks_get_smaller_by_parts_of_complete_subblocks():
    result = TensorSpec((1, 1, 2048, 8192))
    changes = list(smaller_programs(MULTICAST, result, (8, 8)))
    assert changes[:6] == [{"in0_block_w": part} for part in (32, 16, 8, 4, 2, 1)]
    assert [change for change in changes if set(change) == {"out_block_w"}] == [{"out_block_w": part} for part in (16, 8, 4)]
    assert {"in0_block_w": 1, "out_block_h": 1} in changes
    assert not any("per_core_M" in change for change in changes)  # 64 x 256 tiles: 8 x 32 on each of 8 x 8 cores already


def test_more_cores_have_fewer_tiles_each():
    half = {**MULTICAST, "compute_with_storage_grid_size": [8, 4], "per_core_M": 16, "out_subblock_w": 8, "out_block_h": 16}
    more = [change for change in smaller_programs(half, TensorSpec((2048, 8192)), (8, 8)) if "per_core_M" in change]
    assert [(c["compute_with_storage_grid_size"], c["per_core_M"], c["per_core_N"]) for c in more] == [([8, 8], 8, 32)] * 2
    assert "out_block_h" not in with_fields(half, more[0])
    along = {**MULTICAST, "type": "MatmulMultiCoreReuseMultiCast1DProgramConfig", "mcast_in0": True, "per_core_N": 32}
    wide = [c for c in smaller_programs(along, TensorSpec((32, 8192)), (8, 8)) if "per_core_N" in c]
    assert (wide[0]["per_core_M"], wide[0]["per_core_N"], wide[0]["out_subblock_w"]) == (8, 4, 4)


def test_chunks_of_attention_are_halved_as_long_as_tiles_are_complete():
    config = {"type": "SDPAProgramConfig", **GRID, "q_chunk_size": 128, "k_chunk_size": 64}
    changes = list(smaller_programs(config, TensorSpec((1, 8, 128, 64)), (8, 8)))
    assert changes[:3] == [{"q_chunk_size": 64}, {"q_chunk_size": 32}, {"k_chunk_size": 32}]
    assert changes[3:] == [{"q_chunk_size": 64, "k_chunk_size": 32}]


def test_an_activation_that_a_program_config_fuses_is_kept():
    plain = case_from_json(matmul(program_config=MULTICAST))
    assert without_program(plain).attrs == {}
    fused = case_from_json(matmul(program_config={**MULTICAST, **GELU}))
    assert without_program(fused).attrs == {"activation": "gelu"}
    scaled = {"fused_activation": {"type": "UnaryWithParam", "op_type": "LEAKY_RELU", "params": [0.1]}}
    assert without_program(case_from_json(matmul(program_config={**MULTICAST, **scaled}))) is None


@virtual
def test_smaller_blocks_of_a_program_that_exceeds_l1(pools, tmp_path):
    """Two buffers each of 8 x 64 and 64 x 32 tiles, and the result's 8 x 32, are 5,632 tiles of 2 KiB."""
    report = solved(pools, **matmul(program_config={**MULTICAST, **GELU}), only=[Impact.SAME])
    same = by_impact(report)[Impact.SAME]
    assert same.strategy == "smaller blocks"
    assert "UnaryOpType.GELU" in same.result.code[-1]
    check_scripts(report, tmp_path)


@virtual
def test_a_program_config_that_does_not_go_with_the_remedy_is_left_out(pools, tmp_path):
    """Shards of 32 x 32 tiles of the result exceed L1, and so does the program with them as blocks; TTNN chooses smaller."""
    operands = [{"memory": "l1:block@8x8"}, None]
    config = {**MULTICAST, **GELU, "in0_block_w": 8, "per_core_M": 32}
    fields = {**matmul(program_config=config), "inputs": [[1, 1, 8192, 2048], [2048, 8192]]}
    report = solved(pools, **fields, operands=operands, output_memory="l1:block@8x8", only=[Impact.MEMORY])
    found = by_impact(report)[Impact.MEMORY]
    assert found.note.endswith("without the program config")
    assert "activation='gelu'" in found.result.code[-1]
    check_scripts(report, tmp_path)


@virtual
def test_cores_that_the_call_states_are_left_out(pools, tmp_path):
    """A map of 50 MiB at once; from DRAM, TTNN slices it. The matmul of tt-metal#36426 has a core grid in place of slices."""
    attrs = {"padding": 1, "slice_config": {"type": "Conv2dSliceConfig", "slice_type": "L1Full"}}
    report = solved(pools, op="convolution", inputs=[[1, 64, 640, 640], [64, 64, 3, 3]], attrs=attrs, only=[Impact.SAME])
    same = by_impact(report)[Impact.SAME]
    assert (same.strategy, same.note) == ("without stated cores or program", "no slice_config: TTNN chooses")
    check_scripts(report, tmp_path)


# Convolutions ----------------------------------------------------------------------------------------------------------


def test_what_a_convolution_computes_stays_where_its_blocks_are_left_out():
    config = {"type": "Conv2dConfig", "act_block_h_override": 64, "weights_dtype": "bfloat8_b"}
    fields = {"op": "convolution", "inputs": [[1, 64, 32, 32], [64, 64, 3, 3]], "attrs": {"conv_config": config, "padding": 1}}
    free = without_blocks(case_from_json(fields))
    assert free.attrs == {"conv_config": {"type": "Conv2dConfig", "weights_dtype": "bfloat8_b"}, "padding": 1}
    del config["weights_dtype"]
    assert without_blocks(case_from_json(fields)).attrs == {"padding": 1}


@virtual
def test_other_blocks_of_a_convolution(pools, tmp_path):
    config = {"type": "Conv2dConfig", "act_block_h_override": 512, "shard_layout": "HEIGHT_SHARDED"}
    attrs = {"padding": 1, "slices": "l1", "conv_config": config}
    report = solved(pools, op="convolution", inputs=[[1, 512, 64, 64], [512, 512, 3, 3]], attrs=attrs, memory="l1")
    by = by_impact(report)
    assert by[Impact.SAME].strategy == "other blocks of the convolution"
    check_scripts(report, tmp_path)


@pytest.mark.parametrize(
    ("shapes", "attrs", "product"),
    [
        ([(256, 1, 1, 512), (2048, 1, 1, 512)], {}, Product(256, 512, 2048)),
        ([(2, 3, 8, 16), (5, 3, 8, 16)], {}, Product(2, 384, 5)),  # the complete map
        ([(2, 3, 8, 16), (5, 3, 2, 16)], {"stride": 2}, Product(8, 96, 5)),  # rows of windows side by side
        ([(2, 3, 8, 16), (5, 3, 2, 16)], {"stride": [2, 1]}, Product(8, 96, 5)),
        ([(2, 3, 8, 16), (5, 3, 2, 16)], {}, None),  # windows overlap
        ([(2, 3, 9, 16), (5, 3, 2, 16)], {"stride": 2}, None),  # a row is left out
        ([(2, 3, 8, 16), (5, 3, 8, 15)], {}, None),
        ([(2, 3, 8, 16), (5, 3, 8, 16)], {"padding": 1}, None),
        ([(2, 4, 8, 16), (6, 2, 8, 16)], {"groups": 2}, None),
        ([(2, 3, 16), (5, 3, 16)], {}, Product(2, 48, 5)),
    ],
)
def test_which_convolutions_are_products(shapes, attrs, product):
    usual = {"transposed": False, "groups": 1, "stride": 1, "padding": 0, "dilation": 1}
    assert product_of(shapes, {**usual, **attrs}) == product


@virtual
@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [
        ([[256, 1, 1, 512], [2048, 1, 1, 512]], {}),  # tt-metal#32610
        ([[128, 2, 2, 512], [1024, 2, 2, 512], [1024]], {}),
        ([[64, 1, 4, 512], [1024, 1, 2, 512], [1024]], {"stride": [2, 1]}),
    ],
)
def test_a_kernel_as_wide_as_the_map_becomes_a_linear_layer(pools, tmp_path, inputs, attrs):
    report = solved(pools, op="convolution", inputs=inputs, attrs=attrs, layout="row_major", only=[Impact.REARRANGED])
    linear = by_impact(report)[Impact.REARRANGED]
    assert linear.strategy == "as a linear layer"
    check = report.values["as a linear layer"]
    assert check.equal or check.rounding
    check_scripts(report, tmp_path)


# Weights ---------------------------------------------------------------------------------------------------------------


def test_dtypes_of_single_operands_become_narrower_where_they_are_wider():
    operands = [{"dtype": "float32"}, {"dtype": "bfloat8_b", "memory": "l1"}]
    case = case_from_json({**matmul(), "operands": operands, "output_dtype": "float32"})
    narrow = narrowed(case.placement, DType.BFLOAT16)
    assert [own.dtype for own in narrow.operands] == [DType.BFLOAT16, DType.BFLOAT8_B]
    assert (narrow.dtype, narrow.output_dtype, str(narrow.operands[1].memory)) == (DType.BFLOAT16, DType.BFLOAT16, "l1")


@virtual
@pytest.mark.parametrize("own", [None, "bfloat16"])
def test_weights_in_bfloat8_b_come_before_all_tensors_in_it(pools, tmp_path, own):
    """In L1 a weight of 6,144 x 6,144 takes 36,864 tiles, 576 of each of 64 banks: 1,179,648 B, or 626,688 in bfloat8_b."""
    operands = {} if own is None else {"operands": [None, {"dtype": own}]}
    inputs = [[1, 1, 1024, 6144], [6144, 6144]]
    report = solved(pools, op="linear", inputs=inputs, memory="l1", only=[Impact.DTYPE], **operands)
    narrow = by_impact(report)[Impact.DTYPE]
    assert narrow.note.startswith("weights in bfloat8_b")
    assert [r.dtype for r in narrow.result.results] == ["bfloat16"]
    assert report.storage["narrower dtype"]
    check_scripts(report, tmp_path)


# Shards ----------------------------------------------------------------------------------------------------------------


@virtual
def test_more_cores_before_other_shards_before_none(pools, tmp_path):
    """196 tiles of rows of 64 tiles: 13 on each of 16 cores exceed L1, 4 on each of 49 do not."""
    report = solved(pools, op="relu", inputs=[[1, 1, 6272, 2048]], memory="l1:height@4x4", only=[Impact.MEMORY])
    memory = by_impact(report)[Impact.MEMORY]
    assert memory.strategy == "other shards"
    assert memory.result.results[0].memory.startswith("l1:height@0,0-7,5+0,6:128x2048")
    check_scripts(report, tmp_path)


@virtual
def test_shards_of_another_kind(pools, tmp_path):
    """One row of tiles is on one core only as a height shard, and on 64 cores in width shards."""
    report = solved(pools, op="relu", inputs=[[1, 1, 32, 65536]], memory="l1:height", only=[Impact.MEMORY])
    memory = by_impact(report)[Impact.MEMORY]
    assert memory.note.startswith(("block shards instead", "width shards instead"))
    check_scripts(report, tmp_path)
