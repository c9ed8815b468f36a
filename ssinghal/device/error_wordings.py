"""The wordings in which TTNN, TT-Metalium and the host report a memory that ran out, or reject a call for another reason.

In a wording ``{field}`` is the number of that ``Verdict`` field, ``{field__part}`` one of several numbers that add up to it,
``{n}`` a number that no field has, ``{cores}`` a core or core range and ``{buffer_kind}`` a kind of program buffer; the rest is
a regular expression. ``error_patterns`` compiles them, for texts in any case.
"""

from __future__ import annotations

from collections.abc import Mapping

from ssinghal.core.verdict import Resource

# A buffer that the allocator cannot place. The oldest wording lacks the bank's size; "only" came and went, and so did
# the largest block. A title may lack the first three words.
_STATS = r"\(allocated: {allocated_bytes} B, free: {free_bytes} B(?:, largest free block: {largest_free_bytes} B)?\)"
_BUFFER = (
    r"(?:Out of Memory: )?Not enough space to allocate {total_bytes} B <memory> buffer across {banks} banks, where each bank"
    r" needs to store {bytes_per_bank} B(?:, but bank size is (?:only )?{bank_bytes} B(?: <stats>)?)?"
)
_BUFFER_WITH_DEPENDENCIES = (
    r"Out of Memory: Not enough space after considering dependencies to allocate {total_bytes} B <memory>(?: buffer)? across"
    r" {banks} banks \({bytes_per_bank} B per bank\), bank size is {bank_bytes} B <stats>"
)


def _buffer(memory: str) -> dict[str, str]:
    """Returns the wordings for a memory. A text that masks figures may mask that of its name too: ``L<num> buffer``."""
    wordings = {f"{memory} buffer": _BUFFER, f"{memory} buffer with dependencies": _BUFFER_WITH_DEPENDENCIES}
    name_in_text = memory.replace("L1", "L(?:1|{mask})")
    return {name: wording.replace("<memory>", name_in_text).replace("<stats>", _STATS) for name, wording in wordings.items()}


OUT_OF_MEMORY: Mapping[Resource, Mapping[str, str]] = {
    Resource.DRAM_BUFFER: _buffer("DRAM"),
    Resource.L1_SMALL_BUFFER: _buffer("L1_SMALL"),
    Resource.TRACE_BUFFER: {
        **_buffer("TRACE"),
        "trace region": r"Creating trace buffers of size {total_bytes} ?B on (?:MeshDevice|device) {n},"
        r" but only {limit_bytes} ?B is allocated for trace region",
        "command list": r"Command-list buffers exceed the configured trace-region capacity",
    },
    Resource.L1_BUFFER: {
        **_buffer("L1"),
        # Names no memory, but only L1 has an address that buffers must stay above.
        "address floor": r"Out of Memory: Cannot allocate at an address below {limit_bytes}\. Allocation at {tensor_address}",
        "persistent arena": r"Persistent L1 arena is out of memory: cannot place {bytes_per_bank} bytes aligned to \d+"
        r" on cores {cores} in ",
        "sub-device": r"Sub-device {n} local L1 region \[{n}, {n}\) exceeds allocatable worker L1 limit {limit_bytes} after",
        "service core": r"internal::ServiceCoreManager: L1 OOM on core {cores} \({bytes_per_bank} bytes requested\)",
    },
    # Program buffers over the tensors of a core.
    Resource.CLASH: {
        "program over tensors": r"Statically allocated {buffer_kind} buffers in (?:program {n}|a program) clash with L{one}"
        r" buffers on core(?: ranges?)? {cores}\. L{one} buffer allocated at {tensor_address} and static \w+ buffers?"
        r" (?:region )?ends? at {program_bytes}",
        "program over service core": r"{buffer_kind} buffers on service-core range {cores} in program \d+ clash with Service"
        r"CoreManager-allocated L1 \(lowest service allocation at {tensor_address}, CB region ends at {program_bytes}\)",
        "reduction over tensors": r"Negate H reduce: L1 base allocator address {program_bytes} >= lowest occupied address"
        r" {tensor_address}; no room for buffers",
    },
    # The content of a program besides buffers: arguments, semaphores, code.
    Resource.KERNEL_CONFIG: {
        "kernel config": r"Program size \({program_bytes}\) too large for kernel config buffer \({limit_bytes}\)(?: on \w+)?"
        r"(?:, \d+ B over:.{0,1500}? text-sizing group, cores {cores})?",
        "kernel config ring": r"hybrid_routed_expert_ffn needs the device opened with worker_l1_size <= \d+ .{1,60}? the union"
        r" program's kernel config does not fit the kernel-config ring",
        "kernel binary": r"Kernel binary size exceeds prefetcher cache size \({program_bytes}, {limit_bytes}\)",
        # The first wording counts bytes, the second one arguments.
        "runtime arguments in bytes": r"{program_bytes} Bytes unique\+common runtime args targeting kernel .{1,300}? on"
        r" (?:{cores}|.{1,40}?) are too large\.(?:.{0,120}? Max allowable size is {limit_bytes} Bytes)?",
        "runtime arguments": r"{n} unique\+common runtime args targeting kernel .{1,300}? on (?:{cores}|.{1,40}?) are too",
        "runtime argument budget": r"Block-sharded \w+ concat: \d+ transfers per core, past the \d+ the runtime-arg budget",
        "concat transfers": r"Block-sharded concat: too many transfers per core \({n}, max {n} per RISC\)",
        "runtime argument command": r"A single core's unique runtime args \(\d+ B payload -> {program_bytes} B prefetcher"
        r" command\) exceed the max prefetch command size \({limit_bytes} B\)",
        # The code of a kernel, by the loader and by the linker.
        "kernel segment": r"{path}: segment\[{n}\] \[0x[0-9a-f]+,\+0x[0-9a-f]+\) overflows region:\S{0,60} ?limit of 0x",
        "kernel region": r"(?:{path}\bld(?:\.\w+)?: )?(?:{path} )?region \S{1,60} overflowed by {n} bytes",
    },
    # Program buffers beyond L1: TTNN's own check first, then operators that compute and check the sizes of their buffers.
    Resource.CIRCULAR_BUFFER: {
        "program beyond L1": r"Statically allocated {buffer_kind} buffers on core(?: ranges?)? {cores} grow to"
        r" {program_bytes} B which is beyond max L{one} size of {limit_bytes} B",
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
        "stream reservations": r"[DH]2[DH]StreamService: service-core free L1 \({limit_bytes} B\) too small for reservations"
        r" \({program_bytes} B\)",
        "fabric channels": r"(?:Internal error when computing channel sizes\. )?Total channel size (?:of )?{program_bytes}"
        r"(?: B)? exceeds available space (?:of )?{limit_bytes}",
        "prefetcher row": r"Tensor prefetcher cannot fit one K-row of tensor \(.{1,200}?\) into DRISC L1 stage half"
        r" \({limit_bytes} B\)",
        "rebank": r"elem_bytes = {program_bytes} exceeds L1 rebank threshold {limit_bytes}",
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

FEW_DEVICES = "mesh beyond the system"

# TTNN rejects the call for a reason that is not memory: a layout, dtype, grid or parameter that it has no program for. Calls
# that are wrong anywhere (shapes that do not match, a missing argument) are not among them: they stay errors.
REJECTED = {
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
    FEW_DEVICES: r"Requested mesh shape MeshShape\(\[[\d, ]{1,40}\]\) requires \d+ devices, but only \d+ devices",
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

# More shards than cores, banks or devices. Where the call requests no shards, they are TTNN's own, and its failure is an error.
PLACEMENTS = {
    "shard grid": r"\S{1,60}: BLOCK shard-grid \({n}x{n} along x/y\) exceeds compute grid|Shard grid bounding box must fit",
    "shards": r"Number of shards along (?:height|width)(?: {n})? must not exceed (?:number of|core grid) \w",
    "shards of a mesh": r"The sharded tensor does not fit on the Mesh\. Num shards in buffer {n}, Num Devices {n}",
    "shards, in a compiler": r"Assertion \W?gridShape\[0\] <= workerGridVolume\W? failed",
}
