"""Reshapes as tensor.collapse_shape and tensor.expand_shape, which are free."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from stepwell.dialects.core.mlir import arith, ir, tensor
from stepwell.dialects.core.sizes import Dim
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult


def reshape_to(b: LinalgBuilder, value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """A static tensor reshaped: dimensions are merged if necessary, then split."""
    old = list(value.type.shape)
    if old == list(shape):
        return value
    if math.prod(shape) == 0:
        return b.empty_like(value, shape)
    if not old or not shape:  # all dimensions are of size 1
        return b.reshape(value, [], shape)
    merged, split = _common_groups(old, shape)
    middle = [math.prod(old[i] for i in group) for group in merged]
    return b.reshape(b.reshape(value, merged, middle), split, shape)


def reshape_types(b: LinalgBuilder, value: ir.Value, old: Sequence[Dim], new: Sequence[Dim]) -> ir.Value:
    """A tensor of shape `old` in shape `new`, both with symbols: merged and split where products are provably equal."""
    sizes = b.given_all(new)
    if 0 in new:
        return b.empty_like(value, sizes)
    groups = _matched_groups(old, new)
    if groups is None:
        return reshape_dynamic(b, value, sizes)
    merged, split = groups
    have = b.sizes(value)
    return b.reshape(b.reshape(value, merged, [product(b, [have[i] for i in group]) for group in merged]), split, sizes)


def _matched_groups(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[list[list[int]], list[list[int]]] | None:
    """Like `_common_groups`, for sizes with symbols; None if no match can be proven."""

    def is_behind(x: Any, y: Any) -> bool | None:
        return True if y % x == 0 else False if x % y == 0 else None

    try:
        found = _common_groups(a, b, is_behind)
    except NoMatch:
        return None
    used = [sum(map(len, side)) for side in found]
    return found if found[0] and used == [len(a), len(b)] else None


def _common_groups(
    a: Sequence[Any], b: Sequence[Any], is_behind: Callable[[Any, Any], bool | None] = operator.lt
) -> tuple[list[list[int]], list[list[int]]]:
    """The finest runs of dimensions of two shapes of equal size that hold equally many elements, pairwise.

    `is_behind` decides which of two different products has to grow: the first (True) or the second.
    """
    left: list[list[int]] = []
    right: list[list[int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        left.append([i])
        right.append([j])
        x, y, i, j = a[i], b[j], i + 1, j + 1
        while x != y:
            first = is_behind(x, y)
            if first and i < len(a):
                x, i = x * a[i], i + 1
                left[-1].append(i - 1)
            elif first is False and j < len(b):
                y, j = y * b[j], j + 1
                right[-1].append(j - 1)
            else:
                raise NoMatch("no runs of the two shapes are known to hold equally many elements")
    if left and all(size == 1 for size in (*a[i:], *b[j:])):  # only dimensions of size 1 remain
        left[-1].extend(range(i, len(a)))
        right[-1].extend(range(j, len(b)))
    return left, right


def reshape_dynamic(b: LinalgBuilder, value: ir.Value, sizes: Sequence[OpFoldResult]) -> ir.Value:
    """A tensor with dynamic dimensions reshaped to `sizes`, of rank 1 or more, by way of one dimension."""
    rank = value.type.rank
    flat = value
    if rank != 1:
        flat = b.reshape(value, [list(range(rank))] if rank else [], [product(b, b.sizes(value))])
    # A static size only splits into static ones, a dynamic one only if one of its parts is.
    length = math.prod(s for s in sizes if isinstance(s, int))
    if any(not isinstance(s, int) for s in sizes):
        length = ir.ShapedType.get_dynamic_size()
    if flat.type.shape[0] != length:
        flat = tensor.CastOp(ir.RankedTensorType.get([length], flat.type.element_type), flat).result
    return b.reshape(flat, [list(range(len(sizes)))], sizes)


def product(b: LinalgBuilder, sizes: Sequence[OpFoldResult]) -> OpFoldResult:
    """The product of sizes; an int if all are."""
    static = math.prod(s for s in sizes if isinstance(s, int))
    dynamic = [s for s in sizes if not isinstance(s, int)]
    if not dynamic:
        return static
    total = dynamic[0]
    for s in dynamic[1:]:
        total = arith.MulIOp(total, s).result
    return total if static == 1 else arith.MulIOp(total, b.index(static)).result
