"""Words of a port in place of short ones: dtypes, layouts, and memory configs as Python makes and TTNN prints them.

ttnn.bfloat8_b, ttnn.TILE_LAYOUT, ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG, ttnn.MemoryConfig(…)
ttnn.create_sharded_memory_config(…), MemoryConfig(memory_layout=…)
"""

from __future__ import annotations

from ssinghal.core.sharding import memory_request
from ssinghal.core.tensors import Layout
from ssinghal.diagnose.printed import memory_in
from ssinghal.errors import InvalidCase, cut

_LAYOUTS = {f"{layout.upper()}_LAYOUT": layout for layout in Layout}
_SHOWN = 80


def memory_text(text: str, what: str = "memory") -> str:
    """Returns a memory in short, as cases have it.

    Raises:
        InvalidCase: it is no memory, or a name in it stands for a value that it does not state.

    >>> memory_text("ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG")
    'l1:block'
    """
    if not is_config(text):
        return str(memory_request(text, what))
    try:
        return str(memory_in(text))
    except InvalidCase as error:
        raise InvalidCase(f"{what} {cut(text, _SHOWN)}: {error}") from None


def is_config(word: str) -> bool:
    """Whether it is Python or what TTNN prints, not the short form."""
    return "(" in word or word.endswith("_MEMORY_CONFIG")


def module_name(word: str) -> str:
    """Returns a dtype or layout without the module: ``ttnn.bfloat8_b``, ``ttnn.TILE_LAYOUT``; other words as they are."""
    name = word.removeprefix("ttnn.")
    return _LAYOUTS.get(name, name)


def short_words(operand: str) -> str:
    """Returns an operand with the words of a port in short, as ``core.operand_words`` reads them.

    >>> short_words("64,256/ttnn.bfloat8_b/ttnn.DRAM_MEMORY_CONFIG")
    '64,256/bfloat8_b/dram'
    """
    shape, *words = operand.split("/")
    where = f"operand {shape}: memory"
    return "/".join([shape, *(memory_text(word, where) if is_config(word) else module_name(word) for word in words)])
