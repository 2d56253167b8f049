"""Scores of classes and features of samples, for classifiers on tables."""

import math
from functools import partial

from stepwell.dialects.core.types import type_of
from stepwell.dialects.support.errors import ModelError
from stepwell.frontends.builder import ModelBuilder, Value, static_dim

NEARLY_ZERO = 1e-7  # SOFTMAX_ZERO ignores scores below this


def matrix_rows(b: ModelBuilder, x: Value) -> Value:
    """The input of a model as a matrix with a row for each sample: a vector is one sample. Raises ModelError for other ranks."""
    kind = type_of(x)
    if kind.rank == 1:
        return b.reshape(x, shape=(1, -1))
    if kind.rank != 2:
        raise ModelError(f"its input must be (samples, features), got {kind}")
    return x


def feature_count(x: Value) -> int:
    """The number of features in each row. Raises NotConstantError if it is not known."""
    return static_dim(x, 1, "samples and their features")


def softmax_zero(b: ModelBuilder, scores: Value) -> Value:
    """A softmax in which scores of nearly 0 stay nearly 0; a row of only such scores becomes 0.5 everywhere."""
    greatest = b.reduce_max(scores, axes=(1,), keepdims=True)
    powers = b.exp(b.sub(scores, greatest))
    tiny = b.mul(scores, b.exp(b.neg(greatest)))
    parts = b.select(b.greater(b.abs(scores), b.scalar(NEARLY_ZERO, like=scores)), powers, tiny)
    total = b.reduce_sum(parts, axes=(1,), keepdims=True)
    return b.select(b.equal(total, b.scalar(0, like=total)), b.scalar(0.5, like=parts), b.div(parts, total))


def probit(b: ModelBuilder, scores: Value) -> Value:
    """`sqrt(2) erfinv(2 p - 1)`, by Winitzki's approximation of the inverse error function (2008), as in other runtimes.

    It is computed in f64: near p = 0.5 it takes the difference of numbers that are nearly equal.
    """
    a, dtype = 0.147, type_of(scores).dtype
    scores = b.convert(scores, "f64")
    number = partial(b.scalar, like=scores)
    x = b.sub(b.mul(scores, number(2)), number(1))
    product = b.mul(b.sub(number(1), x), b.add(number(1), x))
    log = b.log(product)
    half = b.add(b.mul(log, number(0.5)), number(2 / (math.pi * a)))
    root = b.sqrt(b.sub(b.sqrt(b.sub(b.mul(half, half), b.mul(log, number(1 / a)))), half))
    signed = b.mul(b.select(b.less(x, number(0)), number(-1), number(1)), root)
    return b.convert(b.mul(b.select(b.equal(product, number(0)), number(0), signed), number(1.41421356)), dtype)


def arg_max(b: ModelBuilder, scores: Value) -> Value:
    """The class with the largest score in each row, the first of equal ones."""
    return b.arg_max(scores, axis=1, keepdims=False, select_last=False)
