"""The pass that removes ops that change nothing, and merges consecutive ops that only move data."""

import math

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import is_static
from stepwell.dialects.core.types import TensorType, dtype_info, is_compact, type_of
from stepwell.passes.framework.registry import register_pass
from stepwell.passes.framework.rewriting import NoMatch, PatternPass, Rewriter, expect, pattern
from stepwell.passes.graph.matching import for_each, keeps_type, producer, splat_of


@pattern(graph.CastOp)
def drop_cast(op: graph.CastOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: cast(x) -> x  where x has that element type already   exact"""
    return op.x if op.x.type == op.result.type else NoMatch("it changes the element type")


@pattern(graph.CastOp)
def drop_cast_pair(op: graph.CastOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: cast(cast(x, to wider), to the type of x) -> x  where the wider type holds every value of the narrower one   exact"""
    inner = expect(producer(op.x, "cast"), "its operand is not a cast")
    if inner.x.type != op.result.type:
        return NoMatch("the pair of casts does not come back to the first type")
    if not dtype_info(type_of(op.x).dtype).holds(dtype_info(type_of(inner.x).dtype)):
        return NoMatch("the first of the two casts may lose something")
    if dtype_info(type_of(op.result).dtype).has_infinity and is_compact(type_of(op.result).dtype) and op.attribute_values()["saturate"]:
        return NoMatch("the second of the two casts makes infinities finite")
    return inner.x


@pattern(graph.SelectOp)
def drop_select(op: graph.SelectOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: select(all true, a, b) -> a;  select(all false, a, b) -> b   where that has the type of the result   exact"""
    condition = expect(splat_of(op.cond, rw), "its condition is not known to be the same everywhere")
    chosen: ir.Value = op.a if condition else op.b
    return chosen if keeps_type(op, chosen) else NoMatch("the operand that it chooses is broadcast")


@pattern(graph.ReshapeOp)
def drop_reshape(op: graph.ReshapeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: reshape(x) -> x  where the shape is that of x (with one unknown size it must be the same one: all else is equal)   exact"""
    if op.x.type != op.result.type:
        return NoMatch("it changes the shape")
    if type_of(op.x).shape.count(None) > 1:
        return NoMatch("two or more sizes are unknown and may move")
    return op.x


@pattern(graph.ReshapeOp)
def merge_reshapes(op: graph.ReshapeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: reshape(reshape(x)) -> reshape(x)   exact"""
    inner = expect(producer(op.x, "reshape", "dynamic_reshape"), "its operand is not a reshape")
    return reshape_to(rw, inner.x, type_of(op.result))


@pattern(graph.TransposeOp)
def drop_transpose(op: graph.TransposeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: transpose(x, perm=[0, 1, …]) -> x   exact"""
    perm = op.attribute_values()["perm"]
    return op.x if perm == tuple(range(len(perm))) else NoMatch("it moves dimensions")


@pattern(graph.TransposeOp)
def merge_transposes(op: graph.TransposeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: transpose(transpose(x, p), q) -> transpose(x, [p[i] for i in q])   exact"""
    inner = expect(producer(op.x, "transpose"), "its operand is not a transposition")
    first = inner.attribute_values()["perm"]
    return rw.transpose(inner.x, perm=tuple(first[i] for i in op.attribute_values()["perm"]))


@pattern(graph.TransposeOp)
def reshape_for_transpose(op: graph.TransposeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: transpose(x) -> reshape(x)  where only dimensions of size 1 change places: no data moves   exact"""
    x, perm = type_of(op.x), op.attribute_values()["perm"]
    moved = [p for p in perm if x.shape[p] != 1]
    if moved != sorted(moved) or perm == tuple(range(x.rank)):
        return NoMatch("it moves data, or nothing at all")
    return reshape_to(rw, op.x, type_of(op.result))


@pattern(graph.SliceOp)
def drop_slice(op: graph.SliceOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: slice(x) -> x  where it takes everything   exact"""
    a = op.attribute_values()
    whole = all(
        start == 0 and step == 1 and (size == -1 or size == have)
        for start, step, size, have in zip(a["starts"], a["steps"], a["sizes"], type_of(op.x).shape, strict=True)
    )
    return op.x if whole else NoMatch("it leaves something out or changes the order")


@pattern(graph.SliceOp)
def merge_slices(op: graph.SliceOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: slice(slice(x)) -> slice(x)  with starts s1 + s2 * step1 and steps step1 * step2   exact"""
    inner = expect(producer(op.x, "slice"), "its operand is not a slice")
    first, second = inner.attribute_values(), op.attribute_values()
    numbers = (*first["starts"], *second["starts"], *second["sizes"])
    if not is_static(numbers) or -1 in second["sizes"] or 0 in second["sizes"] or not type_of(inner.x).is_static:
        return NoMatch("its sizes are not known, or it is empty")
    starts = tuple(s1 + s2 * step for s1, s2, step in zip(first["starts"], second["starts"], first["steps"], strict=True))
    steps = tuple(a * b for a, b in zip(first["steps"], second["steps"], strict=True))
    return rw.slice(inner.x, starts=starts, sizes=second["sizes"], steps=steps)


@pattern(graph.PadOp)
def drop_pad(op: graph.PadOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: pad(x, 0, 0) -> x   exact"""
    a = op.attribute_values()
    return NoMatch("it adds something") if any(n != 0 for n in (*a["low"], *a["high"])) else op.x


@pattern(graph.PadOp)
def merge_pads(op: graph.PadOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: pad(pad(x, l1, h1), l2, h2) -> pad(x, l1 + l2, h1 + h2)  for one constant value   exact"""
    inner = expect(producer(op.x, "pad"), "its operand is not a pad")
    first, second = inner.attribute_values(), op.attribute_values()
    if (first["mode"], second["mode"]) != ("constant", "constant") or not same_number(first["value"], second["value"]):
        return NoMatch("the two pads fill with different things")
    low, high = (tuple(a + b for a, b in zip(first[side], second[side], strict=True)) for side in ("low", "high"))
    return rw.pad(inner.x, low=low, high=high, mode="constant", value=second["value"])


@pattern(graph.ExpandOp)
def drop_expand(op: graph.ExpandOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: expand(x) -> x  where the shape is that of x   exact"""
    if op.x.type != op.result.type:
        return NoMatch("it changes the shape")
    if not type_of(op.x).is_static and any(s != -1 for s, d in zip(op.attribute_values()["shape"], type_of(op.x).shape, strict=True) if d is None):
        return NoMatch("an unknown size may be 1")
    return op.x


@pattern(graph.ExpandOp)
def reshape_for_expand(op: graph.ExpandOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: expand(x) -> reshape(x)  where it only adds dimensions of size 1   exact"""
    x, result = type_of(op.x), type_of(op.result)
    if x.size is None or x == result or x.size != result.size:
        return NoMatch("it repeats data, or changes nothing")
    return reshape_to(rw, op.x, result)


@pattern(graph.TileOp)
def drop_tile(op: graph.TileOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: tile(x, [1, 1, …]) -> x   exact"""
    return op.x if set(op.attribute_values()["repeats"]) <= {1} else NoMatch("it repeats something")


@pattern(graph.ConcatOp)
def drop_empty_operands(op: graph.ConcatOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: concat(x, …, y of no elements along the axis, …) -> concat(x, …), and concat(x) -> x   exact"""
    axis, inputs = op.attribute_values()["axis"], list(op.inputs)
    kept = [v for v in inputs if type_of(v).shape[axis] != 0] or inputs[:1]
    if len(kept) == 1:
        return kept[0]
    return rw.concat(kept, axis=axis) if len(kept) < len(inputs) else NoMatch("no operand is empty")


@pattern(graph.ClampOp)
def drop_clamp(op: graph.ClampOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: clamp(x, -inf, inf) -> x   exact"""
    a = op.attribute_values()
    return op.x if (a["min"], a["max"]) == (-math.inf, math.inf) else NoMatch("it has a bound")


@for_each((graph.ReduceSumOp, graph.ReduceProdOp, graph.ReduceMaxOp, graph.ReduceMinOp))
def reshape_for_reduction(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: reduce(x) -> reshape(x)  where every reduced dimension has size 1, or none is reduced   exact"""
    x = type_of(op.x)
    if any(x.shape[axis] != 1 for axis in op.attribute_values()["axes"]):
        return NoMatch("it reduces more than one element")
    value: ir.Value = op.x
    return reshape_to(rw, value, type_of(op.result)) if op.x.type != op.result.type else value


@for_each((graph.MaxPoolOp, graph.AvgPoolOp))
def drop_pooling(op: ir.OpView, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: pool(x, 1x1 window, steps of 1, no padding) -> x   exact"""
    a = op.attribute_values()
    if set(a["kernel"]) | set(a["strides"]) != {1} or any(a["pads"]):
        return NoMatch("its windows have more than one element, or skip or add some")
    return op.x


@pattern(graph.ResizeOp)
def drop_resize(op: graph.ResizeOp, rw: Rewriter) -> ir.Value | NoMatch:
    """rewrite: resize(x) -> x  where no size and no scale changes, and coordinates are those of x   exact"""
    a = op.attribute_values()
    if op.x.type != op.result.type or not type_of(op.x).is_static or any(s != 1.0 for s in a["scales"]):
        return NoMatch("it changes a size")
    return NoMatch("it crops") if a["coordinates"] == "tf_crop_and_resize" else op.x


def same_number(a: float, b: float) -> bool:
    """Equality of floats in which NaN equals itself and the zeros differ."""
    return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (math.isnan(a) and math.isnan(b))


def reshape_to(rw: Rewriter, x: ir.Value, wanted: TensorType) -> ir.Value | NoMatch:
    """`x` reshaped to exactly that type, or why no reshape can do it."""
    if wanted.shape.count(None) > int(None in type_of(x).shape):
        return NoMatch("more sizes are unknown than a reshape can leave open")
    return rw.reshape(x, shape=tuple(-1 if d is None else d for d in wanted.shape))


@register_pass("remove-identities", level="graph")
class RemoveIdentities(PatternPass):
    """Remove casts, reshapes, transpositions, slices, pads, expansions and the like that change nothing; merge consecutive ones."""

    patterns = (
        drop_cast, drop_cast_pair, drop_reshape, merge_reshapes, drop_transpose, merge_transposes, reshape_for_transpose, drop_slice,
        merge_slices, drop_pad, merge_pads, drop_expand, reshape_for_expand, drop_tile, drop_empty_operands, drop_clamp, drop_select,
        *reshape_for_reduction, *drop_pooling, drop_resize,
    )  # fmt: skip
