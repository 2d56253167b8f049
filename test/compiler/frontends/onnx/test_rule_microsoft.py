"""Operators of com.microsoft that are fused from ONNX's, against numpy and ONNX Runtime."""

import math
from typing import Any

import numpy as np
import pytest
from every import every
from importing import floats, ints, value_info
from native_checks import natively_together
from onnx import NodeProto, helper, numpy_helper
from other_domains import MICROSOFT, agree, check_native, model_of, of_runtime

import stepwell
from stepwell.dialects.support.errors import ModelError, UnsupportedError

ERF = np.vectorize(math.erf)


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node; names are separated by blanks, and `-` leaves an input or output out."""
    names = [[n.replace("-", "") for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, name="fused", domain=MICROSOFT, **attributes)


def check(made: NodeProto, inputs: dict[str, np.ndarray], want: dict[str, np.ndarray], *, runtime: bool = True, terms: int = 64) -> None:
    """Native code gives what is expected, and ONNX Runtime gives that too, where it has a kernel."""
    expected = {name: np.asarray(array) for name, array in want.items()}
    if runtime:
        agree(expected, of_runtime(made, inputs, expected), terms=terms)
    check_native(made, inputs, expected, terms=terms)


@natively_together
@every("alpha", [1.0, 0.25])
@every(
    ("a", "b", "flags"),
    [
        ((3, 5), (5, 4), {}),
        ((5, 3), (5, 4), {"transA": 1}),
        ((2, 3, 5), (2, 4, 5), {"transB": 1}),
        ((2, 5, 3), (4, 5), {"transA": 1, "transB": 1}),
        ((3, 2, 4, 5), (2, 4, 5, 6), {"transBatchA": 1}),
        ((2, 4, 3, 5), (5, 2, 4, 6), {"transBatchB": 1}),
        ((5, 2, 3), (6, 2, 5), {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}),
    ],
)
def test_fused_matmul(a: tuple[int, ...], b: tuple[int, ...], flags: dict[str, int], alpha: float) -> None:
    x, y = floats(*a), floats(*b, seed=3)
    left, right = ((np.moveaxis(v, 0, -2) if flags.get(f"transBatch{n}") else v) for v, n in ((x, "A"), (y, "B")))
    left, right = ((np.swapaxes(v, -1, -2) if flags.get(f"trans{n}") else v) for v, n in ((left, "A"), (right, "B")))
    want = np.float32(alpha) * (left.astype(np.float64) @ right)
    check(node("FusedMatMul", "a b", alpha=alpha, **flags), {"a": x, "b": y}, {"y": want.astype(np.float32)})


ACTIVATIONS: dict[str, tuple[list[float], Any]] = {
    "Relu": ([], lambda v: np.maximum(v, 0)), "Tanh": ([], np.tanh), "Sigmoid": ([], lambda v: 1 / (1 + np.exp(-v))),
    "LeakyRelu": ([0.2], lambda v: np.where(v < 0, np.float32(0.2) * v, v)), "Clip": ([-0.5, 1.25], lambda v: np.clip(v, -0.5, 1.25)),
    "HardSigmoid": ([0.3, 0.4], lambda v: np.clip(np.float32(0.3) * v + np.float32(0.4), 0, 1)),
}  # fmt: skip


@natively_together
@every("activation", ACTIVATIONS)
@every("added", [False, True])
def test_fused_conv(activation: str, added: bool) -> None:
    parameters, function = ACTIVATIONS[activation]
    x, w, bias = floats(2, 3, 7, 8), floats(4, 3, 3, 2, seed=1) / 4, floats(4, seed=2)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 1)]).astype(np.float64), (3, 2), axis=(2, 3))
    total = np.einsum("nchwij,ocij->nohw", windows[:, :, ::2], w) + bias[:, np.newaxis, np.newaxis]
    z = floats(*total.shape, seed=4)
    inputs = {"x": x, "w": w, "b": bias, **({"z": z} if added else {})}
    want = function(total + z if added else total).astype(np.float32)
    given = {"activation_params": parameters} if parameters else {}
    made = node("FusedConv", " ".join(inputs), activation=activation, pads=[1, 0, 0, 1], strides=[2, 1], **given)
    check(made, inputs, {"y": want}, runtime=not added)


@natively_together
@every("activation", ["Relu", "LeakyRelu", "Sigmoid", "Tanh"])
def test_fused_gemm(activation: str) -> None:
    parameters, function = ACTIVATIONS[activation]
    inputs = {"a": floats(5, 3), "b": floats(4, 5, seed=1), "c": floats(4, seed=2)}
    given = {"activation_alpha": parameters[0]} if parameters else {}
    want = function(0.5 * (inputs["a"].T.astype(np.float64) @ inputs["b"].T) + 2 * inputs["c"]).astype(np.float32)
    check(node("FusedGemm", "a b c", activation=activation, alpha=0.5, beta=2.0, transA=1, transB=1, **given), inputs, {"y": want})


def gelu(v: np.ndarray) -> np.ndarray:
    return 0.5 * v * (1 + ERF(v / math.sqrt(2)))


def fast_gelu(v: np.ndarray) -> np.ndarray:
    return 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))


@natively_together
@every("shape", [(2, 3, 8), (5, 7)])
def test_gelus(shape: tuple[int, ...]) -> None:
    x, bias = floats(*shape) * 3, floats(shape[-1], seed=1)
    wide = x.astype(np.float64)
    check(node("Gelu", "x"), {"x": x}, {"y": gelu(wide).astype(np.float32)})
    check(node("BiasGelu", "x b"), {"x": x, "b": bias}, {"y": gelu(wide + bias).astype(np.float32)})
    check(node("FastGelu", "x"), {"x": x}, {"y": fast_gelu(wide).astype(np.float32)})
    check(node("FastGelu", "x b"), {"x": x, "b": bias}, {"y": fast_gelu(wide + bias).astype(np.float32)})
    for alpha in (1.702, -0.5):
        check(node("QuickGelu", "x", alpha=alpha), {"x": x}, {"y": (wide / (1 + np.exp(-alpha * wide))).astype(np.float32)})


@natively_together
def test_bias_softmax() -> None:
    """The bias is repeated along inner dimensions, along outer ones, and the softmax takes several dimensions together."""
    x = floats(2, 3, 4, 5)
    for bias, axis, inner in ((floats(2, 1, 1, 5), 3, 1), (floats(4, 5), 3, 0), (floats(1, 3, 4, 5), 2, 0)):
        total = np.exp((x + bias).astype(np.float64))
        want = total / total.sum(axis=tuple(range(axis, 4)), keepdims=True)
        made = node("BiasSoftmax", "x b", axis=axis, is_inner_broadcast=inner)
        check(made, {"x": x, "b": bias}, {"y": want.astype(np.float32)}, runtime=False)


def normalised(v: np.ndarray, epsilon: float, simplified: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean = v.mean(axis=-1, keepdims=True)
    centred = v if simplified else v - mean
    inverse = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    return centred * inverse, mean, inverse


@natively_together
@every("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
@every("dtype", [np.float32, np.float16])
def test_skip_layer_normalization(skip: tuple[int, ...], dtype: Any) -> None:
    """With and without the shift and the bias; each output that is asked for."""
    shapes = {"x": (2, 3, 8), "s": skip, "g": (8,), "t": (8,), "b": (8,)}
    inputs = {name: floats(*shape, seed=i).astype(dtype) for i, (name, shape) in enumerate(shapes.items())}
    total = sum(inputs[n].astype(np.float64) for n in "xsb")
    y, mean, inverse = normalised(total, 1e-3)
    want = {"y": (y * inputs["g"] + inputs["t"]).astype(dtype), "sum": total.astype(dtype)}
    check(node("SkipLayerNormalization", "x s g t b", "y - - sum", epsilon=1e-3), inputs, want)
    statistics = {"mean": mean.astype(np.float32), "inverse": inverse.astype(np.float32)}
    every = {"y": want["y"], **statistics, "sum": want["sum"]}
    check(node("SkipLayerNormalization", "x s g t b", "y mean inverse sum", epsilon=1e-3), inputs, every, runtime=False)
    plain = normalised(sum(inputs[n].astype(np.float64) for n in "xs"), 1e-12)[0] * inputs["g"]
    check(node("SkipLayerNormalization", "x s g"), {n: inputs[n] for n in "xsg"}, {"y": plain.astype(dtype)}, terms=128)


@natively_together
@every("shape", [(2, 3, 8), (6, 8)])
def test_simplified_layer_normalizations(shape: tuple[int, ...]) -> None:
    inputs = {"x": floats(*shape), "s": floats(*shape, seed=1), "g": floats(8, seed=2), "b": floats(8, seed=3)}
    total = sum(inputs[n].astype(np.float64) for n in "xsb")
    y, mean, inverse = normalised(total, 1e-4, simplified=True)
    want = {"y": (y * inputs["g"]).astype(np.float32), "sum": total.astype(np.float32)}
    check(node("SkipSimplifiedLayerNormalization", "x s g b", "y - - sum", epsilon=1e-4), inputs, want)
    every = {"y": want["y"], "mean": mean.astype(np.float32), "inverse": inverse.astype(np.float32), "sum": want["sum"]}
    check(node("SkipSimplifiedLayerNormalization", "x s g b", "y mean inverse sum", epsilon=1e-4), inputs, every, runtime=False)
    alone = normalised(inputs["x"].astype(np.float64), 1e-5, simplified=True)[0] * inputs["g"]
    made = node("SimplifiedLayerNormalization", "x g")
    check(made, {"x": inputs["x"], "g": inputs["g"]}, {"y": alone.astype(np.float32)}, runtime=False)


@pytest.mark.parametrize("op", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_normalizations_in_onnx_s_own_domain(op: str) -> None:
    """As ONNX Runtime writes them into models of opsets in which ONNX has no such operator."""
    x, g = floats(2, 3, 8), floats(8, seed=1)
    made = helper.make_node(op, ["x", "g"], ["y"], axis=-1, epsilon=1e-3)
    graph = helper.make_graph([made], "g", [value_info("x", x)], [value_info("y", x)], [numpy_helper.from_array(g, "g")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    want = normalised(x.astype(np.float64), 1e-3, simplified=op.startswith("Simplified"))[0] * g
    np.testing.assert_allclose(stepwell.compile(proto, threads=1)(x)[0], want, rtol=1e-5, atol=1e-6)


@natively_together
@every("segments", [False, True])
@every("positions", [False, True])
def test_embed_layer_normalization(segments: bool, positions: bool) -> None:
    r = np.random.default_rng(5)
    inputs = {
        "ids": r.integers(0, 11, (2, 4)).astype(np.int32), "segs": r.integers(0, 2, (2, 4)).astype(np.int32), "word": floats(11, 8),
        "pos": floats(9, 8, seed=1), "seg": floats(2, 8, seed=2), "g": floats(8, seed=3), "t": floats(8, seed=4),
        "mask": ints(1, 1, 0, 0, 1, 1, 1, 0, dtype=np.int32).reshape(2, 4), "places": r.integers(0, 9, (2, 4)).astype(np.int32),
    }  # fmt: skip
    places = inputs["places"] if positions else np.arange(4)
    total = inputs["word"][inputs["ids"]].astype(np.float64) + inputs["pos"][places]
    total += inputs["seg"][inputs["segs"]] if segments else 0
    y = normalised(total, 1e-3)[0] * inputs["g"] + inputs["t"]
    names = ["ids", "segs" if segments else "-", "word", "pos", "seg" if segments else "-", "g", "t", "mask", *(["places"] if positions else [])]
    made = node("EmbedLayerNormalization", " ".join(names), "y count sum", epsilon=1e-3)
    want = {"y": y.astype(np.float32), "count": ints(2, 3, dtype=np.int32), "sum": total.astype(np.float32)}
    check(made, {n: inputs[n] for n in names if n != "-"}, want)


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (node("FusedConv", "x w", activation="Softplus"), UnsupportedError, "activation='Softplus'"),
        (node("FusedConv", "x w", activation="Relu", activation_params=[1.0]), ModelError, "takes 0 parameters, got 1"),
        (node("BiasGelu", "x w"), ModelError, "must be a vector for the last dimension"),
        (node("SkipLayerNormalization", "x x w"), ModelError, "must be"),
        (node("Gelu", "x", approximate="tanh"), UnsupportedError, "attribute approximate='tanh' is not supported"),
        (node("FusedMatMul", "x x", flavour=1), UnsupportedError, "attribute flavour=1 is not supported"),
        (node("EmbedLayerNormalization", "x - w"), ModelError, "must all be given"),
        (node("Inverse", "x"), UnsupportedError, "Inverse"),
    ],
)
def test_what_is_wrong_is_said(made: NodeProto, kind: Any, message: str) -> None:
    x = floats(2, 3, 7, 8)
    proto = model_of(made, {"x": x}, {"y": x}, {"w": floats(4, 3, 3, 3)})
    with pytest.raises(kind, match=message):
        stepwell.compile(proto)
