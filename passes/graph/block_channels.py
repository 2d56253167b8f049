"""The pass that decides where data is channel-blocked, and carries that layout from convolution to convolution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.dialects.graph import GraphBuilder, constant_value
from stepwell.dialects.graph.blocked import blocked
from stepwell.dialects.graph.elementwise import AddOp, ClampOp, LeakyReluOp, MaximumOp, MinimumOp, MulOp, ReluOp, SubOp
from stepwell.dialects.mlir import defining_op, ir
from stepwell.dialects.types import is_float, to_numpy, type_of
from stepwell.passes.graph.matching import is_elementwise, new_weight
from stepwell.passes.registry import Pass, PassState, register_pass
from stepwell.passes.rewriting import find_function

DEFAULT_VECTOR_BITS = 256
FEW_CHANNELS = 4  # a plain image with no more channels is read as it is
# Of these, the channels that fill up the last block stay finite, whatever is in them; their weights are zero.
FINITE = (AddOp, ClampOp, LeakyReluOp, MaximumOp, MinimumOp, MulOp, ReluOp, SubOp)


@register_pass("block-channels", level="graph", optional=True)
@dataclass
class BlockChannels(Pass):
    """Keep images channel-blocked, (N, C / b, spatial…, b), from one convolution to the next.

    rewrite: conv(x, w)               -> unpack(blocked_conv(pack(x), w packed now))
    rewrite: conv(x, w) by channel    -> unpack(blocked_depthwise_conv(x', w packed now))      where x = unpack(x')
    rewrite: f(unpack(x'), …)         -> unpack(f(x', …))      for element-wise ops, poolings, pads, reductions, concatenations

    pack and unpack are a reshape and a transpose, and cancel where they meet. Channels that fill up the last block are zero in the
    weights, so what they hold does not matter as long as it is finite.
    """

    block: int = 0  # channels in a block; 0 for the lanes of the target's vectors

    def run(self, op: ir.Operation, state: PassState) -> None:
        main = find_function(op, "main")
        for operation in [o.operation for o in main.regions[0].blocks[0].operations]:
            rule = _RULES.get(operation.name) or (_elementwise if operation.name.startswith("graph.") and is_elementwise(operation.opview) else None)
            if rule is None or len(operation.results) != 1 or not all(t.is_static for t in operation.opview.result_types()):
                continue
            dtype = type_of(operation.results[0]).dtype
            layout = _Layout(state, self.block or getattr(state.target, "vector_bits", DEFAULT_VECTOR_BITS) // (8 * to_numpy(dtype).itemsize))
            with ir.InsertionPoint(operation), operation.location:
                result = rule(operation.opview, layout)
                if result is None:
                    continue
                plain = layout.unpack(result, type_of(operation.results[0]).static_shape[1])
            operation.results[0].replace_all_uses_with(plain)
            operation.erase()
            state.count(self.name)


class _Layout(GraphBuilder):
    """Builds packed and unpacked forms of values."""

    def __init__(self, state: PassState, block: int) -> None:
        super().__init__(state.weights)
        self.block = block

    def known(self, value: ir.Value) -> np.ndarray | None:
        """The array that `value` is known to hold."""
        return constant_value(value, self.weights, 1 << 62)

    def packed(self, value: ir.Value) -> ir.Value | None:
        """The blocked value that `value` is the unpacked form of, if it is one."""
        op = defining_op(value)
        if op is not None and op.name == "graph.slice" and self._drops_filling(op):
            op = defining_op(op.operands[0])
        if op is None or op.name != "graph.reshape":
            return None
        moved = defining_op(op.operands[0])
        if moved is None or moved.name != "graph.transpose":
            return None
        source: ir.Value = moved.operands[0]
        shape, plain = type_of(source).shape, type_of(op.results[0]).shape
        rank = len(shape)
        is_unpack = list(moved.opview.attribute_values()["perm"]) == unpack_order(rank) and shape[-1] == self.block
        return source if is_unpack and plain[:1] + plain[2:] == shape[:1] + shape[2:-1] else None

    def _drops_filling(self, op: ir.Operation) -> bool:
        values = op.opview.attribute_values()
        have, kept = type_of(op.operands[0]).shape, type_of(op.results[0]).shape
        others_whole = have[:1] + have[2:] == kept[:1] + kept[2:]
        return others_whole and not any(values["starts"]) and have[1] is not None and kept[1] is not None and have[1] - kept[1] < self.block

    def pack(self, value: ir.Value) -> ir.Value:
        """`value` (N, C, spatial…) channel-blocked; what it was unpacked from, if it was."""
        known = self.packed(value)
        if known is not None:
            return known
        shape = list(type_of(value).static_shape)
        filling = -shape[1] % self.block
        if filling:
            value = self.pad(value, low=[0] * len(shape), high=[0, filling, *[0] * (len(shape) - 2)], mode="constant", value=0.0)
        grouped = self.reshape(value, shape=[shape[0], (shape[1] + filling) // self.block, self.block, *shape[2:]])
        packed: ir.Value = self.transpose(grouped, perm=[0, 1, *range(3, len(shape) + 1), 2])
        return packed

    def unpack(self, value: ir.Value, channels: int) -> ir.Value:
        """A blocked value as (N, channels, spatial…)."""
        shape = list(type_of(value).static_shape)
        moved = self.transpose(value, perm=unpack_order(len(shape)))
        full = [shape[0], shape[1] * shape[-1], *shape[2:-1]]
        plain: ir.Value = self.reshape(moved, shape=full)
        if channels < full[1]:
            plain = self.slice(plain, starts=[0] * len(full), sizes=[full[0], channels, *full[2:]], steps=[1] * len(full))
        return plain

    def filters(self, source: ir.Value, array: np.ndarray) -> ir.Value:
        """A weight computed from the one that `source` names."""
        return new_weight(self, source, np.ascontiguousarray(array))


def unpack_order(rank: int) -> list[int]:
    """The transposition of a blocked tensor that brings the block beside the channels."""
    return [0, 1, rank - 1, *range(2, rank - 1)]


def filled(array: np.ndarray, axis: int, block: int) -> np.ndarray:
    """`array` with zeros at the end of `axis`, up to a multiple of the block."""
    width = [(0, 0)] * array.ndim
    width[axis] = (0, -array.shape[axis] % block)
    return np.pad(array, width) if width[axis][1] else array


def _conv(op: Any, b: _Layout) -> ir.Value | None:
    values, x, result = op.attribute_values(), type_of(op.x), type_of(op.result)
    weights = b.known(op.w)
    if weights is None or any(values["pads"]) or not is_float(x.dtype) or not x.is_static:
        return None
    attributes = {"strides": values["strides"], "dilations": values["dilations"]}
    filters, channels = weights.shape[0], x.static_shape[1]
    if values["group"] == channels == filters and channels > 1:
        image = b.packed(op.x)
        if image is None:
            return None
        by_block = filled(weights[:, 0], 0, b.block).reshape(-1, b.block, *weights.shape[2:])
        depthwise: ir.Value = b.blocked_depthwise_conv(image, b.filters(op.w, np.moveaxis(by_block, 1, -1)), **attributes)
        return depthwise
    # Fewer filters than half a block waste more than the layout gains; a single position is a matrix-vector product.
    if values["group"] != 1 or filters < b.block // 2 or all(n == 1 for n in result.shape[2:]):
        return None
    weights = filled(weights, 0, b.block)
    weights = weights.reshape(-1, b.block, *weights.shape[1:])  # (M / b, b, C, taps…)
    if channels <= FEW_CHANNELS and b.packed(op.x) is None:
        plain: ir.Value = b.blocked_conv(op.x, b.filters(op.w, np.moveaxis(weights, 1, -1)), **attributes)
        return plain
    weights = filled(weights, 2, b.block)
    weights = weights.reshape(*weights.shape[:2], -1, b.block, *weights.shape[3:])  # (M / b, b, C / b, b, taps…)
    packed = np.moveaxis(np.moveaxis(weights, 3, -1), 1, -1)
    convolved: ir.Value = b.blocked_conv(b.pack(op.x), b.filters(op.w, packed), **attributes)
    return convolved


def _pool(op: Any, b: _Layout) -> ir.Value | None:
    image = b.packed(op.x)
    return None if image is None else getattr(b, op.mnemonic())(image, **op.attribute_values())


def _pad(op: Any, b: _Layout) -> ir.Value | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or values["mode"] != "constant" or values["low"][1] or values["high"][1]:
        return None
    padded: ir.Value = b.pad(image, low=[*values["low"], 0], high=[*values["high"], 0], mode="constant", value=values["value"])
    return padded


def _reduce(op: Any, b: _Layout) -> ir.Value | None:
    image, values = b.packed(op.x), op.attribute_values()
    if image is None or not values["keepdims"] or 1 in values["axes"] or not values["axes"]:
        return None
    reduced: ir.Value = getattr(b, op.mnemonic())(image, **values)
    return reduced


def _concat(op: Any, b: _Layout) -> ir.Value | None:
    values = list(op.inputs)
    if op.attribute_values()["axis"] != 1 or any(type_of(v).static_shape[1] % b.block for v in values) or all(b.packed(v) is None for v in values):
        return None
    joined: ir.Value = b.concat([b.pack(v) for v in values], axis=1)
    return joined


def _elementwise(op: Any, b: _Layout) -> ir.Value | None:
    shape = type_of(op.operation.results[0]).static_shape
    operands = list(op.operation.operands)
    whole = [v for v in operands if type_of(v).shape == shape]
    if len(shape) < 3 or all(b.packed(v) is None for v in whole):
        return None
    if shape[1] % b.block and not isinstance(op, FINITE):
        return None
    forms = [_operand(v, shape, b) for v in operands]
    if any(form is None for form in forms):
        return None
    result: ir.Value = getattr(b, op.mnemonic())(*(form() for form in forms if form is not None), **op.attribute_values())
    return result


def _operand(value: ir.Value, shape: tuple[int, ...], b: _Layout) -> Callable[[], ir.Value] | None:
    """How to make the form in which an element-wise op on blocked data of plain `shape` takes this operand; None if there is none."""
    own = type_of(value)
    if own.shape == shape:
        return lambda: b.pack(value)
    if own.elements == 1 and own.rank <= len(shape):
        return lambda: value
    aligned = (1,) * (len(shape) - own.rank) + own.static_shape
    by_channel = len(aligned) == len(shape) and aligned[1] == shape[1] and all(n == 1 for n in aligned[2:])
    if not by_channel:
        return None
    array = b.known(value)
    if array is None:
        return (lambda: b.pack(value)) if own.rank == len(shape) else None
    packed = blocked(filled(array.reshape(aligned), 1, b.block), b.block)
    return lambda: b.filters(value, packed)


_RULES: dict[str, Callable[[Any, _Layout], ir.Value | None]] = {
    "graph.conv": _conv, "graph.max_pool": _pool, "graph.avg_pool": _pool, "graph.pad": _pad, "graph.concat": _concat,
    "graph.reduce_sum": _reduce, "graph.reduce_max": _reduce, "graph.reduce_min": _reduce,
}  # fmt: skip
