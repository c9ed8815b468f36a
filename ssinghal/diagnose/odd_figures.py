"""States what is odd about the figures of a message: sizes that wrapped around, and figures that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from ssinghal.core.verdict import Verdict

BITS_OF_SIZE, BITS_OF_ADDRESS = 64, 32  # in which TTNN computes sizes of buffers and addresses in an L1
_NEAR = 8  # a number this many powers of two closer to the wrap than to 0 is a negative one, printed without its sign
# What the allocator adds where other buffers' lifetimes keep free bytes from being used: what is left of them, and in what.
_OF_DEPENDENCIES = "After subtracting "


def signed(value: int, bits: int) -> int | None:
    """Returns the negative number that ``value`` is with a sign, None where it can be a number without one.

    >>> signed(2**64 - 2048, 64), signed(2048, 64)
    (-2048, None)
    """
    below = 2**bits - value
    return -below if 0 < below <= 2 ** (bits - _NEAR) else None


def wrapped_line(value: int, bits: int) -> str:
    """Returns a line on ``value`` where it is a negative number without its sign, else ""."""
    number = signed(value, bits)
    if number is None:
        return ""
    return f"{value:,} is {number:,} as a signed number of {bits} bits: the size was computed wrongly, nothing is as large"


def odd_lines(verdict: Verdict) -> Iterator[str]:
    """Yields what is odd about the figures of a buffer that does not fit."""
    total, banks, each = verdict.total_bytes, verdict.banks, verdict.bytes_per_bank
    sizes = [size for size in dict.fromkeys((total, each)) if size is not None]
    yield from filter(None, (wrapped_line(size, BITS_OF_SIZE) for size in sizes))
    if total is not None and banks is not None and each is not None and banks * each < total:
        yield f"contradictory: {banks:,} banks of {each:,} B hold {total - banks * each:,} B less than the buffer"
    bank, allocated, free = verdict.bank_bytes, verdict.allocated_bytes, verdict.free_bytes
    if bank is not None and allocated is not None and free is not None and allocated + free != bank:
        yield f"contradictory: allocated and free bytes add up to {allocated + free:,} B, not to the bank's {bank:,} B"
    largest = verdict.largest_free_bytes
    if free is not None and largest is not None and largest > free:
        yield f"contradictory: the largest free block exceeds all free bytes by {largest - free:,} B"
    elif largest is not None and each is not None and largest >= each:
        why = "and the message does not state why it cannot be used"
        why = (
            "but not where dependencies on other buffers allow it"
            if "considering dependencies" in verdict.message.lower()
            else why
        )
        yield f"odd: the largest free block would hold it, {why}"
    _, subtracting, rest = verdict.message.partition(_OF_DEPENDENCIES)
    if subtracting:
        yield f"{_OF_DEPENDENCIES.lower()}{rest}"
