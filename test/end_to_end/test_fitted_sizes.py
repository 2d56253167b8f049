"""Sizes that are free on one side and known on the other, and what is computed of sizes: rules take them to fit, and know their numbers."""

import math

import numpy as np
import onnxruntime
from onnx import ModelProto, numpy_helper, parser

import stepwell

HEADER = '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1, "ai.onnx.ml" : 3]> '
RNG = np.random.default_rng(5)
WEIGHTS = {
    "v3": RNG.standard_normal(3), "v4": RNG.standard_normal(4), "v8": RNG.standard_normal(8), "w": RNG.standard_normal((4, 3, 3, 3)),
    "grouped": RNG.standard_normal((6, 1, 3)), "turned": RNG.standard_normal((3, 4, 2, 2)), "columns": RNG.standard_normal((8, 4)),
    "variance": RNG.uniform(1, 2, 3),
}  # fmt: skip
EIGHT = "[0.5, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0]"
# Each input has free sizes only; the nodes say what they must be.
FREE = {
    "skip": ("com.microsoft.SkipLayerNormalization(x, s, v8, v8, v8)", "float[r0, r1, r2]"),
    "simplified": ("com.microsoft.SkipSimplifiedLayerNormalization(x, s, v8)", "float[r0, r1, r2]"),
    "bias": ("com.microsoft.BiasGelu(x, v8)", "float[r0, r1, r2]"),
    "fast": ("com.microsoft.FastGelu(x, v8)", "float[r0, r1, r2]"),
    "scaled": (f"ai.onnx.ml.Scaler<offset = {EIGHT}, scale = {EIGHT}>(rows)", "float[r0, r1]"),
    "product": ("Gemm(rows, columns, v4)", "float[r0, r1]"),
    "points": ("GatherND(x, at)", "float[r0, r1]"),
    "placed": ("ScatterND(x, at, u)", "float[r0, r1, r2]"),
    "conv": ("Conv(image, w, v4)", "float[r0, r1, r2, r3]"),
    "groups": ("Conv<group = 6>(line, grouped)", "float[r0, r1, r2]"),
    "transposed": ("ConvTranspose<strides = [2, 2]>(image, turned, v4)", "float[r0, r1, r2, r3]"),
    "normalised": ("BatchNormalization(image, v3, v3, v3, variance)", "float[r0, r1, r2, r3]"),
}
SHAPES = {"x": (2, 3, 8), "s": (2, 3, 8), "rows": (5, 8), "at": (4, 2), "u": (4, 8), "image": (2, 3, 7, 6), "line": (1, 6, 9)}


def free_model() -> ModelProto:
    names = iter(f"d{i}" for i in range(99))
    inputs = [f"{'int64' if name == 'at' else 'float'}[{', '.join(next(names) for _ in shape)}] {name}" for name, shape in SHAPES.items()]
    outputs = [f"{kind.replace('r', f'o{i}_')} {name}" for i, (name, (_, kind)) in enumerate(FREE.items())]
    body = " ".join(f"{name} = {call}" for name, (call, _) in FREE.items())
    model = parser.parse_model(f"{HEADER}g ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {body} }}")
    model.graph.initializer.extend(numpy_helper.from_array(array.astype(np.float32), name) for name, array in WEIGHTS.items())
    return model


def test_free_sizes_fit_what_the_node_says() -> None:
    model = free_model()
    compiled = stepwell.compile(model, specialise="never", threads=1)
    feeds = {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    feeds["at"] = np.array([[0, 0], [1, 2], [1, 1], [0, -1]])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = compiled.run(feeds)
    for name, want in zip(FREE, session.run(list(FREE), feeds), strict=True):
        assert got[name].shape == want.shape, name
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=name)
    assert {made.state for made in compiled.specialisations} == {"general"}


def truncated(a: int, b: int) -> int:
    return math.trunc(a / b)


# What is computed of a size `n`, by nodes and by Python's own numbers.
COMPUTED = {
    "half": ("a0 = Sub(n, five) half = Div(a0, two)", lambda n: truncated(n - 5, 2)),
    "other": ("a1 = Sub(five, n) other = Div(a1, three)", lambda n: truncated(5 - n, 3)),
    "down": ("a2 = Sub(n, nine) down = Div(a2, minus)", lambda n: truncated(n - 9, -2)),
    "twice": ("a3 = Mul(half, three) a4 = Sub(a3, n) twice = Div(a4, five)", lambda n: truncated(3 * truncated(n - 5, 2) - n, 5)),
    "plain": ("a5 = Mul(n, three) plain = Div(a5, two)", lambda n: 3 * n // 2),
    "floor": ("floor = Mod(a0, three)", lambda n: (n - 5) % 3),
    "rest": ("rest = Mod<fmod = 1>(a0, three)", lambda n: math.fmod(n - 5, 3)),
    "back": ("back = Mod(a1, minus)", lambda n: (5 - n) % -2),
}


def test_integers_that_follow_from_sizes_are_rounded_as_onnx_says() -> None:
    numbers = {"five": 5, "two": 2, "three": 3, "nine": 9, "minus": -2, "zero": 0}
    text = "".join(f"{name} = Constant<value = int64[1] {{{number}}}>() " for name, number in numbers.items())
    text += "low = Constant<value = int64 {-50}>() one = Constant<value = int64 {1}>() n = Shape<start = 0, end = 1>(x) "
    for name, (nodes, _) in COMPUTED.items():
        text += f"{nodes} s_{name} = Squeeze({name}, zero) y_{name} = Range(low, s_{name}, one) "
    text += "m = Max(half, zero) filled = ConstantOfShape(m) cut = Slice(x, zero, half, zero) "
    outputs = ", ".join([*(f"int64[k_{name}] y_{name}" for name in COMPUTED), "float[f] filled", "float[c] cut"])
    compiled = stepwell.compile(parser.parse_model(f"{HEADER}g (float[n] x) => ({outputs}) {{ {text} }}"), specialise="never", threads=1)
    for n in (0, 1, 4, 5, 6, 8, 11, 30):
        x = np.arange(n, dtype=np.float32)
        got = compiled.run({"x": x})
        for name, (_, count) in COMPUTED.items():
            np.testing.assert_array_equal(got[f"y_{name}"], np.arange(-50, count(n)), err_msg=f"{name} of {n}")
        assert got["filled"].shape == (max(truncated(n - 5, 2), 0),)
        np.testing.assert_array_equal(got["cut"], x[: truncated(n - 5, 2)])
