"""How many rounds loops have that count: what the importer makes of a condition gives as many as the condition does."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from importing import context, run_imported
from onnx import parser

from stepwell.dialects.core.mlir import defining_op, ops_below
from stepwell.dialects.core.types import type_of
from stepwell.frontends.onnx import import_model

ENDLESS = 2**63 - 1
# By name: the condition for another round and the first one, as nodes and in Python, and whether the number of rounds is all that decides.
Numbers = Any
CONDITIONS: dict[str, tuple[str, str, Callable[[Numbers], bool], Callable[[Numbers], bool], bool]] = {
    "less": ("less = Less(t_, n) go_ = Identity(less)", "first = Less(begin, n)", lambda v: v.t + 1 < v.n, lambda v: v.t < v.n, True),
    "less or equal": ("go_ = LessOrEqual(t_, n)", "first = LessOrEqual(begin, n)", lambda v: v.t + 1 <= v.n, lambda v: v.t <= v.n, True),
    "greater": ("go_ = Greater(n, t_)", "first = Less(begin, n)", lambda v: v.t + 1 < v.n, lambda v: v.t < v.n, True),
    "before": ("go_ = Less(t, n)", "first = Less(begin, n)", lambda v: v.t < v.n, lambda v: v.t < v.n, True),
    "two": (
        "one_ = Less(t_, n) w = Cast <to = 7> (t_) two = Less(w, m) go_ = And(one_, two)", "a = Less(begin, n) b = Less(wide, m) first = And(a, b)",
        lambda v: v.t + 1 < min(v.n, v.m), lambda v: v.t < min(v.n, v.m), True,
    ),
    "round": (
        "w = Cast <to = 7> (n) r = Add(round, unit) go_ = Less(r, w)", "first = Less(begin, n)",
        lambda v: v.round + 1 < v.n, lambda v: v.t < v.n, True,
    ),
    "no first": ("go_ = Less(t_, n)", "first = Identity(yes)", lambda v: v.t + 1 < v.n, lambda v: True, True),
    "other first": ("go_ = Less(t_, n)", "first = Less(wide, m)", lambda v: v.t + 1 < v.n, lambda v: v.t < v.m, True),
    "not a counter": ("q = Mul(t_, t_) go_ = Less(q, n)", "first = Less(begin, n)", lambda v: (v.t + 1) ** 2 < v.n, lambda v: v.t < v.n, False),
    "or": (
        "a = Less(t_, n) b = Less(round, m) go_ = Or(a, b)", "first = Less(begin, n)",
        lambda v: v.t + 1 < v.n or v.round < v.m, lambda v: v.t < v.n, False,
    ),
}  # fmt: skip


def source(goes: str, first: str, limit: int, begin: int) -> str:
    return f"""<ir_version: 9, opset_import: ["" : 18]>
        g (int32 n, int64 m, float x) => (int32 t_last, float s_last, float[rounds] all)
        <int64 limit = {{{limit}}}, int32 begin = {{{begin}}}, int32 one = {{1}}, int64 unit = {{1}}, int64 wide = {{{begin}}}> {{
            same = Equal(one, one) yes = Identity(same) {first}
            t_last, s_last, all = Loop (limit, first, begin, x) <body = b (int64 round, bool go, int32 t, float s)
            => (bool go_, int32 t_, float s_, float part) {{ t_ = Add(t, one) s_ = Add(s, s) p1 = Add(s_, x) part = Sub(p1, s) {goes} }}>
        }}"""


def expected(name: str, limit: int, begin: int, n: int, m: int) -> tuple[int, list[float]]:
    """The counter in the end, and what the rounds collect."""
    goes, first = CONDITIONS[name][2:4]
    at = SimpleNamespace(t=begin, round=0, n=n, m=m)
    going, number, parts = first(at), 1.5, []
    while going and at.round < limit:
        parts.append(2 * number + 1.5 - number)
        number, going = 2 * number, goes(at)
        at.t, at.round = at.t + 1, at.round + 1
    return at.t, parts


def test_number_of_rounds() -> None:
    """A bound that is met, passed before, or far away; limits below and above it; counters that start elsewhere."""
    for (name, (goes, first, *_, counts)), (limit, begin) in itertools.product(CONDITIONS.items(), ((ENDLESS, 0), (3, -2), (0, 0), (3, 2))):
        imported = import_model(parser.parse_model(source(goes, first, limit, begin)), context())
        for loop in ops_below(imported.module.operation, "graph.loop"):
            body = loop.regions[0].blocks[0]
            assert (list(body.operations)[-1].operation.operands[0] == body.arguments[1]) == counts, name
        for n, m in ((4, 9), (2, 3), (-3, 5), (4, 1), (1, 0)):
            got = run_imported(imported, {"n": np.array(n, np.int32), "m": np.array(m), "x": np.array(1.5, np.float32)})
            last, parts = expected(name, limit, begin, n, m)
            assert (int(got["t_last"]), list(got["all"])) == (last, parts), (name, limit, begin, n, m)


def test_rounds_that_are_a_size() -> None:
    """Where sizes of inputs count the rounds, no condition is asked, and what is collected has such a size: here as tf2onnx writes it."""
    text = """<ir_version: 9, opset_import: ["" : 18]>
        g (float[time, 3] x, float[3] h) => (float[3] last, float[rounds, 3] all)
        <int64 limit = {9223372036854775807}, int32 zero = {0}, int32 one = {1}> {
            size = Shape <start = 0, end = 1> (x) n0 = Squeeze(size) n = Cast <to = 6> (n0) first = Less(zero, n)
            t_last, u_last, last, all = Loop (limit, first, zero, zero, h) <body = b (int64 round, bool go, int32 t, int32 u, float[3] s)
            => (bool go_, int32 t_, int32 u_, float[3] s_, float[3] part) {
                t_ = Add(t, one) u_ = Add(u, one) r = Gather(x, t) s_ = Add(s, r) part = Neg(s_)
                less = Less(t_, n) too = Less(u_, n) go_ = And(less, too)
            }>
        }"""
    imported = import_model(parser.parse_model(text), context())
    assert [str(type_of(v)) for v in ops_below(imported.module.operation, "func.return")[0].operands][1] == 'tensor<?x3xf32, "time">'
    (loop,) = ops_below(imported.module.operation, "graph.loop")
    going_on = defining_op(loop.operands[1])
    assert going_on is not None
    assert going_on.name == "graph.constant"
    for time in (3, 1, 0):
        x = np.arange(3 * time, dtype=np.float32).reshape(time, 3)
        got = run_imported(imported, {"x": x, "h": np.ones(3, np.float32)})
        np.testing.assert_array_equal(got["last"], 1 + x.sum(0))
        np.testing.assert_array_equal(got["all"], -1 - np.cumsum(x, 0))
