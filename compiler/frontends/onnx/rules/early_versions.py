"""Rules for operators as they were up to opset 6.

Up to opset 5, most of them only have one additional attribute, a hint about memory. In opset 6 broadcasting was limited and had to be requested.
"""

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import find_rule, onnx_rule
from stepwell.frontends.onnx.rules import activations, elementwise, layout, normalizations, resampling

BINARY = (
    ("Add", 6, "add"), ("Sub", 6, "sub"), ("Mul", 6, "mul"), ("Div", 6, "div"), ("Pow", 1, "pow"),
    ("And", 1, "and"), ("Or", 1, "or"), ("Xor", 1, "xor"), ("Equal", 1, "equal"), ("Less", 1, "less"), ("Greater", 1, "greater"),
)  # fmt: skip


def aligned(b: ImportBuilder, lhs: Value, rhs: Value, axis: int | None) -> Value:
    """`rhs` with its first dimension at `axis` of `lhs`, so that numpy broadcasting applies."""
    missing = 0 if axis is None else type_of(lhs).rank - normalized_axis(axis, type_of(lhs).rank) - type_of(rhs).rank
    if missing < 0:
        raise ModelError(f"{type_of(rhs)} does not fit into {type_of(lhs)} from axis {axis} on")
    return b.with_shape(rhs, [*dims_of(rhs), *[1] * missing])


def limited(mnemonic: str) -> Callable[..., Value]:
    """The rule for an operator that maps to one of our binary ops."""

    def rule(b: ImportBuilder, lhs: Value, rhs: Value, *, axis: int | None = None, broadcast: int = 0) -> Value:
        return getattr(b, mnemonic)(lhs, aligned(b, lhs, rhs, axis) if broadcast else rhs)

    return rule


for _name, _since, _mnemonic in BINARY:
    onnx_rule(_name, since=_since)(limited(_mnemonic))


@onnx_rule("PRelu", since=6)
def prelu_by_channel(b: ImportBuilder, x: Value, slope: Value) -> Value:
    per_channel = type_of(slope).rank == 1 and type_of(slope).shape[0] != 1 and type_of(x).rank > 1
    return activations.prelu(b, x, normalizations.per_channel(b, slope, type_of(x).rank) if per_channel else slope)


SINCE_6 = (
    *("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh", "Max", "Min", "Sum", "Mean", "Clip", "Elu"),
    *("LeakyRelu", "HardSigmoid", "InstanceNormalization", "PRelu", "Add", "Sub", "Mul", "Div", "Dropout", "BatchNormalization"),
)
CONSUMED_INPUTS = {"consumed_inputs": ()}  # says whose memory a result may reuse: we plan memory ourselves

for _name in SINCE_6:
    _rule = find_rule("", _name, 6)
    assert _rule is not None
    onnx_rule(_name, since=1, ignored={**_rule.ignored, **CONSUMED_INPUTS})(_rule.function)


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
def pad(b: ImportBuilder, x: Value, *, paddings: Sequence[int], mode: layout.PadMode = "constant", value: float = 0.0) -> Value:
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


@onnx_rule("Upsample", since=1)
def upsample(b: ImportBuilder, x: Value, *, height_scale: float, width_scale: float, mode: resampling.EarlyMode = "nearest") -> Value:
    if type_of(x).rank != 4:
        raise ModelError(f"its input must have rank 4, got {type_of(x)}")
    return resampling.simple(b, x, [1.0, 1.0, height_scale, width_scale], mode)
