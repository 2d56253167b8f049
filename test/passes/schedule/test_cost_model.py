"""The cost model and the search: what does not fit is refused, what is wasted is seen, what is chosen is legal and not worse."""

import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from every import every
from nest_ops import OPS, blocked, half_weights, product, strided, structured, windows

from stepwell.dialects.sched.fused_loops import FusedLoop
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.target.description import Caches
from stepwell.dialects.target.registry import resolve
from stepwell.passes.schedule import schedulers
from stepwell.passes.schedule.candidates import ScheduleSpace, parse_schedule
from stepwell.passes.schedule.cost_model import CycleModel, register_budget, widths
from stepwell.passes.schedule.defaults import contraction
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.quantities import quantities_of
from stepwell.passes.schedule.schedulers import choose
from stepwell.passes.schedule.search import GAIN, blocked as blocks, cuts, improve, steps
from stepwell.passes.schedule.segments import vector_segments

V3, V4 = resolve("x86-64-v3"), resolve("x86-64-v4")


def test_only_what_is_narrow_is_widened() -> None:
    """Of two tiles with as many products and loads, the one that loads fewer vectors of the narrow side costs less."""
    with half_weights(64, 64, 512) as op, product(64, 64, 512) as plain:
        few, many = (Nest((0, 1), 0, (rows, 1, 1), 1, width) for rows, width in ((8, 16), (4, 32)))
        costs = [[CycleModel(o, V4).compute(nest) for nest in (few, many)] for o in (plain, op)]
        assert costs[0][0] >= 0.95 * costs[0][1]
        assert costs[1][0] < 0.95 * costs[1][1]
        assert choose(op, V4).unroll[0] >= choose(plain, V4).unroll[0]


def test_windows_that_overlap_are_loaded_once() -> None:
    """If the innermost loop walks the rows that the tile holds: as far as it is written out, and as there is room for these rows."""
    for rows, taps, less in ((4, 7, True), (7, 7, True), (14, 7, False), (4, 9, False), (1, 7, False)):
        with windows(taps, rows_inside=True) as kept, windows(taps, rows_inside=False) as again:
            nest = Nest((0, 1, 2), 0, (1, rows, 1, 1, 1), 2, 32)
            inside, outside = (CycleModel(op, V4).compute(nest) for op in (kept, again))
            assert inside < 0.8 * outside if less else inside == pytest.approx(outside), (rows, taps, inside, outside)
            assert taps != 7 or choose(kept, V4).unroll[1] in range(2, 8)


def test_vectors_across_two_lines_take_two_loads() -> None:
    with windows(3, rows_inside=False) as shifted:
        model = CycleModel(shifted, V4)
        assert model.loaded(model.inputs[0], {}, 16, 2) == 2
        assert model.loaded(model.inputs[0], {}, 8, 2) == 1.5
        assert model.loaded(model.inputs[1], {}, 16, 2) == 1
        assert model.loaded(model.inputs[0], {}, 16, 4) == 1  # along a sum it walks from line to line


def test_a_tile_that_spills_is_refused() -> None:
    with product(60, 64, 30) as op:
        nest = Nest((0, 1), 0, (6, 1, 1), 1, 16)
        assert CycleModel(op, V3).registers(nest) == 6 * 2 + 2 + 1
        assert CycleModel(op, V3).cost(nest).cycles < inf
        wide = replace(nest, unroll=(7, 1, 1))
        assert CycleModel(op, V3).cost(wide).cycles == inf
        assert CycleModel(op, V4).cost(wide).cycles < inf


@pytest.mark.parametrize(
    ("stride", "taps", "crowded"),
    [(2, 7, True), (2, 3, True), (4, 7, True), (1, 7, False), (2, 2, False), (4, 3, False), (2, 11, False)],
    ids=["7 by 2", "3 by 2", "7 by 4", "from one round to the next", "apart", "with gaps", "not written out"],
)
def test_windows_that_overlap_some_rounds_later_take_room(stride: int, taps: int, crowded: bool) -> None:
    with strided(stride, taps) as op:
        assert register_budget(op, 2, V4.vector_registers) == (16 if crowded else 20)
        chosen, smaller = (Nest((0, 1, 2), 0, (2, t, 1, 1, 1), 2, 16) for t in (9, 8))
        model = CycleModel(op, V4)
        assert (model.compute(chosen) > 1.1 * model.compute(smaller)) == crowded
        assert choose(op, V4).unroll[1] <= (8 if crowded else 10)


def test_what_is_left_over_costs() -> None:
    with product(30, 64, 512) as op:
        model = CycleModel(op, V3)
        fives, sixes, fours = (model.compute(Nest((0, 1), 0, (t, 1, 1), 1, 16)) for t in (5, 6, 4))
        assert fives < fours  # which load as much for less
        assert fives < sixes  # which leave too few registers for loads
        assert widths(43, 16) == [(2, 16), (1, 8), (1, 2), (1, 1)]
        assert widths(43, 16) == [(s.rounds, s.step) for s in vector_segments(43, 16)]


def test_traffic_follows_the_order_of_the_loops() -> None:
    small = replace(V3, caches=Caches(1 << 10, 8 << 10, 64 << 10))
    with product(512, 64, 512) as op:
        model = CycleModel(op, small)
        rows_outside, columns_outside = (model.traffic(Nest(order, 0, (4, 1, 1), 1, 16)) for order in ((0, 1), (1, 0)))
        assert rows_outside != columns_outside
        assert all(t > 0 for t in (*rows_outside[:2], *columns_outside[:2]))


def test_blocks_keep_what_is_read_again_in_a_cache() -> None:
    small = replace(V3, caches=Caches(4 << 10, 64 << 10, 256 << 10))
    with product(512, 512, 1024) as op:
        model, whole = CycleModel(op, small), Nest((0, 1), 0, (4, 1, 1), 1, 16)
        candidates = list(blocks(model, whole))
        for candidate in candidates:
            candidate.check(op, small)
        best = min(candidates, key=lambda nest: model.cost(nest).cycles)
        assert best.blocks
        assert sum(model.traffic(best)) < 0.5 * sum(model.traffic(whole))
        assert model.compute(best) >= model.compute(whole)  # blocks save no arithmetic, and sums in blocks are loaded again
        assert model.traffic(replace(whole, block=(0, 0, 0))) == model.traffic(whole)
        assert model.traffic(replace(whole, block=(512, 512, 1024))) == model.traffic(whole)


def test_blocks_are_cut_in_whole_steps() -> None:
    assert cuts(96, 10) == [20, 30, 50]
    assert cuts(300, 128) == [256]
    assert cuts(5, 8) == []


def test_windows_that_overlap_are_fetched_once() -> None:
    small = replace(V3, caches=Caches(32 << 10, 64 << 10, 128 << 10))
    with structured(["(c, i, k) -> (c + k, i)", "(c, i, k) -> (k)", "(c, i, k) -> (c, i)"], "ppr", ["68x2048", "5", "64x2048"]) as op:
        bytes_read_and_written = (68 + 64) * 2048 * 4
        assert CycleModel(op, small).traffic(Nest((0, 1), 0, (1, 1, 1), 1, 16))[1] * 16 == pytest.approx(bytes_read_and_written, rel=0.05)


def test_three_blocks_are_one_tile_where_two_would_leave_one_over() -> None:
    with blocked(3, 56, 56, 12) as op:
        start = contraction(op, V3)
        assert start.unroll[0] == 2
        found = improve(op, V3, start)
        assert found.unroll[0] == 3
        assert CycleModel(op, V3).cost(found).cycles < GAIN * CycleModel(op, V3).cost(start).cycles


@every("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-neon"])
@every("sizes", [(1, 7, 7, 16), (3, 56, 56, 12), (24, 7, 7, 128), (5, 13, 11, 3), (1, 1, 1, 1)])
def test_what_is_chosen_is_legal_fits_and_is_not_worse(sizes: tuple[int, int, int, int], target: str) -> None:
    machine = resolve(target)
    with blocked(*sizes) as op:
        model, chosen = CycleModel(op, machine), choose(op, machine)
        chosen.check(op, machine)
        assert model.fits(chosen)
        assert model.cost(chosen).cycles <= model.cost(contraction(op, machine)).cycles


def test_steps_are_those_that_make_a_difference() -> None:
    assert steps(7, 16) == [1, 2, 3, 4, 7]
    assert steps(56, 6) == [1, 2, 3, 4, 5, 6]
    assert steps(1, 16) == [1]


def test_a_family_of_targets_has_its_own_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulers, "_SCHEDULERS", dict(schedulers._SCHEDULERS))
    plain = Nest((1, 0), 0, (1, 1, 1), -1, 1)
    schedulers.schedule("contraction", "aarch64")(lambda op, target: plain)
    with product(64, 64, 64) as op:
        assert choose(op, resolve("aarch64-neon")) == plain  # as it is: without `start` nothing is searched
        assert choose(op, V3) != plain


def test_the_tile_of_an_op_in_fused_loops_does_not_depend_on_the_number_of_cores():
    maps = ["(b, h, i, j, k) -> (b, h, i, k)", "(b, h, i, j, k) -> (b, h, k, j)", "(b, h, i, j, k) -> (b, h, i, j)"]
    with structured(maps, "ppppr", ["2x4x64x64"] * 3) as op:
        ScheduleInfo(op.operation).fused = (FusedLoop("batch", 0, 1, 2),)
        one, two = [choose(op, replace(V4, cores=cores)) for cores in (1, 2)]
        assert one == two  # what is left over of 64 rows starts no threads
        assert one.parallel == 0
        assert one.unroll[1] == 1 < one.unroll[2]


@pytest.mark.parametrize(("rows", "columns", "depth"), [(65, 64, 64), (98, 64, 32), (196, 64, 64), (49, 128, 64)])
def test_rows_are_dealt_to_threads_so_that_none_are_left_over(rows: int, columns: int, depth: int) -> None:
    """Rows that a tile leaves over are a second loop, whose threads start anew, which takes longer than all of this product does."""
    with product(rows, columns, depth) as op:
        nest = choose(op, replace(V4, cores=4))
        assert nest.parallel
        assert all(op.sizes[d] % nest.blocks.get(d, nest.step(d)) == 0 for d in nest.order[: nest.parallel])


def test_what_a_body_computes_has_its_price() -> None:
    """An absolute value is an instruction, as an addition is; a root and a quotient are several, an exponential is many."""
    maps, shapes = ["(i, j) -> (i, j)", "(i, j) -> (i, j)"], ["64x64", "64x64"]
    prices = {}
    for name, line in {
        "add": "arith.addf %x, %x", "abs": "math.absf %x", "divide": "arith.divf %x, %x", "root": "math.sqrt %x", "exp": "math.exp %x",
    }.items():  # fmt: skip
        with structured(maps, "pp", shapes, f"%s = {line} : f32\n linalg.yield %s : f32") as op:
            prices[name] = CycleModel(op, V3).compute(Nest((0, 1), 0, (1, 1), 1, 8))
    assert prices["add"] == prices["abs"] < min(prices["divide"], prices["root"])
    assert max(prices["divide"], prices["root"]) < prices["exp"]


def test_predictions_stay_as_they_were_and_follow_from_the_features() -> None:
    """Costs that the model computed nest by nest, before it counted quantities: of every kind of op, on machines of all families."""
    recorded = json.loads(Path(__file__).with_name("nest_costs.json").read_text())
    rows = {name: [row for row in recorded if row[0] == name] for name in OPS}
    assert len(recorded) == 83 == sum(map(len, rows.values()))
    for name, make in OPS.items():
        with make() as op:
            for _, machine, text, *expected in rows[name]:
                target = replace(resolve(machine), cores=4 if "v4" in machine else 1)
                nest = parse_schedule(text, op, target)
                cost = CycleModel(op, target).cost(nest)
                assert [cost.compute, *cost.traffic, cost.cycles] == pytest.approx(expected, rel=1e-12, abs=0), (name, text)
                candidate = ScheduleSpace(op, target, nest).named(text)
                found = quantities_of(candidate.features)
                assert found is not None
                assert found.cycles(target.pipes, target.costs, max) == cost.cycles


def test_features_without_all_quantities_have_no_prediction() -> None:
    with product(60, 64, 30) as op:
        nest = Nest((0, 1), 0, (5, 1, 1), 1, 16)
        features = dict(ScheduleSpace(op, V3, nest).all()[0].features)
        spills = ScheduleSpace(op, V3, replace(nest, unroll=(20, 1, 1))).all()[0].features
    assert quantities_of(features) is not None
    assert quantities_of({}) is quantities_of(spills) is None
    for name in ("bytes.l2", "crowding", "tile.0.starts", "tile.0.arithmetic"):
        for wrong in (float("nan"), -1.0, inf):
            assert quantities_of({**features, name: wrong}) is None
        assert quantities_of({key: value for key, value in features.items() if key != name}) is None
