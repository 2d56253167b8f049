"""Sums of products by labels of dimensions, as transposes and matrix products."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepwell.dialects.core.sizes import Size, holds
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import counting, size_scalar, slice_axis, with_new_axes, without_axes
from stepwell.frontends.builder import ModelBuilder, Value, dims_of


@dataclass
class Term:
    """An operand of an Einsum: its value, and the label of each of its dimensions."""

    value: Value
    labels: str


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


def diagonal(b: ModelBuilder, term: Term) -> Term:
    """A term without repeated labels: takes the diagonal of dimensions that share a label; its elements have stride n + 1 in a row of n * n."""
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
    """The size of a label, a number if one is known. Raises ModelError if two sizes differ."""
    size = next((s for s in sizes if isinstance(s, int)), sizes[0])
    for other in sizes:
        if not holds(size, "==", other):
            raise ModelError(f"the label '{label}' stands for {sizes[0]} and for {sizes[1]} elements")
    return size


def every(b: ModelBuilder, x: Value, axis: int, size: int | Size) -> Value:
    """The `size` elements of `x` along an axis with stride `size + 1`."""
    if isinstance(size, int):
        return slice_axis(b, x, axis, 0, size, size + 1)
    places = counting(b, size)
    return b.gather(x, b.mul(places, size_scalar(b, size + 1, like=places)), axis=axis)


def summed(b: ModelBuilder, term: Term, needed: set[str]) -> Term:
    """A term summed over the labels that nothing else needs."""
    axes = tuple(i for i, label in enumerate(term.labels) if label not in needed)
    if not axes:
        return term
    return Term(b.reduce_sum(term.value, axes=axes, keepdims=False), "".join(c for c in term.labels if c in needed))


def contract(b: ModelBuilder, lhs: Term, rhs: Term, needed: set[str]) -> Term:
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


def without_single(b: ModelBuilder, term: Term, labels: Sequence[str], other: Mapping[str, int | Size]) -> Term:
    """A term without those of `labels` with size 1 in it and a larger size in the `other` one: its element is a factor of all of these."""
    gone = [i for i, (label, size) in enumerate(zip(term.labels, dims_of(term.value), strict=True)) if label in labels and size == 1 != other[label]]
    return Term(without_axes(b, term.value, gone), "".join(c for i, c in enumerate(term.labels) if i not in gone)) if gone else term


def volumes(sizes: Mapping[str, int | Size], batch: Sequence[str], *groups: Sequence[str]) -> list[int | Size]:
    """The shape with each group of labels merged into one dimension; batch labels stay separate."""
    return [sizes[c] for c in batch] + [math.prod(sizes[c] for c in group) for group in groups]


def ordered(b: ModelBuilder, term: Term, labels: Sequence[str]) -> Value:
    """A term's value with its dimensions in the order of `labels`."""
    return b.transposed(term.value, [term.labels.index(c) for c in labels])


def spread(b: ModelBuilder, term: Term, labels: Sequence[str]) -> Value:
    """A term's value with a dimension for each of `labels`, of size 1 for those it lacks."""
    present = [c for c in labels if c in term.labels]
    return with_new_axes(b, ordered(b, term, present), [i for i, c in enumerate(labels) if c not in term.labels])
