"""Operators that ports call, against the same calls in a plain TTNN program: the same verdict, results and bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssinghal.catalog.expansion import expand
from ssinghal.catalog.loader import load_catalogs
from ssinghal.core.boards import load_board
from ssinghal.core.case import Case
from ssinghal.core.operand_words import operand_words
from ssinghal.core.verdict import Resource, Status
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import case_name, families, find_operator
from ssinghal.operators.binding import bind
from ssinghal.operators.case_json import case_from_json
from ssinghal.runner.pool import Pool

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "port_programs.py"


@dataclass(frozen=True)
class Asked:
    """A call as it is typed for ``probe``."""

    name: str
    operands: tuple[str, ...]
    attrs: dict[str, Any]
    output: str = "same"
    dtype: str | None = None

    @classmethod
    def of(cls, name: str, operands: str, output: str = "same", dtype: str | None = None, **attrs: Any) -> Asked:
        return cls(name, tuple(operands.split()), attrs, output, dtype)

    @property
    def case(self) -> Case:
        operands = [operand_words(text) for text in self.operands]
        return case_from_json(
            {
                "op": case_name(self.name),
                "inputs": [shape for shape, _ in operands],
                "attrs": self.attrs,
                "operands": [own for _, own in operands],
                "output_memory": self.output,
                **({"output_dtype": self.dtype} if self.dtype else {}),
            }
        )


HEADS, SHARDS = "8,12,197,197/l1:height@8x6:448x224", "1,8,1,64/l1:height@8x1:32x64"
SHARDED_SOFTMAX = {
    "type": "SoftmaxShardedMultiCoreProgramConfig",
    "compute_with_storage_grid_size": [6, 1],
    "subblock_w": 7,
    "block_h": 14,
    "block_w": 7,
}
CACHE, PAGES = "8,1,1024,64", "256,1,32,64"
ROPE = "1,32,1,64/l1:height@8x4:32x64"

# By the names that the calls have in the plain program.
ASKED = {
    "to shards": Asked.of("ttnn.to_memory_config", "1,1,256,128", "l1:height@8x1:32x128"),
    "to other shards and dtype": Asked.of(
        "to_memory_config", "1,1,256,128/l1:height@8x1:32x128", "l1:block@4x8:32x32", "bfloat8_b"
    ),
    "to interleaved": Asked.of("to_memory_config", "1,1,256,128/l1:height@8x1", "dram"),
    "interleaved_to_sharded": Asked.of("ttnn.interleaved_to_sharded", "1,1,3136,64", "l1:height@7x7:64x64"),
    "interleaved_to_sharded, other dtype": Asked.of(
        "interleaved_to_sharded", "1,1,3136,64/l1", "l1:height@7x7:64x64", "bfloat8_b"
    ),
    "sharded_to_interleaved": Asked.of("ttnn.sharded_to_interleaved", "1,1,3136,64/l1:height@7x7:64x64", "l1"),
    "sharded_to_interleaved of what is": Asked.of("sharded_to_interleaved", "1,1,3136,64/l1"),
    "reshard": Asked.of("ttnn.reshard", "8,197,768/l1:block@8x8:224x96", "l1:block@6x8:224x128"),
    "move": Asked.of("ttnn.move", "1,1,256,128/l1:height@8x1"),
    "move to L1": Asked.of("move", "1,1,256,128", "l1"),
    "reallocate": Asked.of("ttnn.reallocate", "1,1,256,128/l1"),
    "fold": Asked.of("ttnn.fold", "2,64,64,4/row_major", stride_h=2, stride_w=4),
    "fold shards": Asked.of("fold", "8,224,14,64/row_major/l1:height@8x2:1568x64", stride_h=16, stride_w=1),
    "fold as transposes": Asked.of(
        "fold",
        "16,3,224,224/row_major/l1:height@8x6:224x224",
        stride_h=2,
        stride_w=2,
        use_transpose_as_fold=True,
        padding=[3, 3, 3, 3, 0, 1],
        grid_size="8x8",
    ),
    "untilize_with_unpadding": Asked.of(
        "ttnn.untilize_with_unpadding", "1,1,32,1000/l1:width@8x4:32x32", "l1", output_tensor_end=[0, 0, 15, 999]
    ),
    "tilize_with_zero_padding": Asked.of("ttnn.tilize_with_zero_padding", "2,30,100"),
    "tilize_with_val_padding": Asked.of(
        "ttnn.tilize_with_val_padding", "2,30,100", output_tensor_shape=[2, 32, 128], pad_value=1.0
    ),
    "convert_to_hwc": Asked.of("ttnn.experimental.convert_to_hwc", "1,1,16,168960/l1:width@8x8:16x2688"),
    "convert_to_hwc, padded channels": Asked.of("convert_to_hwc", "1,2,3,1024/l1:width@8x1:6x128"),
    "convert_to_chw": Asked.of("ttnn.experimental.convert_to_chw", "1,1,172032,4/l1:height@8x8:2688x32"),
    "unsqueeze_to_4D": Asked.of("ttnn.unsqueeze_to_4D", "30,768"),
    "add_": Asked.of("ttnn.add_", "1,1,784,2048/l1:block@8x7:128x256 1,1,784,2048/l1:block@8x7:128x256"),
    "multiply_": Asked.of("ttnn.multiply_", HEADS, other=0.125),
    "subtract_ a row": Asked.of("ttnn.subtract_", "64,96 1,96"),
    "softmax_in_place": Asked.of("ttnn.softmax_in_place", HEADS),
    "scale_mask_softmax": Asked.of("ttnn.scale_mask_softmax", "2,12,197,197 2,1,1,197", scale=0.1),
    "scale_causal_mask_hw_dims_softmax_in_place": Asked.of(
        "ttnn.scale_causal_mask_hw_dims_softmax_in_place",
        "1,12,224,224/l1:height@6x1:448x224 1,1,224,224",
        scale=0.125,
        program_config=SHARDED_SOFTMAX,
    ),
    "scale_mask_softmax_in_place": Asked.of("ttnn.scale_mask_softmax_in_place", "2,12,224,224/l1 2,1,1,224/l1", scale=0.1),
    "attention_softmax": Asked.of("ttnn.transformer.attention_softmax", "2,12,224,224 2,1,1,224", "l1", head_size=64),
    "attention_softmax_": Asked.of("ttnn.transformer.attention_softmax_", "2,12,224,224 2,1,1,224", head_size=64),
    "split heads": Asked.of("ttnn.transformer.split_query_key_value_and_split_heads", "2,197,2304", num_heads=12),
    "split heads in L1, keys and values apart": Asked.of(
        "split_query_key_value_and_split_heads", "2,224,768 2,224,1536", "l1", num_heads=12
    ),
    "split heads of shards": Asked.of(
        "split_query_key_value_and_split_heads", "8,197,2304/l1:block@6x8:224x384", "l1:height@6x8", num_heads=12
    ),
    "nlp_create_qkv_heads": Asked.of(
        "ttnn.experimental.nlp_create_qkv_heads",
        "2,1,224,2304/bfloat8_b",
        num_heads=28,
        num_kv_heads=4,
        transpose_k_heads=False,
    ),
    "create_qkv_heads": Asked.of(
        "ttnn.experimental.create_qkv_heads",
        "2,1,64,1536/l1:block@8x2:64x192",
        "l1:height@8x2",
        num_heads=8,
        transpose_k_heads=False,
    ),
    "nlp_create_qkv_heads_vit": Asked.of("ttnn.experimental.nlp_create_qkv_heads_vit", "2,1,197,2304"),
    "nlp_create_qkv_heads_segformer": Asked.of("ttnn.experimental.nlp_create_qkv_heads_segformer", "1,1,224,160"),
    "nlp_create_qkv_heads_falcon7b": Asked.of("ttnn.experimental.nlp_create_qkv_heads_falcon7b", "1,1,64,4672"),
    "nlp_concat_heads": Asked.of("ttnn.experimental.nlp_concat_heads", "2,12,197,64", "l1"),
    "concatenate_heads": Asked.of("ttnn.transformer.concatenate_heads", "2,12,197,64"),
    "concatenate_heads in shards": Asked.of("concatenate_heads", "8,12,197,64/l1:height@6x8:448x64", "l1:block@6x8:224x128"),
    "nlp_create_qkv_heads_decode": Asked.of(
        "ttnn.experimental.nlp_create_qkv_heads_decode", "1,1,8,768/l1:width@4x1:32x192", num_heads=8, num_kv_heads=2
    ),
    "nlp_concat_heads_decode": Asked.of(
        "ttnn.experimental.nlp_concat_heads_decode", "1,8,8,64/l1:height@8x1:32x64", num_heads=8
    ),
    "rotary_embedding": Asked.of("ttnn.experimental.rotary_embedding", "1,32,100,64 1,1,128,64 1,1,128,64"),
    "rotary_embedding of one token": Asked.of("rotary_embedding", "1,1,8,64 1,1,2048,64 1,1,2048,64", token_idx=5),
    "rotary_embedding_llama": Asked.of(
        "ttnn.experimental.rotary_embedding_llama", "1,8,100,64 1,1,100,64 1,1,100,64 1,1,32,32", "l1"
    ),
    "rotary_embedding_llama of one token": Asked.of(
        "rotary_embedding_llama",
        f"1,32,8,64/l1:height@8x4:32x64 {ROPE} {ROPE} 1,1,1024,32/l1:height@8x4:32x32",
        is_decode_mode=True,
    ),
    "rotary_embedding_hf": Asked.of("ttnn.experimental.rotary_embedding_hf", "1,8,128,64 1,1,256,64 1,1,256,64"),
    "rotary_embedding_llama_fused_qk": Asked.of(
        "ttnn.experimental.rotary_embedding_llama_fused_qk",
        "1,8,8,64/l1:height@8x1:32x64 1,8,2,64/l1:height@0,1-7,1:32x64 1,16,32,64/l1:height@8x2:32x64"
        " 1,16,32,64/l1:height@8x2:32x64 1,16,32,32/l1:height@8x2:32x32",
    ),
    "rotate_half": Asked.of("ttnn.experimental.rotate_half", "1,4,100,64/l1"),
    "decode": Asked.of(
        "ttnn.transformer.scaled_dot_product_attention_decode",
        "1,8,12,64 8,4,1024,64/bfloat8_b 8,4,1024,64/bfloat8_b",
        cur_pos=[100] * 8,
    ),
    "decode with positions on the device": Asked.of("scaled_dot_product_attention_decode", f"1,8,32,64 {CACHE} {CACHE} 8"),
    "decode with a mask": Asked.of(
        "scaled_dot_product_attention_decode", f"1,8,32,64 {CACHE} {CACHE} 1,8,32,1024", "l1", is_causal=False
    ),
    "decode by pages": Asked.of(
        "ttnn.transformer.paged_scaled_dot_product_attention_decode", f"1,8,32,64 {PAGES} {PAGES} 8,32 8"
    ),
    "attention to a chunk": Asked.of(
        "ttnn.transformer.chunked_scaled_dot_product_attention",
        f"1,8,128,64 {PAGES} {PAGES} 1,64",
        chunk_start_idx=128,
    ),
    "joint attention": Asked.of("ttnn.transformer.joint_scaled_dot_product_attention", "1,8,128,64 " * 3 + "1,8,50,64 " * 3),
    "fill_cache": Asked.of("ttnn.fill_cache", f"{CACHE} 1,1,100,64", batch_idx=3, update_idx=64),
    "fill_cache_for_user_": Asked.of(
        "ttnn.kv_cache.fill_cache_for_user_", f"{CACHE} 1,1,128,64/l1:height@4x1:32x64", batch_idx=0
    ),
    "update_cache": Asked.of("ttnn.update_cache", "32,4,1024,64/bfloat8_b 1,4,32,64", update_idx=5),
    "paged_update_cache": Asked.of("ttnn.experimental.paged_update_cache", f"{CACHE} {SHARDS}", update_idxs=[1] * 8),
    "paged_update_cache by pages": Asked.of("paged_update_cache", f"{PAGES} {SHARDS} 8 8,32"),
    "paged_fused_update_cache": Asked.of(
        "ttnn.experimental.paged_fused_update_cache",
        f"{CACHE} {SHARDS} {CACHE} 1,8,1,64/l1:height@0,1-7,1:32x64",
        update_idxs=[1] * 8,
    ),
    "paged_fill_cache": Asked.of("ttnn.experimental.paged_fill_cache", f"{PAGES} 1,1,128,64 8,32", batch_idx=2),
    "too large: split heads in L1": Asked.of("split_query_key_value_and_split_heads", "8,4096,2304", "l1", num_heads=12),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """What the plain program's calls took, by name."""
    command = [sys.executable, "-m", "ssinghal", "exec", "--", sys.executable, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.virtual_device
def test_every_call_is_asked_in_both_ways(plain: dict[str, Any]) -> None:
    assert plain.keys() == ASKED.keys()
    declared = {info.name for family in ("moving", "attention") for info in families()[family]}
    assert declared - {asked.case.operator for asked in ASKED.values()} == {"create_qkv_heads_from_separate_tensors"}


@pytest.mark.virtual_device
@pytest.mark.parametrize("name", ASKED)
def test_a_call_takes_what_the_plain_program_takes(name: str, plain: dict[str, Any], pool: Pool) -> None:
    record = pool.submit(ASKED[name].case).result()
    expected = plain[name]
    if "error" in expected:
        sizes = re.search(r"allocate (\d+) B .* store (\d+) B", expected["error"])
        assert sizes
        assert record.status == Status.OOM
        assert record.verdict.resource == Resource.L1_BUFFER
        assert (record.verdict.total_bytes, record.verdict.bytes_per_bank) == tuple(map(int, sizes.groups()))
        return
    assert record.status == Status.FITS, record.verdict
    assert dict(record.resident or {}) == expected["allocated"]
    results = [[list(t.shape), t.dtype, t.layout] for t in record.tensors if t.label.startswith("output")]
    assert results == expected["results"]
    assert record.verdict.message == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked.of("interleaved_to_sharded", "64,64", "l1"), "output memory l1 has no shards; expected for example l1:height"),
        (Asked.of("interleaved_to_sharded", "64,64/l1:height", "l1:block"), "is in l1:height; expected an interleaved one"),
        (Asked.of("sharded_to_interleaved", "64,64/l1:height"), "output memory l1:height is sharded; expected dram or l1"),
        (Asked.of("sharded_to_interleaved", "64,64", "l1"), "an interleaved operand stays in dram"),
        (Asked.of("reshard", "64,64", "l1:height"), "the operand is in dram; expected a sharded one"),
        (Asked.of("reshard", "64,64/l1:height", "l1"), "output memory l1 has no shards"),
        (Asked.of("fold", "1,63,64,4", stride_h=2, stride_w=2), "a map of 63x64 .* is no multiple of 2x2"),
        (Asked.of("fold", "1,64,64,4", "l1", stride_h=2, stride_w=2), "output memory l1: TTNN takes one with use_transpose_as"),
        (Asked.of("fold", "1,64,64,4", stride_h=2, stride_w=2, padding=[1, 2, 3]), r"padding \[1, 2, 3\]"),
        (Asked.of("untilize_with_unpadding", "32,100", output_tensor_end=[15, 128]), r"is no last element of \[32, 128\]"),
        (Asked.of("tilize_with_val_padding", "30,100", output_tensor_shape=[30, 128]), "has no whole tiles of 32x32"),
        (Asked.of("convert_to_chw", "1,1,1024,40"), "at most 32 channels"),
        (Asked.of("unsqueeze_to_4D", "1,1,1,32,32"), "expected rank 4 at most"),
        (Asked.of("add_", "1,64 64,64"), r"\[64, 64\] does not broadcast to \[1, 64\], which the result replaces"),
        (Asked.of("nlp_concat_heads", "12,197,64"), r"takes \[batch, heads, rows, head size\], not \[12, 197, 64\]"),
        (Asked.of("nlp_create_qkv_heads", "2,1,224,2304", num_heads=11), "width 2304 has no 11 heads of queries"),
        (Asked.of("nlp_create_qkv_heads_vit", "2,1,224,768"), "takes a width of 2304, not 768"),
        (Asked.of("nlp_create_qkv_heads_decode", "1,1,64,768", num_heads=12), "one token of up to 32 users"),
        (Asked.of("rotary_embedding", "1,32,128,64 1,1,64,64 1,1,64,64"), r"expected two of \[1, 1, 128 or more, 64\]"),
        (Asked.of("rotary_embedding", "1,32,128,96 1,1,128,96 1,1,128,96"), "expected 32, or a multiple of 64"),
        (Asked.of("scale_mask_softmax", "2,12,64,64 1,1,1,64"), r"mask \[1, 1, 1, 64\]; expected \[2, 1, 1 or 32, 64\]"),
        (Asked.of("scale_mask_softmax", "2,12,64,64", scale=0.1), "a scale goes with a mask"),
        (
            Asked.of("scaled_dot_product_attention_decode", f"1,8,32,64 {CACHE} {CACHE}"),
            r"the attribute cur_pos, or an operand \[8\] of positions, one of them",
        ),
        (Asked.of("fill_cache", f"{CACHE} 1,1,128,64", batch_idx=8), "batch_idx 8 of a cache for 8 users"),
        (Asked.of("fill_cache", f"{CACHE} 1,1,128,64", batch_idx=0, update_idx=5), "expected whole tiles of 32 within them"),
        (Asked.of("update_cache", f"{CACHE} 1,1,32,32", update_idx=0), "has other heads than the cache"),
        (Asked.of("paged_update_cache", f"{CACHE} {SHARDS}"), "expected the attribute update_idxs, or an operand"),
    ],
    ids=lambda value: value.name if isinstance(value, Asked) else "",
)
def test_a_call_that_nothing_can_make_is_refused_in_one_line(asked: Asked, message: str) -> None:
    with pytest.raises(InvalidCase, match=message) as caught:
        bind(asked.case, load_board("n150")).specs()
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", [name for name in ASKED if "too large" not in name])
def test_a_reference_has_the_shapes_that_are_inferred(name: str, torch: Any) -> None:
    """With the rows and columns that TTNN's results have beyond torch's."""
    case = ASKED[name].case
    call = bind(case, load_board("n150"))
    names = [operand.rstrip("?*") for operand in call.info.operands]
    values = [
        torch.zeros(s, dtype=torch.int64) if "page" in n or "idxs" in n or "cur_pos" in n else torch.rand(s)
        for n, s in zip(names, case.inputs, strict=False)
    ]
    if case.operator == "scaled_dot_product_attention_decode" and not call.attrs["is_causal"]:
        values[3] = torch.rand(case.inputs[3])
    assert [tuple(result.shape) for result in call.reference(torch, values)] == call.results


def test_heads_are_split_and_joined_as_tt_metal_documents(torch: Any) -> None:
    """Queries, keys and values follow each other in the width, each of [heads, head size]; joined, they are as before."""
    x = torch.arange(2 * 4 * 18.0).reshape(2, 4, 18)
    split = find_operator("split_query_key_value_and_split_heads")
    attrs = split.complete_attrs({"num_heads": 2, "num_kv_heads": 2})
    query, key, value = split.torch(torch, [x], attrs)
    assert torch.equal(query[1, 1, 3], x[1, 3, 3:6])
    assert torch.equal(key[1, 1, :, 3], x[1, 3, 9:12])
    assert torch.equal(value[1, 1, 3], x[1, 3, 15:18])
    joined = find_operator("concatenate_heads").torch(torch, [query], {})
    assert torch.equal(joined, x[:, :, :6])


def test_a_fold_packs_neighbours_into_channels(torch: Any) -> None:
    """The pixel of row 2 and column 3 of a map of 2 channels is in row 1, column 1 of the folded one, in its second half."""
    x = torch.arange(1 * 4 * 6 * 2.0).reshape(1, 4, 6, 2)
    fold = find_operator("fold")
    attrs = fold.complete_attrs({"stride_h": 2, "stride_w": 2})
    folded = fold.torch(torch, [x], attrs)
    assert torch.equal(folded[0, 1, 1, 2:4], x[0, 2, 3])
    channels_first = x.permute(0, 3, 1, 2)
    assert torch.equal(fold.torch(torch, [channels_first], {**attrs, "use_transpose_as_fold": True}), folded)


def test_rows_are_written_to_their_pages(torch: Any) -> None:
    """Page 3 holds rows 4 to 7 of user 1: row 5 is its second."""
    cache, rows = torch.zeros(6, 1, 4, 2), torch.ones(1, 2, 1, 2)
    pages, at = torch.tensor([[0, 1], [2, 3]]), torch.tensor([0, 5])
    update = find_operator("paged_update_cache")
    written = update.torch(torch, [cache, rows, at, pages], update.complete_attrs({}))
    assert torch.nonzero(written[..., 0]).tolist() == [[0, 0, 0], [3, 0, 1]]


def test_the_catalog_of_the_examples_has_no_call_that_fails() -> None:
    """The calls above, and for each operator in place one with shards. TTNN takes no shards of the last."""
    cases = expand(load_catalogs([str(ROOT / "examples" / "ports" / "port_operators.yaml")])).cases
    assert len(cases) > len(ASKED)
    with Pool(choose_device("virtual", "n150")) as pool:
        statuses = {case.id: record.status for case, record in zip(cases, pool.map(cases), strict=True)}
    assert set(statuses.values()) <= {Status.FITS, Status.OOM, Status.UNSUPPORTED}
    assert [case.name for case in cases if statuses[case.id] is Status.UNSUPPORTED] == [
        "create_qkv_heads_from_separate_tensors"
    ]
