"""Ranges hold: whatever the data are, no value lies outside of what is said of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stepwell.dialects.core.mlir import func, ir, make_context
from stepwell.dialects.core.types import TensorType, is_float, to_numpy, type_of
from stepwell.dialects.core.weights import WeightTable
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.value_range import ANY
from stepwell.dialects.interpreter.evaluate import Evaluator
from stepwell.passes.graph.ranges import ranges

DTYPES = ("i8", "ui8", "i32", "i64", "f32")
SHAPE = (2, 3)
CONTEXT = make_context()
EDGES = (-(2**63), -(2**31), -129, -128, -3, -1, 0, 1, 2, 5, 127, 128, 255, 256, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1)


def literal(draw: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of the type, often at its ends."""
    kind = to_numpy(dtype)
    if is_float(dtype):
        return np.array(draw(st.lists(st.floats(-300, 300, width=32), min_size=6, max_size=6)), kind)[: int(np.prod(shape))].reshape(shape)
    limits = np.iinfo(kind)
    fitting = [n for n in (*EDGES, int(limits.min), int(limits.max)) if limits.min <= n <= limits.max]
    return np.array(draw(st.lists(st.sampled_from(fitting), min_size=6, max_size=6)), kind)[: int(np.prod(shape))].reshape(shape)


def of_same_dtype(draw: Any, values: list[ir.Value], value: ir.Value) -> ir.Value:
    return draw(st.sampled_from([v for v in values if type_of(v) == type_of(value)]))


def grow(draw: Any, b: GraphBuilder, values: list[ir.Value]) -> ir.Value:
    """One more op on values that are there."""
    x = draw(st.sampled_from(values))
    kind = type_of(x)
    y = of_same_dtype(draw, values, x)
    few = [float(n) for n in EDGES if abs(n) <= 256]
    made: dict[str, Any] = {
        "constant": lambda: b.constant(value=literal(draw, kind.dtype, SHAPE)),
        "add": lambda: b.add(x, y),
        "sub": lambda: b.sub(x, y),
        "maximum": lambda: b.maximum(x, y),
        "minimum": lambda: b.minimum(x, y),
        "relu": lambda: b.relu(x),
        "clamp": lambda: b.clamp(x, **dict(zip(("min", "max"), sorted(draw(st.lists(st.sampled_from(few), min_size=2, max_size=2))), strict=True))),
        "mod": lambda: b.mod(x, y, fmod=is_float(kind.dtype) or draw(st.booleans())),
        "cast": lambda: b.cast(x, to=draw(st.sampled_from(DTYPES)), saturate=draw(st.booleans())),
        "select": lambda: b.select(b.less(x, y), x, y),
        "concat": lambda: b.slice(b.concat([x, y], axis=0), starts=[1, 0], sizes=[2, 3], steps=[1, 1]),
        "arg_max": lambda: b.expand(b.arg_max(x, axis=1, keepdims=True, select_last=False), shape=SHAPE),
        "reshape": lambda: b.reshape(b.transpose(x, perm=[1, 0]), shape=SHAPE),
    }
    return made[draw(st.sampled_from(sorted(made)))]()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_values_lie_in_their_ranges(data: Any) -> None:
    draw = data.draw
    with CONTEXT, ir.Location.name("n"):
        module = ir.Module.create()
        types = [TensorType(dtype, SHAPE) for dtype in DTYPES]
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([t.to_mlir() for t in types], []))
            block = main.add_entry_block()
            with ir.InsertionPoint(block):
                b, values = GraphBuilder(WeightTable()), list(block.arguments)
                for _ in range(draw(st.integers(1, 8))):
                    values.append(grow(draw, b, values))
                func.ReturnOp([])
        found = ranges([o.operation for o in block.operations], b.weights)
        known: dict[ir.Value, Any] = {a: literal(draw, t.dtype, SHAPE) for a, t in zip(block.arguments, types, strict=True)}
        for op in list(block.operations)[:-1]:
            with np.errstate(all="ignore"):
                results = Evaluator({}, b.weights).results_of(op.operation, [known[v] for v in op.operation.operands], known)
            for result, array in zip(op.operation.results, results, strict=True):
                known[result] = array
                low, high = found[result]
                inside = [low <= n <= high for n in array.ravel().tolist() if n == n]
                assert all(inside), f"{op}: {array.tolist()} in {low} to {high}"


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("first", 0, 2), ("rest", 0, 6), ("signed", -6, 6), ("byte", 0, 255), ("clipped", -4, 9), ("sum", -4, 15), ("less", -10, 9), ("chosen", -6, 6)],
)
def test_what_is_known(name: str, low: int, high: int) -> None:
    with CONTEXT, ir.Location.name("n"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            numbers, bytes_ = (TensorType(dtype, SHAPE).to_mlir() for dtype in ("i64", "ui8"))
            block = func.FuncOp("main", ir.FunctionType.get([numbers, bytes_], [])).add_entry_block()
            with ir.InsertionPoint(block):
                b, (i, byte) = GraphBuilder(WeightTable()), block.arguments
                seven = b.constant(value=np.array(7))
                values = {"first": b.arg_max(i, axis=1, keepdims=False, select_last=False), "rest": b.mod(i, seven, fmod=False)}
                values["signed"] = b.mod(i, seven, fmod=True)
                values["byte"] = b.cast(byte, to="i64", saturate=True)
                values["clipped"] = b.clamp(i, min=-4.0, max=9.0)
                values["sum"] = b.add(values["clipped"], values["rest"])
                values["less"] = b.sub(values["clipped"], b.mod(values["byte"], seven, fmod=True))
                values["chosen"] = b.select(b.less(i, seven), values["rest"], values["signed"])
        found = ranges([o.operation for o in block.operations], b.weights)
        assert found[values[name]] == (low, high)


@pytest.mark.parametrize(
    ("array", "range_"),
    [
        (np.array([5, -7, 2]), (-7, 5)), (np.array([0.5, -2.5], np.float32), (-2.5, 0.5)), (np.array([0.5, np.nan], np.float32), ANY),
        (np.array([-np.inf, 1.0]), ANY), (np.zeros(0, np.int64), (-(2**63), 2**63 - 1)),
        (np.arange(100_000), (-(2**63), 2**63 - 1)),
    ],
    ids=["integers", "floats", "nan", "infinity", "empty", "large"],
)  # fmt: skip
def test_what_is_known_of_constants(array: np.ndarray, range_: tuple[float, float]) -> None:
    """Each number lies in the range; one that is no number in none, so that nothing is known where there may be one."""
    with CONTEXT, ir.Location.name("n"):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            block = func.FuncOp("main", ir.FunctionType.get([], [])).add_entry_block()
            with ir.InsertionPoint(block):
                b = GraphBuilder(WeightTable())
                value = b.weight("w", array)
        low, high = ranges([o.operation for o in block.operations], b.weights)[value]
    assert (low, high) == range_
