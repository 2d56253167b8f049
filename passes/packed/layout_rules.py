"""Layout rules of our ops, and the common rule of all element-wise ops, including those of plugins."""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, is_static, static_sizes
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.graph.traits import Elementwise, KeepsFinite, Pools
from stepwell.dialects.packed import PackedConvOp, PackedDepthwiseConvOp, PackedLrnOp
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.graph.integer_products import fastest, holds, kind_of, widened
from stepwell.passes.graph.matching import deferred_weight, with_operands
from stepwell.passes.packed.channel_blocks import BlockedValue, Layout, channels_of, layout_rule
from stepwell.passes.packed.channel_layouts import FILLING, for_readers, groups_of, in_order, natural, take
from stepwell.passes.packed.channel_readers import channel_shuffle

FEW_PLACES = 64
"""The most positions of an image at which depthwise filters in bytes stay bytes and are widened on each read."""
FEW_CHANNELS = 4
"""The most channels of an image that a convolution reads in the plain layout."""
PLAIN = "what it reads is not channel-blocked"


@layout_rule(graph.ConvOp)
def _conv(op: Any, b: Layout) -> BlockedValue | NoMatch:
    values, x = op.attribute_values(), type_of(op.x)
    cast_w = widened(op.w)
    weights = expect(b.known(op.w if cast_w is None else cast_w.x), "its filters are not known")
    if any(values["pads"]):
        return NoMatch("it pads its image itself (see make-padding-explicit)")
    if not is_static(x.shape[1:2]):
        return NoMatch(f"its image, {x}, has an unknown number of channels")
    attributes = {"strides": values["strides"], "dilations": values["dilations"]}
    if not is_float(x.dtype) or cast_w is not None:
        return _conv_of_narrow(op, weights, attributes, b)
    if op.is_depthwise():
        image = expect(b.packed(op.x), f"it works by channel, and {PLAIN}")
        by_lane = np.moveaxis(take(weights[:, 0], 0, image.lanes), 1, -1)
        return BlockedValue(b.build(PackedDepthwiseConvOp, image.value, _taps(op, by_lane, b), **attributes), image.lanes)
    group, channels = values["group"], channels_of(op.x)
    lanes = _lanes_of_result(op, len(weights), b)
    if group == 1 and channels <= FEW_CHANNELS and b.packed(op.x) is None:
        shape = (lanes.shape[0], *weights.shape[1:], lanes.shape[1])
        plain = deferred_weight(b, op.w, shape, lambda: [np.moveaxis(take(weights, 0, lanes), 1, -1)])
        return b.cleaned(b.build(PackedConvOp, op.x, plain, **attributes, group=1), lanes)
    grouped = _image_for_groups(op.x, channels, group, b.packed(op.x), b)
    dealt = groups_of(grouped.lanes, group)
    assert dealt is not None
    members = np.where(dealt == FILLING, FILLING, dealt % (channels // group))  # in each group channels count from 0
    shape = (lanes.shape[0], members.shape[1], *weights.shape[2:], members.shape[2], lanes.shape[1])
    packed = deferred_weight(b, op.w, shape, lambda: _packed(weights, lanes, members))
    return b.cleaned(b.build(PackedConvOp, grouped.value, packed, **attributes, group=group), lanes)


def _lanes_of_result(op: Any, filters: int, b: Layout) -> np.ndarray:
    """The layout of a convolution's result. Raises NoMatch if it does not pay."""
    group = op.attribute_values()["group"]
    # If more than half of the lanes are filling, the layout costs more than it saves; a single position is a matrix-vector product.
    lanes = natural(filters, group, b.block)
    if lanes.size > 2 * filters:
        raise NoMatch(f"{filters} filters in {group} groups would leave most of {lanes.size} lanes empty")
    if all(n == 1 for n in type_of(op.result).shape[2:]):
        raise NoMatch("its result has one position: it is a product of a matrix with a vector")
    if b.read_by is not None:
        with b.state.attempt("order-for-readers", op):
            return for_readers(filters, group, b.block, b.read_by)
    return lanes


def _taps(op: graph.ConvOp, by_lane: np.ndarray, b: Layout) -> ir.Value:
    """The filters of a convolution by channel: in its compute type, or, if they are bytes and read at few positions, widened bytes."""
    places = type_of(op.operation.results[0]).shape[2:]
    few = is_static(places) and prod(static_sizes(places)) <= FEW_PLACES
    if not few or not np.array_equal(by_lane, np.rint(by_lane)) or not holds("i8", by_lane.min(), by_lane.max()):
        return b.weights_of(op.w, by_lane)
    return b.cast(b.weights_of(op.w, by_lane.astype(np.int8)), to=type_of(op.w).dtype, saturate=True)


def _conv_of_narrow(op: Any, weights: np.ndarray, attributes: dict[str, Any], b: Layout) -> BlockedValue | NoMatch:
    """A convolution of narrow integers (see `narrow-products`) or bf16, whose weights are stored in groups for a dot product of the target."""
    there, cast_w, group = b.packed(op.x), widened(op.w), op.attribute_values()["group"]
    cast_x = widened(op.x if there is None else there.value)
    kinds = [kind_of(type_of(cast.x).dtype) for cast in (cast_x, cast_w) if cast is not None]
    chosen = fastest(kinds[0], kinds[1], b.state.target) if len(kinds) == 2 else None
    if chosen is None:
        return NoMatch("it does not multiply narrow numbers for which the target has an instruction")
    if weights.shape[1] == 1:
        return NoMatch("its filters read one channel")
    lanes, channels = _lanes_of_result(op, len(weights), b), channels_of(op.x)
    source = b.packed(cast_x.x) if there is None else BlockedValue(cast_x.x, there.lanes)
    if group == 1 and channels <= FEW_CHANNELS and source is None:
        width = channels + -channels % chosen.depth
        image = b.pack_as(cast_x.x, in_order(channels, width, width))
    else:
        image = _image_for_groups(cast_x.x, channels, group, source, b)
    dealt = groups_of(image.lanes, group)
    assert dealt is not None
    members, depth = np.where(dealt == FILLING, FILLING, dealt % (channels // group)), chosen.depth
    filled = -members.shape[2] % depth  # lanes beyond those of a group, which may belong to the next one
    if filled and group > 1:
        return NoMatch(f"its groups do not fill vectors of {depth} lanes")
    members = np.pad(members, ((0, 0), (0, 0), (0, filled)), constant_values=FILLING)
    shape = (lanes.shape[0], members.shape[1], *weights.shape[2:], members.shape[2] // depth, lanes.shape[1], depth)
    packed = deferred_weight(b, cast_w.x, shape, lambda: (_in_depths(part, depth) for part in _packed(weights, lanes, members)))
    wide = [b.cast(value, to=type_of(op.result).dtype, saturate=True) for value in (image.value, packed)]
    return b.cleaned(b.build(PackedConvOp, *wide, **attributes, group=group), lanes)


def _in_depths(filters: np.ndarray, depth: int) -> np.ndarray:
    """Filters (…, s, b) as (…, s / depth, b, depth)."""
    *outer, lanes, block = filters.shape
    return np.ascontiguousarray(np.moveaxis(filters.reshape(*outer, lanes // depth, depth, block), -2, -1))


def _packed(weights: np.ndarray, lanes: np.ndarray, members: np.ndarray) -> Iterator[np.ndarray]:
    """Filters (M, C of a group, taps…) as (M / b, K, taps…, s, b), group by group: output channels ordered as in `lanes`, and input channels as
    in `members`, which has (K, s) for each group."""
    per_group = take(weights, 0, lanes).reshape(len(members), -1, lanes.shape[1], *weights.shape[1:])
    for part, mine in zip(per_group, members, strict=True):  # (M / b, b, C, taps…) -> (M / b, b, K, s, taps…)
        yield np.moveaxis(np.moveaxis(take(part, 2, mine), 3, -1), 1, -1)


def _image_for_groups(value: ir.Value, channels: int, group: int, image: BlockedValue | None, b: Layout) -> BlockedValue:
    """`value`, or the blocked `image` of it, in a layout in which each group of a convolution finds its channels."""
    if image is not None and groups_of(image.lanes, group) is not None:
        return image
    lanes = natural(channels, group, b.block)
    return b.pack_as(value, lanes) if image is None else b.in_lanes([image], lanes)


@layout_rule(graph.ReshapeOp)
def _shuffle(op: Any, b: Layout) -> BlockedValue | NoMatch:
    shuffled, order = channel_shuffle(op)
    image = expect(b.packed(shuffled), PLAIN)
    return BlockedValue(image.value, np.where(image.lanes == FILLING, FILLING, np.argsort(order)[image.lanes]))


@layout_rule(graph.PixelShuffleOp)
def _pixel_shuffle(op: Any, b: Layout) -> BlockedValue | NoMatch:
    expect(b.packed(op.x), PLAIN)
    values, channels = op.attribute_values(), channels_of(op.result)
    if channels // values["group"] % b.block:
        return NoMatch(f"the {channels // values['group']} channels of a phase do not fill whole blocks of {b.block}")
    image = b.pack_as(op.x, in_order(channels_of(op.x), b.block, b.block))
    return BlockedValue(b.pixel_shuffle(image.value, **values), in_order(channels, b.block, b.block))


@layout_rule(Pools)
def _pool(op: Any, b: Layout) -> BlockedValue | NoMatch:
    image = expect(b.packed(op.operation.operands[0]), PLAIN)
    return BlockedValue(with_operands(b, op.operation, [image.value]), image.lanes)


@layout_rule(graph.LrnOp)
def _lrn(op: Any, b: Layout) -> BlockedValue | NoMatch:
    expect(b.packed(op.x), PLAIN)
    channels = channels_of(op.x)
    lanes = in_order(channels, b.block, b.block)
    image = b.pack_as(op.x, lanes)  # neighbours must be contiguous
    return BlockedValue(b.build(PackedLrnOp, image.value, channels=channels, **op.attribute_values()), lanes)


@layout_rule(graph.PadOp)
def _pad(op: Any, b: Layout) -> BlockedValue | NoMatch:
    image, values = expect(b.packed(op.x), PLAIN), op.attribute_values()
    if values["mode"] != "constant" or values["low"][1] != 0 or values["high"][1] != 0:
        return NoMatch(f"it pads channels, or its mode, {values['mode']}, is not constant")
    padded = b.pad(image.value, low=[*values["low"], 0], high=[*values["high"], 0], mode="constant", value=values["value"])
    return BlockedValue(padded, image.lanes)


@layout_rule(graph.ReduceSumOp, graph.ReduceMaxOp, graph.ReduceMinOp)
def _reduce(op: Any, b: Layout) -> BlockedValue | NoMatch:
    image, values = expect(b.packed(op.x), PLAIN), op.attribute_values()
    if not values["keepdims"] or 1 in values["axes"] or not values["axes"]:
        return NoMatch("it reduces channels, or nothing, or drops the dimensions that it reduces")
    return BlockedValue(b.build(type(op), image.value, **values), image.lanes)


@layout_rule(graph.ConcatOp)
def _concat(op: Any, b: Layout) -> BlockedValue | NoMatch:
    inputs = list(op.inputs)
    if op.attribute_values()["axis"] != 1:
        return NoMatch("it does not join channels")
    if all(b.packed(v) is None for v in inputs):
        return NoMatch("nothing that it joins is channel-blocked")
    channels = channels_of(op.result)
    if b.read_by is not None:
        # Use the layout of the reading convolution's result, because the two are often added.
        wanted = natural(channels, int(b.read_by.max()) + 1, b.block)
        joined = _joined([b.packed(v) for v in inputs])
        if joined is None or not np.array_equal(joined, wanted):
            return b.in_lanes([b.pack(v) for v in inputs], wanted)
    elif any(channels_of(v) % b.block for v in inputs):
        return NoMatch(f"the channels of an operand do not fill whole blocks of {b.block}")
    images = [b.pack(v) for v in inputs]
    joined = expect(_joined(images), "its operands have blocks of several sizes")
    return BlockedValue(b.concat([f.value for f in images], axis=1), joined)


def _joined(images: Sequence[BlockedValue | None]) -> np.ndarray | None:
    """The layout of blocked values that are joined block after block; None if one is not blocked or their blocks differ in size."""
    lanes = [image.lanes for image in images if image is not None]
    if len(lanes) < len(images) or len({s.shape[1] for s in lanes}) > 1:
        return None
    offsets = np.cumsum([0, *(int(s.max()) + 1 for s in lanes)])
    return np.concatenate([np.where(s == FILLING, FILLING, s + offset) for s, offset in zip(lanes, offsets, strict=False)])


@layout_rule(Elementwise)
def elementwise(op: Any, b: Layout) -> BlockedValue | NoMatch:
    """The rule of element-wise ops: work on blocked data if an operand is blocked and the filling stays finite."""
    shape = type_of(op.operation.results[0]).shape
    operands = list(op.operation.operands)
    whole = [b.packed(v) for v in operands if type_of(v).shape == shape]
    lanes = next((image.lanes for image in whole if image is not None), None)
    if len(shape) < 3 or lanes is None:
        return NoMatch("none of its operands is channel-blocked and of the shape of its result")
    if np.any(lanes == FILLING) and not op.has_trait(KeepsFinite):
        return NoMatch("lanes are filled up with zeros, of which it may make an infinity or NaN (it does not state KeepsFinite)")
    makers = [_operand(v, shape, lanes, b) for v in operands]
    made = b.build(type(op), *(make() for make in makers), **op.attribute_values())
    return BlockedValue(made, lanes) if len(operands) == 1 else b.cleaned(made, lanes)  # with one operand, zero gives a finite number


def _operand(value: ir.Value, shape: tuple[Dim, ...], lanes: np.ndarray, b: Layout) -> Callable[[], ir.Value]:
    """A function that makes this operand fit an element-wise op on blocked data of plain `shape`. Raises NoMatch if nothing does."""

    def as_blocked() -> ir.Value:
        return b.pack_as(value, lanes).value

    own = type_of(value)
    if own.shape == shape:
        return as_blocked
    if own.size == 1 and own.rank <= len(shape):
        return lambda: value
    aligned = (1,) * (len(shape) - own.rank) + own.shape
    if len(aligned) > len(shape) or aligned[1] not in (1, shape[1]):
        raise NoMatch(f"an operand, {own}, does not broadcast to the channels of its result")
    if aligned[1] == 1:
        return lambda: b.reshape(value, shape=[*aligned, 1])
    array = b.known(value)
    if array is None:
        if own.rank == len(shape):
            return as_blocked
        raise NoMatch(f"an operand, {own}, is not known and has fewer dimensions than its result")
    packed = np.moveaxis(take(array.reshape((1,) * (len(shape) - own.rank) + array.shape), 1, lanes), 2, -1)
    return lambda: b.weights_of(value, packed)
