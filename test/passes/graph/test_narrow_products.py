"""Products of narrow integers, natively: exact on every layout and with what is left over, whether the target has an intrinsic or not."""

import re
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from covering import each, split_by_day
from every import every
from native_checks import Arrays, check_model, natively_together
from onnx import TensorProto, helper, numpy_helper

import stepwell

NONE = "x86-64-v2"  # which has no dot products
TARGETS = [NONE, "x86-64-v3", "host"]
RNG = np.random.default_rng(23)


def draw(dtype: type, shape: Sequence[int]) -> np.ndarray:
    """Random integers with the extremes among them."""
    limits = np.iinfo(dtype)
    values = RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)
    values.flat[:: max(1, values.size // 7)] = RNG.choice([limits.min, limits.max])
    return values


def model(nodes: Sequence[onnx.NodeProto], x: np.ndarray, y: np.ndarray, **weights: np.ndarray) -> onnx.ModelProto:
    sides = [[helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)] for n, a in (("x", x), ("y", y))]
    graph = helper.make_graph(list(nodes), "g", *sides, [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


ON_TARGETS = [(target, ()) for target in TARGETS] + [("host", ("narrow-products",))]
WITHOUT = [(target, ("narrow-products",)) for target in TARGETS if target != "host"]
"""Where the pass is switched off and narrow operands are widened like any other, on every target alike."""


def check(proto: onnx.ModelProto, x: np.ndarray, want: np.ndarray, target: str, disable: tuple[str, ...], *, products: int = 1) -> None:
    """Run natively, with the pass or without; with it, on a host with dot products, all products widen what they read."""
    check_exactly(proto, x, want, target, disable)
    if disable:
        return
    bodies = [part.partition("linalg.yield")[0] for part in stepwell.lower(proto, "linalg", target=target).text().split("linalg.generic")]
    widening = [re.findall(r"arith\.ext[su]i", body) for body in bodies if "arith.muli" in body]
    assert [len(found) for found in widening] == [0 if target == NONE else 2] * products


def check_exactly(proto: onnx.ModelProto, x: np.ndarray, want: np.ndarray, target: str, *switched_off: tuple[str, ...]) -> None:
    """Run natively, without each of the passes."""

    def judge(got: Arrays) -> None:
        np.testing.assert_array_equal(got["y"], want)

    for disable in switched_off:
        check_model(proto, {"x": x}, judge, threads=[2], target=target, disable=disable)


def convolved(x: np.ndarray, w: np.ndarray, pads: int = 0, strides: int = 1) -> np.ndarray:
    image = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pads, pads), (pads, pads)))
    windows = np.lib.stride_tricks.sliding_window_view(image, w.shape[2:], axis=(2, 3))[:, :, ::strides, ::strides]
    return np.einsum("nchwyz,fcyz->nfhw", windows, w.astype(np.int64)).astype(np.int32)


@natively_together
@split_by_day(("target", "disable"), ON_TARGETS, WITHOUT)
@every("kinds", [(np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8), (np.int8, np.int16)])
def test_casts_before_a_product(kinds: tuple[type, type], target: str, disable: tuple[str, ...]) -> None:
    x, w = draw(kinds[0], (2, 7, 70)), draw(kinds[1], (70, 33))
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.INT32), helper.make_node("Cast", ["w"], ["b"], to=TensorProto.INT32),
        helper.make_node("MatMul", ["a", "b"], ["y"]),
    ]  # fmt: skip
    want = x.astype(np.int32) @ w.astype(np.int32)
    check(model(nodes, x, want, w=w), x, want, target, disable)


@natively_together
@each({
    "target": ["host", "x86-64-v3", "x86-64-v2"],
    "kinds": [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.int16)],
    ("rows", "depth", "columns"): [((1,), 64, 200), ((13,), 24, 33), ((2, 3), 8, 16), ((5,), 30, 48), ((0,), 8, 16)],
})
def test_weights_in_groups(rows: tuple[int, ...], depth: int, columns: int, kinds: tuple[type, type], target: str) -> None:
    """With a known zero point and an element-wise op behind, whose operands are put in panels; of sizes that are whole blocks or not."""
    x, w, bias = draw(kinds[0], (*rows, depth)), draw(kinds[1], (depth, columns)), draw(np.int32, (columns,))
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.INT32), helper.make_node("Cast", ["w"], ["b"], to=TensorProto.INT32),
        helper.make_node("Sub", ["a", "zero"], ["c"]), helper.make_node("MatMul", ["c", "b"], ["d"]), helper.make_node("Add", ["d", "bias"], ["y"]),
    ]  # fmt: skip
    want = (x.astype(np.int32) - 101) @ w.astype(np.int32) + bias
    proto = model(nodes, x, want, w=w, bias=bias, zero=np.int32(101))
    check_exactly(proto, x, want, target, (), ("narrow-products",), ("pack-integer-products",), ("fuse-operators",))


@natively_together
@split_by_day(("target", "disable"), ON_TARGETS, WITHOUT)
@every(("x_zero", "w_zero"), [(None, None), (128, None), (3, -7), (255, "columns"), ("rows", "columns")])
def test_matmul_integer(x_zero: int | str | None, w_zero: int | str | None, target: str, disable: tuple[str, ...]) -> None:
    x, w = draw(np.uint8, (6, 45)), draw(np.int8, (45, 19))
    zeros = {"a": np.uint8(x_zero) if isinstance(x_zero, int) else draw(np.uint8, (6,)) if x_zero else None}
    zeros["b"] = np.int8(w_zero) if isinstance(w_zero, int) else draw(np.int8, (19,)) if w_zero else None
    given = {name: zero for name, zero in zeros.items() if zero is not None}
    a, b = (np.asarray(0 if zero is None else zero).astype(np.int32) for zero in zeros.values())
    want = (x.astype(np.int32) - (a[:, None] if a.ndim else a)) @ (w.astype(np.int32) - b)
    proto = model([helper.make_node("MatMulInteger", ["x", "w", *given], ["y"])], x, want, w=w, **given)
    check(proto, x, want, target, disable)


@natively_together
@split_by_day(("target", "disable"), ON_TARGETS, WITHOUT)
def test_products_of_one_difference_all_read_it_narrow(target: str, disable: tuple[str, ...]) -> None:
    x, v, w, zero = draw(np.uint8, (6, 45)), draw(np.int8, (45, 19)), draw(np.int8, (45, 19)), np.uint8(131)
    want = (x.astype(np.int32) - 131) @ (v.astype(np.int32) + w)
    nodes = [helper.make_node("MatMulInteger", ["x", name, "zero"], [f"{name}x"]) for name in ("v", "w")]
    proto = model([*nodes, helper.make_node("Add", ["vx", "wx"], ["y"])], x, want, v=v, w=w, zero=zero)
    check(proto, x, want, target, disable, products=2)


CASES = ["plain", "padded", "pointwise", "groups", "zero points"]
COMBINED = [(case, *on) for on in ON_TARGETS for case in (CASES if on == ("host", ()) else CASES[::4] if on[1] else CASES[1:])]
APART = [(case, *on) for on in [*ON_TARGETS, *WITHOUT] for case in CASES if (case, *on) not in COMBINED]


@natively_together
@split_by_day(("case", "target", "disable"), COMBINED, APART)
def test_conv_integer(case: str, target: str, disable: tuple[str, ...]) -> None:
    x, zeros = draw(np.uint8, (2, 12, 9, 11)), {}
    w = draw(np.int8, {"pointwise": (7, 12, 1, 1), "groups": (8, 3, 3, 3)}.get(case, (7, 12, 3, 3)))
    attributes = {"padded": {"pads": [1] * 4, "strides": [2, 2]}, "zero points": {"pads": [1] * 4}, "groups": {"group": 4}}.get(case, {})
    image, filters = x.astype(np.int32), w.astype(np.int32)
    if case == "zero points":
        zeros = {"a": np.uint8(131), "b": draw(np.int8, (7,))}
        image, filters = image - 131, filters - zeros["b"].astype(np.int32)[:, None, None, None]
    if case == "groups":
        want = np.concatenate([convolved(image[:, 3 * g : 3 * g + 3], filters[2 * g : 2 * g + 2]) for g in range(4)], axis=1)
    else:
        want = convolved(image, filters, attributes.get("pads", [0])[0], attributes.get("strides", [1])[0])
    check(model([helper.make_node("ConvInteger", ["x", "w", *zeros], ["y"], **attributes)], x, want, w=w, **zeros), x, want, target, disable)


@natively_together
@split_by_day(("target", "disable"), ON_TARGETS, WITHOUT)
def test_what_lies_between_two_layers_is_stored_narrow(target: str, disable: tuple[str, ...]) -> None:
    """The second product reads bytes; the cast that widens them stays out of the kernel of the first. This machine's blocks may be larger."""
    first, second, third = (16, 32, 16) if target == "host" else (10, 9, 4)
    x, v, w = draw(np.uint8, (1, first, 6, 5)), draw(np.int8, (second, first, 1, 1)), draw(np.int8, (third, second, 1, 1))
    scaled = convolved(x, v).astype(np.float32) * np.float32(2**-7)
    want = convolved(np.clip(scaled, 0, 255).astype(np.uint8), w)
    nodes = [
        helper.make_node("ConvInteger", ["x", "v"], ["a"]), helper.make_node("Cast", ["a"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "scale"], ["g"]), helper.make_node("Clip", ["g", "low", "high"], ["h"]),
        helper.make_node("Cast", ["h"], ["q"], to=TensorProto.UINT8), helper.make_node("ConvInteger", ["q", "w"], ["y"]),
    ]  # fmt: skip
    scalars = {"scale": np.float32(2**-7), "low": np.float32(0), "high": np.float32(255)}
    proto = model(nodes, x, want, v=v, w=w, **scalars)
    check(proto, x, want, target, disable, products=2)
    if target != NONE and not disable:  # a call, and the kernel that gives it, in blocks of channels
        text = stepwell.lower(proto, "graph-opt", target=target).text()
        assert len(re.findall(r"-> tensor<1x\d+x6x5x\d+xui8>", text)) >= 2


def test_a_zero_point_that_does_not_fit_is_told() -> None:
    x, w = draw(np.uint8, (2, 4)), draw(np.int8, (4, 3))
    proto = model([helper.make_node("MatMulInteger", ["x", "w", "a"], ["y"])], x, np.zeros((2, 3), np.int32), w=w, a=np.zeros(5, np.uint8))
    with pytest.raises(stepwell.StepwellError, match="MatMulInteger"):
        stepwell.compile(proto, threads=1)
