"""Knobs as data: schedules to values and back, what is legal, what is said where something is not."""

import itertools
import json
from collections.abc import Iterator

import pytest
from every import every

from stepwell.dialects.core.mlir import ir, make_context, ops_below
from stepwell.dialects.sched.nest import NestVersion
from stepwell.dialects.sched.schedule_info import ScheduleInfo
from stepwell.dialects.support.errors import ScheduleError
from stepwell.dialects.target.registry import resolve
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.kernel_digest import kernel_digest
from stepwell.passes.schedule.nest import Nest, sums_in_blocks
from stepwell.passes.schedule.space import Choice, Permutation, Range, knobs, to_json

TARGET = resolve("x86-64-v3")
PRODUCT = """
func.func @product(%a: tensor<12x9xf32>, %b: tensor<9x40xf32>, %out: tensor<12x40xf32>) -> tensor<12x40xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>],
    iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<12x9xf32>, tensor<9x40xf32>) outs(%out : tensor<12x40xf32>) {
  ^bb0(%x: f32, %y: f32, %acc: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<12x40xf32>
  return %0 : tensor<12x40xf32>
}"""
LEGAL = {"order": [1, 0], "parallel": 1, "unroll.0": 6, "unroll.1": 1, "vector": 1, "width": 16, "intrinsic": "none"}
LEGAL |= {f"block.{d}": 0 for d in range(3)} | {"prefetch": 0, "along": -1}


@pytest.fixture
def product() -> Iterator[Structured]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(PRODUCT)
        [op] = ops_below(module.operation, "linalg.generic")
        yield Structured(op)


def test_knobs_are_plain_data(product: Structured) -> None:
    known = knobs(product, TARGET)
    assert json.loads(json.dumps(to_json(known))) == {
        "order": {"in any order": [0, 1]},
        "parallel": {"from": 0, "to": 2},
        "unroll.0": {"from": 1, "to": 12},
        "unroll.1": {"from": 1, "to": 40},
        "vector": {"one of": [-1, 1, 2]},
        "width": {"one of": [1 << i for i in range(11)]},
        "intrinsic": {"one of": ["none"]},
        "block.0": {"from": 0, "to": 12},
        "block.1": {"from": 0, "to": 40},
        "block.2": {"from": 0, "to": 9},
        "prefetch": {"from": 0, "to": 256},
        "along": {"one of": [-1, 0, 1]},
    }


def test_legal_values_are_enumerated() -> None:
    assert list(Choice((-1, 1, 2))) == [-1, 1, 2]
    assert list(Range(0, 3)) == [0, 1, 2, 3]
    assert sorted(Permutation((0, 1, 4))) == sorted(itertools.permutations((0, 1, 4)))


def test_values_and_schedules_translate_both_ways(product: Structured) -> None:
    nest = Nest.from_values(LEGAL, product, TARGET)
    assert nest == Nest(order=(1, 0), parallel=1, unroll=(6, 1, 1), vector=1, width=16)
    assert Nest.from_values(nest.values(product), product, TARGET) == nest
    ScheduleInfo(product.operation).nest = nest
    assert Nest.from_op(product, TARGET) == nest
    assert "block" not in str(product.operation)
    blocked = Nest.from_values(LEGAL | {"block.1": 32, "block.2": 4}, product, TARGET)
    assert blocked.blocks == {1: 32, 2: 4}
    assert Nest.from_values(blocked.values(product), product, TARGET) == blocked
    ScheduleInfo(product.operation).nest = blocked
    assert Nest.from_op(product, TARGET) == blocked
    assert sums_in_blocks(product)


@every(
    ("change", "message"),
    [
        ({"order": [0, 2]}, r"knob 'order': \[0, 2\] is not legal, expected \[0, 1\] in any order"),
        ({"order": 3}, "knob 'order': 3 is not legal"),
        ({"parallel": 3}, "knob 'parallel': 3 is not legal, expected a whole number from 0 to 2"),
        ({"parallel": True}, "knob 'parallel': True is not legal"),
        ({"unroll.0": 13}, "knob 'unroll.0': 13 is not legal, expected a whole number from 1 to 12"),
        ({"unroll.0": "6"}, "knob 'unroll.0': '6' is not legal"),
        ({"vector": 0}, r"0 is not legal \(dimension 0 cannot be vectorised: the output is not contiguous along it\), expected one of -1, 1, 2"),
        ({"width": 12}, "knob 'width': 12 is not legal, expected one of 1, 2, 4"),
        ({"unroll.2": 2}, "there is no knob 'unroll.2', expected order, parallel, unroll.0, unroll.1, vector, width, intrinsic, block"),
        ({"intrinsic": "sdot.128"}, "knob 'intrinsic': 'sdot.128' is not legal, expected one of none"),
        ({"block.2": 10}, "knob 'block.2': 10 is not legal, expected a whole number from 0 to 9"),
        ({"block.0": 8}, "knob 'block.0': 8 is not legal, expected 0 or a multiple of 6, the step along this dimension"),
        ({"block.1": 24}, "knob 'block.1': 24 is not legal, expected 0 or a multiple of 16"),
        ({"vector": 2, "width": 8, "block.2": 8}, "knob 'block.2': 8 is not legal, expected 0 where vectors lie along a summed dimension"),
        ({"unroll.0": 12, "unroll.1": 40}, "a register tile of 480 is not legal, expected a product of at most 256"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change: dict[str, object], message: str, product: Structured) -> None:
    with pytest.raises(ScheduleError, match=message):
        Nest.from_values(LEGAL | change, product, TARGET)


def test_a_missing_knob_is_named(product: Structured) -> None:
    with pytest.raises(ScheduleError, match="knob 'width' is missing, expected one of 1, 2"):
        Nest.from_values({k: v for k, v in LEGAL.items() if k != "width"}, product, TARGET)


def test_a_schedule_in_ir_is_judged_by_the_same_rules(product: Structured) -> None:
    ScheduleInfo(product.operation).nest = Nest(order=(0,), parallel=0, unroll=(1, 1, 1), vector=1, width=8)
    with pytest.raises(ScheduleError, match=r"'linalg.generic' at .*knob 'order': \[0\] is not legal"):
        Nest.from_op(product, TARGET)
    ScheduleInfo(product.operation).nest = Nest(order=(0, 1), parallel=0, unroll=(1, 1, 2), vector=1, width=8)
    with pytest.raises(ScheduleError, match=r"unroll: \[1, 1, 2\] is not legal, expected 3 numbers, 1 for each reduction of \[2\]"):
        Nest.from_op(product, TARGET)


def test_versions_in_ir_are_judged_too_and_make_no_other_kernel(product: Structured) -> None:
    info, function = ScheduleInfo(product.operation), product.operation.parent.operation
    info.nest = nest = Nest.from_values(LEGAL, product, TARGET)
    digest = kernel_digest(function)
    info.versions = (NestVersion(0, 1, nest),)
    assert kernel_digest(function) == digest
    with pytest.raises(ScheduleError, match=r"'linalg.generic' at .*a version's dim: 0 is not legal, expected a dynamic dimension, of \[\]"):
        Nest.versions_of(product, TARGET)
