"""What moves data: shapes, slices, joins, gathers and scatters, padding, orders."""

import math
from typing import Any

import numpy as np
from random_graphs.net import Declined, Net, Value
from random_graphs.operators import operator

from stepwell.dialects.core.dtypes import to_numpy

ANY = ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "i1"]


def ints(*values: int, dtype: Any = np.int64) -> np.ndarray:
    """A vector of integers."""
    return np.array(values, dtype)


def any_value(net: Net, op_type: str, least: int = 0) -> Value:
    """A value of any type that the operator takes and at least this rank."""
    legal = net.dtypes(op_type)
    dtype = net.dtype(op_type) if net.r.boolean() else str(net.r.choice(legal))
    return net.pick(dtype, lambda v: v.rank >= least, lambda: net.shape(least))


@operator("Transpose")
def transpose(net: Net, op_type: str) -> None:
    x = any_value(net, op_type)
    net.node(op_type, x, perm=net.r.choice([None, list(net.r.permutation(x.rank))]))


@operator("Reshape")
def reshape(net: Net, op_type: str) -> None:
    x = any_value(net, op_type)
    sizes = regrouped(net, x.shape)
    if x.array.size and sizes and net.r.boolean():
        sizes[net.r.integer(0, len(sizes) - 1)] = -1
    if net.opset < 5:
        net.node(op_type, x, shape=sizes)
    else:
        net.node(op_type, x, ints(*sizes), allowzero=1 if 0 in sizes and net.opset >= 14 else None)


def regrouped(net: Net, shape: tuple[int, ...]) -> list[int]:
    """Other sizes with the same product: dimensions merged, split at a factor, ones put in."""
    sizes = list(shape)
    for _ in range(net.r.integer(1, 3)):
        kind = net.r.integer(0, 2)
        if kind == 0 and len(sizes) > 1:
            at = net.r.integer(0, len(sizes) - 2)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif kind == 1 and sizes:
            at = net.r.integer(0, len(sizes) - 1)
            factors = [f for f in range(1, sizes[at] + 1) if sizes[at] % f == 0]
            if factors and len(sizes) < 6:
                factor = net.r.choice(factors)
                sizes[at : at + 1] = [factor, sizes[at] // factor]
        elif len(sizes) < 6:
            sizes.insert(net.r.integer(0, len(sizes)), 1)
    return sizes


@operator("Flatten")
def flatten(net: Net, op_type: str) -> None:
    x = any_value(net, op_type)
    axis = net.r.integer(0, x.rank)
    net.node(op_type, x, axis=net.counted(axis, x.rank) if x.rank else axis)


@operator("Squeeze", "Unsqueeze")
def unit_dimensions(net: Net, op_type: str) -> None:
    if op_type == "Squeeze":
        x = net.pick(net.dtype(op_type), lambda v: 1 in v.shape, lambda: [*net.shape(0, 3), 1])
        ones = [i for i, n in enumerate(x.shape) if n == 1]
        axes = [net.counted(i, x.rank) for i in ones if net.r.boolean()]
        if not axes and (not ones or net.r.boolean()):
            raise Declined("nothing to squeeze")
    else:
        x = any_value(net, op_type)
        rank = x.rank + net.r.integer(1, 2)
        axes = [net.counted(a, rank) for a in net.r.permutation(rank)[: rank - x.rank]]
    if net.opset >= 13:
        net.node(op_type, x, ints(*axes) if axes else None)
    else:
        net.node(op_type, x, axes=axes or None)


@operator("Expand", "Tile")
def repeated(net: Net, op_type: str) -> None:
    x = any_value(net, op_type)
    if op_type == "Tile" and net.opset < 6:
        net.node(op_type, x, *(np.array(n, x.array.dtype) for n in (net.r.integer(1, 3), net.r.integer(0, x.rank - 1))))
        return
    if op_type == "Tile":
        net.node(op_type, x, ints(*net.r.integers(x.rank, 0 if net.r.integer(0, 9) == 0 else 1, 3)))
        return
    grown = [net.r.integer(1, 5) if n == 1 and net.r.boolean() else n for n in x.shape]
    sizes = [*net.r.integers(net.r.integer(0, 2), 1, 3), *(1 if net.r.integer(0, 4) == 0 else n for n in grown)]
    net.node(op_type, x, ints(*(sizes[net.r.integer(0, 1) :] if len(sizes) > x.rank else sizes)))


@operator("Concat")
def concat(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 1)
    axis = net.axis(x.rank)
    at = axis % x.rank

    def beside() -> list[int]:
        return [net.r.integer(0 if net.r.integer(0, 9) == 0 else 1, 5) if i == at else n for i, n in enumerate(x.shape)]

    def fits(v: Value) -> bool:
        return v.rank == x.rank and all(a == b for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)) if i != at)

    parts = [x, *(net.pick(x.dtype, fits, beside) for _ in range(net.r.integer(0, 3)))]
    net.node(op_type, *(parts[i] for i in net.r.permutation(len(parts))), axis=axis)


@operator("Split")
def split(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 1)
    axis = net.axis(x.rank)
    size = x.shape[axis]
    count = net.r.integer(1, 4)
    cuts = sorted(net.r.integer(0 if net.r.integer(0, 5) == 0 else min(1, size), size) for _ in range(count - 1))
    parts = np.diff([0, *cuts, size]).tolist()
    if net.opset < 13:
        net.node(op_type, x, outputs=count, axis=axis, split=parts)
    elif net.r.boolean() or (size % count and net.opset < 18) or -(-size // count) * (count - 1) > size:  # the last part takes what is left
        net.node(op_type, x, ints(*parts), outputs=count, axis=axis)
    else:
        net.node(op_type, x, outputs=count, axis=axis, num_outputs=count if net.opset >= 18 else None)


@operator("Slice")
def slices(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 1)
    axes = [a for a in net.r.permutation(x.rank) if net.r.boolean()] or [0]
    steps = [net.r.choice([1, 1, 1, 2, 3, -1, -2]) for _ in axes]
    starts, ends = [], []
    for a, step in zip(axes, steps, strict=True):
        size = x.shape[a]
        low, high = net.r.integer(0, max(size - 1, 0)), net.r.integer(0, size + 2)
        if low > high and net.r.integer(0, 9):
            low, high = high, low
        start, end = (low, high) if step > 0 else (high, low)
        starts.append(net.r.choice([start, start - size if 0 <= start < size else start]))
        ends.append(net.r.choice([end, (1 << 62) if step > 0 else -(1 << 62)]))
    named = [a - net.r.choice([0, x.rank]) for a in axes]
    if net.opset < 10:
        if any(step != 1 for step in steps):
            raise Declined("no steps in this opset")
        net.node(op_type, x, starts=starts, ends=ends, axes=named)
        return
    kind = net.r.choice([np.int64, np.int32]) if all(abs(v) < 1 << 31 for v in ends) else np.int64
    arrays = [ints(*values, dtype=kind) for values in (starts, ends, named, steps)]
    net.node(op_type, x, *(arrays[:3] if set(steps) == {1} and net.r.boolean() else arrays))


@operator("Pad")
def pad(net: Net, op_type: str) -> None:
    mode = net.r.choice(["constant", "constant", "edge", "reflect", *(["wrap"] if net.opset >= 19 else [])])
    x = any_value(net, op_type, 1)
    if mode != "constant" and 0 in x.shape:
        raise Declined("nothing to copy around")
    most = [2 if mode == "constant" else max(0, min(n - 1, 2)) for n in x.shape]
    low, high = ([net.r.integer(0, m) if net.r.boolean() else 0 for m in most] for _ in range(2))
    if mode == "constant" and net.r.integer(0, 5) == 0:
        low = [-net.r.integer(0, min(1, n)) for n in x.shape]
    value = net.fresh(x.dtype, (), tame=True) if mode == "constant" and net.r.boolean() else None
    if net.opset < 11:
        amounts: dict[str, Any] = {"pads" if net.opset > 1 else "paddings": [*low, *high]}
        net.node(op_type, x, value=None if value is None else float(value.array), mode=mode, **amounts)
    else:
        net.node(op_type, x, ints(*low, *high), value, mode=mode)


@operator("Gather")
def gather(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type) if net.r.boolean() else str(net.r.choice(ANY)), lambda v: v.rank > 0 and v.array.size > 0)
    axis = net.axis(x.rank)
    net.node(op_type, x, indices(net, net.shape(0, 2), x.shape[axis]), axis=axis)


def indices(net: Net, shape: tuple[int, ...], size: int) -> Value:
    """Indices that a dimension of `size` has: new ones, or some that were computed."""
    there = [v for v in net.values if v.dtype in ("i32", "i64") and v.array.size and v.array.min() >= -size and v.array.max() < size and v.rank <= 3]
    if there and net.r.integer(0, 2) == 0:
        return net.r.choice(there)
    return net.fresh(str(net.r.choice(["i64", "i64", "i32"])), shape, -size, size - 1, tame=True)


@operator("GatherElements", "ScatterElements")
def elements(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 and v.array.size > 0)
    axis = net.axis(x.rank)
    at, size = axis % x.rank, x.shape[axis]
    if op_type == "GatherElements":
        shape = [net.r.integer(1, 5) if i == at else net.r.integer(1, n) for i, n in enumerate(x.shape)]
        net.node(op_type, x, net.fresh("i64", shape, -size, size - 1, tame=True), axis=axis)
        return
    reduction = net.r.choice([None, None, *(["add", "mul"] if net.opset >= 16 else []), *(["max", "min"] if net.opset >= 18 else [])])
    count = net.r.integer(1, size)
    shape = [count if i == at else net.r.integer(1, n) for i, n in enumerate(x.shape)]
    # No place twice where the order would matter.
    order = np.argsort(net.r.generator.random([size if i == at else n for i, n in enumerate(shape)]), axis=at)
    places = np.take(order, range(count), axis=at).astype(np.int64)
    if x.dtype == "i1" and reduction:
        raise Declined("booleans are not reduced")
    net.node(op_type, x, net.keep(Value(f"x{_name(net)}", places, net.r.boolean())), net.fresh(x.dtype, shape), axis=axis, reduction=reduction)


def _name(net: Net) -> int:
    net.named += 1
    return net.named


@operator("GatherND", "ScatterND")
def nd(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 0 and v.array.size > 0)
    depth = net.r.integer(1, x.rank)
    if op_type == "GatherND":
        batch = net.r.integer(0, x.rank - depth) if net.opset >= 12 else 0
        outer = (*x.shape[:batch], *net.r.integers(net.r.integer(0, 2), 1, 3))
        places = np.stack([net.r.generator.integers(-n, n, outer) for n in x.shape[batch : batch + depth]], -1).astype(np.int64)
        net.node(op_type, x, net.keep(Value(f"x{_name(net)}", places, net.r.boolean())), batch_dims=batch or None)
        return
    space = math.prod(x.shape[:depth])
    flat = net.r.generator.permutation(space)[: net.r.integer(1, min(space, 9))]
    places = np.stack(np.unravel_index(flat, x.shape[:depth]), -1).astype(np.int64)
    reduction = net.r.choice([None, *(["add", "mul"] if net.opset >= 16 else []), *(["max", "min"] if net.opset >= 18 else [])])
    if x.dtype == "i1" and reduction:
        raise Declined("booleans are not reduced")
    updates = net.fresh(x.dtype, (len(flat), *x.shape[depth:]))
    net.node(op_type, x, net.keep(Value(f"x{_name(net)}", places, net.r.boolean())), updates, reduction=reduction)


@operator("DepthToSpace", "SpaceToDepth")
def blocks(net: Net, op_type: str) -> None:
    size, dtype = net.r.integer(1, 3), net.dtype(op_type)
    n, c, h, w = net.r.integers(4, 1, 4)
    shape = (n, c * size * size, h, w) if op_type == "DepthToSpace" else (n, c, h * size, w * size)
    mode = net.r.choice([None, "CRD"]) if op_type == "DepthToSpace" else None
    net.node(op_type, net.pick(dtype, lambda v: v.shape == shape, lambda: shape), blocksize=size, mode=mode)


@operator("Trilu")
def trilu(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 2)
    net.node(op_type, x, np.array(net.r.integer(-4, 4)) if net.r.boolean() else None, upper=net.r.choice([None, 0]))


@operator("EyeLike")
def eye(net: Net, op_type: str) -> None:
    net.node(op_type, net.pick(net.dtype(op_type), lambda v: v.rank == 2, lambda: net.shape(2, 2)), k=net.r.integer(-2, 2))


@operator("ReverseSequence")
def reverse(net: Net, op_type: str) -> None:
    x = net.pick(net.dtype(op_type), lambda v: v.rank > 1 and v.array.size > 0, lambda: net.shape(2))
    batch = net.r.integer(0, 1)
    lengths = net.fresh("i64", (x.shape[batch],), 1, x.shape[1 - batch], tame=True)
    net.node(op_type, x, lengths, batch_axis=batch, time_axis=1 - batch)


@operator("OneHot")
def one_hot(net: Net, op_type: str) -> None:
    depth = net.r.integer(1, 6)
    dtype = net.dtype(op_type)
    low = 0 if dtype.startswith("u") else -depth
    places = net.fresh(dtype, net.shape(0, 2), low, depth - 1, tame=True, keep=False)
    places = net.keep(Value(places.name, np.rint(places.array.astype(np.float64)).astype(to_numpy(dtype)), places.constant))
    values = net.fresh(net.one_of(["f32", "i64", "f64", "i32"]), (2,))
    net.node(op_type, places, np.array(depth, np.int64), values, axis=net.axis(places.rank + 1))


@operator("Shape", "Size")
def sizes(net: Net, op_type: str) -> None:
    x = net.pick(ANY)
    bounds = {"start": net.r.choice([None, net.r.integer(-3, 3)]), "end": net.r.choice([None, net.r.integer(-3, 3)])}
    net.node(op_type, x, **(bounds if op_type == "Shape" and net.opset >= 15 else {}))


@operator("Range")
def arange(net: Net, op_type: str) -> None:
    dtype = net.dtype(op_type)
    start, limit, delta = (np.array(v).astype(to_numpy(dtype)) for v in (net.r.integer(-5, 5), net.r.integer(-9, 9), net.r.choice([-3, -1, 1, 2])))
    net.node(op_type, start, limit, delta)


@operator("ConstantOfShape", "Constant")
def constants(net: Net, op_type: str) -> None:
    value = net.fresh(net.one_of(ANY), (1,) if op_type == "ConstantOfShape" else net.shape(), keep=False).array
    if op_type == "Constant":
        net.node(op_type, value=value)
    else:
        net.node(op_type, ints(*net.shape()), value=value)


@operator("CenterCropPad")
def center(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 1)
    axes = [a for a in net.r.permutation(x.rank) if net.r.boolean()] or [0]
    net.node(op_type, x, ints(*net.r.integers(len(axes), 1, 8)), axes=list(axes))
