"""Fusion groups: who hands what to whom, and the loops that stages have in common over it."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from linalg_stages import group_of

from stepwell.dialects.core.mlir import ir, make_context
from stepwell.dialects.core.sizes import symbol
from stepwell.passes.linalg.fusion_group import Axis, FusionGroup, ratio


@pytest.fixture(autouse=True)
def context() -> Iterator[ir.Context]:
    with make_context() as made:
        yield made


def loops(group: FusionGroup, axis: Axis) -> dict[int, tuple[int, Fraction]]:
    """The loops of an axis by the numbers of their stages."""
    return {group.stages.index(stage): found for stage, found in axis.loops.items()}


def test_ratios_are_numbers_for_all_values_of_the_symbols() -> None:
    n, m = symbol("n"), symbol("m")
    assert (ratio(6, 4), ratio(n, n), ratio(12 * n * m, 4 * m * n), ratio(n, 8 * n)) == (Fraction(3, 2), 1, 3, Fraction(1, 8))
    assert (ratio(n, m), ratio(n * m, m), ratio(n + 1, n), ratio(0, 4), ratio(n, 5)) == (None,) * 5


def test_rows_and_positions_count_for_each_other() -> None:
    # Six rows of five, their thirty positions, fifteen windows of two: five positions to a row, and two and a half windows.
    shapes = {"a": "4x6x5", "b": "4x30", "c": "4x30", "d": "4x15"}
    lines = [("a", "n i j: x[n, i, j]"), ("b", "= a"), ("c", "n p: b[n, p]"), ("d", "n q | k: c[n, q * 2 + k] w[k]")]
    group = group_of({"x": "4x6x5", "w": "2"}, lines, shapes)
    rows, positions, windows = group.stages
    found = group.axis(rows, 1)
    assert loops(group, found) == {0: (1, Fraction(1)), 1: (1, Fraction(5)), 2: (1, Fraction(5, 2))}
    assert found.unit == 2
    assert [found.in_stage(stage, 4) for stage in (rows, positions, windows)] == [(1, 4), (1, 20), (1, 10)]
    found = group.axis(windows, 1)
    assert loops(group, found) == {0: (1, Fraction(2, 5)), 1: (1, Fraction(2)), 2: (1, Fraction(1))}
    assert found.unit == 5
    assert loops(group, group.axis(positions, 0)) == {0: (0, Fraction(1)), 1: (0, Fraction(1)), 2: (0, Fraction(1))}


def test_units_of_several_stages_are_whole_for_all() -> None:
    # A leader's iteration is a half of one stage's and a third of another's.
    lines = [("a", "p: x[p]"), ("b", "i | k: a[i * 2 + k] w[k]"), ("c", "i | k: a[i * 3 + k] v[k]"), ("d", "i j: b[i] c[j]")]
    group = group_of({"x": "12", "w": "2", "v": "3"}, lines, {"a": "12", "b": "6", "c": "4", "d": "6x4"})
    inner = group.within(group.stages[:3])
    assert inner.axis(inner.stages[0], 0).unit == 6


def test_the_most_similar_loop_counts() -> None:
    # One row of thirty: the loop over it and the one over its elements both go over all of it, in steps of thirty and of one.
    group = group_of({"x": "4x1x30"}, [("a", "n i j: x[n, i, j]"), ("b", "= a"), ("c", "n p: b[n, p]")], {"a": "4x1x30", "b": "4x30", "c": "4x30"})
    assert loops(group, group.axis(group.stages[1], 1)) == {0: (2, Fraction(1)), 1: (1, Fraction(1))}


@pytest.mark.parametrize("second", ["i j: a[i, j] a[j, i]", "i j: a[5 - i, j]", "i j: a[j, i] a[i, j]"])
def test_rows_that_are_read_as_columns_or_backwards_are_no_common_loop(second: str) -> None:
    group = group_of({"x": "6x6"}, [("a", "i j: x[i, j]"), ("b", second)], {"a": "6x6", "b": "6x6"})
    assert loops(group, group.axis(group.stages[1], 0)) == {1: (0, Fraction(1))}
    assert set(group.axis(group.stages[0], 0).loops) == {group.stages[0]}


def test_two_ways_to_one_stage_must_be_in_step() -> None:
    # Three windows of three of all nine, and three of two of the first six: what a round of the last wants is not what one round makes.
    lines = [("a", "p: x[p]"), ("b", "i | k: a[i * 3 + k] w[k]"), ("c", "i | k: a[i * 2 + k] v[k]"), ("d", "i: b[i] c[i]")]
    group = group_of({"x": "9", "w": "3", "v": "2"}, lines, {"a": "9", "b": "3", "c": "3", "d": "3"})
    assert loops(group, group.axis(group.stages[3], 0)) == {3: (0, Fraction(1))}
    without = group.within([stage for stage in group.stages if stage is not group.stages[2]])
    assert loops(without, without.axis(without.stages[2], 0)) == {0: (0, Fraction(3)), 1: (0, Fraction(1)), 2: (0, Fraction(1))}


def test_a_loop_that_is_summed_over_or_leaves_rows_out_is_not_in_common() -> None:
    lines = [("a", "i j: x[i, j]"), ("b", "i | j: a[i, j] w[j]"), ("c", "i j | k: a[i * 2 + k, j] v[k]")]
    group = group_of({"x": "7x5", "w": "5", "v": "2"}, lines, {"a": "7x5", "b": "7", "c": "3x5"})
    made, summed, part = group.stages
    assert set(group.within([made, summed]).axis(made, 1).loops) == {made}
    assert set(group.within([made, summed]).axis(made, 0).loops) == {made, summed}
    assert set(group.within([made, part]).axis(part, 0).loops) == {part}
    assert set(group.within([made, part]).axis(part, 1).loops) == {made, part}


def test_edges_and_what_depends_on_what() -> None:
    lines = [("a", "i j: x[i, j]"), ("b", "i j: a[i, j]"), ("c", "i j: x[i, j]")]
    lines += [("d", "i j | k: b[i, k] c[k, j]"), ("d", "d + i j: a[i, j]"), ("e", "i j: d[i, j]")]
    group = group_of({"x": "6x6"}, lines, dict.fromkeys("abcde", "6x6"))
    a, b, c, d, e = group.stages
    assert len(d.epilogues) == 1
    assert [(edge.producer, edge.reader) for edge in group.edges] == [(a, b), (b, d), (c, d), (a, d), (d, e)]
    assert [edge.member is d.root for edge in group.edges if edge.reader is d] == [True, True, False]
    assert group.before(d) == {a, b, c}
    assert group.before(d, d.root.inputs[0]) == {a, b}
    assert group.before(d, d.root.inputs[1]) == {c}
    assert group.after(a) == {b, d, e}
    assert group.after(c) == {d, e}
    part = group.within([e, b, d])
    assert part.stages == [b, d, e]
    assert [(edge.producer, edge.reader) for edge in part.edges] == [(b, d), (d, e)]


def test_reads_are_what_is_used_and_comes_from_outside() -> None:
    lines = [("c", "constant"), ("a", "i j: x[i, j]"), ("b", "i j: a[i, j] y[i, j] c[i, j] ?x[i, j]"), ("b", "b + i j: z[i, j]")]
    group = group_of(dict.fromkeys("xyz", "6x5"), lines, dict.fromkeys("abc", "6x5"))
    first, second = group.stages
    assert [read.value for _, read in group.reads(first)] == [first.root.inputs[0].value]
    assert [(member, read.value) for member, read in group.reads(second)] == [
        (second.root, second.root.inputs[1].value), (second.epilogues[0], second.epilogues[0].inputs[0].value),
    ]  # fmt: skip
    assert len(group.within([second]).reads(second)) == 3  # what the first one hands it is then from outside, too
