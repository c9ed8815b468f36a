"""Lines of a megabyte with many openings of messages: each of these takes minutes where a search begins anew at every one."""

import io

import pytest

from ssinghal.device.error_patterns import OPENING, known_wording
from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.parse.error_lines import error_starts
from ssinghal.diagnose.parse.prefixes import Prefix

ERROR = '"RuntimeError: '


@pytest.mark.parametrize("count", [1, 20_000])
def test_strings_before_an_expression_count_and_those_after_it_do_not(count: int) -> None:
    before, after = ERROR * count, ERROR * count
    text = f'x {before}" match= {after}"'
    ends = [i + len(ERROR) for i in range(2, 2 + len(before), len(ERROR))]
    introduced = [start.at for start in error_starts(text, Prefix()) if start.bare]
    assert introduced[:count] == ends[:count]
    assert all(at <= 2 + len(before) for at in introduced)


@pytest.mark.parametrize("word", ['{"name":"l1_kernel","memory":"x"},', "QUJD", "/kernel/memory"])
def test_text_without_blanks_has_no_failure(word: str) -> None:
    log = word * (100_000 // len(word)) + " memory\n"
    assert read_log(io.BytesIO(log.encode()), "log").failures == ()


@pytest.mark.parametrize("before", ["", "info: ", "'", '"', "(", "file:"])
@pytest.mark.parametrize(
    "message",
    [
        "/cache/kernels/trisc1.elf: segment[0] [0x0000,+0x1000) overflows region:L1 limit of 0x800",
        "/opt/riscv/bin/ld: /tmp/a-b+c/trisc1.elf region `TRISC1_CODE' overflowed by 20 bytes",
        "/opt/riscv/bin/ld.bfd: region `TRISC1_CODE' overflowed by 1500 bytes",
    ],
)
def test_a_path_may_begin_a_message(before: str, message: str) -> None:
    opening = OPENING.search(f"x {before}{message}")
    assert opening is not None
    assert opening.start() <= len(f"x {before}")
    assert known_wording("RuntimeError", message)[0] is not None
