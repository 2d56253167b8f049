"""The pass that makes matrix products of convolutions of bytes, which a target's instructions for bytes compute fastest."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from stepwell.dialects.core.mlir import ir, users
from stepwell.dialects.core.sizes import Dim, known
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import ConvOp, GraphBuilder
from stepwell.dialects.graph.value_range import Range
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.graph.centred import Centred, centred, known_numbers
from stepwell.passes.graph.integer_products import WIDE, IntegerProductPass, ProductRewriting, rate, smallest
from stepwell.passes.graph.matching import is_elementwise, new_weight, producer, stored

CHANNELS = 16  # of an image from which on they are worth copying for each tap


@register_pass("unfold-convolutions", level="graph", optional=True)
@dataclass
class UnfoldConvolutions(IntegerProductPass):
    """Compute convolutions of bytes as matrix products, of the bytes that each place of the result depends on.

    rewrite: conv(pad(x - z), w)  ->  transpose(matmul(columns(x) - z, w'))      where z is known, and w is known or made of bytes
    rewrite: f(conv(…), c)        ->  transpose(f(matmul(…), c'))                for element-wise ops, c a number, or one for each channel

    columns(x) has a row for each place, with the channels of the taps one after the other (Chellapilla, Puri and Simard, "High Performance
    Convolutional Neural Networks for Document Processing", 2006); they are bytes, and outside of the image they are z. Pointwise convolutions
    need no copy but the one that puts channels last. Done where the target has an intrinsic for bytes. Of the element-wise ops that follow,
    those up to the narrowest type are computed before the result is transposed: they join the product's kernel, and bytes are moved, not i32.
    """

    done: ClassVar[str] = "computed as the product of a matrix with a row for each place"

    def takes(self, view: Any) -> bool:
        return isinstance(view, ConvOp) and type_of(view.result).dtype == WIDE

    def rewriting(self, state: PassState, known: dict[ir.Value, Range]) -> ProductRewriting:
        return _Unfolding(state, known)


class _Unfolding(ProductRewriting):
    """One run on a function."""

    def rewrite(self, op: ir.Operation) -> NoMatch | None:
        product = self.product(op)
        if isinstance(product, NoMatch):
            return product
        last, shape = op, type_of(op.results[0]).static_shape
        for follower in narrowing(op):
            with ir.InsertionPoint(follower), follower.location:
                b = GraphBuilder(self.state.weights)
                operands = [product if v == last.results[0] else by_channel(b, v, shape) for v in follower.operands]
                view: Any = follower.opview
                product = b.build(type(view), *operands, **view.attribute_values())
            last = follower
        with ir.InsertionPoint(last), last.location:
            b = GraphBuilder(self.state.weights)
            apart = b.reshape(product, shape=(shape[0], *shape[2:], shape[1]))
            last.results[0].replace_all_uses_with(b.transpose(apart, perm=(0, len(shape) - 1, *range(1, len(shape) - 1))))
        self.replaced.append(last)
        return None

    def product(self, op: ir.Operation) -> ir.Value | NoMatch:
        """What computes the same as a convolution, with a row for each place and a column for each channel; or why nothing does."""
        values, (x, w) = op.opview.attribute_values(), op.operands
        pad = producer(x, "pad")
        low = high = (0,) * type_of(x).rank
        if pad is not None:
            padding = pad.attribute_values()
            low, high = padding["low"], padding["high"]
            if padding["mode"] != "constant" or padding["value"] != 0 or not known((*low, *high)):
                return NoMatch("what pads its image is something else than zeros, or how many is known at run time only")
        image, kernel = centred(x if pad is None else pad.x, self.state.weights), type_of(w)
        if image is None or not isinstance(image.zero, np.ndarray) or image.zero.size != 1:
            return NoMatch("its image is not made of bytes with one known zero point")
        if not all(type_of(value).is_static for value in (x, w, op.results[0])) or 0 in (*kernel.shape, *type_of(op.results[0]).shape):
            return NoMatch("it is empty, or has sizes that are known at run time only")
        if values["group"] != 1 or any(values["pads"]) or kernel.static_shape[1] < CHANNELS:
            return NoMatch(f"it has groups, or fewer than {CHANNELS} channels")
        numbers = known_numbers(w, self.state.weights)
        if numbers is not None:
            return NoMatch("its filters are known: they are packed for an image in blocks of channels")
        weight: np.ndarray | Centred | None = centred(w, self.state.weights) if numbers is None else numbers
        if weight is None or (isinstance(weight, Centred) and _elements(weight.zero) != 1):
            return NoMatch("its weights are neither known nor bytes with one zero point")
        kind = "s16" if numbers is None else smallest(numbers.min().item(), numbers.max().item())
        if kind is None or rate("u8", kind, self.state.target) == rate("s8", kind, self.state.target) == 0:
            return NoMatch("the target has no instruction for products of its bytes")
        with ir.InsertionPoint(op), op.location:
            return _unfolded(GraphBuilder(self.state.weights), op, image, weight, (low, high))


def narrowing(convolution: ir.Operation) -> list[ir.Operation]:
    """The element-wise ops that follow a convolution, each the only user of the one before, up to the last of those that give the fewest bytes.

    Their other operands are single numbers, or one for each channel.
    """
    chain, shape = [convolution], type_of(convolution.results[0]).shape
    while len(found := users(chain[-1].results[0])) == 1 and found[0].block == convolution.block and is_elementwise(found[0].opview):
        [follower], before = found, chain[-1].results[0]
        fits = all(v == before or fits_channels(v, shape) for v in follower.operands)
        if len(follower.results) != 1 or type_of(follower.results[0]).shape != shape or not fits:
            break
        chain.append(follower)
    size = [to_numpy(type_of(op.results[0]).dtype).itemsize for op in chain]
    return chain[1 : max(i for i, n in enumerate(size) if n == min(size)) + 1]


def fits_channels(value: ir.Value, shape: Sequence[Dim]) -> bool:
    """Whether a value that is broadcast to images of a shape is one number, or one for each channel."""
    own = type_of(value).shape
    padded = (1,) * (len(shape) - len(own)) + own
    return len(padded) == len(shape) and all(n == 1 or (i == 1 and n == shape[1]) for i, n in enumerate(padded))


def by_channel(b: GraphBuilder, value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """Such a value for a matrix with a column for each channel."""
    wanted = () if type_of(value).elements == 1 else (shape[1],)
    array = stored(value, b.weights)
    flat: ir.Value = b.reshape(value, shape=wanted) if array is None else new_weight(b, value, array.reshape(wanted))
    return flat


def _elements(zero: np.ndarray | ir.Value) -> int:
    return zero.size if isinstance(zero, np.ndarray) else type_of(zero).elements


def _unfolded(
    b: GraphBuilder, op: ir.Operation, image: Centred, weight: np.ndarray | Centred, pads: tuple[Sequence[int], Sequence[int]]
) -> ir.Value:
    """The product."""
    shape, kernel, values = type_of(op.results[0]).static_shape, type_of(op.operands[1]).static_shape, op.opview.attribute_values()
    rank, places, zero = len(shape), shape[2:], image.zero
    assert isinstance(zero, np.ndarray)
    last = b.transpose(image.source, perm=(0, *range(2, rank), 1))
    low, high = ([p[0], *p[2:], p[1]] for p in pads)
    if any(low) or any(high):
        last = b.pad(last, low=low, high=high, mode="constant", value=float(zero.item()))
    parts = []
    for tap in np.ndindex(*kernel[2:]):
        starts = [0, *(t * d for t, d in zip(tap, values["dilations"], strict=True)), 0]
        parts.append(b.slice(last, starts=starts, sizes=[shape[0], *places, kernel[1]], steps=[1, *values["strides"], 1]))
    columns = parts[0] if len(parts) == 1 else b.concat(parts, axis=rank - 1)
    depth = prod(kernel[1:])
    lhs = _difference(b, b.reshape(columns, shape=(shape[0] * prod(places), depth)), zero)
    order = (*range(2, rank), 1, 0)  # the rows of the weights as the columns are: by taps, then by channels
    if isinstance(weight, Centred):
        rhs = _difference(b, b.reshape(b.transpose(weight.source, perm=order), shape=(depth, shape[1])), weight.zero)
    else:
        rhs = new_weight(b, op.operands[1], np.ascontiguousarray(weight.transpose(order).reshape(depth, shape[1]).astype(np.int32)))
    product: ir.Value = b.matmul(lhs, rhs)
    return product


def _difference(b: GraphBuilder, source: ir.Value, zero: np.ndarray | ir.Value) -> ir.Value:
    """Bytes less one zero point, in i32."""
    wide: ir.Value = b.cast(source, to=WIDE, saturate=True)
    if isinstance(zero, np.ndarray):
        return b.sub(wide, b.literal(zero.astype(np.int32).reshape(()))) if zero.any() else wide
    return b.sub(wide, b.reshape(zero, shape=()))
