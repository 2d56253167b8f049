"""Rules for matrix products: MatMul, Gemm and Einsum."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.sizes import Size, holds
from stepwell.dialects.core.types import TensorType, is_float, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rounding import rounded_once
from stepwell.frontends.onnx.rules.slicing import counting, size_scalar, slice_axis, with_new_axes, without_axes


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
    """`x`, of integers, minus its zero point, as i32: a scalar, or one per index of `axis`, or of a shape that broadcasts to `x`."""
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


@onnx_rule("Gemm", since=7)
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


@dataclass
class Term:
    """An operand of an Einsum: its value, and the label of each of its dimensions."""

    value: Value
    labels: str


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


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result; an ellipsis becomes capital letters that the equation does not use."""
    sides = equation.replace(" ", "").split("->")
    inputs = sides[0].split(",")
    if len(sides) > 2 or len(inputs) != len(ranks) or not all(c.isascii() and c.isalpha() for c in equation.replace("...", "") if c not in " ,->"):
        raise ModelError(f"equation {equation!r} does not have {len(ranks)} operands")
    spare = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in equation]
    hidden = max((rank - len(labels.replace("...", "")) for labels, rank in zip(inputs, ranks, strict=True) if "..." in labels), default=0)
    if hidden > len(spare):
        raise UnsupportedError(f"equation {equation!r} uses too many labels; supported: 52 in all")
    ellipsis = "".join(spare[: max(hidden, 0)])
    expanded = []
    for labels, rank in zip(inputs, ranks, strict=True):
        missing = rank - len(labels.replace("...", ""))
        if missing < 0 or (missing and "..." not in labels):
            raise ModelError(f"equation {equation!r} does not fit an operand of rank {rank}: '{labels}'")
        expanded.append(labels.replace("...", ellipsis[len(ellipsis) - missing :]))
    letters = sorted({c for labels in inputs for c in labels.replace("...", "")})
    once = "".join(c for c in letters if sides[0].count(c) == 1)
    result = sides[1].replace("...", ellipsis) if len(sides) == 2 else ellipsis + once
    if len(set(result)) != len(result) or not set(result) <= set("".join(expanded)):
        raise ModelError(f"equation {equation!r}: its result must name labels of the operands, each once")
    return expanded, result


def diagonal(b: ImportBuilder, term: Term) -> Term:
    """A term without repeated labels: takes the diagonal of dimensions that share a label, which in a row of n * n elements lies n + 1 apart."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            pair = [i for i, c in enumerate(term.labels) if c == label][:2]
            others = [i for i in range(len(term.labels)) if i not in pair]
            dims = dims_of(term.value)
            size = common_size(label, [dims[i] for i in pair])
            rows = b.with_shape(b.transposed(term.value, [*others, *pair]), [*(dims[i] for i in others), size * size])
            term = Term(every(b, rows, len(others), size), "".join(term.labels[i] for i in others) + label)
    return term


def common_size(label: str, sizes: Sequence[int | Size]) -> int | Size:
    """The size that a label stands for, a number if one is. Raises ModelError if two sizes are not the same."""
    size = next((s for s in sizes if isinstance(s, int)), sizes[0])
    for other in sizes:
        if not holds(size, "==", other):
            raise ModelError(f"the label '{label}' stands for {sizes[0]} and for {sizes[1]} elements")
    return size


def every(b: ImportBuilder, x: Value, axis: int, size: int | Size) -> Value:
    """The elements of `x` along an axis that lie `size + 1` apart, of which there are `size`."""
    if isinstance(size, int):
        return slice_axis(b, x, axis, 0, size, size + 1)
    places = counting(b, size)
    return b.gather(x, b.mul(places, size_scalar(b, size + 1, like=places)), axis=axis)


def summed(b: ImportBuilder, term: Term, needed: set[str]) -> Term:
    """A term summed over the labels that nothing else needs."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    return Term(b.reduce_sum(term.value, axes=axes, keepdims=False), "".join(c for c in term.labels if c in needed))


def contract(b: ImportBuilder, lhs: Term, rhs: Term, needed: set[str]) -> Term:
    """The product of two terms, summed over the labels that only these two need, as one batched matrix product."""
    batch = [c for c in lhs.labels if c in rhs.labels and c in needed]
    inner = [c for c in lhs.labels if c in rhs.labels and c not in needed]
    rows = [c for c in lhs.labels if c not in rhs.labels]
    columns = [c for c in rhs.labels if c not in lhs.labels]
    if not inner:  # nothing to sum: an element-wise product of broadcast operands
        order = batch + rows + columns
        return Term(b.mul(spread(b, lhs, order), spread(b, rhs, order)), "".join(order))
    sizes = [dict(zip(term.labels, dims_of(term.value), strict=True)) for term in (lhs, rhs)]
    if any((sizes[0][c] == 1) != (sizes[1][c] == 1) for c in inner):
        left, right = without_single(b, lhs, inner, sizes[1]), without_single(b, rhs, inner, sizes[0])
        return contract(b, summed(b, left, needed.union(right.labels)), summed(b, right, needed.union(left.labels)), needed)
    for label in inner:
        common_size(label, [side[label] for side in sizes])
    product = b.matmul(
        b.with_shape(ordered(b, lhs, batch + rows + inner), volumes(sizes[0], batch, rows, inner)),
        b.with_shape(ordered(b, rhs, batch + inner + columns), volumes(sizes[1], batch, inner, columns)),
    )
    shape = [*dims_of(product)[: len(batch)], *(sizes[0][c] for c in rows), *(sizes[1][c] for c in columns)]
    return Term(b.with_shape(product, shape), "".join(batch + rows + columns))


def without_single(b: ImportBuilder, term: Term, labels: Sequence[str], other: Mapping[str, int | Size]) -> Term:
    """A term without those of `labels` that stand for 1 element of it and for more of the `other` one: that element is a factor of all these."""
    gone = [i for i, (label, size) in enumerate(zip(term.labels, dims_of(term.value), strict=True)) if label in labels and size == 1 != other[label]]
    return Term(without_axes(b, term.value, gone), "".join(c for i, c in enumerate(term.labels) if i not in gone)) if gone else term


def volumes(sizes: Mapping[str, int | Size], batch: Sequence[str], *groups: Sequence[str]) -> list[int | Size]:
    """The shape with each group of labels merged into one dimension; batch labels stay separate."""
    return [sizes[c] for c in batch] + [math.prod(sizes[c] for c in group) for group in groups]


def ordered(b: ImportBuilder, term: Term, labels: Sequence[str]) -> Value:
    """A term's value with its dimensions in the order of `labels`."""
    return b.transposed(term.value, [term.labels.index(c) for c in labels])


def spread(b: ImportBuilder, term: Term, labels: Sequence[str]) -> Value:
    """A term's value with a dimension for each of `labels`, of size 1 where the term does not have it."""
    present = [c for c in labels if c in term.labels]
    return with_new_axes(b, ordered(b, term, present), [i for i, c in enumerate(labels) if c not in term.labels])


@onnx_rule("Det", since=11)
def det(b: ImportBuilder, x: Value) -> Value:
    return b.det(x)
