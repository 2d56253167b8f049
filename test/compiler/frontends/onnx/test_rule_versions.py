"""Operators whose inputs and attributes moved between opsets: each form against ONNX Runtime (or ONNX's own evaluator)."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from every import every
from importing import assert_close, check, floats, ints, model, node, ops, rng, run
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

X = floats(2, 3, 4)
IMAGE = floats(2, 3, 6, 7)
SHAPED = {"axes": ints(0, 2)}

Case = tuple[int, NodeProto, dict[str, np.ndarray], dict[str, np.ndarray]]


def case(
    opset: int,
    op: str,
    data: np.ndarray | dict[str, np.ndarray] = X,
    weights: dict[str, np.ndarray] | None = None,
    inputs: Any = None,
    **attributes: Any,
) -> Case:
    """A node whose inputs are `data` and then `weights`, in order, unless named by `inputs`."""
    given = data if isinstance(data, dict) else {"x": data}
    return opset, node(op, list(inputs) if inputs is not None else [*given, *(weights or {})], **attributes), given, weights or {}


def named(case: Case) -> str:
    return f"{case[1].op_type}-{case[0]}"


REDUCTIONS = [
    "ReduceSum",
    "ReduceProd",
    "ReduceMax",
    "ReduceMin",
    "ReduceMean",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]
POSITIVE = np.abs(X) + 0.1

CASES: list[Case] = [
    # reductions: axes as an attribute, then as an input
    *(case(11, op, POSITIVE, axes=[0, -1], keepdims=0) for op in REDUCTIONS),
    *(case(11, op, POSITIVE) for op in REDUCTIONS),
    *(case(18, op, POSITIVE, SHAPED, keepdims=0) for op in REDUCTIONS),
    *(case(18, op, POSITIVE) for op in REDUCTIONS),
    *(case(18, op, POSITIVE, {"axes": np.zeros(0, np.int64)}, noop_with_empty_axes=1) for op in REDUCTIONS),
    case(13, "ReduceSum", X, SHAPED, keepdims=0),
    case(18, "ReduceMean", rng().integers(-50, 50, (4, 5)).astype(np.int32), {"axes": ints(1)}),
    case(18, "ReduceL2", rng().integers(1, 50, (4, 5)).astype(np.int32), {"axes": ints(1)}),
    case(20, "ReduceMax", rng().integers(0, 2, (4, 5)).astype(bool), {"axes": ints(1)}),
    case(12, "ArgMax", X, axis=1, select_last_index=1),
    case(13, "ArgMin", X, axis=-1, keepdims=0),
    case(14, "CumSum", X, {"axis": np.array(-2)}, exclusive=1, reverse=1),
    case(14, "CumSum", X, {"axis": np.array([1], np.int32)}),
    *(case(26, "CumProd", X, {"axis": np.array(-1)}, exclusive=e, reverse=r) for e in (0, 1) for r in (0, 1)),
    # softmax over all dimensions from an axis on, then along one
    *(
        case(opset, op, X, **attributes)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (7, 11, 13)
        for attributes in ({}, {"axis": 1}, {"axis": -1})
    ),
    case(7, "Softmax", floats(2, 5, 1, 1)),
    # bounds, padding, slices: attributes, then inputs
    case(7, "Clip", X, min=-0.2, max=0.4),
    case(7, "Clip", X),
    case(11, "Clip", X, {"low": np.float32(-0.2), "high": np.float32(0.4)}),
    case(12, "Clip", rng().integers(-50, 50, (3, 4)), {"low": np.array(-(1 << 60) - 1), "high": np.array(7)}),
    case(13, "Clip", {"x": X, "low": np.array(-0.2, np.float32)}),
    case(7, "Pad", IMAGE, pads=[0, 0, 1, 2, 0, 0, 3, 0], value=1.5),
    case(10, "Pad", IMAGE, pads=[0, 0, 1, 2, 0, 0, 3, 0], mode="reflect"),
    case(10, "Pad", IMAGE, pads=[0, 1, -1, 2, 0, 0, 3, -2], mode="edge"),
    case(11, "Pad", IMAGE, {"pads": ints(0, 0, 1, 2, 0, 0, 3, 0), "value": np.float32(-2)}),
    case(13, "Pad", IMAGE, {"pads": ints(0, -1, 1, 2, 0, 0, 3, -3)}),
    case(18, "Pad", IMAGE, {"pads": ints(1, 2, 3, 0), "value": np.float32(-2), "axes": ints(-1, 1)}),
    case(19, "Pad", IMAGE, {"pads": ints(1, 2, 3, 0), "axes": ints(-1, 1)}, inputs=["x", "pads", "", "axes"], mode="wrap"),
    case(7, "Slice", X, starts=[1, -3], ends=[2, 100], axes=[0, 2]),
    case(7, "Slice", X, starts=[0, 1], ends=[1, -1]),
    case(10, "Slice", X, {"starts": ints(-1, 3), "ends": ints(-100, 0), "axes": ints(1, 2), "steps": ints(-1, -2)}),
    case(13, "Slice", X, {"starts": ints(1), "ends": ints(1 << 62), "axes": ints(-1)}),
    case(13, "Slice", X, {"starts": ints(3), "ends": ints(1), "axes": ints(2)}),
    case(13, "Slice", {"x": X, "starts": ints(1), "ends": ints(3)}),
    # shapes
    case(7, "Squeeze", floats(1, 3, 1, 4), axes=[0, 2]),
    case(11, "Squeeze", floats(1, 3, 1, 4)),
    case(13, "Squeeze", floats(1, 3, 1, 4), {"axes": ints(-2)}),
    case(13, "Squeeze", floats(1, 3, 1, 4)),
    case(7, "Unsqueeze", X, axes=[0, 4]),
    case(11, "Unsqueeze", X, axes=[-1, 1]),
    case(13, "Unsqueeze", X, {"axes": ints(3, 0)}),
    case(7, "Reshape", X, {"shape": ints(0, -1)}),
    case(14, "Reshape", floats(0, 3, 4), {"shape": ints(3, 4, 0)}, allowzero=1),
    case(14, "Reshape", {"x": X, "shape": ints(0, 12)}),
    case(7, "Flatten", X, axis=0),
    case(9, "Flatten", X, axis=3),
    case(11, "Flatten", X, axis=-1),
    case(7, "Transpose", X),
    case(13, "Transpose", X, perm=[1, 2, 0]),
    case(8, "Expand", floats(3, 1), {"shape": ints(2, 1, 6)}),
    case(13, "Expand", floats(3, 4), {"shape": ints(3, 1)}),
    case(7, "Tile", X, {"repeats": ints(1, 3, 2)}),
    case(7, "Concat", {"x": X, "z": floats(2, 1, 4)}, axis=1),
    case(13, "Concat", {"x": X, "z": floats(2, 1, 4), "u": floats(2, 2, 4)}, axis=-2),
    case(13, "DepthToSpace", floats(2, 12, 3, 2), blocksize=2, mode="CRD"),
    case(7, "DepthToSpace", floats(2, 12, 3, 2), blocksize=2),
    case(13, "SpaceToDepth", floats(2, 3, 4, 6), blocksize=2),
    case(14, "Trilu", X, {"k": np.array(-1)}, upper=0),
    case(14, "Trilu", X),
    case(10, "ReverseSequence", floats(4, 3, 2), {"lengths": ints(4, 1, 3)}, time_axis=0, batch_axis=1),
    # indices
    case(7, "Gather", X, {"i": ints(3, -1, 0)}, axis=2),
    case(11, "GatherElements", X, {"i": rng().integers(-4, 4, (2, 3, 2))}, axis=2),
    case(12, "GatherND", X, {"i": np.array([[[1]], [[-2]]])}, batch_dims=1),
    case(9, "Scatter", X, {"i": np.array([[[2, 0]], [[1, 3]]]), "u": floats(2, 1, 2)}, axis=2),
    case(11, "ScatterElements", X, {"i": np.array([[[2, 0]], [[1, 3]]]), "u": floats(2, 1, 2)}, axis=2),
    case(18, "ScatterElements", X, {"i": np.array([[[2, 0]], [[1, 3]]]), "u": floats(2, 1, 2)}, axis=-1, reduction="max"),
    case(16, "ScatterND", X, {"i": np.array([[1, 0], [0, 2]]), "u": floats(2, 4)}, reduction="add"),
    case(9, "OneHot", np.array([[1, -2], [5, 0]]), {"depth": np.array(4), "values": np.array([-1, 2], np.float32)}, axis=1),
    case(11, "OneHot", {"x": np.array([[1, 2], [3, 0]]), "depth": np.array(4)}, {"values": ints(5, 7)}),
    case(11, "Compress", X, {"c": np.array([True, False, True])}, axis=1),
    case(11, "Compress", {"x": X, "c": np.array([False, True, True, True])}),
    # normalisation
    *(
        case(opset, "BatchNormalization", IMAGE, {k: np.abs(floats(3, seed=i)) + 0.2 for i, k in enumerate("sbmv")}, epsilon=0.01)
        for opset in (7, 9, 14, 15)
    ),
    case(7, "InstanceNormalization", IMAGE, {"s": floats(3), "b": floats(3, seed=1)}, epsilon=0.01),
    case(17, "LayerNormalization", X, {"s": floats(3, 4), "b": floats(3, 4, seed=1)}, axis=1),
    *(case(opset, "GroupNormalization", floats(2, 6, 5), {"s": floats(3), "b": floats(3, seed=1)}, num_groups=3) for opset in (18, 19, 20)),
    case(21, "GroupNormalization", floats(2, 6, 5), {"s": floats(6), "b": floats(6, seed=1)}, num_groups=3),
    case(9, "MeanVarianceNormalization", IMAGE, axes=[0, 2]),
    case(7, "LpNormalization", X, axis=1, p=1),
    case(22, "LpNormalization", X, p=2),
    case(7, "LRN", floats(1, 7, 3, 3), size=5, alpha=0.2, beta=0.6, bias=2.0),
    # the rest
    case(7, "Dropout", X, ratio=0.3),
    case(12, "Dropout", X, {"ratio": np.float32(0.3)}),
    case(13, "Dropout", X, {"ratio": np.float32(0), "training": np.array(True)}),
    case(7, "Gemm", floats(3, 4), {"b": floats(5, 4), "c": floats(5)}, alpha=0.3, beta=-0.5, transB=1),
    case(9, "Gemm", floats(4, 3), {"b": floats(4, 5), "c": floats(3, 1)}, transA=1),
    case(11, "Gemm", floats(3, 4), {"b": floats(4, 5)}, alpha=0.3),
    case(7, "Upsample", IMAGE, scales=[1.0, 1.0, 2.0, 3.0]),
    case(9, "Upsample", IMAGE, {"scales": np.array([1, 1, 2, 1.5], np.float32)}, mode="linear"),
    case(10, "Resize", IMAGE, {"scales": np.array([1, 1, 2, 0.6], np.float32)}),
    case(11, "Resize", IMAGE, {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 0.6], np.float32)}, nearest_mode="ceil"),
    case(
        13, "Resize", IMAGE, {"sizes": ints(2, 3, 9, 4)}, inputs=["x", "", "", "sizes"], mode="cubic", coordinate_transformation_mode="align_corners"
    ),
    case(
        18, "Resize", IMAGE, {"sizes": ints(9, 9)}, inputs=["x", "", "", "sizes"], axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="linear"
    ),
    case(19, "Resize", IMAGE, {"scales": np.array([0.6, 0.7], np.float32)}, inputs=["x", "", "scales"], axes=[2, 3], antialias=1, mode="linear"),
    case(11, "Range", {}, {"a": np.array(7, np.int32), "b": np.array(-4, np.int32), "d": np.array(-3, np.int32)}),
    case(11, "Range", {"a": np.array(0.5, np.float32), "b": np.array(3, np.float32), "d": np.array(0.25, np.float32)}),
    case(9, "EyeLike", floats(3, 5), k=-1, dtype=7),
    case(9, "ConstantOfShape", {}, {"s": ints(2, 3)}),
    case(9, "ConstantOfShape", {"s": ints(2, 3)}),
    case(7, "Shape", X),
    case(15, "Shape", X, start=-2, end=5),
    case(7, "Size", X),
    case(7, "Cast", X * 3, to=6),
    case(13, "Cast", X - 0.3, to=9),
    case(19, "Cast", X, to=16, saturate=0),
    case(15, "CastLike", X, {"t": ints(1)}),
    case(7, "Pow", POSITIVE, {"e": np.array([2.0, -0.5, 1, 0], np.float32)}),
    case(12, "Pow", POSITIVE, {"e": ints(2, -1, 1, 0)}),
    case(12, "Pow", rng().integers(1, 9, 4), {"e": np.array([2.0, 0.5, 1, 0], np.float32)}),
    case(10, "Mod", rng().integers(-9, 9, 8), {"d": ints(5, -5, 3, -3, 5, -5, 3, -3)}),
    case(13, "Mod", X * 9, {"d": np.array([2.5, -2.5, 3, 1], np.float32)}, fmod=1),
    case(11, "BitShift", np.array([1, 200, 7, 9], np.uint8), {"s": np.array([3, 1, 7, 0], np.uint8)}, direction="LEFT"),
    case(10, "IsInf", np.array([np.inf, -np.inf, np.nan, 1], np.float32), detect_negative=0),
    case(8, "Sum", {"x": X, "z": floats(3, 1), "u": floats(4)}),
    case(8, "Max", {"x": X, "z": floats(3, 1), "u": floats(4)}),
    case(8, "Mean", {"x": X, "z": floats(3, 1), "u": floats(4)}),
    case(7, "Max", {"x": X}),
    case(7, "PRelu", IMAGE, {"s": floats(3, 1, 1)}),
    case(9, "Where", {"c": np.array([True, False, True, True])}, {"x": X, "z": floats(1)}),
    case(7, "MatMul", floats(4), {"w": floats(2, 4, 3)}),
    case(7, "MatMul", floats(2, 3, 4), {"w": floats(4)}),
    case(7, "MatMul", floats(4), {"w": floats(4)}),
    case(13, "MatMul", floats(2, 1, 3, 4), {"w": floats(5, 4, 2)}),
]


@every("case", CASES, ids=named)
def test_like_the_reference(case: Case) -> None:
    opset, made, inputs, weights = case
    check(made, inputs, weights, opset=opset, terms=64)


@pytest.mark.parametrize("opset", [6, 7])
def test_broadcasting_before_opset_7(opset: int) -> None:
    attributes = {"axis": 1, "broadcast": 1} if opset == 6 else {}
    slope = floats(3) if opset == 6 else floats(3, 1)
    want = X + (slope[:, None] if opset == 6 else slope)
    proto = model([node("Add", ["x", "w"], **attributes)], {"x": X}, {"y": X}, {"w": slope}, opset=opset)
    assert_close(run(proto, {"x": X})["y"], want)


def test_operators_of_opset_6() -> None:
    weights = {k: np.abs(floats(3, seed=i)) + 0.2 for i, k in enumerate("sbmv")}
    nodes = [
        node("BatchNormalization", ["x", *weights], ["t"], is_test=1, epsilon=0.1),
        node("PRelu", ["t", "slope"], ["u"]),
        node("Dropout", ["u"], ["c"], is_test=1),
        node("Equal", ["i", "j"], ["e"], broadcast=1),
        node("Identity", ["c"]),
    ]
    ints_ = {"i": rng().integers(0, 3, (2, 4)).astype(np.int32), "j": np.array([1, 2, 1, 0], np.int32)}
    proto = model(nodes, {"x": IMAGE, **ints_}, {"y": IMAGE, "e": np.zeros((2, 4), bool)}, {**weights, "slope": floats(3, seed=9)}, opset=6)
    s, b, m, v = (w[:, None, None] for w in weights.values())
    normal = (IMAGE - m) / np.sqrt(v + np.float32(0.1)) * s + b
    got = run(proto, {"x": IMAGE, **ints_})
    assert_close(got["y"], np.where(normal < 0, floats(3, seed=9)[:, None, None] * normal, normal))
    np.testing.assert_array_equal(got["e"], ints_["i"] == ints_["j"])


def test_top_k_in_all_its_forms() -> None:
    for opset, weights, attributes in [
        (7, {}, {"k": 2, "axis": 1}),
        (10, {"k": ints(2)}, {"axis": 1}),
        (11, {"k": ints(2)}, {"axis": -1, "largest": 0}),
        (24, {"k": ints(3)}, {}),
    ]:
        check(node("TopK", ["x", *weights], ["y", "i"], **attributes), {"x": X}, weights, outputs=("y", "i"), opset=opset)


def test_top_k_with_a_count_at_run_time() -> None:
    check(node("TopK", ["x", "k"], ["y", "i"]), {"x": X, "k": ints(3)}, outputs=("y", "i"))


@pytest.mark.parametrize(("opset", "count", "weights", "attributes"), [
    (7, 2, {}, {"axis": 2}),
    (11, 2, {}, {"axis": -1, "split": [1, 3]}),
    (13, 2, {"s": ints(3, 1)}, {"axis": 2}),
    (13, 4, {}, {"axis": 2}),
    (18, 3, {}, {"axis": 2, "num_outputs": 3}),
])  # fmt: skip
def test_split(opset: int, count: int, weights: dict[str, np.ndarray], attributes: dict[str, Any]) -> None:
    outputs = [f"y{i}" for i in range(count)]
    check(node("Split", ["x", *weights], outputs, **attributes), {"x": X}, weights, outputs=outputs, opset=opset)


@pytest.mark.parametrize("opset", [7, 10, 12, 22])
def test_the_mask_of_a_dropout_that_drops_nothing(opset: int) -> None:
    mask = np.ones(X.shape, np.float32 if opset == 7 else bool)
    check(node("Dropout", ["x"], ["y", "mask"]), {"x": X}, outputs=("y", "mask"), opset=opset, expected=[X, mask])


def test_batch_normalization_of_training() -> None:
    weights = {k: np.abs(floats(3, seed=i)) + 0.2 for i, k in enumerate("sbmv")}
    check(
        node("BatchNormalization", ["x", *weights], ["y", "m1", "v1"], training_mode=1, momentum=0.7),
        {"x": IMAGE},
        weights,
        outputs=("y", "m1", "v1"),
        opset=15,
    )


def test_batch_normalization_of_each_element() -> None:
    weights = {k: np.abs(floats(3, 6, 7, seed=i)) + 0.2 for i, k in enumerate("sbmv")}
    s, b, m, v = weights.values()
    want = (IMAGE - m) / np.sqrt(v + np.float32(1e-5)) * s + b
    check(node("BatchNormalization", ["x", *weights], spatial=0), {"x": IMAGE}, weights, opset=7, expected=[want])


@every("opset", [8, 13, 15])
def test_batch_normalization_of_one_dimension(opset: int) -> None:
    """It is the batch, of one channel."""
    x = floats(9)
    weights = {k: np.abs(floats(1, seed=i)) + 0.2 for i, k in enumerate("sbmv")}
    s, b, m, v = weights.values()
    want = (x - m) / np.sqrt(v + np.float32(1e-5)) * s + b
    check(node("BatchNormalization", ["x", *weights]), {"x": x}, weights, opset=opset, expected=[want])


def test_batch_normalization_with_statistics_of_another_type() -> None:
    half = IMAGE.astype(np.float16)
    weights = {"s": floats(3).astype(np.float16), "b": floats(3, seed=1).astype(np.float16), "m": floats(3), "v": np.abs(floats(3)) + 1}
    s, b, m, v = (w.astype(np.float32)[:, None, None] for w in weights.values())
    want = ((half.astype(np.float32) - m) / np.sqrt(v + np.float32(1e-5)) * s + b).astype(np.float16)
    check(node("BatchNormalization", ["x", *weights]), {"x": half}, weights, opset=15, expected=[want])


def test_padding_with_a_value_known_at_run_time() -> None:
    check(node("Pad", ["x", "p", "v"]), {"x": X, "v": np.array(2.5, np.float32)}, {"p": ints(0, 1, 0, 2, 0, 3)})


@pytest.mark.parametrize("dtype", [np.int8, np.int32])
def test_shifts_of_signed_integers(dtype: type) -> None:
    data, amount = np.array([-7, 7, -1, 100, -128, 5], dtype), np.array([1, 1, 40, 2, 7, -1], dtype)
    bits = np.iinfo(dtype).bits
    wide = np.array([int(x) << s if 0 <= s < bits else 0 for x, s in zip(data, amount.tolist(), strict=True)]).astype(dtype)
    check(node("BitShift", ["x", "s"], direction="LEFT"), {"x": data, "s": amount}, opset=28, expected=[wide])
    right = np.array([int(x) >> s if 0 <= s < bits else (-1 if x < 0 else 0) for x, s in zip(data, amount.tolist(), strict=True)]).astype(dtype)
    check(node("BitShift", ["x", "s"], direction="RIGHT"), {"x": data, "s": amount}, opset=28, expected=[right])


def test_log_sum_exp_does_not_overflow() -> None:
    data = np.array([[1000, 999], [-1000, -1001], [-np.inf, -np.inf], [np.inf, 1]], np.float32)
    want = np.array([1000.3133, -999.6867, -np.inf, np.inf], np.float32)
    check(node("ReduceLogSumExp", ["x", "a"], keepdims=0), {"x": data}, {"a": ints(1)}, expected=[want])


FLOAT_OPS = ["Gelu", "Mish", "Softplus", "HardSwish", "Celu", "LayerNormalization", "ReduceMean", "Softmax"]


def of_type(op: str, dtype: Any, data: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What an imported node gives for data of that type."""
    made = node(op, ["x", "s"]) if op == "LayerNormalization" else node(op, ["x"])
    inputs = {"x": data.astype(dtype), "s": scale.astype(dtype)}
    return run(model([made], inputs, {"y": data.astype(dtype)}, opset=28), inputs)["y"]


@pytest.mark.parametrize("op", FLOAT_OPS)
def test_double_precision(op: str) -> None:
    made = node(op, ["x", "s"]) if op == "LayerNormalization" else node(op, ["x"])
    inputs = {"x": floats(3, 5, dtype=np.float64), "s": floats(5, dtype=np.float64)}
    want = np.asarray(ReferenceEvaluator(model([made], inputs, {"y": inputs["x"]}, opset=28)).run(None, inputs)[0])
    exact = op not in ("Gelu", "HardSwish", "LayerNormalization")  # in parts of these ONNX's own evaluator computes in single precision
    check(made, inputs, opset=28, expected=[want], terms=64 if exact else 1 << 33)


@every("dtype", [np.float16, ml_dtypes.bfloat16])
@every("op", FLOAT_OPS)
def test_short_floats(op: str, dtype: Any) -> None:
    """Constants that rules make have the type of what they are combined with."""
    data, scale = floats(3, 5).astype(dtype), floats(5).astype(dtype)
    assert_close(of_type(op, dtype, data, scale), of_type(op, np.float32, data, scale).astype(dtype), terms=64)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gelu_of_short_floats_is_rounded_once(dtype: Any) -> None:
    data = np.concatenate([floats(500), 8 * floats(500), np.array([0.0, -0.0, np.inf, np.nan], np.float32)]).astype(dtype)
    want = of_type("Gelu", np.float32, data, data).astype(dtype)
    np.testing.assert_array_equal(of_type("Gelu", dtype, data, data).astype(np.float32), want.astype(np.float32))


def test_nothing_is_made_where_nothing_is_to_do() -> None:
    for made, weights in [
        (node("Identity", ["x"]), {}),
        (node("Dropout", ["x"]), {}),
        (node("Reshape", ["x", "s"]), {"s": ints(2, 3, 4)}),
        (node("Transpose", ["x"], perm=[0, 1, 2]), {}),
        (node("Cast", ["x"], to=1), {}),
        (node("Slice", ["x", "s", "e"]), {"s": ints(0), "e": ints(9)}),
        (node("Expand", ["x", "s"]), {"s": ints(1, 1)}),
        (node("Pad", ["x", "p"]), {"p": ints(0, 0, 0, 0, 0, 0)}),
        (node("Concat", ["x"], axis=0), {}),
        (node("Max", ["x"]), {}),
    ]:
        assert set(ops(check(made, {"x": X}, weights))) <= {"parameter"}
