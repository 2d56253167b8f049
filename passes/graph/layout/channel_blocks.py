"""What rules of the channel-blocked layout are written with: blocked values, what builds them, and the registry of rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.support.extensions import extension
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.graph.layout.channel_layouts import FILLING, in_order, stretches, used_lanes
from stepwell.passes.graph.matching import new_weight, stored

MOST_STRETCHES = 64  # a reordering in more pieces than this is not worth its code


@dataclass(frozen=True)
class Form:
    """A blocked value, and the channel in each of its lanes (see channel_layouts)."""

    value: ir.Value
    slots: np.ndarray

    @property
    def held(self) -> np.ndarray | None:
        """1 for each lane that holds a channel and 0 for each that does not, in a shape that broadcasts to the value's; None if all hold one."""
        if not np.any(self.slots == FILLING):
            return None
        tensor = type_of(self.value)
        blocks, lanes = self.slots.shape
        return (self.slots != FILLING).reshape(blocks, *[1] * (tensor.rank - 3), lanes).astype(to_numpy(tensor.dtype))


class Layout(GraphBuilder):
    """Builds packed and unpacked forms of values."""

    def __init__(self, state: PassState, block: int, mask: bool, forms: dict[ir.Value, Form], read_by: np.ndarray | None) -> None:
        super().__init__(state.weights)
        self.state = state
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

    def pack_as(self, value: ir.Value, slots: np.ndarray) -> Form | NoMatch:
        """`value` blocked with its channels in these lanes; NoMatch if that takes too many pieces."""
        form = self.packed(value)
        if form is None and used_lanes(slots) is not None:
            return self._pack(value, slots)
        if form is not None and np.array_equal(form.slots, slots):
            return form
        return self.reblocked([form or self.pack(value)], slots)

    def reblocked(self, forms: Sequence[Form], slots: np.ndarray) -> Form | NoMatch:
        """Blocked values, whose channels count on from each other, in these lanes; NoMatch if that takes too many pieces."""
        starts, sizes = stretches([f.slots for f in forms], slots)
        if len(starts) > MOST_STRETCHES:
            return NoMatch(f"its channels would have to change lanes in {len(starts)} pieces, more than {MOST_STRETCHES}")
        return Form(self.reblock([f.value for f in forms], starts=starts, sizes=sizes, block=slots.shape[1]), slots)

    def cleaned(self, value: ir.Value, slots: np.ndarray) -> Form:
        """The form of a blocked value in whose lanes without a channel anything may be: with `mask` they become zero."""
        held = Form(value, slots).held if self.mask else None
        return Form(value if held is None else self.masked(value, self.literal(held)), slots)

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


Rule = Callable[[Any, "Layout"], Form | NoMatch]
_RULES: dict[str, Rule] = {}


def layout_rule(*ops: Any) -> Callable[[Rule], Rule]:
    """Register how a layout goes through ops of these classes: `rule(op, layout)` builds the op on blocked data and gives its result's form.

    It gives NoMatch with the reason, before anything is built, where that cannot be done or does not pay; the op then works on plain data.
    Element-wise ops need no rule (see `Elementwise`).
    """

    def add(rule: Rule) -> Rule:
        for op in ops:
            _RULES[op.OPERATION_NAME] = rule
        extension(rule)
        return rule

    return add


def rule_of(op: Any) -> Rule | None:
    """The rule that is registered for ops of this kind."""
    return _RULES.get(op.operation.name)
