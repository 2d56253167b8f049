"""The ONNX node that means the same as an op of the graph dialect, and its results by ONNX Runtime or ONNX's own evaluator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, NotImplemented

OPSET = 21
_FAR = 1 << 40  # an end of a slice that no dimension reaches

Node = tuple[str, list[Any], dict[str, Any]]
NODES: dict[str, Callable[..., Node]] = {}

SAME_NAME = {
    "neg": "Neg", "abs": "Abs", "sign": "Sign", "reciprocal": "Reciprocal", "sqrt": "Sqrt", "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid", "softplus": "Softplus", "floor": "Floor", "ceil": "Ceil",
    "round": "Round", "not": "Not", "bitwise_not": "BitwiseNot", "is_nan": "IsNaN", "is_inf": "IsInf", "relu": "Relu", "leaky_relu": "LeakyRelu",
    "elu": "Elu", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "mod": "Mod", "pow": "Pow", "maximum": "Max", "minimum": "Min",
    "and": "And", "or": "Or", "xor": "Xor", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual", "select": "Where",
    "softmax": "Softmax", "log_softmax": "LogSoftmax", "matmul": "MatMul", "transpose": "Transpose", "shape_of": "Shape", "range": "Range",
    "dynamic_slice": "Slice", "dynamic_expand": "Expand", "gather": "Gather", "gather_elements": "GatherElements", "gather_nd": "GatherND",
    "scatter_nd": "ScatterND", "non_zero": "NonZero", "batch_norm": "BatchNormalization", "lrn": "LRN",
}  # fmt: skip


def node(mnemonic: str) -> Callable[[Callable[..., Node]], Callable[..., Node]]:
    def add(make: Callable[..., Node]) -> Callable[..., Node]:
        NODES[mnemonic] = make
        return make

    return add


for _mnemonic, _op_type in SAME_NAME.items():
    NODES[_mnemonic] = lambda *operands, _op_type=_op_type, **attributes: (_op_type, list(operands), attributes)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


for _mnemonic, _op_type in (("reduce_sum", "ReduceSum"), ("reduce_prod", "ReduceProd"), ("reduce_max", "ReduceMax"), ("reduce_min", "ReduceMin")):
    NODES[_mnemonic] = lambda x, axes, keepdims, _op_type=_op_type: (
        _op_type, [x, ints(*axes)], {"keepdims": keepdims, "noop_with_empty_axes": 1},
    )  # fmt: skip
for _mnemonic, _op_type in (("arg_max", "ArgMax"), ("arg_min", "ArgMin")):
    NODES[_mnemonic] = lambda x, axis, keepdims, select_last, _op_type=_op_type: (
        _op_type, [x], {"axis": axis, "keepdims": keepdims, "select_last_index": select_last},
    )  # fmt: skip
for _mnemonic, _op_type in (("conv", "Conv"), ("conv_transpose", "ConvTranspose")):
    NODES[_mnemonic] = lambda x, w, _op_type=_op_type, **attributes: (_op_type, [x, w], attributes)
for _mnemonic, _op_type in (("max_pool", "MaxPool"), ("avg_pool", "AveragePool")):
    NODES[_mnemonic] = lambda x, kernel, _op_type=_op_type, **attributes: (_op_type, [x], {"kernel_shape": kernel, **attributes})


@node("scatter_elements")
def scatter_elements(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, from_start: bool, **attributes: Any) -> Node:
    del from_start  # the node means the same where no index is below 0
    return "ScatterElements", [x, indices, updates], attributes


@node("col2im")
def col2im(x: np.ndarray, image: tuple[int, ...], kernel: tuple[int, ...], **window: Any) -> Node:
    return "Col2Im", [x, ints(*image), ints(*kernel)], window


@node("concat")
def concat(inputs: list[np.ndarray], axis: int) -> Node:
    return "Concat", inputs, {"axis": axis}


@node("clamp")
def clamp(x: np.ndarray, min: float, max: float) -> Node:
    limits = [None if np.isinf(bound) else np.asarray(np.clip(bound, *limits_of(x.dtype)), x.dtype) for bound in (min, max)]
    return "Clip", [x, *limits], {}


def limits_of(dtype: np.dtype) -> tuple[float, float]:
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else (-np.inf, np.inf)


@node("cast")
def cast(x: np.ndarray, to: str, saturate: bool) -> Node:
    names = {"i1": "BOOL", "bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT", "f64": "DOUBLE"}
    return "Cast", [x], {"to": getattr(onnx.TensorProto, names.get(to) or to.replace("i", "int").upper())}


@node("quantize")
def quantize(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> Node:
    return "QuantizeLinear", [x, *parameters(scale, zero_point)], {"axis": axis_of(scale)}


@node("dequantize")
def dequantize(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> Node:
    return "DequantizeLinear", [x, *parameters(scale, zero_point)], {"axis": axis_of(scale)}


def parameters(*values: np.ndarray) -> list[np.ndarray]:
    """Scale and zero point as ONNX has them: one number, or a vector along an axis."""
    return [value.reshape(-1) if value.ndim else value for value in values]


def axis_of(scale: np.ndarray) -> int:
    return next((i for i, n in enumerate(scale.shape) if n != 1), 0)


@node("shift_left")
def shift_left(x: np.ndarray, amount: np.ndarray) -> Node:
    return "BitShift", [x, amount], {"direction": "LEFT"}


@node("shift_right")
def shift_right(x: np.ndarray, amount: np.ndarray) -> Node:
    return "BitShift", [x, amount], {"direction": "RIGHT"}


@node("cumsum")
def cumsum(x: np.ndarray, axis: int, exclusive: bool, reverse: bool) -> Node:
    return "CumSum", [x, np.array(axis, np.int64)], {"exclusive": exclusive, "reverse": reverse}


@node("top_k")
def top_k(x: np.ndarray, k: np.ndarray, axis: int, largest: bool) -> Node:
    return "TopK", [x, ints(int(k))], {"axis": axis, "largest": largest}


@node("reshape")
def reshape(x: np.ndarray, shape: tuple[int, ...]) -> Node:
    return "Reshape", [x, ints(*shape)], {"allowzero": 1}


@node("dynamic_reshape")
def dynamic_reshape(x: np.ndarray, shape: np.ndarray) -> Node:
    return "Reshape", [x, shape], {"allowzero": 1}


@node("expand")
def expand(x: np.ndarray, shape: tuple[int, ...]) -> Node:
    return "Expand", [x, ints(*(1 if s == -1 else s for s in shape))], {}


@node("tile")
def tile(x: np.ndarray, repeats: tuple[int, ...]) -> Node:
    return "Tile", [x, ints(*repeats)], {}


@node("pad")
def pad(x: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], mode: str, value: float) -> Node:
    return "Pad", [x, ints(*low, *high), np.array(value).astype(x.dtype)], {"mode": mode}


@node("slice")
def static_slice(x: np.ndarray, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> Node:
    ends = [_FAR if size == -1 else start + size * step for start, size, step in zip(starts, sizes, steps, strict=True)]
    return "Slice", [x, ints(*starts), ints(*(-_FAR if e < 0 else e for e in ends)), ints(*range(x.ndim)), ints(*steps)], {}


@node("resize")
def resize(
    x: np.ndarray, sizes: tuple[int, ...], scales: tuple[float, ...], mode: str, coordinates: str, rounding: str, roi: tuple[float, ...],
    cubic_coefficient: float, extrapolation: float, exclude_outside: bool, antialias: bool,
) -> Node:  # fmt: skip
    attributes = {
        "mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding, "cubic_coeff_a": cubic_coefficient,
        "extrapolation_value": extrapolation, "exclude_outside": exclude_outside, "antialias": antialias,
    }  # fmt: skip
    return "Resize", [x, np.array(roi, np.float32) if roi else None, np.array(scales, np.float32)], attributes


ACTIVATIONS = {
    "affine": "Affine", "elu": "Elu", "hard_sigmoid": "HardSigmoid", "leaky_relu": "LeakyRelu", "relu": "Relu", "scaled_tanh": "ScaledTanh",
    "sigmoid": "Sigmoid", "softplus": "Softplus", "softsign": "Softsign", "tanh": "Tanh", "thresholded_relu": "ThresholdedRelu",
}  # fmt: skip
TAKES = {"affine": 2, "elu": 1, "hard_sigmoid": 2, "leaky_relu": 1, "scaled_tanh": 2, "thresholded_relu": 1}


def recurrent(
    projected: np.ndarray, weights: np.ndarray, *, direction: str, activations: tuple[str, ...], alphas: tuple[float, ...],
    betas: tuple[float, ...], clip: float,
) -> tuple[list[Any], dict[str, Any]]:  # fmt: skip
    """X, W, R and no B, and the attributes that all recurrent layers have: W picks from the products those of a direction."""
    directions, gates, _, hidden, _ = weights.shape
    w = np.eye(projected.shape[2], dtype=projected.dtype).reshape(directions, gates * hidden, -1)
    columns = np.moveaxis(weights, 2, 3).reshape(directions, gates, hidden, -1)[..., :hidden]
    r = np.swapaxes(columns, 2, 3).reshape(directions, gates * hidden, hidden)
    numbers = [[n for n, name in zip(given, activations, strict=True) if TAKES.get(name, 0) > place] for place, given in enumerate((alphas, betas))]
    attributes = {"direction": direction, "activations": tuple(ACTIVATIONS[name] for name in activations), "hidden_size": hidden}
    attributes |= {name: tuple(given) for name, given in zip(("activation_alpha", "activation_beta"), numbers, strict=True) if given}
    return [projected, w, r, None], attributes | ({} if np.isinf(clip) else {"clip": clip})


@node("lstm")
def lstm(
    projected: np.ndarray, weights: np.ndarray, lengths: Any, initial_h: Any, initial_c: Any, peepholes: Any, *, input_forget: bool, **common: Any
) -> Node:
    inputs, attributes = recurrent(projected, weights, **common)
    held = None if peepholes is None else peepholes.reshape(len(peepholes), -1)
    return "LSTM", [*inputs, lengths, initial_h, initial_c, held], {**attributes, "input_forget": input_forget}


@node("gru")
def gru(projected: np.ndarray, weights: np.ndarray, lengths: Any, initial_h: Any, hidden_bias: Any, **common: Any) -> Node:
    inputs, attributes = recurrent(projected, weights, **common)
    if hidden_bias is not None:
        directions, hidden = hidden_bias.shape
        inputs[3] = np.concatenate([np.zeros((directions, 5 * hidden), hidden_bias.dtype), hidden_bias], axis=1)
    return "GRU", [*inputs, lengths, initial_h], {**attributes, "linear_before_reset": hidden_bias is not None}


@node("rnn")
def rnn(projected: np.ndarray, weights: np.ndarray, lengths: Any, initial_h: Any, **common: Any) -> Node:
    inputs, attributes = recurrent(projected, weights, **common)
    return "RNN", [*inputs, lengths, initial_h], attributes


def results(op_type: str, inputs: list[Any], attributes: dict[str, Any], outputs: int = 1) -> list[np.ndarray]:
    """What ONNX Runtime gives or, where it has no such kernel, ONNX's evaluator."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    present = {name: array for name, array in zip(names, inputs, strict=True) if name}
    made = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)])
    made.attribute.extend(
        helper.make_attribute(k, encoded(v), attr_type=onnx.AttributeProto.INTS if v == () else None) for k, v in attributes.items()
    )
    graph = helper.make_graph(
        [made],
        "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in present.items()],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    if attributes.get("to") != onnx.TensorProto.BFLOAT16:  # which ONNX Runtime cannot hand out
        try:
            return session(model.SerializeToString()).run(None, present)
        except (NotImplemented, InvalidGraph):  # no kernel, or an element type that ONNX does not have there
            pass
    return list(ReferenceEvaluator(model).run(None, present))


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def encoded(value: Any) -> Any:
    """An attribute's value as ONNX takes it."""
    return int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value
