"""The report of ``ssinghal exec`` in a log names the call of a failure; where TTNN's message is there, it is none itself."""

from __future__ import annotations

import io

import pytest

from ssinghal.diagnose.log_reader import read_log
from ssinghal.diagnose.model import FailureKind
from ssinghal.diagnose.parse.own_reports import MARK, call_of

MESSAGE = (
    "RuntimeError: TT_THROW @ /project/tt_metal/impl/program/program.cpp:908: tt::exception\ninfo:\n"
    "Statically allocated circular buffers on core range [(x=0,y=0) - (x=7,y=7)] grow to 1721472 B which is beyond max L1 size"
    " of 1499136 B\n\n"
)
WORDS = "matmul 8192,11008 8192,4096 --attr transpose_a=true --attr core_grid=8,8 --output-memory ttnn"
REPORT = f"""\
ttnn.matmul ran out of memory: circular buffers end at 1,721,472 B, L1 at 1,499,136 B
  at /home/me/mm.py:11 (run): c = ttnn.matmul(a, b, **kw)
    called from /home/me/mm.py:20 (<module>): run()
  nothing was resident before it in L1 per core
  the call of ttnn.matmul: ssinghal probe {WORDS}
  tried with exactly these buffers resident (2 trials, 0.0 s), each of these alone makes the call fit:
    no core_grid, in the call, /home/me/mm.py:11 (run) (TTNN chooses the cores)
  and these do not:
    in0_block_w=4: L1 bank needs 1,024,000 B, 860,832 B free
"""


def marked(text: str, prefix: str = "") -> str:
    return "".join(f"{prefix}{MARK}{line}\n" for line in text.splitlines())


def reading(text: str):
    return read_log(io.BytesIO(text.encode()), "run.log")


@pytest.mark.parametrize("prefix", ["", "2026-11-02T10:11:12.1Z "])
def test_the_call_of_a_failure_that_is_one(prefix):
    read = reading("loading\n" + MESSAGE + marked(REPORT, prefix))
    (failure,) = read.failures
    assert (failure.kind, failure.line, failure.times) == (FailureKind.MEMORY, 2, 1)
    assert failure.verdict.program_bytes == 1_721_472
    assert call_of(failure, read.own_calls) == WORDS
    assert failure.functions[0] == "matmul"
    assert failure.call is not None
    assert failure.call.where == "/home/me/mm.py:11"


@pytest.mark.parametrize("where", [" --board p150", " --ttnn 0.66.0", " --board p150 --ttnn 0.66.0"])
def test_where_the_program_ran_is_no_word_of_the_call(where):
    read = reading(MESSAGE + marked(REPORT.replace(WORDS, WORDS + where)))
    assert call_of(read.failures[0], read.own_calls) == WORDS


def test_another_failure_has_another_call():
    read = reading(MESSAGE.replace("1721472", "1721504") + marked(REPORT))
    first, second = read.failures
    assert call_of(first, read.own_calls) is None
    assert first.functions == ()
    assert second.kind is FailureKind.MEMORY  # the report's, whose message is not in the log
    assert (second.verdict.program_bytes, second.verdict.limit_bytes) == (1_721_472, 1_499_136)


def test_a_handled_failure_has_its_message_in_the_note():
    head, *rest = REPORT.splitlines()
    message = MESSAGE.splitlines()[2]
    note = "\n".join(["the program went on after 1 call that ran out of memory:", head, f"  TTNN: {message}", *rest[:1]])
    (failure,) = reading("all done\n" + marked(note)).failures
    assert failure.kind is FailureKind.MEMORY
    assert (failure.verdict.program_bytes, failure.verdict.limit_bytes) == (1_721_472, 1_499_136)


CRASH = """\
native code ended the program by SIGSEGV of ttnn 0.81.1: no memory verdict
  in ttnn.relu, /home/me/t.py:12 (<module>): y = ttnn.relu(x)
  ttnn.begin_trace_capture of /home/me/t.py:11 (<module>) began a trace, and ttnn 0.81.1 crashes at the first operation in it
  the virtual device captures and replays no traces: ssinghal exec --no-trace runs the program without: as it is called
"""


def test_a_crash():
    (failure,) = reading(marked(CRASH)).failures
    assert (failure.kind, failure.verdict.error_type) == (FailureKind.CRASH, "SIGSEGV")
    assert "ttnn.relu, /home/me/t.py:12" in failure.verdict.message
    assert "--no-trace" in failure.verdict.message
    (failure,) = reading("run.sh: line 3: 4711 Segmentation fault      python t.py\n" + marked(CRASH)).failures
    assert failure.line == 1


def test_other_lines_of_the_program_are_read_as_ever():
    assert len(reading(MARK + MESSAGE).failures) == 1
    assert reading(f"{MARK}virtual n150: memory verdicts are TTNN's own, every value read back is meaningless\n").failures == ()
