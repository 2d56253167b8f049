"""Operators on tensors whose number of rows the data decide, from none on: what ONNX Runtime gives, by one program.

Cases are combinations of a source of rows, something that reshapes what it gives, and an operator behind that.
"""

import itertools
import random
import re
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, numpy_helper, parser

import stepwell

HEADER = '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]> '
VECTORS = {"z": [0], "one": [1], "two": [2], "three": [3], "back": [-1], "ten": [10], "far": [100], "behind": [-100], "rest": [0, 2, 2]}
NUMBERS = "".join(f"{name} = Constant<value = int64[{len(n)}] {{{', '.join(map(str, n))}}}>() " for name, n in VECTORS.items())
NUMBERS += "s0 = Constant<value = int64 {0}>() s1 = Constant<value = int64 {1}>() half = Constant<value_float = 0.5>() "

# Each makes `r`, the first k of six rows of four, and `v`, as many images.
SOURCES = {
    "compress": ("bool[6] keep", "r = Compress<axis = 0>(x, keep) v = Compress<axis = 0>(images, keep)"),
    "slice": ("int64[1] count", "r = Slice(x, z, count, z) v = Slice(images, z, count, z)"),
    "loop": (
        "int64 rounds",
        (
            "r0 = Slice(x, z, z, z) r = Loop(rounds, , r0) <body = l (int64 j, bool go, float[p, 4] had) => (bool on, float[q, 4] has) { "
            "on = Identity(go) row = Gather<axis = 0>(x, j) rows = Unsqueeze(row, z) has = Concat<axis = 0>(had, rows) }> rn = "
            "Shape<start = 0, end = 1>(r) v = Slice(images, z, rn, z)"
        ),
    ),
    "found": ("bool[6] keep", "f0 = NonZero(keep) f1 = Squeeze(f0, z) r = Gather<axis = 0>(x, f1) v = Gather<axis = 0>(images, f1)"),
    "free": ("float[k, 4] r, float[k, 3, 5, 5] v", ""),
}
# What makes `t` of `r`, with the same rows.
THROUGH = {
    "plain": "t = Identity(r)",
    "first": "t = Slice(r, z, far, z)",
    "last": "t = Slice(r, behind, far, z)",
    "joined": "t0 = Slice(r, far, far, z) t = Concat<axis = 0>(t0, r)",
    "halves": "t0 = Slice(r, z, two, z) t1 = Slice(r, two, far, z) t = Concat<axis = 0>(t0, t1)",
    "twice": "t0 = Slice(r, back, behind, z, back) t = Slice(t0, back, behind, z, back)",
    "flat": "t0 = Reshape(r, back) t1 = Shape(r) t = Reshape(t0, t1)",
}
# Makes `y` of `t`, of `i`, the numbers of its rows, of `n`, how many there are, or of the images `v`.
OPERATORS = {
    "ArgMax": "y = ArgMax<axis = 1>(t)",
    "Hardmax": "y = Hardmax<axis = 0>(t)",
    "Softmax": "y = Softmax<axis = 0>(t)",
    "CumSum": "y = CumSum(t, s0)",
    "TopK": "q = Min(n, three) y, y1 = TopK<axis = 0>(t, q)",
    "TopK, all": "y, y1 = TopK<axis = 0>(t, n)",
    "TopK, GatherElements": "q = Min(n, two) y0, y1 = TopK<axis = 0>(t, q) y = GatherElements<axis = 0>(t, y1)",
    "TopK, Gather": "c = Gather<axis = 1>(t, s0) c0, c1 = TopK<axis = 0, largest = 0>(c, n) y = Gather<axis = 0>(t, c1)",
    "GatherND": "c = Greater(t, half) c0 = NonZero(c) c1 = Transpose(c0) y = GatherND(t, c1)",
    "ScatterND": "c = Greater(t, half) c0 = NonZero(c) c1 = Transpose(c0) c2 = GatherND(t, c1) c3 = Neg(c2) y = ScatterND(t, c1, c3)",
    "ScatterElements": "c = Floor(t) c0 = Cast<to = 7>(c) c1 = Unsqueeze(i, one) c2 = Add(c0, c1) y0 = Neg(t) y = ScatterElements(t, c2, y0)",
    "MatMul": "w = Transpose(t) y = MatMul(t, w)",
    "MatMul, inside": "w = Transpose(t) y = MatMul(w, t)",
    "Gemm": "w = Transpose(t) y = Gemm(t, w)",
    "ReduceSum": "y = ReduceSum<keepdims = 0>(t, z)",
    "ReduceProd": "y = ReduceProd(t, z)",
    "ReduceL2": "y = ReduceL2(t, one)",
    "Pad": 'p = Constant<value = int64[4] {0, 1, 0, 1}>() y = Pad<mode = "edge">(t, p)',
    "Pad, rows": "p = Constant<value = int64[4] {1, 0, 2, 0}>() y = Pad(t, p)",
    "Reshape": "y = Reshape(t, rest)",
    "Reshape, known": "q = Concat<axis = 0>(n, two, two) y = Reshape(t, q)",
    "Split": "y, y1 = Split<axis = 1, num_outputs = 2>(t)",
    "Tile": "q = Constant<value = int64[2] {2, 3}>() y = Tile(t, q)",
    "Expand": "q = Constant<value = int64[3] {2, 1, 1}>() y = Expand(t, q)",
    "Where": "c = Greater(t, half) y = Where(c, t, half)",
    "OneHot": "q = Constant<value = int64 {6}>() o = Constant<value = float[2] {0.0, 1.0}>() y = OneHot(i, q, o)",
    "Unique": "y = Unique(t)",
    "Unique, rows": "y = Unique<axis = 0>(t)",
    "Unique, inverse": "f = Reshape(t, back) u, u1, u2, u3 = Unique(f) y = Gather(u, u2)",
    "NonZero": "y = NonZero(t)",
    "Compress": "c = Greater(t, half) c0 = Gather<axis = 1>(c, s0) y = Compress<axis = 0>(t, c0)",
    "Einsum": 'y = Einsum<equation = "ij,kj->ik">(t, t)',
    "Range": "q = Squeeze(n, z) y = Range(s0, q, s1)",
    "Range, down": "q = Squeeze(n, z) m = Neg(s1) q0 = Sub(q, s1) y = Range(q0, m, m)",
    "ConstantOfShape": "y = ConstantOfShape(n)",
    "EyeLike": "y = EyeLike(t)",
    "Trilu": "y = Trilu(t)",
    "differences": "a = Unsqueeze(t, z) c = Unsqueeze(t, one) y = Sub(a, c)",
    "attention": "w = Transpose(t) a = MatMul(t, w) c = Softmax(a) y = MatMul(c, t)",
    "Clip, Gather": "q = Sub(n, one) q0 = Squeeze(q, z) j = Clip(i, s0, q0) y = Gather<axis = 0>(t, j)",
    "Neg, Gather": "j = Neg(i) j0 = Sub(j, one) y = Gather<axis = 0>(t, j0)",
    "Div, Gather": "j = Div(i, two) y = Gather<axis = 0>(t, j)",
    "NonMaxSuppression": (
        "b0 = Unsqueeze(t, z) b1 = Gather<axis = 1>(t, s0) b2 = Unsqueeze(b1, z) b3 = Unsqueeze(b2, z) iou = Constant<value = float[1] "
        "{0.5}>() low = Constant<value = float[1] {-9.0}>() b4 = NonMaxSuppression(b0, b3, ten, iou, low) y = Identity(b4)"
    ),
    "NonMaxSuppression, Gather": (
        "b0 = Unsqueeze(t, z) b1 = Gather<axis = 1>(t, s0) b2 = Unsqueeze(b1, z) b3 = Unsqueeze(b2, z) iou = Constant<value = float[1] "
        "{0.5}>() low = Constant<value = float[1] {-9.0}>() b4 = NonMaxSuppression(b0, b3, ten, iou, low) b5 = Gather<axis = 1>(b4, two) "
        "b6 = Squeeze(b5, one) y = Gather<axis = 0>(t, b6)"
    ),
    "If": (
        "c = Greater(n, z) y = If (c) <then_branch = a () => (float[p, 4] y1) { y1 = Relu(t) }, else_branch = b () => (float[q, 4] y2) { "
        "y2 = Neg(t) }>"
    ),
    "If, Gather": (
        "c = Greater(n, z) y = If (c) <then_branch = a () => (float[4] y1) { y1 = Gather<axis = 0>(t, s0) }, else_branch = b () => "
        "(float[4] y2) { y2 = Gather<axis = 0>(x0, s0) }>"
    ),
    "Loop": (
        "go = Constant<value = bool {1}>() q = Squeeze(n, z) y = Loop (q, go) <body = l (int64 j, bool g) => (bool g2, float[4] o) { g2 = "
        "Identity(g) o0 = Gather<axis = 0>(t, j) o = Relu(o0) }>"
    ),
    "Conv": "y = Conv(v, k3)",
    "Conv, padded": "y = Conv<pads = [1, 1, 1, 1]>(v, k3)",
    "ConvTranspose": "y = ConvTranspose(v, k3t)",
    "MaxPool": "y = MaxPool<kernel_shape = [2, 2]>(v)",
    "AveragePool": "y = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(v)",
    "GlobalAveragePool": "y = GlobalAveragePool(v)",
    "LRN": "y = LRN<size = 3>(v)",
    "BatchNormalization": "w = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = BatchNormalization(v, w, w, w, w)",
    "InstanceNormalization": "w = Constant<value = float[3] {1.0, 2.0, 3.0}>() y = InstanceNormalization(v, w, w)",
    "Resize": 'q = Constant<value = float[4] {1.0, 1.0, 2.0, 2.0}>() y = Resize<mode = "linear">(v, , q)',
    "RoiAlign": "j = Mul(i, s0) y = RoiAlign<output_height = 2, output_width = 2>(image, t, j)",
    "LayerNormalization": "w = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>() y = LayerNormalization(t, w, w)",
    "BiasGelu": "w = Constant<value = float[4] {1.0, 2.0, 3.0, 4.0}>() y = com.microsoft.BiasGelu(t, w)",
    "QuantizeLinear": (
        "s = Constant<value = float {0.1}>() o = Constant<value = int8 {0}>() q = QuantizeLinear(t, s, o) w = Transpose(q) y = MatMulInteger(q, w)"
    ),
}
KINDS = {"ArgMax": "int64", "NonZero": "int64", "Range": "int64", "Range, down": "int64", "NonMaxSuppression": "int64", "QuantizeLinear": "int32"}
RNG = np.random.default_rng(0)
ARRAYS = {
    "x": RNG.uniform(0, 1, (6, 4)), "images": RNG.standard_normal((6, 3, 5, 5)), "k3": RNG.standard_normal((2, 3, 3, 3)),
    "k3t": RNG.standard_normal((3, 2, 3, 3)), "image": RNG.standard_normal((1, 2, 6, 6)), "x0": RNG.uniform(0, 1, (1, 4)),
}  # fmt: skip
WEIGHTS = {name: array.astype(np.float32) for name, array in ARRAYS.items()}


def model(source: str, through: str, operator: str) -> ModelProto:
    """The nodes that its result needs, and no others."""
    inputs, made = SOURCES[source]
    body = f"{made} {THROUGH[through]} n = Shape<start = 0, end = 1>(t) ns = Squeeze(n, z) i = Range(s0, ns, s1) {OPERATORS[operator]}"
    found = parser.parse_model(f"{HEADER}g ({inputs}) => ({KINDS.get(operator, 'float')} y) {{ {NUMBERS} {body} }}")
    found.graph.output[0].type.tensor_type.ClearField("shape")
    needed, kept = {"y"}, []
    for node in reversed(found.graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed |= set(node.input) | set(re.findall(r'input: "(\w+)"', str(node)))
    nodes, declared = list(reversed(kept)), [value for value in found.graph.input if value.name in needed]
    del found.graph.node[:], found.graph.input[:]
    found.graph.node.extend(nodes)
    found.graph.input.extend(declared)
    found.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in WEIGHTS.items() if name in needed)
    return found


def feeds(source: ModelProto, rows: int) -> dict[str, np.ndarray]:
    every: dict[str, Any] = {"keep": np.arange(6) < rows, "count": np.array([rows]), "rounds": np.array(rows)}
    every |= {"r": WEIGHTS["x"][:rows], "v": WEIGHTS["images"][:rows]}
    return {value.name: every[value.name] for value in source.graph.input}


def check(source: str, through: str, operator: str) -> None:
    made = model(source, through, operator)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled = stepwell.compile(made, specialise="never", threads=1)
    for rows in (3, 0, 1, 6):
        given = feeds(made, rows)
        [want] = session.run(["y"], given)
        got = compiled.run(given)["y"]
        assert got.shape == want.shape, f"{rows} rows"
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=f"{rows} rows")


CASES = [(s, t, o) for o, (s, t) in itertools.product(OPERATORS, itertools.product(SOURCES, THROUGH))]
CASES = random.Random(1).sample(CASES, len(CASES))
BY_DAY, AT_NIGHT = 12, 12  # cases, and cases of each operator


@pytest.mark.parametrize(("source", "through", "operator"), CASES[:BY_DAY])
def test_operators_on_rows_that_the_data_choose(source: str, through: str, operator: str) -> None:
    check(source, through, operator)


@pytest.mark.nightly
@pytest.mark.parametrize("operator", OPERATORS)
def test_each_operator_behind_each_source(operator: str) -> None:
    for source, through, _ in [case for case in CASES[BY_DAY:] if case[2] == operator][:AT_NIGHT]:
        try:
            check(source, through, operator)
        except Exception as error:
            raise AssertionError(f"{operator} of rows of {source}, {through}: {error}") from error
