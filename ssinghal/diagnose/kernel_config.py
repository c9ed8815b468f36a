"""Explains arguments and code of kernels that exceed their room, and which setting changes that room, if any.

``worker_l1_size`` decides the room on a Tensix core alone: the kernel config buffer is what it leaves of the L1 below the
tensors, in multiples of 32 bytes (64 on a Blackhole), measured on virtual boards of 0.66.0 and 0.81.1. All else is compiled
into a build.
"""

from __future__ import annotations

from collections.abc import Iterator

from ssinghal.core.tensors import format_bytes, round_up
from ssinghal.core.verdict import Resource, Verdict

ALIGNMENT = 64  # bytes; of the kernel config buffer's size on a Blackhole, and a multiple of a Wormhole's
# MEM_ERISC_KERNEL_CONFIG_SIZE of a Blackhole in dev_mem_map.h of the wheels 0.66.0, 0.75.0 and 0.81.1.
ETHERNET_UNTIL_0_75_0, ETHERNET_0_81_1 = 25 * 1024, 26 * 1024
_CONSTANT = "a constant of the build: no option of open_device changes it, worker_l1_size included"


def is_on_ethernet_core(verdict: Verdict) -> bool:
    """Whether the program is one of Ethernet cores, which fabric, dispatch and old collectives have: no call on one chip."""
    return verdict.resource is Resource.KERNEL_CONFIG and "_eth" in verdict.message.lower()


def kernel_config_lines(verdict: Verdict) -> Iterator[str]:
    """Yields the figures, then what changes the room. ``verdict``: of the resource KERNEL_CONFIG."""
    message = verdict.message.lower()
    of_program = "kernel config buffer" in message
    is_ethernet = is_on_ethernet_core(verdict)
    arguments = "runtime arg" in message and not of_program
    need, limit = verdict.program_bytes, verdict.limit_bytes
    if need is not None and limit is not None:
        what = "arguments and code need" if of_program else "its arguments need" if arguments else "its code needs"
        where = " per Ethernet core" if is_ethernet else " per core" if of_program else ""
        yield f"{what} {format_bytes(need)} of {format_bytes(limit)}{where}"
        yield f"missing: {format_bytes(need - limit)}"
    if not of_program:
        yield from _fixed_room(message, arguments=arguments)
    elif is_ethernet:
        yield f"the room on an Ethernet core is {_CONSTANT}"
        if limit == ETHERNET_UNTIL_0_75_0 and need is not None and need <= ETHERNET_0_81_1:
            newer = f"0.81.1 has {ETHERNET_0_81_1:,} B, enough for a program of this size"
            yield f"0.66.0 and 0.75.0 have {limit:,} B there on a Blackhole; {newer}"
    elif need is not None and limit is not None and need > limit:
        smaller, room = round_up(need - limit, ALIGNMENT), round_up(need, ALIGNMENT)
        size = (
            f"a worker_l1_size of ttnn.device.get_max_worker_l1_unreserved_size() - {room:,}, {smaller:,} B smaller than now,"
        )
        if "tensix" in message:
            yield f"{size} makes that room, at the cost of the L1 banks"
        else:
            yield f"on a Tensix core, {size} makes that room; else no setting does"


def _fixed_room(message: str, *, arguments: bool) -> Iterator[str]:
    if "worker_l1_size" in message:
        return  # the message has the advice itself
    if arguments:
        yield f"the room for one kernel's runtime arguments is {_CONSTANT}"
        yield "the number of arguments often grows with the shards, tensors or cores that one kernel serves"
    elif "runtime-arg" in message:
        yield f"the number of runtime arguments that a kernel may have is {_CONSTANT}"
    else:
        yield f"the room for a kernel's code is {_CONSTANT}"
