"""Rules for activation functions, most of them decomposed into arithmetic."""

import math
from typing import Literal

from stepwell.dialects.core.types import is_float, type_of
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.elementwise import truth
from stepwell.frontends.onnx.rules.normalizations import IS_TEST


@onnx_rule("LeakyRelu", since=6)
def leaky_relu(b: ImportBuilder, x: Value, *, alpha: float = 0.01) -> Value:
    return b.leaky_relu(x, alpha=alpha)


@onnx_rule("PRelu", since=7)
def prelu(b: ImportBuilder, x: Value, slope: Value) -> Value:
    return b.select(b.less(x, b.scalar(0, like=x)), b.mul(slope, x), x)


@onnx_rule("Elu", since=6)
def elu(b: ImportBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    return b.elu(x, alpha=alpha)


@onnx_rule("Selu", since=6)
@rounded_once
def selu(b: ImportBuilder, x: Value, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Value:
    return b.mul(b.elu(x, alpha=alpha), b.scalar(gamma, like=x))


@onnx_rule("Celu", since=12)
@rounded_once
def celu(b: ImportBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    """`max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`: the first term is `x` for `x >= 0`, the second one applies below 0."""
    if alpha == 1.0:
        return b.elu(x, alpha=1.0)
    scale = b.scalar(abs(alpha), like=x)
    ratio = b.div(x, scale)
    below = b.mul(b.elu(ratio, alpha=1.0), scale)
    if alpha == 0.0:
        return below  # NaN for x >= 0, by definition
    if alpha < 0.0:
        below = b.mul(below, b.exp(b.neg(ratio)))  # exp(-t) - 1 = -(exp(t) - 1) * exp(-t)
    return b.select(b.less(x, b.scalar(0, like=x)), below, x)


@onnx_rule("HardSigmoid", since=6)
@rounded_once
def hard_sigmoid(b: ImportBuilder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return b.clamp(b.add(b.mul(x, b.scalar(alpha, like=x)), b.scalar(beta, like=x)), min=0.0, max=1.0)


@onnx_rule("HardSwish", since=14)
@rounded_once
def hard_swish(b: ImportBuilder, x: Value) -> Value:
    return b.mul(x, hard_sigmoid(b, x, alpha=1 / 6, beta=0.5))


@onnx_rule("Mish", since=18)
@rounded_once
def mish(b: ImportBuilder, x: Value) -> Value:
    return b.mul(x, b.tanh(b.softplus(x)))


@onnx_rule("Swish", since=24)
@rounded_once
def swish(b: ImportBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    scaled = x if alpha == 1.0 else b.mul(x, b.scalar(alpha, like=x))
    return b.mul(x, b.sigmoid(scaled))


@onnx_rule("Softsign", since=1)
@rounded_once
def softsign(b: ImportBuilder, x: Value) -> Value:
    return b.div(x, b.add(b.abs(x), b.scalar(1, like=x)))


@onnx_rule("ThresholdedRelu", since=10)
def thresholded_relu(b: ImportBuilder, x: Value, *, alpha: float = 1.0) -> Value:
    return b.select(b.greater(x, b.scalar(alpha, like=x)), x, b.scalar(0, like=x))


@onnx_rule("Shrink", since=9)
@rounded_once
def shrink(b: ImportBuilder, x: Value, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """`x` moved by `bias` toward 0 if `|x| > lambd`, else 0. Integers are computed in f64 and truncated at the end."""
    dtype = type_of(x).dtype
    wide = b.convert(x, dtype if is_float(dtype) else "f64")
    amount, zero = b.scalar(bias, like=wide), b.scalar(0, like=wide)
    above = b.select(b.greater(wide, b.scalar(lambd, like=wide)), b.sub(wide, amount), zero)
    return b.convert(b.select(b.less(wide, b.scalar(-lambd, like=wide)), b.add(wide, amount), above), dtype)


@onnx_rule("Gelu", since=20)
@rounded_once
def gelu(b: ImportBuilder, x: Value, *, approximate: Literal["none", "tanh"] = "none") -> Value:
    """`x (1 + erf(x / sqrt 2)) / 2`, or the approximation by a tanh."""
    if approximate == "none":
        inner = b.erf(b.mul(x, b.scalar(math.sqrt(0.5), like=x)))
    else:  # Hendrycks and Gimpel, "Gaussian error linear units", 2016
        cube = b.mul(b.mul(x, x), b.mul(x, b.scalar(0.044715, like=x)))
        inner = b.tanh(b.mul(b.add(x, cube), b.scalar(math.sqrt(2 / math.pi), like=x)))
    return b.mul(b.mul(x, b.scalar(0.5, like=x)), b.add(inner, b.scalar(1, like=x)))


@onnx_rule("Dropout", since=6, ignored={"ratio": 0.5, **IS_TEST})  # the ratio counts in training only
def dropout(b: ImportBuilder, x: Value) -> tuple[Value, ...]:
    if b.node.output_count < 2:
        return (x,)
    mask = truth(b, x)
    return x, b.convert(mask, type_of(x).dtype) if b.node.opset < 10 else mask  # the mask had the type of x before it was boolean
