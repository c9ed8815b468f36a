"""The code that is shown is the code that ran, for every operator and for remedies with loops."""

import pytest

from ssinghal.core.case import Placement
from ssinghal.core.tensors import BufferType, Layout
from ssinghal.core.verdict import Status, Verdict
from ssinghal.device.code_writer import Expression, RecordedCall, Ref, script_lines
from ssinghal.device.modes import choose_device
from ssinghal.errors import InvalidCase
from ssinghal.operators import families, make_case
from ssinghal.remedy.problem import Problem
from ssinghal.runner.pool import Pool
from tests.support.rerun_task import RerunTask

SHAPE = (2, 64, 32, 64)
WITH_SAMPLES = [info for members in families().values() for info in members if info.sample and info.call]


@pytest.fixture(scope="module")
def pool():
    with Pool(choose_device("virtual", "n150")) as opened:
        yield opened


def problem(pool, name, *shapes, placement=Placement(), **attrs):
    return Problem.of(make_case(name, shapes, attrs, placement), Verdict(Status.FITS), pool.facts.opened_board)


@pytest.mark.virtual_device
@pytest.mark.parametrize("info", WITH_SAMPLES, ids=lambda info: info.name)
def test_the_code_of_every_operator_runs_and_gives_its_results(pool, info):
    """The operands of the code are not freed, so the results must be among what it leaves."""
    sample = info.sample(SHAPE)
    placement = Placement(channels_last=sample.channels_last)
    try:
        case = problem(pool, info.name, *sample.inputs, placement=placement, **sample.attrs)
    except InvalidCase as error:
        pytest.skip(str(error))
    again = pool.run(RerunTask(case.trial())).result()
    assert again.tried.verdict.status in (Status.FITS, Status.UNSUPPORTED, Status.ERROR, Status.MISMATCH), again.tried.verdict
    if again.tried.works:
        assert again.raised == ""
        results = [(result.shape, result.dtype, result.layout) for result in again.code_results]
        assert all((expected.shape, expected.dtype, expected.layout) in results for expected in case.call.outputs)


@pytest.mark.virtual_device
def test_the_code_of_a_failing_call_fails_with_the_same_message(pool):
    """Two operands, 1,064,960 B per bank together, leave 328,352 B of 1,393,312 B; the result has 34,078,720 B."""
    placement = Placement(memory=BufferType.L1, channels_last=True)
    again = pool.run(
        RerunTask(problem(pool, "add", (1, 64, 640, 400), (1, 64, 640, 400), placement=placement).trial())
    ).result()
    assert again.tried.verdict.free_bytes == 328_352
    assert "allocate 34078720 B L1 buffer across 64 banks" in again.raised
    assert "free: 328352 B" in again.raised


@pytest.mark.virtual_device
def test_the_code_of_pieces_is_a_loop_that_gives_the_complete_result(pool):
    relu = problem(pool, "relu", (1, 100, 64, 64), placement=Placement(memory=BufferType.L1))
    from ssinghal.remedy.strategies.chunking import cuts_of

    cut = cuts_of(relu)[0]
    again = pool.run(RerunTask(cut.trial(relu, 4))).result()
    assert again.tried.works
    assert sum("for i in range(0, 100, 25):" in line for line in again.tried.code) == 1
    assert sum("ttnn.relu(" in line for line in again.tried.code) == 1
    assert again.raised == ""
    assert any(got.shape == (1, 100, 64, 64) and got.memory.buffer is BufferType.DRAM for got in again.code_results)


@pytest.mark.virtual_device
def test_row_major_operands_and_other_dtypes_are_written(pool):
    from ssinghal.core.tensors import DType

    placement = Placement(dtype=DType.FLOAT32, layout=Layout.ROW_MAJOR)
    tried = pool.run(RerunTask(problem(pool, "permute", (4, 6, 8), placement=placement, dims=[2, 0, 1]).trial())).result().tried
    assert tried.code[0] == (
        "a = ttnn.empty([4, 6, 8], dtype=ttnn.float32, layout=ttnn.ROW_MAJOR_LAYOUT, device=device,"
        " memory_config=ttnn.DRAM_MEMORY_CONFIG)"
    )
    assert tried.code[1].startswith("t0 = ttnn.permute(a, [2, 0, 1]")


# Writing ------------------------------------------------------------------------------------------------------------------


def call(function, args, result=(), piece=None, **kwargs):
    return RecordedCall(function, tuple(args), tuple(kwargs.items()), tuple(result), piece=piece)


def test_pieces_that_differ_by_one_step_are_a_range():
    calls = [
        c
        for i in range(3)
        for c in (
            call("ttnn.cut", [Ref(0), i * 8, i * 8 + 8], [2 * i + 1], i),
            call("ttnn.op", [Ref(2 * i + 1)], [2 * i + 2], i),
        )
    ]
    calls.append(call("ttnn.concat", [[Ref(2), Ref(4), Ref(6)]], [7], dim=0))
    assert script_lines([call("ttnn.empty", [], [0]), *calls], {0: "a"}) == [
        "a = ttnn.empty()",
        "pieces = []",
        "for i in range(0, 24, 8):",
        "    p0 = ttnn.cut(a, i, i + 8)",
        "    p1 = ttnn.op(p0)",
        "    pieces.append(p1)",
        "t0 = ttnn.concat(pieces, dim=0)",
        "del pieces",
    ]


def test_pieces_of_several_sizes_are_a_list_and_different_ones_are_separate():
    cut = [call("ttnn.cut", [Ref(0), begin, end], [i + 1], i) for i, (begin, end) in enumerate([(0, 9), (8, 17), (16, 20)])]
    other = call("ttnn.cut", [Ref(0), 20, 24, "edge"], [4], 3)
    lines = script_lines([*cut, other, call("ttnn.concat", [[Ref(n) for n in (1, 2, 3, 4)]], [5])], {0: "a"})
    assert lines == [
        "pieces = []",
        "for i, j in [(0, 9), (8, 17), (16, 20)]:",
        "    p0 = ttnn.cut(a, i, j)",
        "    pieces.append(p0)",
        "p0 = ttnn.cut(a, 20, 24, 'edge')",
        "pieces.append(p0)",
        "t0 = ttnn.concat(pieces)",
        "del pieces",
    ]


@pytest.mark.parametrize(
    ("order", "shown"),
    [
        ([1, 2, 3], "pieces"),
        ([3, 2, 1], "[pieces[2], pieces[1], pieces[0]]"),
        ([1, 3, 2], "[pieces[0], pieces[2], pieces[1]]"),
        ([1, 2, 3, 3], "[pieces[0], pieces[1], pieces[2], pieces[2]]"),
    ],
)
def test_pieces_are_taken_in_the_order_of_the_call(order, shown):
    cut = [call("ttnn.cut", [Ref(0), i], [i + 1], i) for i in range(3)]
    joined = call("ttnn.concat", [[Ref(n) for n in order]], [4])
    assert script_lines([*cut, joined], {0: "a"})[-2:] == [f"t0 = ttnn.concat({shown})", "del pieces"]


def test_pieces_are_deleted_when_the_last_of_them_was_used():
    cut = [call("ttnn.cut", [Ref(0), i], [i + 1], i) for i in range(3)]
    taken = [call("ttnn.add", [Ref(1), Ref(2)], [4]), call("ttnn.relu", [Ref(3)], [5])]
    assert script_lines([*cut, *taken], {0: "a"})[-3:] == [
        "t0 = ttnn.add(pieces[0], pieces[1])",
        "t1 = ttnn.relu(pieces[2])",
        "del pieces",
    ]


def test_a_tensor_is_deleted_after_its_last_use_unless_it_has_a_name():
    calls = [
        call("ttnn.f", [Ref(0)], [1]),
        call("ttnn.g", [Ref(1), Expression("ttnn.X")], [2]),
        call("ttnn.h", [Ref(2), Ref(0)], [3]),
    ]
    assert script_lines(calls, {0: "a"}) == [
        "t0 = ttnn.f(a)",
        "t1 = ttnn.g(t0, ttnn.X)",
        "del t0",
        "t2 = ttnn.h(t1, a)",
        "del t1",
    ]
