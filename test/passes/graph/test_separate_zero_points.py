"""Products whose zero points are taken off the result, natively: exact for every sign of bytes, and whatever the zero points are."""

import re
from typing import Any

import numpy as np
from covering import pairs
from every import every
from native_checks import check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell
from stepwell.dialects.target.host import host

RNG = np.random.default_rng(31)
FAST = "avx512vnni" in host().features


def draw(dtype: Any, *shape: int) -> np.ndarray:
    """Random integers with the extremes among them."""
    limits = np.iinfo(dtype)
    values = np.asarray(RNG.integers(limits.min, limits.max + 1, shape)).astype(dtype)
    values.flat[:: max(1, values.size // 7)] = RNG.choice([limits.min, limits.max])
    return values


def model(x: np.ndarray, w: np.ndarray, zero: np.ndarray | None, *, given: bool, times: int = 1) -> Any:
    """`times` products of one input and zero point, which is an input too if it is `given`."""
    inputs = {"x": x} | ({"z": zero} if zero is not None and given else {})
    weights = {"w": w} | ({"z": zero} if zero is not None and not given else {})
    names = ["x", "w", "z"] if zero is not None else ["x", "w"]
    nodes = [helper.make_node("MatMulInteger", names, [f"y{i}"]) for i in range(times)]
    sides = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    out = [helper.make_tensor_value_info(f"y{i}", TensorProto.INT32, None) for i in range(times)]
    graph = helper.make_graph(nodes, "g", sides, out, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), inputs


def expected(x: np.ndarray, w: np.ndarray, zero: np.ndarray | None) -> np.ndarray:
    z = np.zeros((), np.int64) if zero is None else zero.astype(np.int64)
    return ((x.astype(np.int64) - (z[:, np.newaxis] if z.ndim == 1 and x.ndim > 1 else z)) @ w.astype(np.int64)).astype(np.int32)


@natively_together
@pairs({
    "zero": ["none", "scalar", "one", "rows"],
    "given": [False, True],
    "kinds": [(np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)],
})
def test_products_are_exact(kinds: tuple[Any, Any], given: bool, zero: str) -> None:
    x, w = draw(kinds[0], 13, 70), draw(kinds[1], 70, 33)
    z = {"none": None, "scalar": draw(kinds[0]), "one": draw(kinds[0], 1), "rows": draw(kinds[0], 13)}[zero]
    made, inputs = model(x, w, z, given=given)
    for target in ("host", "x86-64-v3"):
        check_model(made, inputs, lambda got: np.testing.assert_array_equal(got["y0"], expected(x, w, z)), threads=[2], target=target)


@natively_together
@every("number", [0, 1, 113, 128, 255])
def test_zero_points_of_every_kind(number: int) -> None:
    """In batches; what fits a byte without its zero point too is still faster with another sign."""
    x, w, z = draw(np.uint8, 2, 3, 40), draw(np.int8, 40, 33), np.array(number, np.uint8)
    made, inputs = model(x, w, z, given=False)
    check_model(made, inputs, lambda got: np.testing.assert_array_equal(got["y0"], expected(x, w, z)))
    if FAST:
        assert re.search(r'intrinsic = "(vpdpbusd|tdpb..d)', stepwell.lower(made, "scheduled").text())


def test_products_of_one_operand_turn_its_sign_once() -> None:
    x, w = draw(np.int8, 8, 40), draw(np.int8, 40, 9)
    made, inputs = model(x, w, np.array(-7, np.int8), given=False, times=2)
    for got in stepwell.compile(made).run(inputs).values():
        np.testing.assert_array_equal(got, expected(x, w, np.array(-7, np.int8)))
    if FAST:
        assert stepwell.lower(made, "graph-opt").text().count("graph.cast\"(%arg0) {saturate = true, to = ui8}") <= 1
