"""Element by element: one operand, two that broadcast, any number; activations, comparisons, logic, conversions."""

from typing import Any

import numpy as np
from onnx import helper
from random_graphs.compact import is_float
from random_graphs.net import TENSORS, Declined, Net, Value
from random_graphs.operators import operator

from stepwell.dialects.core.dtypes import dtype_info, to_numpy

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "HardSwish", "Identity", "IsNaN",
    "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "BitwiseNot",
)  # fmt: skip
ALPHA = {"LeakyRelu": 0.01, "Elu": 1.0, "Celu": 1.0, "ThresholdedRelu": 1.0, "Swish": 1.0}
DOMAINS = {"Acosh": (1.0, 9.0), "Atanh": (-0.9, 0.9), "Acos": (-1, 1), "Asin": (-1, 1), "Log": (0.05, 9), "Sqrt": (0, 9)}


def operand(net: Net, op_type: str, position: int = 0) -> Value:
    """A value of a type that the operator takes."""
    return net.pick(net.dtype(op_type, position))


@operator(*UNARY)
def unary(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    if op_type in DOMAINS and net.r.integer(0, 3):
        low, high = DOMAINS[op_type]
        bounded = [v for v in net.values if v.dtype == dtype and v.array.size and v.array.min() >= low and v.array.max() <= high]
        x = net.r.choice(bounded) if bounded else net.fresh(dtype, net.shape(), low, high)
    else:
        x = net.pick(dtype)
    net.node(op_type, x)


@operator(*ALPHA)
def with_alpha(net: Net, op_type: str) -> None:
    net.node(op_type, operand(net, op_type), alpha=net.r.choice([None, 0.5, 1.75, 0.1]))


@operator("Selu", "HardSigmoid", "Shrink", "Gelu", "IsInf", "Hardmax", "LogSoftmax", "Softmax", "LpNormalization")
def with_parameters(net: Net, op_type: str) -> None:
    r = net.r
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 or op_type not in ("Hardmax", "LogSoftmax", "Softmax", "LpNormalization"))
    axis = net.axis(x.rank) if x.rank else 0
    attributes: dict[str, Any] = {
        "Selu": {"alpha": r.choice([None, 1.2]), "gamma": r.choice([None, 0.9])},
        "HardSigmoid": {"alpha": r.choice([None, 0.3]), "beta": r.choice([None, 0.4])},
        "Shrink": {"lambd": r.choice([None, 1.5]), "bias": r.choice([None, 0.25])}, "Gelu": {"approximate": r.choice([None, "tanh"])},
        "IsInf": {"detect_negative": r.choice([None, 0]), "detect_positive": r.choice([None, 0])},
        "LpNormalization": {"axis": axis, "p": r.choice([None, 1])},
    }.get(op_type, {"axis": r.choice([None, axis])})  # fmt: skip
    net.node(op_type, x, **attributes)


BINARY = (
    "Add", "Sub", "Mul", "And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
    "PRelu",
)  # fmt: skip


@operator(*BINARY)
def binary(net: Net, op_type: str) -> None:
    a = operand(net, op_type)
    if net.opset < 7 and op_type != "PRelu":
        shape, attributes = limited(net, a.shape)
        net.node(op_type, a, net.pick(a.dtype, lambda v: v.shape == shape, lambda: shape), **attributes)
        return
    one_way = op_type == "PRelu" or net.r.integer(0, 4)
    b = net.broadcast_to(a.dtype, a.shape) if one_way else net.pick(a.dtype, lambda v: broadcast(v, a))
    net.node(op_type, *((b, a) if op_type != "PRelu" and net.r.boolean() else (a, b)))


def limited(net: Net, shape: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The shape of a second operand before opset 7, and the attributes that ask for its broadcast: the first's, or a run of its dimensions."""
    if net.r.integer(0, 3):
        return shape, {}
    axis = net.r.integer(0, len(shape))
    if net.r.boolean():
        return shape[axis:], {"broadcast": 1}
    return shape[axis : net.r.integer(axis, len(shape))], {"broadcast": 1, "axis": min(axis, max(0, len(shape) - 1))}


def broadcast(*values: Value) -> bool:
    """Whether the shapes broadcast."""
    try:
        np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        return False
    return True


@operator("Div", "Mod")
def division(net: Net, op_type: str) -> None:
    """By something that is not 0, and not -1 for integers: those have no result everywhere."""
    a = operand(net, op_type)
    shape, attributes = limited(net, a.shape) if net.opset < 7 else (net.smaller(a.shape), {})
    legal = [v for v in net.values if v.dtype == a.dtype and broadcast(v, a) and divides(v.array) and (net.opset >= 7 or v.shape == shape)]
    if legal and net.r.boolean():
        b = net.r.choice(legal)
    elif is_float(a.dtype):
        b = net.fresh(a.dtype, shape, 0.4, 3)
    else:
        b = net.fresh(a.dtype, shape, 2, 9, tame=True)
    net.node(op_type, a, b, fmod=1 if op_type == "Mod" and (is_float(a.dtype) or net.r.boolean()) else None, **attributes)


def divides(array: np.ndarray) -> bool:
    """Whether every number divides every other with a result."""
    numbers = array.astype(np.float64)
    return bool(np.all(np.abs(numbers) > 0.05) and (array.dtype.kind not in "i" or not np.any(array == -1)))


@operator("Pow")
def power(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    x = net.fresh(dtype, net.shape(), 0.3, 3) if is_float(dtype) else net.fresh(dtype, net.shape(), 1, 3, tame=True)
    other = str(net.r.choice([dtype, *(d for d in net.dtypes(op_type, 1) if net.r.integer(0, 5) == 0)]))
    shape, attributes = limited(net, x.shape) if net.opset < 7 else (net.smaller(x.shape), {})
    net.node(op_type, x, net.fresh(other, shape, 0, 3, tame=True), **attributes)


@operator("BitShift")
def shift(net: Net, op_type: str) -> None:
    x = operand(net, op_type)
    amount = net.fresh(x.dtype, net.smaller(x.shape), 0, 8 * x.array.itemsize - 1, tame=True)
    net.node(op_type, x, amount, direction=net.r.choice(["LEFT", "RIGHT"]))


@operator("Max", "Min", "Mean", "Sum")
def several(net: Net, op_type: str) -> None:
    first = operand(net, op_type)
    net.node(op_type, *net.r.choice([[first], [first, first]]), *(net.broadcast_to(first.dtype, first.shape) for _ in range(net.r.integer(0, 2))))


@operator("Where")
def where(net: Net, op_type: str) -> None:
    x = operand(net, op_type, 1)
    y = net.broadcast_to(x.dtype, x.shape)
    net.node(op_type, net.broadcast_to("i1", x.shape), *((x, y) if net.r.boolean() else (y, x)))


@operator("Clip")
def clip(net: Net, op_type: str) -> None:
    x = operand(net, op_type)
    bounds = [net.fresh(x.dtype, (), low, high, tame=True) if net.r.integer(0, 3) else None for low, high in ((-2, 0), (0, 3))]
    if net.opset < 11:
        low, high = (None if v is None else float(v.array) for v in bounds)
        net.node(op_type, x, min=low, max=high)
    else:
        net.node(op_type, x, *bounds)


@operator("Cast")
def cast(net: Net, op_type: str) -> None:
    x = net.pick([TENSORS[t] for t in TENSORS])
    legal = net.dtypes(op_type, 0, output=True)
    target = str(net.r.choice([d for d in ("f32", "f32", "f64", "f16", "i64", "i32", "ui8", "i1", *legal) if d in legal]))
    if is_float(x.dtype) and not is_float(target) and target != "i1" and x.array.size and not net.special:
        numbers, info = x.array.astype(np.float64), np.iinfo(to_numpy(target))
        if numbers.min() <= info.min - 1 or numbers.max() >= info.max:
            raise Declined("the integer type does not have these numbers")
    kind = helper.np_dtype_to_tensor_dtype(to_numpy(target))
    net.node(op_type, x, to=kind if net.opset >= 6 else helper.tensor_dtype_to_string(kind).rpartition(".")[2])


@operator("CastLike")
def cast_like(net: Net, op_type: str) -> None:
    x = net.pick(["f32", "f64", "i32", "i64", "i1"])
    net.node(op_type, x, net.pick(["f32", "f64", "f16", "i64"] if not is_float(x.dtype) else ["f32", "f64", "f16"]))


@operator("BitCast", stored=True)
def bit_cast(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    x = net.pick(dtype)
    # Not to booleans: of their byte ONNX does not say enough.
    same = [d for d in net.dtypes(op_type, 0, output=True) if d != "i1" and dtype_info(d).bits == (8 if dtype == "i1" else dtype_info(dtype).bits)]
    net.node(op_type, x, to=helper.np_dtype_to_tensor_dtype(to_numpy(net.r.choice(same))))


@operator("SwiGLU")
def swiglu(net: Net, op_type: str) -> None:
    x = operand(net, op_type)
    y = net.pick(x.dtype, lambda v: v.shape == x.shape, lambda: x.shape)
    net.node(op_type, x, y, alpha=net.r.choice([None, 0.5, 1.7]))


@operator("Dropout")
def dropout(net: Net, op_type: str) -> None:
    net.node(op_type, operand(net, op_type), outputs=net.r.integer(1, 2))
