"""Plans of `fuse-loops`: who leads, along which loops, which stages are inside, and the loops that are written on the ops."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from linalg_stages import ParsedGroup, group_of

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.sched.fused_loops import FusedLoop
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.target.description import GENERIC
from stepwell.passes.framework.decisions import Decisions
from stepwell.passes.framework.registry import PassState
from stepwell.passes.linalg.fusion_group import FusionGroup
from stepwell.passes.schedule.fuse_loops import FuseLoops
from stepwell.passes.schedule.loop_plans import LoopPlan, Room, leader_of, moving, plan_of

PLENTY = Room(cache=1 << 20, last=1 << 24, chunks=1)


@pytest.fixture(autouse=True)
def context() -> Iterator[ir.Context]:
    with make_context() as made:
        yield made


def plan(group: FusionGroup) -> LoopPlan:
    """The plan over the first operand that may move."""
    leader = leader_of(group)
    assert leader is not None
    return plan_of(group, leader, moving(group, leader)[0])


def loops(group: FusionGroup) -> list[list[FusedLoop]]:
    """What is written on the root of each stage."""
    return [list(ScheduleInfo(stage.root.operation).fused) for stage in group.stages]


def test_the_last_of_equal_products_leads() -> None:
    shapes = dict.fromkeys("abc", "8x8")
    group = group_of(dict.fromkeys("xwvu", "8x8"), [("a", "i j | k: x[i, k] w[k, j]"), ("b", "i j | k: a[i, k] v[k, j]")], shapes)
    assert leader_of(group) is group.stages[1]
    bigger = group_of({"x": "8x9", "w": "9x8", "v": "8x8"}, [("a", "i j | k: x[i, k] w[k, j]"), ("b", "i j | k: a[i, k] v[k, j]")], shapes)
    assert leader_of(bigger) is bigger.stages[0]


def test_products_that_hand_something_on_lead_before_others() -> None:
    shapes = {"a": "4x4", "b": "4x4", "c": "4", "d": "16x16"}
    alone = ("d", "i j | k: y[i, k] y[k, j]")
    group = group_of({"x": "4x4", "y": "16x16"}, [alone, ("a", "i j: x[i, j]"), ("b", "i j | k: a[i, k] x[k, j]")], shapes)
    assert leader_of(group) is group.stages[2]
    sums = group_of({"x": "4x4", "y": "16x16"}, [("a", "i j: x[i, j]"), ("c", "i | j: a[i, j]")], shapes)
    assert leader_of(sums) is sums.stages[1]
    assert leader_of(group_of({"x": "4x4"}, [("a", "i j: x[i, j]")], shapes)) is None


def test_what_the_kernel_computes_moves_or_else_the_first_operand() -> None:
    shapes = {"a": "4x6", "b": "5x6", "c": "5x6"}
    group = group_of({"x": "5x4", "y": "4x6"}, [("a", "i j: y[i, j]"), ("b", "i j | k: x[i, k] a[k, j]")], shapes)
    assert [read.value for read in moving(group, group.stages[1])] == [group.stages[1].root.inputs[1].value]
    group = group_of({"x": "5x4", "y": "4x6"}, [("b", "i j | k: x[i, k] y[k, j]"), ("c", "i j: b[i, j]")], shapes)
    assert [read.value for read in moving(group, group.stages[0])] == [group.stages[0].root.inputs[0].value]


def test_loops_that_vectors_run_along_are_not_fused() -> None:
    group = group_of({"x": "4x64x9", "w": "9"}, [("a", "n j k: x[n, j, k]"), ("b", "n j | k: a[n, j, k] w[k]")], {"a": "4x64x9", "b": "4x64"})
    assert [axis.leader for axis in plan(group).axes] == [0]
    group = group_of({"x": "64x9", "w": "9"}, [("a", "j k: x[j, k]"), ("b", "j | k: a[j, k] w[k]")], {"a": "64x9", "b": "64"})
    assert plan(group).axes == []


def test_stages_that_have_no_such_loop_stay_outside_from_the_last_on() -> None:
    # The sum over all rows wants them all; it has a loop over c in common with what it reads, but not in the rounds of rows.
    lines = [("a", "i c j | k: x[i, k] w[c, k, j]"), ("b", "i c j: a[i, c, j]"), ("d", "c j | i: b[i, c, j]")]
    group = group_of({"x": "8x5", "w": "3x5x6"}, lines, {"a": "8x3x6", "b": "8x3x6", "d": "3x6"})
    found = plan(group)
    assert found.fused.stages == group.stages[:2]
    assert [axis.leader for axis in found.axes] == [0]
    assert found.inner == {}
    assert found.apply({found.axes[0]: 2}, 3, 1 << 20)
    assert loops(group) == [[FusedLoop("loop0", 0, 2, 3)], [FusedLoop("loop0", 0, 2, 3)], []]


def test_stages_beside_the_leader_have_one_more_loop_but_not_the_one_that_vectors_run_along() -> None:
    lines = [("a", "i c j: x[i, c, j]"), ("b", "i c j: a[i, c, j]"), ("d", "i m | c j: b[i, c, j] w[c, j, m]")]
    group = group_of({"x": "8x3x6", "w": "3x6x9"}, lines, {"a": "8x3x6", "b": "8x3x6", "d": "8x9"})
    found = plan(group)
    assert {stage: axis.leader for stage, axis in found.inner.items()} == dict.fromkeys(group.stages[:2], 1)
    assert found.apply({found.axes[0]: 4}, 8, 1 << 20)
    inner = [FusedLoop("loop0", 0, 4, 2), FusedLoop("inner1", 1, 1, 1)]  # two rounds: no more than two chunks
    assert loops(group) == [inner, inner, inner[:1]]
    lines = [("a", "i j: x[i, j]"), ("b", "i j: a[i, j]"), ("d", "i m | j: b[i, j] w[j, m]")]
    assert plan(group_of({"x": "8x6", "w": "6x9"}, lines, {"a": "8x6", "b": "8x6", "d": "8x9"})).inner == {}


def test_no_loop_beside_the_leader_in_which_something_is_read_again() -> None:
    lines = [("a", "i c j: x[i, j]"), ("b", "i c j: a[i, c, j]"), ("d", "i m | c j: b[i, c, j] w[c, j, m]")]
    group = group_of({"x": "8x6", "w": "3x6x9"}, lines, {"a": "8x3x6", "b": "8x3x6", "d": "8x9"})
    assert plan(group).inner == {}


def two_products(rows: int, middle: int, columns: int) -> ParsedGroup:
    """x w v with so many rows, of which w makes `middle` columns."""
    shapes = {"a": f"{rows}x{middle}", "b": f"{rows}x{columns}"}
    lines = [("a", "i j | k: x[i, k] w[k, j]"), ("b", "i j | k: a[i, k] v[k, j]")]
    return group_of({"x": f"{rows}x8", "w": f"8x{middle}", "v": f"{middle}x{columns}"}, lines, shapes)


def steps(found: LoopPlan, room: Room) -> list[int]:
    chosen, (_, size, _, rounds) = found.best(room)
    assert rounds == (1 if not chosen else found.leader.root.extents[found.axes[0].leader] // chosen[found.axes[0]])
    assert size > 0
    return list(chosen.values())


def test_slices_are_as_large_as_fits_and_rounds_split_evenly() -> None:
    found = plan(two_products(120, 512, 64))  # a row of what is handed on is 2 KB, and all of it 240 KB; 130 KB of weights are read in each round
    assert steps(found, PLENTY) == []  # all of it fits in one round
    small = replace(PLENTY, cache=400 << 10)  # a quarter of it is 50 rows, three quarters of it hold slices and weights
    assert steps(found, small) == [40]
    assert steps(found, replace(small, chunks=4)) == [30]
    assert steps(found, replace(small, chunks=7)) == [20]  # six rounds for seven chunks: the busiest has a sixth more than the average
    assert steps(found, replace(small, chunks=8)) == [15]  # with them it would have a third more
    assert steps(found, replace(PLENTY, cache=4 << 10, last=1 << 10)) == []  # weights would be read again for each few rows


def test_another_loop_is_outermost_where_the_first_one_does_not_split_evenly() -> None:
    lines = [("a", "h i j | k: x[h, i, k] w[k, j]"), ("b", "h i j | k: a[h, i, k] v[k, j]")]
    group = group_of({"x": "3x64x8", "w": "8x512", "v": "512x64"}, lines, {"a": "3x64x512", "b": "3x64x64"})
    found, room = plan(group), replace(PLENTY, cache=400 << 10)
    outermost = [next(iter(found.best(replace(room, chunks=chunks))[0])).leader for chunks in (1, 3, 4)]
    assert outermost == [0, 0, 1]  # three images cannot be dealt out to four chunks


def test_little_work_is_not_dealt_out() -> None:
    assert GENERIC.costs.threaded_work == 1 << 15
    for rows, chunks in ((341, 1), (342, 4)):  # each is 384 products, four of which count as one iteration
        assert FuseLoops(chunks=4)._chunks(two_products(rows, 16, 16), GENERIC) == chunks


@pytest.mark.parametrize("sizes", [(0, 4, 4), (8, 0, 4), (8, 4, 0)])
def test_stages_without_work_are_left_alone(sizes: tuple[int, int, int]) -> None:
    group, decisions = two_products(*sizes), Decisions()
    FuseLoops().run(group.function, PassState(target=GENERIC, decisions=decisions))
    assert [entry.what for entry in decisions.declined] == ["some of its stages have nothing to do"]
    assert loops(group) == [[], []]


@pytest.mark.parametrize(("queries", "step"), [(197, 197), (192, 4), (200, 4), (3, 3)])
def test_rounds_have_enough_queries_for_keys_to_be_loaded_for_several(queries: int, step: int) -> None:
    """Sizes with no small divisors are computed whole, where they fit: one query at a time would load each key for itself."""
    shapes = {"a": f"6x{queries}x96", "b": f"6x{queries}x8"}
    lines = [("a", "h i j | k: q[h, i, k] w[h, k, j]"), ("b", "h i j | k: a[h, i, k] v[h, k, j]")]
    group = group_of({"q": f"6x{queries}x8", "w": "6x8x96", "v": "6x96x8"}, lines, shapes)
    found = plan(group)
    [axis] = [axis for axis in found.axes if axis.leader == 1]
    assert min(steps.get(axis, queries) for steps in found._options(found.axes)) == step
