"""Rules for normalisations: inference batch normalisation and LRN map to ops, the others to reductions and arithmetic."""

import math
from collections.abc import Sequence
from typing import Literal

from stepwell.dialects.core.sizes import divides, holds
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import Value, dims_of, normalized_axes, normalized_axis
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.pooling import spatial_axes
from stepwell.frontends.onnx.rules.reductions import euclidean_norm, reduce_mean, sum_of_absolutes
from stepwell.frontends.onnx.tensors import our_dtype
from stepwell.frontends.onnx.validation import WITHDRAWN

MOMENTUM = {"momentum": 0.9}  # counts in training only
IS_TEST = {"is_test": 0}  # opset 6 had no other mark of inference, and exporters left it at its default


@onnx_rule("BatchNormalization", since=6, ignored={**MOMENTUM, **IS_TEST})
@rounded_once
def batch_normalization_spatial(
    b: ImportBuilder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, epsilon: float = 1e-5, spatial: int = 1
) -> Value:
    if spatial:
        return batch_norm(b, x, scale, bias, mean, var, epsilon=epsilon)
    return normalized(b, x, mean, var, epsilon, scale, bias)  # one mean per element of an image, not per channel


@onnx_rule("BatchNormalization", since=14)
def batch_normalization(
    b: ImportBuilder,
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Value, ...]:
    dtype = type_of(x).dtype
    wide = max(dtype, type_of(mean).dtype, "f32", key=lambda kind: to_numpy(kind).itemsize)
    operands = [b.convert(v, wide) for v in (x, scale, bias)]
    if not training_mode:
        statistics = [b.convert(v, wide) for v in (mean, var)]
        return (b.convert(batch_norm(b, *operands, *statistics, epsilon=epsilon), dtype),)
    axes = tuple(i for i in range(type_of(x).rank) if i != 1)
    batch_mean, batch_var = moments(b, operands[0], axes)
    flat = [b.reshape(v, shape=(-1,)) for v in (batch_mean, batch_var)]
    y = b.convert(batch_norm(b, *operands, *flat, epsilon=epsilon), dtype)
    running = []
    for old, new in zip((mean, var), flat, strict=True):
        before = b.convert(old, wide)
        now = b.add(b.mul(before, b.scalar(momentum, like=before)), b.mul(new, b.scalar(1 - momentum, like=new)))
        running.append(b.convert(now, type_of(old).dtype))
    return (y, *running)


def batch_norm(b: ImportBuilder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, *, epsilon: float = 1e-5) -> Value:
    """`x` normalised by the statistics of its channels, dimension 1; a tensor with one dimension has one channel."""
    if type_of(x).rank != 1:
        return b.batch_norm(x, scale, bias, mean, var, epsilon=epsilon)
    (size,) = dims_of(x)
    y = b.batch_norm(b.with_shape(x, [size, 1]), scale, bias, mean, var, epsilon=epsilon)
    return b.with_shape(y, [size])


onnx_rule("BatchNormalization", since=9, ignored=MOMENTUM)(rounded_once(batch_norm))


def moments(b: ImportBuilder, x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    """Mean and variance of `x` along axes, which are kept with size 1."""
    mean = reduce_mean(b, x, axes, True)
    deviation = b.sub(x, mean)
    return mean, reduce_mean(b, b.mul(deviation, deviation), axes, True)


def normalized(b: ImportBuilder, x: Value, mean: Value, var: Value, epsilon: float, scale: Value | None, bias: Value | None) -> Value:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias`, all broadcast."""
    y = b.mul(b.sub(x, mean), b.rsqrt(b.add(var, b.scalar(epsilon, like=var))))
    y = y if scale is None else b.mul(y, scale)
    return y if bias is None else b.add(y, bias)


def per_channel(b: ImportBuilder, value: Value, rank: int) -> Value:
    """One value per channel, in a shape that broadcasts over images of that rank."""
    return b.reshape(value, shape=(1, -1) + (1,) * (rank - 2))


@onnx_rule("InstanceNormalization", since=6)
@rounded_once
def instance_normalization(b: ImportBuilder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    rank = type_of(x).rank
    mean, var = moments(b, x, spatial_axes(x))
    return normalized(b, x, mean, var, epsilon, per_channel(b, scale, rank), per_channel(b, bias, rank))


def scaled_rows(
    b: ImportBuilder, x: Value, axes: tuple[int, ...], scale: Value, bias: Value | None, epsilon: float, *, centred: bool
) -> tuple[Value, Value | None, Value]:
    """`x` along axes, minus the mean if `centred`, divided by its deviation from 0, times a scale, plus a bias; also the mean, and 1 / deviation.

    Without a mean, the deviation is the root of the mean square (Zhang and Sennrich, 2019).
    """
    mean, var = moments(b, x, axes) if centred else (None, reduce_mean(b, b.mul(x, x), axes, True))
    inverse = b.rsqrt(b.add(var, b.scalar(epsilon, like=var)))
    y = b.mul(b.mul(x if mean is None else b.sub(x, mean), inverse), b.convert(scale, type_of(x).dtype))
    return y if bias is None else b.add(y, b.convert(bias, type_of(x).dtype)), mean, inverse


def axes_from(x: Value, axis: int) -> tuple[int, ...]:
    """The dimensions of `x` from an axis on."""
    return tuple(range(normalized_axis(axis, type_of(x).rank), type_of(x).rank))


@onnx_rule("LayerNormalization", since=17)
def layer_normalization(
    b: ImportBuilder, x: Value, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Value | None, ...]:
    y, *statistics = scaled_rows(b, b.convert(x, our_dtype(stash_type)), axes_from(x, axis), scale, bias, epsilon, centred=True)
    return b.convert(y, type_of(x).dtype), *statistics


@onnx_rule("RMSNormalization", since=23)
def rms_normalization(b: ImportBuilder, x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Value:
    y, _, _ = scaled_rows(b, b.convert(x, our_dtype(stash_type)), axes_from(x, axis), scale, None, epsilon, centred=False)
    return b.convert(y, type_of(scale).dtype)


@onnx_rule("GroupNormalization", since=21)
def group_normalization(
    b: ImportBuilder, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Value:
    dims = dims_of(x)
    if len(dims) < 2 or num_groups < 1 or not divides(num_groups, dims[1]):
        raise ModelError(f"the channels of {type_of(x)} do not divide into {num_groups} groups")
    stash = our_dtype(stash_type)
    groups = b.with_shape(b.convert(x, stash), (dims[0], num_groups, math.prod(dims[1:]) // num_groups))
    mean, var = moments(b, groups, (2,))
    y = b.with_shape(normalized(b, groups, mean, var, epsilon, None, None), dims)
    factor, offset = (per_channel(b, b.convert(v, stash), len(dims)) for v in (scale, bias))
    return b.convert(b.add(b.mul(y, factor), offset), type_of(x).dtype)


@onnx_rule("GroupNormalization", since=1, domain=WITHDRAWN)
def group_normalization_by_group(b: ImportBuilder, x: Value, scale: Value, bias: Value, *, num_groups: int, epsilon: float = 1e-5) -> Value:
    channels = dims_of(x)[1]
    if holds(dims_of(scale)[0], "==", channels) and channels != num_groups:  # as exporters wrote it before the standard said so
        return group_normalization(b, x, scale, bias, num_groups=num_groups, epsilon=epsilon)
    each = [b.reshape(b.expand(b.reshape(v, shape=(-1, 1)), shape=(-1, channels // max(num_groups, 1))), shape=(-1,)) for v in (scale, bias)]
    return group_normalization(b, x, each[0], each[1], num_groups=num_groups, epsilon=epsilon)


@onnx_rule("MeanVarianceNormalization", since=9)
@rounded_once
def mean_variance_normalization(b: ImportBuilder, x: Value, *, axes: Sequence[int] = (0, 2, 3)) -> Value:
    mean, var = moments(b, x, normalized_axes(axes, type_of(x).rank))
    return b.div(b.sub(x, mean), b.add(b.sqrt(var), b.scalar(1e-9, like=x)))


@onnx_rule("LpNormalization", since=1)
@rounded_once
def lp_normalization(b: ImportBuilder, x: Value, *, axis: int = -1, p: Literal[1, 2] = 2) -> Value:
    axes = (normalized_axis(axis, type_of(x).rank),)
    norm = (sum_of_absolutes if p == 1 else euclidean_norm)(b, x, axes, True)
    zero = b.scalar(0, like=x)
    return b.select(b.equal(norm, zero), zero, b.div(x, norm))  # a vector of zeros stays zero


@onnx_rule("LRN", since=1)
def lrn(b: ImportBuilder, x: Value, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Value:
    return b.lrn(x, size=size, alpha=alpha, beta=beta, bias=bias)
