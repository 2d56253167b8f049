"""The API of layout rules: blocked values, their builder, and the registry of rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, static_sizes
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.traits import Trait
from stepwell.dialects.packed import MaskedOp, RelayoutOp
from stepwell.dialects.support.extensions import extension
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState
from stepwell.passes.graph.matching import new_weight, producer, states, stored
from stepwell.passes.packed.channel_layouts import FILLING, in_order, stretches, used_lanes

MOST_STRETCHES = 64
"""The most stretches of a relayout; more would make its code too slow."""


@dataclass(frozen=True)
class BlockedValue:
    """A channel-blocked value, and the channel in each of its lanes (see channel_layouts)."""

    value: ir.Value
    lanes: np.ndarray

    @property
    def held(self) -> np.ndarray | None:
        """1 for each lane with a channel and 0 for the others, in a shape that broadcasts to the value's; None if all have one."""
        if not np.any(self.lanes == FILLING):
            return None
        tensor = type_of(self.value)
        blocks, width = self.lanes.shape
        return (self.lanes != FILLING).reshape(blocks, *[1] * (tensor.rank - 3), width).astype(to_numpy(tensor.dtype))


class Layout(GraphBuilder):
    """Builds ops, and converts values between the plain and the blocked layout."""

    def __init__(self, state: PassState, block: int, mask: bool, blocked: dict[ir.Value, BlockedValue], read_by: np.ndarray | None) -> None:
        super().__init__(state.weights)
        self.state = state
        self.block = block
        self.mask = mask
        self.blocked = blocked
        self.read_by = read_by  # for each channel of the op's result, the group of a later convolution that reads it

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The array of a constant or weight; None for other values."""
        return stored(value, self.weights)

    def packed(self, value: ir.Value) -> BlockedValue | None:
        """`value` in the blocked layout, if it is there already."""
        return self.blocked.get(value)

    def pack(self, value: ir.Value) -> BlockedValue:
        """`value` (N, C, spatial…) in the blocked layout: an existing one, or packed with its channels in order."""
        return self.packed(value) or self._pack(value, in_order(channels_of(value), self.block, self.block))

    def pack_as(self, value: ir.Value, lanes: np.ndarray) -> BlockedValue:
        """`value` in the blocked layout with its channels in these lanes. Raises NoMatch if that takes too many stretches."""
        blocked = self.packed(value)
        if blocked is None and used_lanes(lanes) is not None:
            return self._pack(value, lanes)
        if blocked is not None and np.array_equal(blocked.lanes, lanes):
            return blocked
        return self.in_lanes([blocked or self.pack(value)], lanes)

    def in_lanes(self, sources: Sequence[BlockedValue], lanes: np.ndarray) -> BlockedValue:
        """The channels of several blocked values, concatenated, in these lanes. Raises NoMatch if that takes too many stretches."""
        starts, sizes = stretches([source.lanes for source in sources], lanes)
        if len(starts) > MOST_STRETCHES:
            raise NoMatch(f"its channels would have to change lanes in {len(starts)} pieces, more than {MOST_STRETCHES}")
        return BlockedValue(self.build(RelayoutOp, [source.value for source in sources], starts=starts, sizes=sizes, block=lanes.shape[1]), lanes)

    def cleaned(self, value: ir.Value, lanes: np.ndarray) -> BlockedValue:
        """A result whose lanes without a channel may hold anything; with `mask` they become zero."""
        held = BlockedValue(value, lanes).held if self.mask else None
        return BlockedValue(value if held is None else self.build(MaskedOp, value, self.literal(held)), lanes)

    def _pack(self, value: ir.Value, lanes: np.ndarray) -> BlockedValue:
        pad = producer(value, "pad")
        if pad is not None and _only_around(**(around := pad.attribute_values())):
            inside = self._pack(pad.x, lanes)
            around = {**around, "low": (*around["low"], 0), "high": (*around["high"], 0)}
            return BlockedValue(self.pad(inside.value, **around), lanes)
        shape, (blocks, width), used = type_of(value).shape, lanes.shape, used_lanes(lanes) or lanes.shape[1]
        value = self._filled(value, 1, blocks * used)
        value = self.reshape(value, shape=[shape[0], blocks, used, *shape[2:]])
        return BlockedValue(self._filled(self.transpose(value, perm=[0, 1, *range(3, len(shape) + 1), 2]), len(shape), width), lanes)

    def _filled(self, value: ir.Value, axis: int, size: int) -> ir.Value:
        """`value` with zeros added at the end of `axis`, whose size is static."""
        shape = type_of(value).shape
        high = [0] * len(shape)
        high[axis] = size - static_sizes(shape[axis : axis + 1])[0]
        return self.pad(value, low=[0] * len(shape), high=high, mode="constant", value=0.0) if any(high) else value

    def unpack(self, blocked: BlockedValue) -> ir.Value:
        """A blocked value as (N, C, spatial…)."""
        (images, _, *places, _), channels = type_of(blocked.value).shape, int(blocked.lanes.max()) + 1
        used = used_lanes(blocked.lanes)
        value = blocked.value if used is None else self._first(blocked.value, len(places) + 2, used)
        value = self.transpose(value, perm=[0, 1, len(places) + 2, *range(2, len(places) + 2)])
        value = self.reshape(value, shape=[images, -1, *places])
        if used is not None:
            return self._first(value, 1, channels)
        held = np.flatnonzero(blocked.lanes.ravel() >= 0)
        order = held[np.argsort(blocked.lanes.ravel()[held])]
        return self.gather(value, self.literal(order.astype(np.int64)), axis=1)

    def _first(self, value: ir.Value, axis: int, size: int) -> ir.Value:
        """The first `size` elements of `value` along `axis`, whose size is static."""
        shape = type_of(value).shape
        if shape[axis] == size:
            return value
        sizes = [size if i == axis else have if isinstance(have, int) else -1 for i, have in enumerate(shape)]
        return self.slice(value, starts=[0] * len(shape), sizes=sizes, steps=[1] * len(shape))

    def weights_of(self, source: ir.Value, array: np.ndarray) -> ir.Value:
        """A weight computed from the weight that `source` names."""
        return new_weight(self, source, np.ascontiguousarray(array))


def channels_of(value: ir.Value) -> int:
    """The number of channels of an image (N, C, spatial…). Raises InferenceError if it is dynamic."""
    return static_sizes(type_of(value).shape[1:2])[0]


def _only_around(*, low: Sequence[int], high: Sequence[int | Size], mode: str, value: float) -> bool:
    """Whether a pad only adds zeros around the spatial positions: then its image can be blocked without them."""
    return mode == "constant" and value == 0 and all(n == 0 for n in (*low[:2], *high[:2]))


Rule = Callable[[Any, "Layout"], BlockedValue | NoMatch]
_RULES: dict[str, Rule] = {}
_BY_TRAIT: dict[type[Trait], Rule] = {}


def layout_rule(*ops: Any) -> Callable[[Rule], Rule]:
    """Register the layout rule of ops of these classes: `rule(op, layout)` builds the op on blocked data and returns its blocked result.

    A rule of a trait applies to all ops that state it and have no rule of their own.

    If it cannot or should not be applied, the rule returns or raises NoMatch before it builds anything, and the op works on plain data.
    Element-wise ops and poolings need no rule (see `Elementwise`, `Pools`).
    """

    def add(rule: Rule) -> Rule:
        for op in ops:
            if issubclass(op, Trait):
                _BY_TRAIT[op] = rule
            else:
                _RULES[op.OPERATION_NAME] = rule
        extension(rule)
        return rule

    return add


def rule_of(op: Any) -> Rule | None:
    """The rule that is registered for an op's class, otherwise for one of its traits."""
    own = _RULES.get(op.operation.name)
    return own or next((rule for trait, rule in _BY_TRAIT.items() if states(op.operation, trait)), None)
