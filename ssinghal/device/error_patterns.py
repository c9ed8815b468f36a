"""Translates TTNN's error texts: one table of wordings, the only patterns on those texts in the package.

TTNN raises a plain ``RuntimeError`` for everything, so only the wording distinguishes "out of memory" from "wrong argument",
and it changes between releases. A row is a wording as the libraries print it, matched at the *start* of the message: a text
that only quotes one, or an unknown one that sounds like memory, stays ``error``. ``tests/data/error_samples.yaml`` has a sample
of each.

In a wording ``{field}`` is the number of that ``Verdict`` field, ``{field__part}`` one of several numbers that add up to it,
``{cores}`` a core range and ``{buffer_kind}`` a kind of program buffer; the rest is a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssinghal.core.record import Resource, Status, Verdict

HEAD_CHARS = 8192  # a message and its numbers are at the start of a text; a complete printed tensor may follow
MESSAGE_CHARS = 1000  # the longest one-line message of the libraries has about 700


@dataclass(frozen=True)
class Pattern:
    """One wording of one exception type, and its meaning."""

    name: str
    regex: re.Pattern[str]
    status: Status
    resource: Resource | None = None
    error_type: str = "RuntimeError"


# A buffer that the allocator cannot place. The oldest wording lacks the bank's size; "only" came and went.
_STATS = r"\(allocated: {allocated_bytes} B, free: {free_bytes} B, largest free block: {largest_free_bytes} B\)"
_BUFFER = (
    r"Out of Memory: Not enough space to allocate {total_bytes} B <memory> buffer across {banks} banks, where each bank needs"
    r" to store {bytes_per_bank} B(?:, but bank size is (?:only )?{bank_bytes} B(?: <stats>)?)?"
)
_BUFFER_WITH_DEPENDENCIES = (
    r"Out of Memory: Not enough space after considering dependencies to allocate {total_bytes} B <memory>(?: buffer)? across"
    r" {banks} banks \({bytes_per_bank} B per bank\), bank size is {bank_bytes} B <stats>"
)


def _buffer(memory: str) -> dict[str, str]:
    wordings = {f"{memory} buffer": _BUFFER, f"{memory} buffer with dependencies": _BUFFER_WITH_DEPENDENCIES}
    return {name: wording.replace("<memory>", memory).replace("<stats>", _STATS) for name, wording in wordings.items()}


_OUT_OF_MEMORY: Mapping[Resource, Mapping[str, str]] = {
    Resource.DRAM_BUFFER: _buffer("DRAM"),
    Resource.L1_SMALL_BUFFER: _buffer("L1_SMALL"),
    Resource.TRACE_BUFFER: {
        **_buffer("TRACE"),
        "trace region": r"Creating trace buffers of size {total_bytes}B on (?:MeshDevice|device) \d+,"
        r" but only {limit_bytes}B is allocated for trace region",
    },
    Resource.L1_BUFFER: {
        **_buffer("L1"),
        # Names no memory, but only L1 has an address that buffers must stay above.
        "address floor": r"Out of Memory: Cannot allocate at an address below {limit_bytes}\. Allocation at {tensor_address}",
        "persistent arena": r"Persistent L1 arena is out of memory: cannot place {bytes_per_bank} bytes aligned to \d+"
        r" on cores {cores} in ",
        "service core": r"internal::ServiceCoreManager: L1 OOM on core {cores} \({bytes_per_bank} bytes requested\)",
    },
    # Program buffers over the tensors of a core.
    Resource.CLASH: {
        "program over tensors": r"Statically allocated {buffer_kind} buffers in program \d+ clash with L1 buffers on core range"
        r" {cores}\. L1 buffer allocated at {tensor_address} and static \w+ buffer region ends at {program_bytes}",
        "program over service core": r"{buffer_kind} buffers on service-core range {cores} in program \d+ clash with Service"
        r"CoreManager-allocated L1 \(lowest service allocation at {tensor_address}, CB region ends at {program_bytes}\)",
        "reduction over tensors": r"Negate H reduce: L1 base allocator address {program_bytes} >= lowest occupied address"
        r" {tensor_address}; no room for buffers",
    },
    # The content of a program besides buffers: arguments, semaphores, code.
    Resource.KERNEL_CONFIG: {
        "kernel config": r"Program size \({program_bytes}\) too large for kernel config buffer \({limit_bytes}\) on \w+"
        r"(?:, \d+ B over:.{0,1500}? text-sizing group, cores {cores})?",
        "kernel config ring": r"hybrid_routed_expert_ffn needs the device opened with worker_l1_size <= \d+ .{1,60}? the union"
        r" program's kernel config does not fit the kernel-config ring",
        "kernel binary": r"Kernel binary size exceeds prefetcher cache size \({program_bytes}, {limit_bytes}\)",
        # Counts of arguments, not bytes.
        "runtime arguments": r"\d+ unique\+common runtime args targeting kernel .{1,300}? on (?:{cores}|.{1,40}?) are too",
        "runtime argument budget": r"Block-sharded \w+ concat: \d+ transfers per core, past the \d+ the runtime-arg budget",
        "runtime argument command": r"A single core's unique runtime args \(\d+ B payload -> {program_bytes} B prefetcher"
        r" command\) exceed the max prefetch command size \({limit_bytes} B\)",
    },
    # Program buffers beyond L1: TTNN's own check first, then operators that compute and check the sizes of their buffers.
    Resource.CIRCULAR_BUFFER: {
        "program beyond L1": r"Statically allocated {buffer_kind} buffers on core range {cores} grow to {program_bytes} B which"
        r" is beyond max L1 size of {limit_bytes} B",
        "ring beyond L1": r"{buffer_kind} \d+: ring size \({program_bytes} bytes\) exceeds Tensix unreserved L1 size"
        r" \({limit_bytes} bytes\)",
        "concat page": r"ttnn\.concat: required {buffer_kind} (?:page|entry) size \({program_bytes} B\) exceeds per-core L1"
        r" capacity \({limit_bytes} B\)",
        "concat chunk": r"ttnn\.concat: double-buffered tile-height chunk \(2 x \d+ x \d+ = {program_bytes} B\) exceeds L1"
        r" capacity \({limit_bytes} B\)",
        "pad row": r"ttnn\.pad: padded row of {program_bytes} B does not fit in the per-core L1 budget \({limit_bytes} B\)",
        "slice row": r"ttnn::slice: required {buffer_kind} size {program_bytes} B exceeds per-core L1 budget {limit_bytes} B",
        "slice sub-row": r"ttnn::slice: L1 budget {limit_bytes} B too small for sub-row chunking",
        "reshape row": r"RM reshape dest {buffer_kind} does not fit in L1: need at least {program_bytes__dest} B dest"
        r" \+ {program_bytes__source} B source, have {limit_bytes} B",
        "nonzero indices": r"non_zero_indices: indices {buffer_kind} buffer requires {program_bytes} L1 bytes but per-core L1"
        r" is {limit_bytes} bytes",
        "repeat row": r"RepeatCodegen: a {program_bytes}-byte row-major {buffer_kind} slot does not fit in free L1",
        "untilize plan": r"untilize codegen: no codegen {buffer_kind} plan fits the {limit_bytes} B of L1 free on this device",
        "second data movement": r"enable_secondary_dm was requested but the {buffer_kind} buffers need {program_bytes} B of the"
        r" {limit_bytes} B available in L1",
        "layer_norm": r"LayerNorm streaming {buffer_kind} buffers require {program_bytes} bytes, but only {limit_bytes} bytes"
        r" of the allocator's L1 span are available",
        "reduction": r"Negate H reduce: \w+ \+ \w+ \({program_bytes} B for \d+ tiles\) would not fit in available L1"
        r" \({limit_bytes} B\)",
        "conv3d": r"conv3d: the static {buffer_kind} buffers need {program_bytes} B at .{1,200}? but only {limit_bytes} B of L1"
        r" lie above the allocator base",
        "conv3d headroom": r"conv3d: {limit_bytes} B of L1 above the allocator base cannot hold the {program_bytes} B headroom",
        "conv or pool, slices tried": r"DRAM Auto slice could not find valid slice configuration\. Tried up to \d+ slices for"
        r" \w+-slicing on output dimension \d+\. Available L1: {limit_bytes} bytes",
        "conv or pool, no slicing": r"DRAM slicing configuration failed for .{1,80}? with output layout .{1,80}? Unable to find"
        r" a valid slice configuration\..{1,300}? Available L1: {limit_bytes} bytes",
        "pool, slice too small": r"Cannot fit Pool2D operation in L1 memory with DRAM slicing\.",
        "pool page": r"Not enough L1 for even a single {buffer_kind} page: aligned_input_stick_nbytes={program_bytes} exceeds"
        r" l1_for_cb={limit_bytes}",
        "matmul block": r"best_in0_block_w: no in0_block_w divides upper bound \d+ and fits L1\..{1,300}? L1 budget \d+%:"
        r" {limit_bytes} B; minimum estimated {buffer_kind} size \(at in0_block_w=1\): {program_bytes} B",
        "matmul K chunk": r"MatmulUnifiedProgramConfig: {buffer_kind}s for a .{1,80}? do not fit \(needs {program_bytes} B,"
        r" budget {limit_bytes} B",
        "matmul C slice": r"MatmulUnifiedProgramConfig: (?:a|no piece of the) \d+x\d+-tile .{1,80}? L1 .{0,40}?\(budget"
        r" {limit_bytes} B, max {buffer_kind} extent",
        "fused source": r"Fused source {buffer_kind} buffer size \({program_bytes} B\) exceeds its L1 buffer bank"
        r" \({limit_bytes} B\)",
        "scratch": r"scratch={program_bytes__scratch} B \+ {buffer_kind}s={program_bytes__buffers} B exceed L1 budget"
        r" \({limit_bytes} B\)",
        "workload of tiles": r"Workload of Tiles \d+ at Tile Size \d+ \(times 2 for output\) exceeds L1 capacity {limit_bytes}",
        "workload": r"Workload exceeds L1 capacity",
        "ring attention": r"Exp ring joint SDPA {buffer_kind}s need {program_bytes} B but only {limit_bytes} B of L1 are",
        "decode attention": r"spec_multi_pos_tiles=\d+: {buffer_kind} buffers need {program_bytes} B per core but only"
        r" {limit_bytes} B of L1 are available",
        "attention residual": r"attn_res_gather_softmax needs {program_bytes} B of L1 per core at Wt \d+ but the core has"
        r" {limit_bytes} B",
        "causal conv": r"qkv_causal_conv1d_silu: channel_chunk_size = \d+ needs {program_bytes} bytes of L1 per core, only"
        r" {limit_bytes} are available",
        "recurrence": r"\w{1,80}: K = \d+ and V = \d+ need {program_bytes} bytes of L1 per core, only {limit_bytes} are",
        "expert ffn": r"unified_routed_expert_ffn: per-core {buffer_kind}s do not fit in L1 even at the smallest config"
        r" \(.{1,80}?\): need {program_bytes} B but only {limit_bytes} B available",
        "expert swiglu": r"moe_fused_swiglu: needs {program_bytes} bytes of {buffer_kind} L1 but budget is {limit_bytes}",
        "expert arena": r"the .{1,40}? half's {buffer_kind} buffers need {program_bytes} bytes of the shared L1 arena but a"
        r" core owns only {limit_bytes}",
        "expert routing": r"(?:combine_fabric2d: L1|dispatch_fabric2d: the L1) layout needs {program_bytes} B\b",
        "payload": r"payload \d+ B does not fit this core's L1: needs .{1,100}? B of control words, in {limit_bytes} B",
        "mux": r"Not enough L1 space for mux core memory requirements given current occupancy\.",
        "mux memory map": r"(?:FabricMuxV2 memory|Mux memory|Relay memory|Memory) map end address:? {program_bytes} (?:exceeds|"
        r"is greater than) (?:usable worker |worker |allocated )?L1 end address:? {limit_bytes}",
        "stream service": r"[DH]2[DH]StreamService: .{1,120}? exceeds service-core (?:free L1|CB L1 budget) {limit_bytes} B",
        "buffer memory": r"not enough {buffer_kind} buffer memory for ",
        # These name memory vaguely or not at all; what they check is free L1.
        "topk": r"Not enough cores or cache size available to run (?:TopK|topk) operation",
        "tilize": r"single_block_size_limit must be at least 1|No solution found for single_block_size",
        "softmax in place": r"Tensor is too large to run softmax inplace, please use standard softmax",
    },
    Resource.HOST: {
        "host, C++": r"std::bad_alloc$",
        "host, torch": r"\[enforce fail at alloc_cpu\.cpp:\d+\] .{0,60}?DefaultCPUAllocator: (?:can't allocate|not enough)"
        r" memory: you tried to allocate {total_bytes} bytes",
    },
}

_FEW_DEVICES = "mesh beyond the system"

# TTNN rejects the call for a reason that is not memory: a layout, dtype, grid or parameter that it has no program for. Calls
# that are wrong anywhere (shapes that do not match, a missing argument) are not among them: they stay errors.
_REJECTED = {
    "adaptive pool windows": r"Adaptive pooling configuration not supported\.",
    "bilinear channels": r"input channels should be divisible by 32",
    "binary dtype": r"Input tensor [AB] dtype DataType::\w+ is not supported for binary operation \w+",
    "block float layout": r"Only TILE layout is supported for BFLOAT\d_B dtype!",
    "buffer block": r"Size of cb: \d+ must be divisible by the size of block",
    "convolution dtype": r"Unsupported output data type when calculating tilize cycles",
    "group_norm groups": r"channel must be divisible by num_groups!|Invalid channel configuration: Number of channels",
    "group_norm in place": r"inplace groupnorm not supported for unsharded tensors|In-place operation not supported: ",
    "integer power": r"pow: (?:integers to negative integer powers|DataType::\w+ input requires an integral exponent)",
    "matmul layout": r"Inputs to matmul must be tilized",
    "mesh buffer": r"MeshBuffer must be large enough to hold the tensor",
    _FEW_DEVICES: r"Requested mesh shape MeshShape\(\[[\d, ]{1,40}\]\) requires \d+ devices, but only \d+ devices",
    "node off the grid": r"WorkUnitSpec '.{1,200}?' targets node \(\d+,\d+\), which is out of bounds",
    "non-tile layout": r"The provided input tensor has a non-tile layout: ROW_MAJOR\.|pow_int: input must be in TILE layout",
    "pad dtype": r"Unsupported datatype DataType::\w+$|Cannot pad (?:RM|tilized) tensor with specified format",
    "pad in front": r"ttnn\.pad: on device tile padding does not support front padding",
    "reduction dtype": r"Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction",
    "reshape dtype": r"Can only work with [\w/, ]+ (?:tensors|data types)$",
    "shape index": r"ShapeBase\[\] index out of range\.",
    "shard alignment": r"Physical shard shape \(\d+, \d+\) must be tile ",
    "slice count": r"Number of slices \(\d+\) exceeds the maximum allowed \(\d+\)",
    "slice step": r"Strided slice is not supported for BFLOAT8 tensors",
    "softmax dtype": r"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: ",
    "tilize dtype": r"Can only tilize [\w/ ]+ tensors$",
    "topk layout": r"The input must be in tiled format",
    "unary dtype": r"Unary: UnaryOpType::\w+ does not support integer input dtype",
    "upsample alignment": r"Tiled input must be tile-aligned",
    "view of the last dim": r"The last dimension can not change in view",
    "worker L1 size": r"Worker L1 size \d+ is larger than max size \d+",
}

_CORE = r"(?:\(x=\d{1,4},y=\d{1,4}\)|\d{1,4}-\d{1,4})"  # as printed by 0.66, and by releases since
_RANGE = rf"\[{_CORE} - {_CORE}\]"
_NUMBER = r"\d{1,20}"
_TEXT_FIELDS = {
    "cores": rf"\{{?{_RANGE}(?:, {_RANGE})*\}}?|{_CORE}",
    "buffer_kind": "[Cc]ircular|dataflow|CB|DFB|staging",
}
_KINDS = {"CB": "circular", "Circular": "circular", "DFB": "dataflow"}


def _compiled(wording: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{([a-z_]+)\}", lambda name: f"(?P<{name[1]}>{_TEXT_FIELDS.get(name[1], _NUMBER)})", wording))


def _openings(wording: str) -> Iterator[str]:
    """Yields the first two fixed words of each alternative of a wording, with anything between them, as expressions."""
    for alternative in re.findall(r"(?:\([^()]*\)|\[[^\]]*\]|[^|])+", wording):
        plain = re.sub(r"\{([a-z_]+)\}", lambda name: f"(?:{_TEXT_FIELDS.get(name[1], _NUMBER)})", alternative)
        words = re.findall(r"(?:\([^()]*\)|\[[^\]]*\]|[^\s])+", plain)
        fixed = [i for i, word in enumerate(words) if not word.startswith(".{")][:2]
        yield r"\s+".join(words[: fixed[-1] + 1])


PATTERNS: tuple[Pattern, ...] = (
    Pattern("host, Python", re.compile(""), Status.OOM, Resource.HOST, error_type="MemoryError"),
    *(
        Pattern(name, _compiled(wording), Status.OOM, resource)
        for resource, wordings in _OUT_OF_MEMORY.items()
        for name, wording in wordings.items()
    ),
    *(Pattern(name, _compiled(wording), Status.UNSUPPORTED) for name, wording in _REJECTED.items()),
)

# A cheap test whether a text may match a row; it is true for every text that does.
_WORDINGS = [wording for kind in (*_OUT_OF_MEMORY.values(), _REJECTED) for wording in kind.values()]
OPENING = re.compile("|".join(dict.fromkeys(opening for wording in _WORDINGS for opening in _openings(wording))))

# "TT_FATAL @ <file>:<line>: <condition>", then "info:", then the message, then perhaps a backtrace.
_THROWN = re.compile(r"\s*TT_(?:FATAL|THROW) @ (?P<file>\S{1,400}):(?P<line>\d{1,7}): ")
_PROGRAM = re.compile(r"\bin program \d+")  # its index in the process, which differs every time
_SOURCE = re.compile(r"(?:^|/)((?:tt_metal|tt_stl|ttnn)/.*)")  # without the folder of the build


def translate_error(error_type: str, text: str, *, plain: bool = True) -> Verdict:
    """Returns the verdict of an exception with type name ``error_type`` and text ``text``; the caller sets its ``stage``.

    ``oom`` with all numbers of the message for the wording of a memory failure, ``unsupported`` for one that rejects a call for
    another reason, else ``error``. Only the first ``HEAD_CHARS`` characters are used.

    ``plain``: whether all tensors are interleaved and alike, and no setting is given. Of a call that is not, every check of its
    arguments that fails is a rule of TTNN, whatever the wording, and the call is ``unsupported`` (see ``_refusal``).
    """
    head = text[:HEAD_CHARS].partition("\nbacktrace:")[0]
    thrown = _THROWN.match(head)
    if thrown:
        condition, _, info = head[thrown.end() :].partition("\ninfo:\n")
        head = info or condition
    line = next((line.strip() for line in head.splitlines() if line.strip()), "")
    unknown = Verdict(
        Status.ERROR,
        error_type=error_type,
        message=_PROGRAM.sub("in a program", line)[:MESSAGE_CHARS],
        thrown_at=f"{_without_build_folder(thrown['file'])}:{thrown['line']}" if thrown else "",
    )
    message = " ".join(head.split())  # a message may be wrapped by a log
    pattern, match = known_wording(error_type, message)
    if pattern is None or match is None:
        return unknown if plain or not thrown else _refusal(unknown)
    fields = _fields(match)
    return replace(unknown, status=pattern.status, resource=_resource(pattern, fields), **fields)


# Where TTNN checks what a call requests: in its operators, in the specs of tensors, in what a program says of its buffers. Not
# in the allocator, the dispatch of programs or the compiler of kernels, whose failures are its own.
_CHECKS = re.compile(
    r"(?:ttnn/|tt_metal/(?:api/tt-metalium/|common/work_split|common/(?:shape|core_coord)|impl/(?:tensor|buffers|data_format|"
    r"metal2_host_api/program_spec/validation)/))"
)
# What a failed check states of TTNN itself, or of a memory in words that no row has, is no rule of the operator.
_NO_RULE = re.compile(
    r"unreachable|unexpected|internal|should (?:not|never)|std::|null|\bassert|\bbug\b|not (?:initialized|allocated)"
    r"|failed to\b"
    r"|cannot set circular buffer|out of memory|not enough|not fit\b|insufficient|too (?:large|big) (?:for|to)\b"
    r"|exceed.*(?:\bL1\b|memory|bytes|\d B\b)",
    re.IGNORECASE,
)
# Rules in words that are also those of faults.
_RULE = re.compile(r"should not be (?:provided|given|set|specified|passed)\b|not fit within \w+ grid\b")
_SENTENCE_END = re.compile(r"[.!?](?=\s+[A-Z])")


def _refusal(error: Verdict) -> Verdict:
    """Returns ``unsupported``, with the sentence of TTNN's check alone, where a check of the call's arguments failed."""
    if not _CHECKS.match(error.thrown_at) or _NO_RULE.search(_RULE.sub("", error.message)):
        return error
    end = _SENTENCE_END.search(error.message)
    return replace(error, status=Status.UNSUPPORTED, message=error.message[: end.end()] if end else error.message)


def known_wording(error_type: str, message: str) -> tuple[Pattern, re.Match[str]] | tuple[None, None]:
    """Returns the row that matches ``message``, on one line and without TTNN's header, and the match."""
    for pattern in PATTERNS:
        if pattern.error_type == error_type and (match := pattern.regex.match(message)):
            return pattern, match
    return None, None


def lacks_devices(verdict: Verdict) -> bool:
    """Whether TTNN has fewer devices than a mesh needs."""
    pattern, _ = known_wording(verdict.error_type, verdict.message)
    return pattern is not None and pattern.name == _FEW_DEVICES


def _without_build_folder(path: str) -> str:
    source = _SOURCE.search(path)
    return source[1] if source else path.removeprefix("/project/")


def _fields(match: re.Match[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for group, value in match.groupdict().items():
        name = group.partition("__")[0]
        if value is None:
            continue
        if name == "cores":
            fields[name] = _plain_cores(value)
        elif name == "buffer_kind":
            fields[name] = _KINDS.get(value, value)
        else:
            fields[name] = fields.get(name, 0) + int(value)
    return fields


def _plain_cores(text: str) -> str:
    """Returns cores in one form for both wordings of a core, a range and a set of ranges.

    >>> _plain_cores("[(x=0,y=0) - (x=7,y=6)]"), _plain_cores("{[0-0 - 7-6], [0-7 - 3-7]}"), _plain_cores("(x=1,y=2)")
    ('0-0..7-6', '0-0..7-6 0-7..3-7', '1-2')
    """
    numbers = re.findall(r"\d+", text)
    cores = [f"{x}-{y}" for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
    if "[" not in text:
        return cores[0]
    return " ".join(f"{start}..{end}" for start, end in zip(cores[::2], cores[1::2], strict=True))


def _resource(pattern: Pattern, fields: Mapping[str, Any]) -> Resource | None:
    """Returns the resource that ran out: fragmentation where each bank has enough free bytes, but no block is large enough.

    Not for L1_SMALL and trace regions: their size is set when the device is opened, and a larger size fixes them.
    """
    may_fragment = pattern.resource in (Resource.L1_BUFFER, Resource.DRAM_BUFFER) and "largest_free_bytes" in fields
    if may_fragment and fields["largest_free_bytes"] < fields["bytes_per_bank"] <= fields["free_bytes"]:
        return Resource.FRAGMENTATION
    return pattern.resource
