"""Small constants in native code: each element is read where it belongs, in every lane, and a zero drops nothing but what it multiplies."""

import itertools
from typing import Any

import native_checks
import numpy as np
import onnx
from covering import every_by_day, pairs
from every import every, running
from guarded import NAMED
from native_checks import Arrays, Check, natively_together
from native_ops import Instance, problems
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from op_random import Case

RANDOM = np.random.default_rng(23)
OPSET = 21


def check(
    node: onnx.NodeProto, operands: list[np.ndarray], constants: tuple[int, ...], targets: list[str] = NAMED, expected: list[np.ndarray] | None = None
) -> None:
    """Compile a model of one node with some of its operands constant, for each target, and compare it with ONNX's evaluator, or `expected`."""
    info = helper.make_tensor_value_info
    named = dict(zip(node.input, operands, strict=True))
    given = {name: a for n, (name, a) in enumerate(named.items()) if n not in constants}
    literals = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(a)) for name, a in named.items() if name not in given]
    graph = helper.make_graph(
        [*literals, node], "g", [info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
    )  # fmt: skip
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10))
    wanted = ReferenceEvaluator(model).run(None, given) if expected is None else expected

    def judge(got: Arrays) -> None:
        for name, want in zip(node.output, wanted, strict=True):
            np.testing.assert_array_equal(got[name], want)

    for target in targets:
        options = (("target", target), ("threads", 1), ("cache", False))
        native_checks.check(Check("-".join([*running, target]), model, given, judge, options))


@natively_together
@pairs({"size": [2, 3, 8, 17, 64, 65], "constant": [0, 1], "dtype": [np.int64, np.float32, np.uint8]})
def test_sum_with_a_constant(dtype: Any, constant: int, size: int) -> None:
    data, counted = RANDOM.integers(1, 100, size).astype(dtype), np.arange(size, dtype=dtype)
    operands = [data, counted] if constant else [counted, data]
    check(helper.make_node("Add", ["a", "b"], ["y"]), operands, (constant,), NAMED[-1:])


@natively_together
@pairs({"dtype": [np.int64, np.uint64, np.int32, np.uint32], "rows": [1, 16, 17], "columns": [3, 5, 8], "transposed": [0, 1]})
def test_product_with_constants_of_the_whole_range(dtype: Any, rows: int, columns: int, transposed: int) -> None:
    """Integers that no float holds: each product wraps, and no bit of a constant is lost. (ONNX's evaluator multiplies by a float.)"""
    ends = np.iinfo(dtype)
    left, right = (RANDOM.integers(ends.min, ends.max, shape, dtype, endpoint=True) for shape in ((rows, 5), (5, columns)))
    right[0, :2] = ends.min, ends.max
    node = helper.make_node("Gemm", ["a", "b"], ["y"], transB=transposed)
    with np.errstate(over="ignore"):
        check(node, [left, np.ascontiguousarray(right.T) if transposed else right], (1,), NAMED[-1:], [left @ right])


@natively_together
@every("upper", [0, 1])
@every("shape", [(4, 5), (3, 3), (2, 5, 17)])
def test_triangle(shape: tuple[int, ...], upper: int) -> None:
    node = helper.make_node("Trilu", ["x", "k"], ["y"], upper=upper)
    check(node, [RANDOM.integers(1, 9, shape), np.array(-1, np.int64)], (1,))


@natively_together
@every("axis", [0, 1, -1])
def test_hardmax(axis: int) -> None:
    check(helper.make_node("Hardmax", ["x"], ["y"], axis=axis), [RANDOM.standard_normal((3, 4, 5)).astype(np.float32)], ())


@natively_together
@every("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    operands = [RANDOM.integers(-7, 7, (3, 4)), np.array(7, np.int64), np.array([2, 5], np.float32)]
    check(helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=axis), operands, (1, 2))


@natively_together
@every("constants", [(), (1,)])
def test_reversed_sequences(constants: tuple[int, ...]) -> None:
    """Where lengths come at run time, the places that they are compared with are the constant."""
    node = helper.make_node("ReverseSequence", ["x", "lengths"], ["y"], time_axis=0, batch_axis=1)
    check(node, [RANDOM.standard_normal((5, 3)).astype(np.float32), np.array([5, 1, 3], np.int64)], constants)


@natively_together
@every("dtype", [np.int64, np.float32])
@every("slopes", [(5,), (4, 5), (3, 1, 1)])
def test_slopes(slopes: tuple[int, ...], dtype: Any) -> None:
    operands = [RANDOM.integers(-9, 9, (3, 4, 5)).astype(dtype), RANDOM.integers(2, 9, slopes).astype(dtype)]
    check(helper.make_node("PRelu", ["x", "slope"], ["y"]), operands, (1,))


SIGNS = [-1, 1]
SEEDS = list(itertools.product([np.int32, np.int64, np.float32], range(6)))
SEEDS_BY_DAY = [(dtype, seed) for i, (dtype, seed) in enumerate(SEEDS) if seed < 2 or seed % 3 == i // 6]


@natively_together
@every_by_day(("dtype", "seed"), SEEDS, SEEDS_BY_DAY)
def test_products_by_a_matrix_whose_rows_share_sums(dtype: Any, seed: int) -> None:
    """Rows and columns in pairs, some of zeros, one that is the negative of a single element."""
    check(helper.make_node("MatMul", ["m", "x"], ["y"]), [paired(seed).astype(dtype), RANDOM.integers(-99, 99, (6, 37)).astype(dtype)], (0,))


@natively_together
@every("seed", range(3))
@every("kinds", [(np.int8, np.uint8), (np.int8, np.int8)])
def test_products_of_bytes_by_a_matrix_whose_rows_share_sums(kinds: tuple[Any, Any], seed: int) -> None:
    limits = np.iinfo(kinds[1])
    operands = [paired(seed).astype(kinds[0]), RANDOM.integers(limits.min, limits.max, (6, 37), endpoint=True).astype(kinds[1])]
    check(helper.make_node("MatMulInteger", ["m", "x"], ["y"]), operands, (0,))


def paired(seed: int) -> np.ndarray:
    r = np.random.default_rng(seed)
    half = r.choice([-5, -4, -2, -1, 0, 0, 0, 1, 2, 4, 6], (3, 3))
    rows = np.concatenate([half, half * r.choice(SIGNS, 3)])
    whole = np.concatenate([rows, rows * r.choice(SIGNS, (6, 1))], axis=1)
    whole[seed % 6] = 0
    whole[(seed + 1) % 6] = -np.eye(6, dtype=np.int64)[seed % 6]
    return np.asarray(whole)


# --- sums in which a constant is an index


def configurations() -> list[dict[str, Any]]:
    """What Resize can be asked for where each element is a sum of several: 330 of them."""
    sizes = [(2, 3), (3, 2), (5, 7), (7, 3), (4, 4), (8, 3), (3, 11), (16, 5), (5, 17), (1, 4), (6, 1)]
    kinds = [(mode, antialias, outside) for mode in ("linear", "cubic") for antialias in (False, True) for outside in (False, True)]
    kinds = [kind for kind in kinds if kind[0] == "cubic" or not kind[2]]  # linear without `exclude_outside`
    coordinates = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
    return [
        {
            "sizes": (-1, -1, -1, want), "scales": (1.0, 1.0, 1.0, float(np.float32(want / have))), "have": have, "mode": mode, "coordinates": where,
            "rounding": "round_prefer_floor", "cubic_coefficient": -0.75, "exclude_outside": outside, "antialias": antialias, "roi": (),
            "extrapolation": 0.0,
        }
        for have, want in sizes for mode, antialias, outside in kinds for where in coordinates
    ]  # fmt: skip


def test_resampled() -> None:
    """A seventh of the configurations, with every mode, mapping of coordinates and pair of sizes."""
    assert problems(resizes(configurations()[::7])) == {}


def resizes(chosen: list[dict[str, Any]]) -> list[Instance]:
    made = []
    for number, attributes in enumerate(chosen):
        x = RANDOM.standard_normal((1, 2, 3, attributes.pop("have"))).astype(np.float32)
        made.append(Instance("resize", number, Case([x], attributes), "host", "plain", (), True))
    return made
