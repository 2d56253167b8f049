"""Which values of knobs change the code: what `effective` takes for the same is the same code, and so is what is not offered."""

import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from stepwell.dialects.core.mlir import ir, make_context, ops_below
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.framework.registry import PassState
from stepwell.passes.framework.runner import PassRunner
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.assign_schedules import default_schedule
from stepwell.passes.schedule.effects import clamped, effective, offered
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.space import Permutation, Range, knobs

TARGET = resolve("x86-64-v3")
SEEN = 6  # values of one knob that are lowered


def nest_of(maps: str, iterators: str, ins: str, out: str, body: str) -> str:
    """A function of one op on buffers, whose inputs are %a, %b, … and whose output is %o."""
    types = [*ins.split(", "), out]
    names = [f"%{chr(ord('a') + i)}" for i in range(len(types) - 1)]
    elements = ", ".join(f"%{chr(ord('u') + i)}: f32" for i in range(len(types)))
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip([*names, "%o"], types, strict=True))
    return f"""
func.func @kernel({arguments}) {{
  linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} ins({", ".join(names)} : {ins}) outs(%o : {out}) {{
  ^bb0({elements}):
    {body}
  }}
  return
}}"""


SUM = "%p = arith.mulf %u, %v : f32\n %s = arith.addf %w, %p : f32\n linalg.yield %s : f32"
OPS = {
    "product": nest_of(
        "affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>", '"parallel", "parallel", "reduction"',
        "memref<12x9xf32>, memref<9x20xf32>", "memref<12x20xf32>", SUM,
    ),
    "product of lanes": nest_of(
        "affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>", '"parallel", "parallel", "reduction"',
        "memref<1x24xf32>, memref<6x24xf32>", "memref<1x6xf32>", SUM,
    ),
    "blocked convolution": nest_of(
        "affine_map<(n, o, y, x, f, c, g) -> (n, c, y, x, g)>, affine_map<(n, o, y, x, f, c, g) -> (o, c, g, f)>, "
        "affine_map<(n, o, y, x, f, c, g) -> (n, o, y, x, f)>",
        '"parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction"',
        "memref<1x2x5x6x8xf32>, memref<3x2x8x8xf32>", "memref<1x3x5x6x8xf32>", SUM,
    ),
    "map": nest_of(
        "affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>", '"parallel", "parallel", "parallel"',
        "memref<1x7x11xf32>", "memref<1x7x11xf32>", "%y = arith.addf %u, %u : f32\n linalg.yield %y : f32",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=OPS, autouse=False)
def kernel(request: pytest.FixtureRequest) -> Iterator[tuple[ir.Module, Structured]]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(OPS[request.param])
        [op] = ops_below(module.operation, "linalg.generic")
        yield module, Structured(op)


def code(module: ir.Module, op: Structured, nest: Nest) -> str:
    """The loops that a schedule is lowered to."""
    ScheduleInfo(op.operation).nest = nest
    copy = module.operation.clone().opview
    PassRunner(PassState(weights=WeightTable(), target=TARGET)).run(copy, "lower-to-affine")
    return str(copy)


def sampled(values: list[Any]) -> list[Any]:
    """First, last and some between."""
    return values if len(values) <= SEEN else list(dict.fromkeys([*values[: SEEN - 3], values[len(values) // 2], *values[-2:]]))


def candidates(op: Structured, count: int) -> list[Nest]:
    """Legal schedules at random, the default one first; many of whose knobs have no effect."""
    draw, known = random.Random(5), knobs(op, TARGET)
    found = [default_schedule(op, TARGET)]
    while len(found) < count:
        # Small steps, narrow vectors: others are rarely legal together.
        values = {knob.name: draw.choice(list(itertools.islice(knob.legal, 24))) for knob in known}
        values |= {name: draw.choice((1, 1, 2, value)) for name, value in values.items() if name.startswith("unroll.")}
        values |= {name: draw.choice((0, 0, 0, value)) for name, value in values.items() if name.startswith("block.")}
        try:
            found.append(Nest.from_values(values | {"width": draw.choice((1, 4, 8, 64)), "prefetch": draw.choice((0, 3))}, op, TARGET))
        except ScheduleError:
            continue
    return found


def test_what_is_taken_for_the_same_is_the_same_code(kernel: tuple[ir.Module, Structured]) -> None:
    module, op = kernel
    changed = 0
    for nest in candidates(op, 16):
        taken = effective(nest, op)
        assert effective(taken, op) == taken
        assert not clamped(taken, op)
        changed += taken != nest
        if taken != nest:
            assert code(module, op, taken) == code(module, op, nest), (nest, taken)
    assert changed > 3


def test_what_is_not_offered_is_code_of_what_is(kernel: tuple[ir.Module, Structured]) -> None:
    """And nearly all that is offered is code of its own."""
    module, op = kernel
    count = alike = 0
    for nest in candidates(op, 2):
        legal = {knob.name: knob for knob in knobs(op, TARGET)}
        for knob in offered(op, TARGET, nest):
            wanted = sampled(list(itertools.islice(knob.legal, 40)))
            made = {value: code(module, op, with_value(nest, op, knob.name, value)) for value in wanted}
            count, alike = count + len(made), alike + len(made) - len(set(made.values()))
            left_out = [] if isinstance(knob.legal, (Permutation, Range)) and not knob.name.startswith("unroll") else list(legal[knob.name].legal)
            for value in sampled([value for value in left_out if value not in knob.legal]):
                with contextlib.suppress(ScheduleError):
                    assert code(module, op, with_value(nest, op, knob.name, value)) in made.values(), (nest, knob.name, value)
    assert count > 20
    assert alike < count / 5


def with_value(nest: Nest, op: Structured, name: str, value: Any) -> Nest:
    return Nest.from_values({**nest.values(op), name: value}, op, TARGET)


def test_what_is_legal_and_not_offered_changes_nothing() -> None:
    """The knobs of the issue: a step along the vectors, a width without vectors, a loop that nothing asks along, threads of one iteration."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(OPS["blocked convolution"])
        [operation] = ops_below(module.operation, "linalg.generic")
        op = Structured(operation)
        nest = Nest(order=(0, 1, 2, 3, 4), parallel=2, unroll=(1, 1, 1, 3, 1, 1, 1), vector=4, width=8)
        values = {knob.name: list(knob.legal) for knob in offered(op, TARGET, nest) if not isinstance(knob.legal, Permutation)}
        assert values["unroll.4"] == [1]
        assert values["width"] == [1, 2, 4, 8]
        assert values["along"] == [-1]
        assert values["parallel"] == [0, 2, 3, 4]
        assert values["unroll.3"] == [1, 2, 3, 4, 5, 6]
        wide = replace(nest, unroll=(1, 1, 1, 3, 4, 1, 1), width=64, along=2)
        assert clamped(wide, op) == {"unroll.4": (4, 1), "width": (64, 8), "along": (2, -1)}
        assert clamped(nest, op) == {}
        assert clamped(replace(nest, parallel=1), op) == {"parallel": (1, 0)}
        assert len({code(module, op, n) for n in (nest, wide)}) == 1
