"""Words pasted from a port are those of the short form."""

from __future__ import annotations

import pytest

from ssinghal.cli.memory_words import memory_text, short_words
from ssinghal.cli.parameter_types import DTypeName, Memory
from ssinghal.core.case import OutputMemory
from ssinghal.errors import InvalidCase

RANGE = "ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 6))"
SPEC = f"ttnn.ShardSpec(ttnn.CoreRangeSet({{{RANGE}}}), [448, 32], ttnn.ShardOrientation.ROW_MAJOR)"
BLOCK = f"ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, {SPEC})"


def test_an_operand_in_words_of_the_module() -> None:
    pasted = f"1,1,3136,256/ttnn.bfloat8_b/{BLOCK}/ttnn.TILE_LAYOUT/shard=3"
    assert short_words(pasted) == "1,1,3136,256/bfloat8_b/l1:block@8x7:448x32/tile/shard=3"
    assert short_words("64,256/row_major/l1:block@8x7") == "64,256/row_major/l1:block@8x7"


def test_options_take_them_too() -> None:
    output = Memory("output_memory", OutputMemory)
    assert output.convert(BLOCK, None, None) == Memory("memory").convert(BLOCK, None, None) == "l1:block@8x7:448x32"
    assert output.convert("ttnn.L1_MEMORY_CONFIG", None, None) == "l1"
    assert DTypeName().convert("ttnn.bfloat4_b", None, None) == "bfloat4_b"


@pytest.mark.parametrize("text", ["ttnn.MemoryConfig(layout, ttnn.BufferType.L1)", "ttnn.FOO_MEMORY_CONFIG", "height(8)"])
def test_what_is_no_config_is_one_line_with_its_place(text: str) -> None:
    with pytest.raises(InvalidCase, match=r"operand 64,64: memory .*no"):
        short_words(f"64,64/{text}")
    with pytest.raises(InvalidCase, match="output_memory"):
        memory_text(text, "output_memory")
