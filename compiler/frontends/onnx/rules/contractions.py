"""Rules for matrix products: MatMul, Gemm and Einsum."""

import numpy as np

from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import TensorType, is_float, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.einsum import Term, contract, diagonal, parse_equation, summed
from stepwell.frontends.blocks.slicing import with_new_axes, without_axes
from stepwell.frontends.builder import Value
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once


@onnx_rule("MatMul", since=1)
def matmul(b: ImportBuilder, lhs: Value, rhs: Value) -> Value:
    ranks = type_of(lhs).rank, type_of(rhs).rank
    if 0 in ranks:
        raise ModelError(f"its inputs must not be scalars, got {type_of(lhs)} and {type_of(rhs)}")
    rows = with_new_axes(b, lhs, [0]) if ranks[0] == 1 else lhs  # a vector is a row on the left and a column on the right
    columns = with_new_axes(b, rhs, [1]) if ranks[1] == 1 else rhs
    product = b.matmul(rows, columns)
    rank = type_of(product).rank
    return without_axes(b, product, [axis for axis, given in zip((rank - 2, rank - 1), ranks, strict=True) if given == 1])


@onnx_rule("MatMulInteger", since=10)
def matmul_integer(b: ImportBuilder, lhs: Value, rhs: Value, lhs_zero_point: Value | None = None, rhs_zero_point: Value | None = None) -> Value:
    return matmul(b, centred(b, lhs, lhs_zero_point, -2), centred(b, rhs, rhs_zero_point, -1))


def centred(b: ImportBuilder, x: Value, zero_point: Value | None, axis: int) -> Value:
    """`x`, of integers, minus its zero point, as i32: the zero point is a scalar, one per index of `axis`, or broadcasts to `x`."""
    if is_float(type_of(x).dtype):
        raise UnsupportedError(f"quantised products of {type_of(x).dtype} are not supported; supported: of integers")
    wide = b.convert(x, "i32")
    if zero_point is None:
        return wide
    kind, rank = type_of(zero_point), type_of(x).rank
    if kind.dtype != type_of(x).dtype:
        raise ModelError(f"a zero point must have the element type {type_of(x).dtype} of its operand, got {kind}")
    zero = b.convert(zero_point, "i32")
    if kind.rank == 1 and rank > 1:
        zero = b.reshape(zero, shape=[1 if kind.shape[0] == 1 or i != axis % rank else -1 for i in range(rank)])
    if not reaches(type_of(zero), type_of(x)):
        raise ModelError(f"a zero point {kind} does not fit {type_of(x)}")
    return b.sub(wide, zero)


def reaches(small: TensorType, large: TensorType) -> bool:
    """Whether a type broadcasts to the shape of another, as far as that is known."""
    if small.rank > large.rank:
        return False
    return all(s == 1 or holds(s, "==", size) for s, size in zip(small.shape, large.shape[large.rank - small.rank :], strict=True))


BROADCAST = {"broadcast": 0}  # opset 6 allowed other shapes only with it; shapes that do not broadcast are refused anyway


@onnx_rule("Gemm", since=1, ignored=BROADCAST)
@rounded_once
def gemm(
    b: ImportBuilder, lhs: Value, rhs: Value, bias: Value | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0
) -> Value:
    for value in (lhs, rhs):
        if type_of(value).rank != 2:
            raise ModelError(f"its first two inputs must have rank 2, got {type_of(lhs)} and {type_of(rhs)}")
    product = b.matmul(b.transposed(lhs, (1, 0)) if transA else lhs, b.transposed(rhs, (1, 0)) if transB else rhs)
    dtype = type_of(product).dtype
    if not is_float(dtype) and not (alpha.is_integer() and beta.is_integer()):  # truncated at the end, like ONNX's evaluator
        scaled = b.mul(b.convert(product, "f64"), b.literal(np.array(alpha)))
        total = scaled if bias is None else b.add(scaled, b.mul(b.convert(bias, "f64"), b.literal(np.array(beta))))
        return b.convert(total, dtype)
    if alpha != 1.0:
        product = b.mul(product, b.scalar(alpha, like=product))
    if bias is None or beta == 0.0:
        return product
    return b.add(product, bias if beta == 1.0 else b.mul(bias, b.scalar(beta, like=bias)))


@onnx_rule("Einsum", since=12)
def einsum(b: ImportBuilder, *operands: Value, equation: str) -> Value:
    inputs, result = parse_equation(equation, [type_of(v).rank for v in operands])
    terms = [diagonal(b, Term(value, labels)) for value, labels in zip(operands, inputs, strict=True)]
    total = terms[0]
    for i, term in enumerate(terms[1:], start=1):
        needed = set(result).union(*(t.labels for t in terms[i + 1 :]))
        total = contract(b, summed(b, total, needed | set(term.labels)), summed(b, term, needed | set(total.labels)), needed)
    total = summed(b, total, set(result))
    return b.transposed(total.value, [total.labels.index(label) for label in result])


@onnx_rule("Det", since=11)
def det(b: ImportBuilder, x: Value) -> Value:
    return b.det(x)
