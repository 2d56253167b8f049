"""What the runtime does when compiled code calls it: numbers are checked, memory is given, endless loops end."""

import ctypes
import functools
from typing import Any

import numpy as np
import pytest
from size_reference import compiled

from stepwell.dialects.core.layout import Slot
from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.runtime_interface import ANSWER, FUNCTIONS, RUNTIME, VERSION
from stepwell.dialects.core.segments import Segment, decided_assumptions, symbol_places
from stepwell.dialects.core.size_table import Status
from stepwell.dialects.core.sizes import Assumption, symbol
from stepwell.dialects.support.buffers import address
from stepwell.dialects.support.errors import CodegenError, IndexRangeError, LimitError, SizesDifferError
from stepwell.driver.build import late_segment
from stepwell.passes.bufferize.size_function import add_segment_function
from stepwell.runtime import late_sizes as module
from stepwell.runtime.late_sizes import RUNTIME_ADDRESS, LateSizes, Run, running
from stepwell.runtime.loader import LoadedCode
from stepwell.signature import TensorInfo

N, M, K = symbol("n"), symbol("m"), symbol("k")
SEGMENTS = [
    Segment("first", 1, (M,), (Slot(4 * M, ()), Slot(8 * M * N, ()), Slot(4 * M, ())), outputs=((0, 1),), boxes=((2, 0),), shapes=((M, 1),)),
    Segment("second", 9, (K, M, 3), (Slot(4 * K, ()),)),
]
"""Entry 0 is n; 1 is m, then 2 to 4 its buffers, and 5 to 8 what the code tells of them; 9 to 11 are k, m again and 3, 12 a buffer, 13 its bytes."""
ENTRIES = 15
OUTPUTS = [TensorInfo("y", (4,), np.dtype(np.float32)), TensorInfo("z", ("m", 1), np.dtype(np.float32))]
ASSUMED = (Assumption(N, ">", 1), Assumption(M, "<=", N), Assumption(K, "==", N + M), Assumption(60 // M, "<", 60))


@functools.cache
def codes() -> LoadedCode:
    """The functions of the segments, without assumptions as `plain_0` and with them as `assumed_0`."""
    with make_context(), ir.Location.file("test", 1, 1) as location:
        module = ir.Module.create()
        names = []
        for kind, assumptions in (("plain", ()), ("assumed", ASSUMED)):
            decided = decided_assumptions(SEGMENTS, ["n"], assumptions)
            for number, segment in enumerate(SEGMENTS):
                add_segment_function(module.operation, ENTRIES, segment, number, symbol_places(SEGMENTS, ["n"]), decided[number], location)
                names.append(f"{kind}_{number}")
                module.body.operations[0].operation.attributes["sym_name"] = ir.StringAttr.get(names[-1])
        return compiled(module, *names)


def late(assumptions: Any = (), most: tuple[int, int] = (1 << 20, 100)) -> LateSizes:
    decided = decided_assumptions(SEGMENTS, ["n"], assumptions)
    segments = [late_segment(segment, assumed) for segment, assumed in zip(SEGMENTS, decided, strict=True)]
    return LateSizes(segments, ENTRIES, symbol_places(SEGMENTS, ["n"]), *most, OUTPUTS)


def run_of(program: LateSizes, n: int = 5, workspace: int = 1 << 16) -> Run:
    table = np.full(program.entries, -7, np.int64)
    table[0] = n
    return Run(program, table, workspace, [np.empty(4, np.float32), None])


def raise_any(run: Run, code: int) -> None:
    """What a status leads to."""
    if code:
        raise run.error_for(code)


def complete(run: Run, segment: int, *numbers: int) -> int:
    """Have the code look at the numbers of a segment; what it finds wrong."""
    start = SEGMENTS[segment].start
    run.table[start : start + len(numbers)] = numbers
    kind = "assumed" if run.late.segments[0].assumptions else "plain"
    return codes().function(f"{kind}_{segment}", 1, status=True)(address(run.table))


def enter(run: Run, segment: int, *numbers: int) -> None:
    """What a program does when it has computed the numbers of a segment."""
    raise_any(run, complete(run, segment, *numbers))
    run.enter(segment)


def hold_the_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a loop is answered depends on the time since it asked last. The time, in seconds, which only the test changes."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_memory_is_given_when_a_size_is_known() -> None:
    run = run_of(late())
    enter(run, 0, 3)
    output = run.outputs[1]
    assert output.shape == (3, 1)
    assert output.dtype == np.float32
    assert run.table[2] == address(output) - (1 << 16)  # so far from the workspace
    block = run.blocks[0]
    assert block.nbytes == 128  # 8 * 3 * 5, in whole lines; the output and the box are elsewhere
    assert run.table[3] == address(block) - (1 << 16)
    (box,) = run.boxes._blocks
    assert run.table[4] == box - (1 << 16)
    assert run.boxes._blocks[box].nbytes >= 12
    enter(run, 1, 200, 3, 3)
    assert run.table[12] == address(run.blocks[1]) - (1 << 16)
    assert run.blocks[1].nbytes >= 800
    assert run.outputs[0].shape == (4,)  # which waits for nothing


def test_memory_of_a_segment_is_used_again_in_the_next_round() -> None:
    run = run_of(late())
    enter(run, 0, 30)
    block = run.blocks[0]
    enter(run, 0, 10)
    assert run.blocks[0] is block
    assert run.outputs[1].shape == (10, 1)
    enter(run, 0, 300)
    assert run.blocks[0] is not block
    assert run.blocks[0].nbytes >= 8 * 300 * 5


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((200, 4, 3), "second: the data ask for the size 4, where m is 3"), ((200, 3, 4), "second: the data ask for the size 4, where 3 is expected"),
        ((-1, 3, 3), "second: the data ask for the size -1; expected a number from 0"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_errors(numbers: tuple[int, ...], message: str) -> None:
    run = run_of(late())
    enter(run, 0, 3)
    with pytest.raises(IndexRangeError, match=message):
        enter(run, 1, *numbers)
    enter(run, 1, 0, 3, 3)


def test_what_is_assumed_is_checked_as_soon_as_its_sizes_are_known() -> None:
    run = run_of(late(ASSUMED))
    with pytest.raises(IndexRangeError, match=r"first: the data ask for sizes that do not fit: expected m <= n, got m = 6, n = 5"):
        enter(run, 0, 6)
    enter(run, 0, 5)
    with pytest.raises(IndexRangeError, match=r"second: .* got k = 9, m = 5, n = 5"):
        enter(run, 1, 9, 5, 3)
    enter(run, 1, 10, 5, 3)
    with pytest.raises(SizesDifferError, match=r"second: .* expected k == m \+ n, got k = 1, m = 5, n = 5"):
        enter(run, 1, 1, 5, 3)
    with pytest.raises(IndexRangeError, match=r"first: .* expected 60 // m < 60, got m = 0"):
        enter(run, 0, 0)


def test_numbers_that_do_not_fit_64_bits_are_one_error() -> None:
    many = 1 << 61
    with pytest.raises(LimitError, match=rf"first: results for m = {many}, n = 5 would take at least {1 << 62} bytes of memory"):
        enter(run_of(late()), 0, many)
    run = run_of(late())
    enter(run, 0, 1)
    with pytest.raises(LimitError, match=rf"second: results for k = {(1 << 59) - 16} would take {(1 << 61) - 64 + 72} bytes of memory"):
        enter(run, 1, (1 << 59) - 16, 1, 3)  # beside the box of the first segment


def test_memory_has_a_limit_that_counts_all() -> None:
    needed = 8 * 40 * 5 + 192 + 192  # of 40 rows: the buffer, the output and the box, in whole lines
    enter(run_of(late(most=(needed, 1))), 0, 40)
    with pytest.raises(LimitError, match=rf"first: results for m = 40, n = 5 would take {needed} bytes of memory, more than {needed - 1} "):
        enter(run_of(late(most=(needed - 1, 1))), 0, 40)


def test_boxes_of_earlier_rounds_count_too() -> None:
    run = run_of(late(most=(8 * 40 * 5 + 2 * 192 + 2 * 216 + 1, 1)))  # a box takes an eighth more than 192
    for _ in range(3):
        enter(run, 0, 40)
    with pytest.raises(LimitError):
        enter(run, 0, 40)


def test_a_loop_asks_again_about_every_twentieth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = hold_the_clock(monkeypatch)
    run = run_of(late(most=(1, 1 << 40)))
    now[0] += 2**-10
    assert run.poll(1) == 1 + 51  # a round has taken about a millisecond
    now[0] += 2**-3
    assert run.poll(52) == 52 + 20  # 51 rounds have taken an eighth of a second
    now[0] += 16
    assert run.poll(72) == 73  # slow ones: before each
    now[0] += 2**-4
    assert run.poll(3) == 3 + 2  # of another loop, which has begun since
    now[0] += 1e-9
    assert run.poll(1 << 30) == (1 << 30) + (1 << 20)  # never more than so many at once


def test_a_loop_ends_after_too_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_the_clock(monkeypatch)
    run = run_of(late())
    assert run.poll(1) == 100  # at the latest
    assert run.poll(99) == 100
    with pytest.raises(LimitError, match="a loop goes on after 100 rounds, more than it may"):
        run.poll(100)
    with pytest.raises(LimitError):
        run.poll(101)


def called(name: str, table: np.ndarray, number: int) -> int:
    """As compiled code does it: no answer is there before. The status."""
    table[ANSWER] = 0
    version, *functions = (ctypes.c_int64 * (1 + len(FUNCTIONS))).from_address(int(table[RUNTIME]))
    assert (version, table[RUNTIME]) == (VERSION, RUNTIME_ADDRESS)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    kind(functions[FUNCTIONS.index(name)])(RUNTIME_ADDRESS, address(table), number)
    return Status.OK if table[ANSWER] else Status.STOPPED


def test_compiled_code_reaches_the_run_by_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_the_clock(monkeypatch)
    one, two = run_of(late()), run_of(late(), n=6)
    with monkeypatch.context() as patch:
        for run in (one, two):
            patch.setitem(running, address(run.table), run)
        for run, m in ((one, 3), (two, 4)):
            assert complete(run, 0, m) == 0
            raise_any(run, called("enter", run.table, 0))
            assert run.table[-1] == 1
            assert run.outputs[1].shape == (m, 1)
        called("poll", one.table, 1)
        assert one.table[-1] == 100
        said = np.array([0, -1], np.int64)
        called("keep", one.table, address(said))
        assert one.table[-1] == 1
        assert said[1] == 1  # the box that was taken
    assert not running


def test_an_error_is_kept_and_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(late())
    with monkeypatch.context() as patch:
        patch.setitem(running, address(run.table), run)
        complete(run, 0, 1 << 20)
        with pytest.raises(LimitError, match="results for m"):
            raise_any(run, called("enter", run.table, 0))
        with pytest.raises(LimitError, match="rounds"):
            raise_any(run, called("poll", run.table, 1000))


def test_a_run_that_ends_without_an_answer_was_interrupted() -> None:
    run = run_of(late())
    raise_any(run, Status.OK)
    with pytest.raises(KeyboardInterrupt):
        raise_any(run, Status.STOPPED)
    with pytest.raises(CodegenError, match="another version of the runtime"):
        raise_any(run, Status.INTERFACE)
