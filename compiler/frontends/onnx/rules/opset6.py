"""Rules for operators up to opset 6, where broadcasting was limited and had to be requested."""

from collections.abc import Callable

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules import activations, contractions, normalizations

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


IS_TEST = {"is_test": 0}  # opset 6 had no other mark of inference, and exporters left it at its default
BROADCAST = {"broadcast": 0}  # opset 6 allowed other shapes only with it; shapes that do not broadcast are refused anyway

onnx_rule("Dropout", since=6, ignored={**activations.RATIO, **IS_TEST})(activations.dropout)
onnx_rule("BatchNormalization", since=6, ignored={**normalizations.MOMENTUM, **IS_TEST})(normalizations.batch_normalization_spatial)
onnx_rule("Gemm", since=6, ignored=BROADCAST)(contractions.gemm)
