"""Rules for random values: numbers of our own generator, the same ones in each run of a model.

The attribute `seed` chooses them; each node without one has its own numbers. They follow the distribution that ONNX names, but differ from those of
any other runtime.
"""

import math
import zlib
from collections.abc import Callable, Sequence

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, holds
from stepwell.dialects.core.types import compute_dtype, dtype_info, is_float, to_numpy, type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.blocks.slicing import slice_axis
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.elementwise import truth
from stepwell.frontends.onnx.tensors import our_dtype


def stream(b: ImportBuilder, seed: float | None) -> int:
    """The seed of the generator for the current node: from its attribute (each value of which is another seed), else from its name."""
    if seed is None:
        return zlib.crc32(f"{ir.Location.current}/{b.node.output_names}".encode())
    return seed if isinstance(seed, int) else int(np.float64(seed).view(np.int64))


def uniform(b: ImportBuilder, seed: int, shape: Sequence[int | Size], dtype: str) -> Value:
    """Uniform numbers in [0, 1), in f32 or f64: multiples of 2^-24 or 2^-53, all equally likely."""
    digits = dtype_info(dtype).precision
    bits = b.random_bits(seed=seed, shape=tuple(shape))
    upper = b.convert(b.shift_right(bits, b.scalar(64 - digits, like=bits)), "i64")
    return b.mul(b.convert(upper, dtype), b.literal(np.array(2.0**-digits, to_numpy(dtype))))


def normal(b: ImportBuilder, seed: int, shape: Sequence[int | Size], dtype: str) -> Value:
    """Numbers of the standard normal distribution in f32 or f64 (G. Box and M. Muller, 1958), each from two uniform ones."""
    both = uniform(b, seed, (2, *shape), dtype)
    first, second = (b.with_shape(slice_axis(b, both, 0, i, 1), shape) for i in range(2))
    radius = b.sqrt(b.mul(b.log(b.sub(b.scalar(1, like=first), first)), b.scalar(-2, like=first)))
    return b.mul(radius, b.cos(b.mul(second, b.scalar(2 * math.pi, like=second))))


def drawn(
    b: ImportBuilder, draw: Callable[..., Value], shape: Sequence[int | Size], dtype: str, seed: float | None, factor: float, offset: float
) -> Value:
    """Numbers from `draw` (`uniform` or `normal`) times a factor plus an offset, in a float type."""
    numbers = draw(b, stream(b, seed), shape, compute_dtype(dtype))
    return b.convert(b.add(b.mul(numbers, b.scalar(factor, like=numbers)), b.scalar(offset, like=numbers)), dtype)


def wanted_dtype(dtype: int | None, like: Value | None = None) -> str:
    """The float type of a result: that of the attribute, else that of an operand."""
    wanted = type_of(like).dtype if dtype is None and like is not None else our_dtype(1 if dtype is None else dtype)
    if not is_float(wanted):
        raise ModelError(f"the result must be of a float type, got {wanted}: it takes dtype=")
    return wanted


@onnx_rule("RandomUniform", since=1)
def random_uniform(
    b: ImportBuilder, *, shape: Sequence[int], dtype: int = 1, seed: float | None = None, low: float = 0.0, high: float = 1.0
) -> Value:
    return drawn(b, uniform, shape, wanted_dtype(dtype), seed, high - low, low)


@onnx_rule("RandomUniformLike", since=1)
def random_uniform_like(
    b: ImportBuilder, x: Value, *, dtype: int | None = None, seed: float | None = None, low: float = 0.0, high: float = 1.0
) -> Value:
    return drawn(b, uniform, dims_of(x), wanted_dtype(dtype, x), seed, high - low, low)


@onnx_rule("RandomNormal", since=1)
def random_normal(
    b: ImportBuilder, *, shape: Sequence[int], dtype: int = 1, seed: float | None = None, mean: float = 0.0, scale: float = 1.0
) -> Value:
    return drawn(b, normal, shape, wanted_dtype(dtype), seed, scale, mean)


@onnx_rule("RandomNormalLike", since=1)
def random_normal_like(
    b: ImportBuilder, x: Value, *, dtype: int | None = None, seed: float | None = None, mean: float = 0.0, scale: float = 1.0
) -> Value:
    return drawn(b, normal, dims_of(x), wanted_dtype(dtype, x), seed, scale, mean)


@onnx_rule("Bernoulli", since=15)
def bernoulli(b: ImportBuilder, x: Value, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the given probability, else 0."""
    kind = compute_dtype(type_of(x).dtype)
    numbers = uniform(b, stream(b, seed), dims_of(x), kind)
    return b.convert(b.less(numbers, b.convert(x, kind)), type_of(x).dtype if dtype is None else our_dtype(dtype))


@onnx_rule("Multinomial", since=7)
def multinomial(b: ImportBuilder, x: Value, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Value:
    """Each sample is the number of running sums of the probabilities that a uniform number is not below."""
    dims = dims_of(x)
    if len(dims) != 2 or not holds(dims[1], ">=", 1) or sample_size < 1:
        raise ModelError(f"its input must be (batch, classes) and sample_size 1 or more, got {type_of(x)} and {sample_size}")
    wide = b.convert(x, "f64")
    sums = b.cumsum(b.softmax(wide, axis=1), axis=1, exclusive=False, reverse=False)
    inner = b.with_shape(slice_axis(b, sums, 1, 0, dims[1] - 1), (dims[0], 1, dims[1] - 1))  # the last class takes the rest
    numbers = uniform(b, stream(b, seed), (dims[0], sample_size, 1), "f64")
    passed = b.convert(b.greater_equal(numbers, inner), "i64")
    return b.convert(b.reduce_sum(passed, axes=(2,), keepdims=False), our_dtype(dtype))


@onnx_rule("Dropout", since=12)
def dropout_with_inputs(
    b: ImportBuilder, x: Value, ratio: Value | None = None, training_mode: Value | None = None, *, seed: int | None = None
) -> tuple[Value, ...]:
    """Without training, `x` itself; in training each element is dropped with the probability `ratio`, and the others are scaled up to compensate."""
    known = None if training_mode is None else b.constant_value(training_mode)
    never = training_mode is None or (known is not None and not b.known_scalar(training_mode, "the training mode"))
    constant_rate = None if ratio is None else b.constant_value(ratio)
    if never or (constant_rate is not None and not constant_rate.any()):
        return (x, truth(b, x)) if b.node.output_count > 1 else (x,)
    rate = b.literal(np.array(0.5, np.float32)) if ratio is None else b.with_shape(ratio, ())
    kind = compute_dtype(type_of(x).dtype)
    rate = b.convert(rate, kind)
    numbers = uniform(b, stream(b, seed), dims_of(x), kind)
    kept = b.greater_equal(numbers, rate)
    grown = b.div(b.convert(x, kind), b.sub(b.scalar(1, like=rate), rate))
    result = b.convert(b.select(kept, grown, b.scalar(0, like=grown)), type_of(x).dtype)
    if known is None and training_mode is not None:
        training = b.with_shape(training_mode, ())
        result, kept = b.select(training, result, x), b.or_(kept, b.not_(training))
    return (result, kept) if b.node.output_count > 1 else (result,)
