"""The pass that decides where data is channel-blocked, and carries that layout from convolution to convolution."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import is_float, to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.elementwise import AddOp, ClampOp, LeakyReluOp, MaximumOp, MinimumOp, MulOp, ReluOp, SubOp
from stepwell.passes.framework.registry import Pass, PassState, register_pass, vector_bits
from stepwell.passes.framework.rewriting import find_function
from stepwell.passes.graph.layout.channel_layouts import FILLING, for_readers, groups_of, in_order, natural, stretches, take, used_lanes
from stepwell.passes.graph.layout.channel_readers import channel_shuffle, is_depthwise, readers
from stepwell.passes.graph.matching import deferred_weight, is_elementwise, new_weight, stored

FEW_CHANNELS = 4  # a plain image with no more channels is read as it is
MOST_STRETCHES = 64  # a reordering in more pieces than this is not worth its code
# Of these, the lanes that hold no channel stay finite, whatever is in them; their weights are zero.
FINITE = (AddOp, ClampOp, LeakyReluOp, MaximumOp, MinimumOp, MulOp, ReluOp, SubOp)


@dataclass(frozen=True)
class Form:
    """A blocked value, and the channel in each of its lanes (see channel_layouts)."""

    value: ir.Value
    slots: np.ndarray


@register_pass("block-channels", level="graph", optional=True, techniques={"unmasked-lanes": "mask=true"}, relaxed=("unmasked-lanes",))
@dataclass
class BlockChannels(Pass):
    """Keep images channel-blocked, (N, C / b, spatial…, b), from one convolution to the next.

    rewrite: conv(x, w)               -> unpack(blocked_conv(pack(x), w packed now))
    rewrite: conv(x, w) by channel    -> unpack(blocked_depthwise_conv(x', w packed now))      where x = unpack(x')
    rewrite: f(unpack(x'), …)         -> unpack(f(x', …))      for element-wise ops, poolings, pads, reductions, concatenations, lrn
    rewrite: shuffle(unpack(x'))      -> unpack(x')            for a permutation of channels

    pack and unpack are a reshape and a transpose, and are not needed where blocked values meet. Which channel lies in which lane is known
    here and nowhere else: weights are packed for it, so that a permutation of channels moves no data. Lanes that hold no channel
    have weights of zero, so what is in them does not matter as long as it is finite. It is where the data are: 0 times an infinity is NaN, which
    a clip leaves, although it makes a finite number of the infinity, and which all that read the block then get. With `mask` these lanes
    are kept at zero.

    rewrite: blocked_conv(x, w)       -> masked(blocked_conv(x, w), 1 or 0 for each lane)      with `mask`, where lanes hold no channel

    The filters of a convolution whose result goes on to one in groups are put into such an order that each group finds its
    channels in neighbouring lanes. Where one layout cannot serve two ops, `reblock` moves channels between lanes.
    """

    block: int = 0  # channels in a block; 0 for the lanes of the target's vectors
    mask: bool = False  # whether lanes that hold no channel are kept at zero, whatever the data are

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        operations = [o.operation for o in main.regions[0].blocks[0].operations]
        forms: dict[ir.Value, Form] = {}
        for operation, read_by in zip(operations, readers(operations), strict=True):
            rule = _RULES.get(operation.name) or (_elementwise if operation.name.startswith("graph.") and is_elementwise(operation.opview) else None)
            if rule is None or len(operation.results) != 1 or not all(t.is_static for t in operation.opview.result_types()):
                continue
            dtype = type_of(operation.results[0]).dtype
            block = self.block or vector_bits(state.target) // (8 * to_numpy(dtype).itemsize)
            layout = _Layout(state, block, self.mask, forms, read_by)
            with ir.InsertionPoint(operation), operation.location:
                form = rule(operation.opview, layout)
                if form is None:
                    continue
                if rule is _shuffle:  # nothing is computed: who wants the plain form does what was there
                    forms[operation.results[0]] = form
                    continue
                plain = layout.unpack(form)
            forms[plain] = form
            operation.results[0].replace_all_uses_with(plain)
            operation.erase()
            state.count(self.name)


class _Layout(GraphBuilder):
    """Builds packed and unpacked forms of values."""

    def __init__(self, state: PassState, block: int, mask: bool, forms: dict[ir.Value, Form], read_by: np.ndarray | None) -> None:
        super().__init__(state.weights)
        self.block = block
        self.mask = mask
        self.forms = forms
        self.read_by = read_by  # for each channel of the op's result, the group of a later convolution that reads it

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The array that `value` is known to hold."""
        return stored(value, self.weights)

    def packed(self, value: ir.Value) -> Form | None:
        """The blocked form of `value`, if it has one."""
        return self.forms.get(value)

    def pack(self, value: ir.Value) -> Form:
        """The blocked form of `value` (N, C, spatial…): the one that it has, or one with its channels in order."""
        return self.packed(value) or self._pack(value, in_order(type_of(value).static_shape[1], self.block, self.block))

    def pack_as(self, value: ir.Value, slots: np.ndarray) -> Form | None:
        """`value` blocked with its channels in these lanes; None if that takes too many pieces."""
        form = self.packed(value)
        if form is None and used_lanes(slots) is not None:
            return self._pack(value, slots)
        if form is not None and np.array_equal(form.slots, slots):
            return form
        return self.reblocked([form or self.pack(value)], slots)

    def reblocked(self, forms: Sequence[Form], slots: np.ndarray) -> Form | None:
        """Blocked values, whose channels count on from each other, in these lanes; None if that takes too many pieces."""
        starts, sizes = stretches([f.slots for f in forms], slots)
        if len(starts) > MOST_STRETCHES:
            return None
        return Form(self.reblock([f.value for f in forms], starts=starts, sizes=sizes, block=slots.shape[1]), slots)

    def cleaned(self, value: ir.Value, slots: np.ndarray) -> Form:
        """The form of a blocked value in whose lanes without a channel anything may be: with `mask` they become zero."""
        if not self.mask or not np.any(slots == FILLING):
            return Form(value, slots)
        tensor = type_of(value)
        held = (slots != FILLING).reshape(slots.shape[0], *[1] * (tensor.rank - 3), slots.shape[1])
        return Form(self.masked(value, self.literal(held.astype(to_numpy(tensor.dtype)))), slots)

    def _pack(self, value: ir.Value, slots: np.ndarray) -> Form:
        shape, (blocks, lanes), used = type_of(value).static_shape, slots.shape, used_lanes(slots) or slots.shape[1]
        value = self._filled(value, 1, blocks * used)
        value = self.reshape(value, shape=[shape[0], blocks, used, *shape[2:]])
        return Form(self._filled(self.transpose(value, perm=[0, 1, *range(3, len(shape) + 1), 2]), len(shape), lanes), slots)

    def _filled(self, value: ir.Value, axis: int, size: int) -> ir.Value:
        """`value` with zeros at the end of `axis`."""
        shape = type_of(value).static_shape
        high = [size - have if i == axis else 0 for i, have in enumerate(shape)]
        filled: ir.Value = self.pad(value, low=[0] * len(shape), high=high, mode="constant", value=0.0) if any(high) else value
        return filled

    def unpack(self, form: Form) -> ir.Value:
        """A blocked value as (N, C, spatial…)."""
        (images, _, *places, _), channels = type_of(form.value).static_shape, int(form.slots.max()) + 1
        used = used_lanes(form.slots)
        value = form.value if used is None else self._first(form.value, len(places) + 2, used)
        value = self.transpose(value, perm=[0, 1, len(places) + 2, *range(2, len(places) + 2)])
        value = self.reshape(value, shape=[images, -1, *places])
        if used is not None:
            return self._first(value, 1, channels)
        lanes = np.flatnonzero(form.slots.ravel() >= 0)
        order = lanes[np.argsort(form.slots.ravel()[lanes])]
        plain: ir.Value = self.gather(value, self.literal(order.astype(np.int64)), axis=1)
        return plain

    def _first(self, value: ir.Value, axis: int, size: int) -> ir.Value:
        """The first `size` elements of `value` along `axis`."""
        shape = type_of(value).static_shape
        sizes = [size if i == axis else have for i, have in enumerate(shape)]
        first: ir.Value = self.slice(value, starts=[0] * len(shape), sizes=sizes, steps=[1] * len(shape)) if sizes != list(shape) else value
        return first

    def weights_of(self, source: ir.Value, array: np.ndarray) -> ir.Value:
        """A weight computed from the one that `source` names."""
        return new_weight(self, source, np.ascontiguousarray(array))


def _conv(op: Any, b: _Layout) -> Form | None:
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


def _image_for_groups(value: ir.Value, group: int, b: _Layout) -> Form | None:
    """`value` blocked such that each group of a convolution finds its channels."""
    form = b.packed(value)
    if form is not None and groups_of(form.slots, group) is not None:
        return form
    return b.pack_as(value, natural(type_of(value).static_shape[1], group, b.block))


def _shuffle(op: Any, b: _Layout) -> Form | None:
    shuffle = channel_shuffle(op)
    form = None if shuffle is None else b.packed(shuffle[0])
    if shuffle is None or form is None:
        return None
    return Form(form.value, np.where(form.slots == FILLING, FILLING, np.argsort(shuffle[1])[form.slots]))


def _pool(op: Any, b: _Layout) -> Form | None:
    image = b.packed(op.x)
    return None if image is None else Form(getattr(b, op.mnemonic())(image.value, **op.attribute_values()), image.slots)


def _lrn(op: Any, b: _Layout) -> Form | None:
    if b.packed(op.x) is None:
        return None
    channels = type_of(op.x).static_shape[1]
    slots = in_order(channels, b.block, b.block)
    image = b.pack_as(op.x, slots)  # neighbours must lie side by side
    return None if image is None else Form(b.blocked_lrn(image.value, channels=channels, **op.attribute_values()), slots)


def _pad(op: Any, b: _Layout) -> Form | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or values["mode"] != "constant" or values["low"][1] or values["high"][1]:
        return None
    padded = b.pad(image.value, low=[*values["low"], 0], high=[*values["high"], 0], mode="constant", value=values["value"])
    return Form(padded, image.slots)


def _reduce(op: Any, b: _Layout) -> Form | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or not values["keepdims"] or 1 in values["axes"] or not values["axes"]:
        return None
    return Form(getattr(b, op.mnemonic())(image.value, **values), image.slots)


def _concat(op: Any, b: _Layout) -> Form | None:
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


def _elementwise(op: Any, b: _Layout) -> Form | None:
    shape = type_of(op.operation.results[0]).static_shape
    operands = list(op.operation.operands)
    whole = [b.packed(v) for v in operands if type_of(v).shape == shape]
    slots = next((form.slots for form in whole if form is not None), None)
    if len(shape) < 3 or slots is None or (np.any(slots == FILLING) and not isinstance(op, FINITE)):
        return None
    makers = [_operand(v, shape, slots, b) for v in operands]
    if any(make is None for make in makers):
        return None
    values = [make() for make in makers if make is not None]
    if any(v is None for v in values):
        return None
    made = getattr(b, op.mnemonic())(*values, **op.attribute_values())
    return Form(made, slots) if len(values) == 1 else b.cleaned(made, slots)  # of one operand, zero gives a finite number


def _operand(value: ir.Value, shape: tuple[int, ...], slots: np.ndarray, b: _Layout) -> Callable[[], ir.Value | None] | None:
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


_RULES: dict[str, Callable[[Any, _Layout], Form | None]] = {
    "graph.conv": _conv, "graph.max_pool": _pool, "graph.avg_pool": _pool, "graph.lrn": _lrn, "graph.pad": _pad, "graph.concat": _concat,
    "graph.reshape": _shuffle,
    "graph.reduce_sum": _reduce, "graph.reduce_max": _reduce, "graph.reduce_min": _reduce,
}  # fmt: skip
