"""Names the functions of TTNN that parts of a text are of: frames of a backtrace, sentences, kernels, source files, tests.

Names are Python's, without ``ttnn.``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ssinghal.diagnose.ttnn_functions import python_name

_CPP_NAME = re.compile(r"\bttnn(?:::\w+)+")
_SUFFIX = re.compile(r"(?:MultiCore|SingleCore)\w*$|(?:Program)?Factory$|(?:Device)?Operation$|Op$")
_DASHES = "--- "
_SIGNS = ("::", "(+0x", "[0x")  # of a name, or of an address in a library
_NUMBERS = r"(?:(?:---|#\d{1,3}|\d{1,3}[:)]|at|in|@|\(\d{1,3}\)|\||0x[0-9a-f]{4,16}) +){0,6}"
_FRAME = re.compile(rf"{_NUMBERS}(?:(?:void|auto|bool) +)?(?:tt|ttnn)::[\w:~]+(?:$|[(<]| \+| \[)")
_IN_SENTENCE = re.compile(r"(?<![\w/])ttnn(?:\.|::)(?P<name>[a-z_]\w*(?:(?:\.|::)\w+)*)")
_WORD = re.compile(r"(?<![\w./-])[A-Za-z_]\w+(?![\w/-])")
_NAMED_TWICE = re.compile(r"[a-z\d]_[a-z\d]|[a-z][A-Z]|\d[dD]\b|^[A-Z]{4,}$")  # unlike a word of English
_KERNEL = re.compile(r"\bkernel (?P<name>[\w/.-]{1,300})")
_SOURCE = re.compile(r"(?:^|/)operations/(?P<path>[\w/.-]{1,300})")
_OF_KERNELS = frozenset(
    {"reader", "writer", "compute", "kernel", "sender", "receiver", "interleaved", "sharded", "unary", "start", "id"}
)
_LONGEST = 6  # words in a name
# Words of English, or of tests in general, that are functions too.
_COMMON = frozenset(
    {
        "abs", "add", "angle", "assign", "broadcast", "chunk", "clone", "copy", "cos", "div", "empty", "exp", "expand", "fill",
        "floor", "fold", "full", "gather", "identity", "log", "mac", "max", "mean", "min", "moe", "move", "narrow", "ones",
        "outer", "pad", "pow", "prod", "rand", "real", "repeat", "roll", "rotate", "round", "sampling", "scatter", "sign",
        "sin", "sort", "split", "square", "squeeze", "stack", "std", "sub", "subtract", "sum", "tan", "var", "view", "where",
        "zeros",
    }
)  # fmt: skip

_CONVOLUTIONS = ("conv2d", "conv1d", "conv_transpose2d")
_POOLS = ("max_pool2d", "avg_pool2d")
_REDUCTIONS = ("sum", "mean", "max", "min", "std", "var")
_ATTENTION = ("transformer.scaled_dot_product_attention", "transformer.chunked_scaled_dot_product_attention")
_DECODE = ("transformer.scaled_dot_product_attention_decode", "transformer.paged_scaled_dot_product_attention_decode")
# The functions that a part of TTNN works for, by its name in lower case without "_", where it is not itself the only function.
FUNCTIONS_OF_PART = {
    "accumulation": ("cumsum", "cumprod"),
    "argmaxnc": ("argmax",),
    "bmm": ("matmul", "linear"),
    "conv": _CONVOLUTIONS,
    "conv2d": _CONVOLUTIONS,
    "createqkvheadsseparatetensors": ("experimental.create_qkv_heads_from_separate_tensors",),
    "embeddingbackward": ("embedding_bw",),
    "embeddings": ("embedding",),
    "expringjointsdpa": ("transformer.exp_ring_joint_scaled_dot_product_attention",),
    "fillpad": ("fill_implicit_tile_padding",),
    "fusedrmsnormpostallgather": ("rms_norm_post_all_gather",),
    "fusedrmsnormpreallgather": ("rms_norm_pre_all_gather",),
    "gathercodegen": ("gather",),
    "gelubackward": ("gelu_bw",),
    "groupnorm": ("group_norm",),
    "halo": (*_CONVOLUTIONS, *_POOLS, "upsample"),
    "indexerscore": ("experimental.indexer_score_dsa", "experimental.indexer_score_msa"),
    "jointsdpa": ("transformer.joint_scaled_dot_product_attention",),
    "layernorm": ("layer_norm", "rms_norm"),
    "llamareducescattercreateheads": ("experimental.llama_rs_create_heads",),
    "matmul": ("matmul", "linear"),
    "morehnlllossstep1": ("moreh_nll_loss",),
    "morehnlllossstep2": ("moreh_nll_loss",),
    "nlpcreateheads": ("experimental.nlp_create_qkv_heads",),
    "nlpcreateheadsboltz": ("experimental.nlp_create_qkv_heads_boltz",),
    "nlpcreateheadsfalcon7b": ("experimental.nlp_create_qkv_heads_falcon7b",),
    "nlpcreateheadssegformer": ("experimental.nlp_create_qkv_heads_segformer",),
    "nlpcreateheadsvit": ("experimental.nlp_create_qkv_heads_vit",),
    "nonzeroindices": ("nonzero",),
    "pool": _POOLS,
    "pool2d": _POOLS,
    "powint": ("pow",),
    "prodall": ("prod",),
    "prodnc": ("prod",),
    "reduce": _REDUCTIONS,
    "reduction": _REDUCTIONS,
    "repeatcodegen": ("repeat",),
    "repeatinterleavecodegen": ("repeat_interleave",),
    "reshapeview": ("reshape",),
    "ringdistributedsdpa": ("transformer.ring_distributed_scaled_dot_product_attention",),
    "ringjointsdpa": ("transformer.ring_joint_scaled_dot_product_attention",),
    "rmsallgather": ("fused_rms_minimal",),
    "sdpa": _ATTENTION,
    "sdpadecode": _DECODE,
    "splitfusedqkvandsplitheads": ("transformer.split_query_key_value_and_split_heads",),
    "tilize": ("to_layout", "tilize"),
    "tilizewithvalpadding": ("to_layout", "tilize_with_val_padding"),
    "untilize": ("to_layout", "untilize"),
    "untilizecodegen": ("to_layout", "untilize"),
    "untilizewithunpadding": ("to_layout", "untilize_with_unpadding"),
    "welfordreduce": ("std", "var"),
}


def narrowed(*parts: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the first part without those that later ones exclude; a part may name different ones altogether."""
    names: tuple[str, ...] = ()
    for part in parts:
        names = tuple(name for name in names if name in part) or names or part
    return names


def functions_of_part(part: str) -> tuple[str, ...]:
    """Returns the functions that a class, namespace or folder of TTNN works for."""
    plain = _SUFFIX.sub("", part)
    for name in dict.fromkeys((plain, part)):
        if functions := FUNCTIONS_OF_PART.get(name.replace("_", "").lower()):
            return functions
        if (known := python_name(name)) is not None:
            return (known,)
    return ()


def is_frame(body: str) -> bool:
    """Returns whether a line is one of a C++ backtrace: with TTNN's dashes, a debugger's numbers, or the name alone."""
    return (body.startswith(_DASHES) and any(sign in body for sign in _SIGNS)) or _FRAME.match(body) is not None


def frames_in(text: str) -> Iterator[str]:
    """Yields the frames of a backtrace that one line has, as JSON and a string's source write it."""
    _, _, trace = text.partition("backtrace:")
    return (frame for frame in re.split(r"\\n|\n| --- ", trace) if "::" in frame)


def functions_of_frame(text: str) -> tuple[str, ...]:
    """Returns the functions that a line of a C++ backtrace may work for.

    >>> functions_of_frame(" --- ttnn::operations::conv::conv2d::Conv2dDeviceOperation::create(...)")
    ('conv2d', 'conv1d', 'conv_transpose2d')
    >>> functions_of_frame(" --- tt::runtime::ttnn::operations::layout::run(tt::target::ttnn::ToMemoryConfigOp const*, ...)")
    ('to_memory_config',)
    """
    return narrowed(*(_first(reversed(name.split("::")[1:])) for name in _CPP_NAME.findall(text)))


def functions_in_sentence(text: str) -> tuple[str, ...]:
    """Returns the functions that a message names.

    >>> functions_in_sentence("ttnn.concat: required CB page size (4000000 B) exceeds per-core L1 capacity (1393312 B)")
    ('concat',)
    >>> functions_in_sentence("1760 Bytes runtime args targeting kernel reshard_reader on (x=0,y=0) are too large")
    ('reshard',)
    >>> functions_in_sentence("beyond max L1 size when running conv2d 1x1"), functions_in_sentence("Conv2d: out of L1")
    (('conv2d',), ('conv2d', 'conv1d', 'conv_transpose2d'))
    """
    named = [_in_sentence(match["name"]) for match in _IN_SENTENCE.finditer(text)]
    kernels = [_functions_of_kernel(match["name"]) for match in _KERNEL.finditer(text)]
    return next(filter(None, (*named, *kernels, *_of_words(_WORD.findall(text)))), ())


def _in_sentence(name: str) -> tuple[str, ...]:
    """Returns the functions of a name after ``ttnn.`` or ``ttnn::``: a name of Python is that function alone."""
    known = python_name(name.rpartition(".")[2]) if "::" not in name else None
    return (known,) if known is not None else _first(reversed(re.split(r"\.|::", name)))


def _of_words(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the functions of words that are names, with the words before them: "ring joint SDPA"."""
    for end, word in enumerate(words, 1):
        if _NAMED_TWICE.search(word):
            parts = ("_".join(words[start:end]) for start in range(max(0, end - 4), end))
            yield next(filter(None, map(_in_words, parts)), ())


def _in_words(part: str) -> tuple[str, ...]:
    """Returns the functions of a part of a sentence: a name as Python has it is that function alone."""
    known = python_name(part)
    return (part,) if known == part else functions_of_part(part)


def functions_of_source(place: str) -> tuple[str, ...]:
    """Returns the functions that a source file of TTNN's operations works for.

    >>> functions_of_source("ttnn/cpp/ttnn/operations/conv/conv2d/conv2d_utils.cpp:312")
    ('conv2d', 'conv1d', 'conv_transpose2d')
    """
    match = _SOURCE.search(place)
    return _first(reversed(match["path"].split("/")[:-1])) if match else ()


def functions_of_test(node: str) -> tuple[str, ...]:
    """Returns the functions that the name of a test contains: the longest one in each place.

    >>> functions_of_test("tests/ttnn/test_pools.py::test_max_pool2d_wide[1-64]"), functions_of_test("a.py::test_full_model")
    (('max_pool2d',), ())
    """
    name = node.partition("[")[0].rpartition("::")[2]
    words = re.findall(r"[A-Za-z\d]+", name.removeprefix("test_"))
    found = _first_run(words)
    return (
        () if found and len(words) > 1 and len(found[0]) == 1 and found[0][0].lower() in _COMMON else found[1] if found else ()
    )


def _functions_of_kernel(name: str) -> tuple[str, ...]:
    if source := functions_of_source(name):
        return source
    file = name.rpartition("/")[2].partition(".")[0]
    _, functions = _first_run([word for word in file.split("_") if word not in _OF_KERNELS])
    return functions


def _first_run(words: Sequence[str]) -> tuple[Sequence[str], tuple[str, ...]]:
    """Returns the longest run of words that names functions, the first of equal length, and these."""
    for length in range(min(len(words), _LONGEST), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if functions := functions_of_part("_".join(run)):
                return run, functions
    return (), ()


def _first(parts: Iterable[str]) -> tuple[str, ...]:
    return next(filter(None, map(functions_of_part, parts)), ())
