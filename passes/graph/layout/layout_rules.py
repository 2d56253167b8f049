"""How the channel-blocked layout goes through our ops; element-wise ones, a plugin's too, have one rule."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.graph import AvgPoolOp, ConcatOp, ConvOp, LrnOp, MaxPoolOp, PadOp, ReduceMaxOp, ReduceMinOp, ReduceSumOp, ReshapeOp
from stepwell.dialects.graph.traits import KeepsFinite
from stepwell.passes.graph.layout.channel_blocks import Form, Layout, layout_rule
from stepwell.passes.graph.layout.channel_layouts import FILLING, for_readers, groups_of, in_order, natural, take
from stepwell.passes.graph.layout.channel_readers import channel_shuffle, is_depthwise
from stepwell.passes.graph.matching import deferred_weight

FEW_CHANNELS = 4  # a plain image with no more channels is read as it is


@layout_rule(ConvOp)
def _conv(op: Any, b: Layout) -> Form | None:
    values, x, result = op.attribute_values(), type_of(op.x), type_of(op.result)
    weights = b.known(op.w)
    if weights is None or any(values["pads"]) or not is_float(x.dtype) or not x.is_static:
        return None
    attributes = {"strides": values["strides"], "dilations": values["dilations"]}
    if is_depthwise(op):
        image = b.packed(op.x)
        if image is None:
            return None
        by_lane = np.moveaxis(take(weights[:, 0], 0, image.slots), 1, -1)
        return Form(b.blocked_depthwise_conv(image.value, b.weights_of(op.w, by_lane), **attributes), image.slots)
    group, filters, channels = values["group"], weights.shape[0], x.static_shape[1]
    # Lanes of which more than half are filling waste more than the layout gains; a single position is a matrix-vector product.
    if natural(filters, group, b.block).size > 2 * filters or all(n == 1 for n in result.shape[2:]):
        return None
    slots = for_readers(filters, group, b.block, b.read_by)
    if group == 1 and channels <= FEW_CHANNELS and b.packed(op.x) is None:
        shape = (slots.shape[0], *weights.shape[1:], slots.shape[1])
        plain = deferred_weight(b, op.w, shape, lambda: [np.moveaxis(take(weights, 0, slots), 1, -1)])
        return b.cleaned(b.blocked_conv(op.x, plain, **attributes, group=1), slots)
    image = _image_for_groups(op.x, group, b)
    if image is None:
        return None
    dealt = groups_of(image.slots, group)
    assert dealt is not None
    members = np.where(dealt == FILLING, FILLING, dealt % (channels // group))  # in each group channels count from 0
    shape = (slots.shape[0], members.shape[1], *weights.shape[2:], members.shape[2], slots.shape[1])
    packed = deferred_weight(b, op.w, shape, lambda: _packed(weights, slots, members))
    return b.cleaned(b.blocked_conv(image.value, packed, **attributes, group=group), slots)


def _packed(weights: np.ndarray, slots: np.ndarray, members: np.ndarray) -> Iterator[np.ndarray]:
    """Filters (M, C of a group, taps…) as (M / b, K, taps…, s, b), group by group: with their output channels as `slots` has them, and their
    input channels as `members` has them, for each group (K, s)."""
    per_group = take(weights, 0, slots).reshape(len(members), -1, slots.shape[1], *weights.shape[1:])
    for part, mine in zip(per_group, members, strict=True):  # (M / b, b, C, taps…) -> (M / b, b, K, s, taps…)
        yield np.moveaxis(np.moveaxis(take(part, 2, mine), 3, -1), 1, -1)


def _image_for_groups(value: ir.Value, group: int, b: Layout) -> Form | None:
    """`value` blocked such that each group of a convolution finds its channels."""
    form = b.packed(value)
    if form is not None and groups_of(form.slots, group) is not None:
        return form
    return b.pack_as(value, natural(type_of(value).static_shape[1], group, b.block))


@layout_rule(ReshapeOp)
def _shuffle(op: Any, b: Layout) -> Form | None:
    moved = channel_shuffle(op)
    form = None if moved is None else b.packed(moved[0])
    if moved is None or form is None:
        return None
    return Form(form.value, np.where(form.slots == FILLING, FILLING, np.argsort(moved[1])[form.slots]))


@layout_rule(MaxPoolOp, AvgPoolOp)
def _pool(op: Any, b: Layout) -> Form | None:
    image = b.packed(op.x)
    return None if image is None else Form(b.build(type(op), image.value, **op.attribute_values()), image.slots)


@layout_rule(LrnOp)
def _lrn(op: Any, b: Layout) -> Form | None:
    if b.packed(op.x) is None:
        return None
    channels = type_of(op.x).static_shape[1]
    slots = in_order(channels, b.block, b.block)
    image = b.pack_as(op.x, slots)  # neighbours must lie side by side
    return None if image is None else Form(b.blocked_lrn(image.value, channels=channels, **op.attribute_values()), slots)


@layout_rule(PadOp)
def _pad(op: Any, b: Layout) -> Form | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or values["mode"] != "constant" or values["low"][1] or values["high"][1]:
        return None
    padded = b.pad(image.value, low=[*values["low"], 0], high=[*values["high"], 0], mode="constant", value=values["value"])
    return Form(padded, image.slots)


@layout_rule(ReduceSumOp, ReduceMaxOp, ReduceMinOp)
def _reduce(op: Any, b: Layout) -> Form | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or not values["keepdims"] or 1 in values["axes"] or not values["axes"]:
        return None
    return Form(b.build(type(op), image.value, **values), image.slots)


@layout_rule(ConcatOp)
def _concat(op: Any, b: Layout) -> Form | None:
    inputs = list(op.inputs)
    if op.attribute_values()["axis"] != 1 or all(b.packed(v) is None for v in inputs):
        return None
    channels = type_of(op.result).static_shape[1]
    if b.read_by is not None:
        # Laid out as what the reading convolution gives, for the two are often added up.
        wanted = natural(channels, int(b.read_by.max()) + 1, b.block)
        joined = _joined([b.packed(v) for v in inputs])
        if joined is None or not np.array_equal(joined, wanted):
            return b.reblocked([b.pack(v) for v in inputs], wanted)
    elif any(type_of(v).static_shape[1] % b.block for v in inputs):
        return None
    forms = [b.pack(v) for v in inputs]
    joined = _joined(forms)
    return None if joined is None else Form(b.concat([f.value for f in forms], axis=1), joined)


def _joined(forms: Sequence[Form | None]) -> np.ndarray | None:
    """The layout of blocked values joined block after block; None if one is not blocked or their blocks are of several sizes."""
    slots = [form.slots for form in forms if form is not None]
    if len(slots) < len(forms) or len({s.shape[1] for s in slots}) > 1:
        return None
    offsets = np.cumsum([0, *(int(s.max()) + 1 for s in slots)])
    return np.concatenate([np.where(s == FILLING, FILLING, s + offset) for s, offset in zip(slots, offsets, strict=False)])


def elementwise(op: Any, b: Layout) -> Form | None:
    """The rule of element-wise ops: on blocked data if an operand is, and if what fills the blocks stays finite."""
    shape = type_of(op.operation.results[0]).static_shape
    operands = list(op.operation.operands)
    whole = [b.packed(v) for v in operands if type_of(v).shape == shape]
    slots = next((form.slots for form in whole if form is not None), None)
    if len(shape) < 3 or slots is None or (np.any(slots == FILLING) and not op.has_trait(KeepsFinite)):
        return None
    makers = [_operand(v, shape, slots, b) for v in operands]
    if any(make is None for make in makers):
        return None
    values = [make() for make in makers if make is not None]
    if any(v is None for v in values):
        return None
    made = b.build(type(op), *values, **op.attribute_values())
    return Form(made, slots) if len(values) == 1 else b.cleaned(made, slots)  # of one operand, zero gives a finite number


def _operand(value: ir.Value, shape: tuple[int, ...], slots: np.ndarray, b: Layout) -> Callable[[], ir.Value | None] | None:
    """How to make the form in which an element-wise op on blocked data of plain `shape` takes this operand; None if there is none."""

    def as_blocked() -> ir.Value | None:
        form = b.pack_as(value, slots)
        return None if form is None else form.value

    own = type_of(value)
    if own.shape == shape:
        return as_blocked
    if own.elements == 1 and own.rank <= len(shape):
        return lambda: value
    aligned = (1,) * (len(shape) - own.rank) + own.static_shape
    if len(aligned) > len(shape) or aligned[1] not in (1, shape[1]):
        return None
    if aligned[1] == 1:
        return lambda: b.reshape(value, shape=[*aligned, 1])
    array = b.known(value)
    if array is None:
        return as_blocked if own.rank == len(shape) else None
    packed = np.moveaxis(take(array.reshape(aligned), 1, slots), 2, -1)
    return lambda: b.weights_of(value, packed)
