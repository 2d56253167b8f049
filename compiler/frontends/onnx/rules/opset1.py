"""Rules for operators as they were up to opset 5: most of them only have one additional attribute, a hint about memory."""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import find_rule, onnx_rule
from stepwell.frontends.onnx.rules import activations, contractions, elementwise, layout, opset6, pooling, resampling

SINCE_6 = (
    *("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh", "Max", "Min", "Sum", "Mean", "Clip", "Elu"),
    *("LeakyRelu", "HardSigmoid", "InstanceNormalization", "PRelu", "Add", "Sub", "Mul", "Div", "Dropout", "BatchNormalization"),
)


CONSUMED_INPUTS = {"consumed_inputs": ()}  # says whose memory a result may reuse: we plan memory ourselves

for _name in SINCE_6:
    _rule = find_rule("", _name, 6)
    assert _rule is not None
    onnx_rule(_name, since=1, ignored={**_rule.ignored, **CONSUMED_INPUTS})(_rule.function)
onnx_rule("Gemm", since=1, ignored=opset6.BROADCAST)(contractions.gemm)


@onnx_rule("Selu", since=1, ignored=CONSUMED_INPUTS)
def selu(b: ImportBuilder, x: Value, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Value:
    return activations.selu(b, x, alpha=float(np.float32(alpha)), gamma=float(np.float32(gamma)))


@onnx_rule("Cast", since=1)
def cast(b: ImportBuilder, x: Value, *, to: str) -> Value:
    number = dict(TensorProto.DataType.items()).get(to)
    if number is None:
        raise ModelError(f"to must be the name of an element type, got {to!r}")
    return elementwise.cast(b, x, to=number)


@onnx_rule("Concat", since=1)
def concat(b: ImportBuilder, first: Value, *others: Value, axis: int = 1) -> Value:
    return layout.concat(b, first, *others, axis=axis)


@onnx_rule("Reshape", since=1, ignored=CONSUMED_INPUTS)
def reshape(b: ImportBuilder, x: Value, *, shape: Sequence[int] | None = None) -> Value:
    if shape is None:
        raise UnsupportedError("without the attribute shape it is not supported")
    return layout.reshape(b, x, b.literal(np.array(shape, np.int64)))


@onnx_rule("Pad", since=1)
def pad(b: ImportBuilder, x: Value, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Value:
    return layout.pad_by_attributes(b, x, pads=paddings, mode=mode, value=value)


@onnx_rule("Split", since=1)
def split(b: ImportBuilder, x: Value, sizes: Value | None = None, *, axis: int = 0, split: Sequence[int] = ()) -> list[Value]:
    if sizes is not None and split:
        raise ModelError("the sizes of its parts must be an input or an attribute, not both")
    return layout.split_by_attribute(b, x, axis=axis, split=split if sizes is None else b.known_ints(sizes, "the sizes of the parts"))


@onnx_rule("Tile", since=1)
def tile(b: ImportBuilder, x: Value, tiles: Value, axis: Value) -> Value:
    rank = type_of(x).rank
    count, chosen = (int(b.known_scalar(v, what)) for v, what in ((tiles, "the number of copies"), (axis, "the axis")))
    chosen = normalized_axis(chosen, rank)
    return b.tile(x, repeats=tuple(count if i == chosen else 1 for i in range(rank)))


@onnx_rule("GlobalLpPool", since=1)
def global_lp_pool(b: ImportBuilder, x: Value, *, p: float = 2.0) -> Value:
    return pooling.global_lp_pool(b, x, p=p)


@onnx_rule("LpPool", since=1)
def lp_pool(
    b: ImportBuilder,
    x: Value,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] = (),
    pads: Sequence[int] = (),
    auto_pad: str = "NOTSET",
    p: float = 2.0,
) -> Value:
    if kernel_shape is None:
        raise UnsupportedError("without the attribute kernel_shape it is not supported")
    return pooling.lp_pool(b, x, attributes=pooling.PoolingAttributes(kernel_shape, strides, pads, auto_pad=auto_pad), p=p)


@onnx_rule("Upsample", since=1)
def upsample(b: ImportBuilder, x: Value, *, height_scale: float, width_scale: float, mode: str = "nearest") -> Value:
    if type_of(x).rank != 4:
        raise ModelError(f"its input must have rank 4, got {type_of(x)}")
    return resampling.simple(b, x, [1.0, 1.0, height_scale, width_scale], mode)
