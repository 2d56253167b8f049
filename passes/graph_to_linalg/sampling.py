"""Lowerings of ops that sample images: generics that compute the indices they read."""

import itertools
from collections.abc import Sequence
from math import inf, prod
from typing import Any

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, math
from stepwell.dialects.core.sizes import has_elements
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.sampling import MOST_SAMPLES
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims, element
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars

VECTOR = 8
"""The smallest number of channels for which images are sampled in vectors along the channels, without padding."""
FEW = 2
"""The smallest number of channels for which these vectors are padded with zeros."""


def assume_pixels(x: TensorType, result: TensorType) -> None:
    """Assume that images which are read have pixels, so that a position outside can be clamped; empty images get specialised code."""
    for size in x.shape[2:]:
        has_elements(size, result.size)


@lowering(graph.InterpolateOp)
def lower_interpolate(op: graph.InterpolateOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic that finds the elements around each position and their weights, in vectors along positions, and one that reads and weights them."""
    (x, places), dtype = operands, op.result_types()[0].dtype
    s, spatial, rank = Scalars(b, dtype), b.sizes(x)[2:], op.result_types()[0].rank
    image = Image(b, x, [*b.sizes(x)[:2], *b.sizes(places)[1:-1]])
    if 0 in x.type.shape:
        return b.filled(0, dtype, image.sizes)
    assume_pixels(op.operand_types()[0], op.result_types()[0])
    index = "i32" if all(isinstance(size, int) and size < 1 << 31 for size in spatial) else "i64"
    depth, listed = len(spatial), range(len(spatial))[:: -1 if op.attribute_values()["last_first"] else 1]
    *sizes, _ = b.sizes(places)
    whole, known = [list(range(len(sizes)))], [size for size in sizes if isinstance(size, int)]
    row, found_in = places, sizes
    coordinates: list[list[ir.AffineExpr]] = [[*dims(*whole[0]), ir.AffineExpr.get_constant(i)] for i in listed]
    if len(known) == len(sizes):  # then neighbouring positions are close together in one row
        row, found_in = b.reshape(places, [[*whole[0], len(sizes)]], [prod(known) * depth]), [prod(known)]
        coordinates = [[ir.AffineExpr.get_dim(0) * depth + i] for i in listed]

    def find(*arguments: ir.Value) -> list[ir.Value]:
        found = [around(b, s, place, size, index) for place, size in zip(arguments, spatial, strict=False)]
        return [value for axis in found for element in axis for value in element]

    outs = [b.empty(kind, found_in) for _ in range(2 * depth) for kind in (index, s.dtype)]
    found = b.generics([row] * depth, outs, [*coordinates, *[dims(*range(len(found_in)))] * len(outs)], 0, find)
    found = [b.staged(b.reshape(v, whole, sizes)) for v in found]

    def weigh(*arguments: ir.Value) -> ir.Value:
        elements = [(b.as_index(arguments[i]), arguments[i + 1]) for i in range(0, len(found), 2)]
        axes = [elements[i : i + 2] for i in range(0, len(elements), 2)]
        total, number, channel = s.const(0), b.loop_index(0), image.channel()
        for chosen in itertools.product(*axes):
            weight = chosen[0][1]
            for _, other in chosen[1:]:
                weight = s.mul(weight, other)
            value = b.widen(image.element(number, channel, [place for place, _ in chosen]))
            total = s.add(total, s.select(s.compare("ne", weight, s.const(0)), s.mul(value, weight), s.const(0)))
        return b.narrow(total, dtype)

    maps = [dims(0, *image.places)] * len(found)
    return image.result(b.generic(found, b.empty(dtype, image.loops), [*maps, dims(*range(rank))], 0, weigh))


class Image:
    """An image that is sampled at computed positions, the same for all its channels.

    If there are several channels, they are innermost during sampling: vectors run along them, and everything for a position is computed once. A few
    channels are padded to the length of a short vector, which takes one load instead of one per channel.
    """

    def __init__(self, b: LinalgBuilder, x: ir.Value, sizes: Sequence[OpFoldResult]) -> None:
        """`sizes` are those of the result: images or regions, channels, positions."""
        self.b, self.sizes = b, list(sizes)
        channels, rank = sizes[1], x.type.rank
        self.channels_last = False
        self.x, self.loops = x, self.sizes
        if len(sizes) > 2 and isinstance(channels, int) and channels >= FEW and 0 not in x.type.shape:
            self.channels_last = True
            lanes = channels if channels >= VECTOR else 1 << (channels - 1).bit_length()
            self.x = b.staged(self._with_lanes(self._copy(x, (0, *range(2, rank), 1)), lanes))
            self.loops = [sizes[0], *sizes[2:], lanes]
        """The extents of the loops over the result."""
        self.places = range(1, len(sizes) - 1) if self.channels_last else range(2, len(sizes))
        """Which of them go over places."""

    def _copy(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        loop_of = {dim: loop for loop, dim in enumerate(perm)}
        out = self.b.empty_like(x, [self.b.size(x, p) for p in perm])
        return self.b.generic([x], out, [dims(*(loop_of[i] for i in range(len(perm)))), dims(*range(len(perm)))], 0, lambda v, _: v)

    def _with_lanes(self, x: ir.Value, lanes: int) -> ir.Value:
        """`x` padded with zeros to `lanes` elements in its last dimension."""
        have = self.b.sizes(x)
        if have[-1] == lanes:
            return x
        zero = arith.ConstantOp(x.type.element_type, ir.FloatAttr.get(x.type.element_type, 0.0)).result
        return self.b.insert(x, self.b.fill(zero, self.b.empty_like(x, [*have[:-1], lanes])), [0] * len(have))

    def channel(self) -> ir.Value:
        """In the body of the generic: the current channel."""
        return self.b.loop_index(len(self.sizes) - 1 if self.channels_last else 1)

    def element(self, image: ir.Value, channel: ir.Value, place: Sequence[ir.Value]) -> ir.Value:
        """The element of an image and a channel at a position."""
        return self.b.extract(self.x, [image, *place, channel] if self.channels_last else [image, channel, *place])

    def result(self, sampled: ir.Value) -> ir.Value:
        """The generic's result, with channels in their final position."""
        if not self.channels_last:
            return sampled
        first, last = self.sizes[0], self.sizes[1]
        places = self.sizes[2:]
        if self.loops[-1] != last:
            sampled = self.b.first(sampled, [first, *places, last])
        if not all(isinstance(size, int) for size in places):
            return self._copy(self.b.staged(sampled), (0, len(self.sizes) - 1, *self.places))
        # One dimension for all positions: the copy uses vectors along it.
        merged = self.b.reshape(sampled, [[0], [*self.places], [len(self.sizes) - 1]], [first, prod(places), last])
        turned = self._copy(self.b.staged(merged), (0, 2, 1))
        return self.b.reshape(turned, [[0], [1], list(range(2, len(self.sizes)))], self.sizes)


def around(b: LinalgBuilder, s: Scalars, place: ir.Value, size: OpFoldResult, index: str) -> list[tuple[ir.Value, ir.Value]]:
    """The two elements around a position along one dimension: index, clamped to the dimension, and weight, which is 0 outside."""
    whole = b.scalar(size, index) if isinstance(size, int) else b.from_index(size, index)
    near = arith.AndIOp(s.compare("gt", place, s.const(-1)), s.compare("lt", place, arith.SIToFPOp(s.type, whole).result)).result
    place = s.select(near, place, s.const(0))
    low = s.call(math.FloorOp, place)
    above = s.sub(place, low)
    below = arith.FPToSIOp(element(index), low).result
    zero, one = b.scalar(0, index), b.scalar(1, index)
    last, after = arith.SubIOp(whole, one).result, arith.AddIOp(below, one).result
    first = arith.AndIOp(near, arith.CmpIOp(arith.CmpIPredicate.sge, below, zero).result).result
    second = arith.AndIOp(near, arith.CmpIOp(arith.CmpIPredicate.sle, after, last).result).result
    return [
        (arith.MaxSIOp(below, zero).result, s.select(first, s.sub(s.const(1), above), s.const(0))),
        (arith.MinSIOp(after, last).result, s.select(second, above, s.const(0))),
    ]


@lowering(graph.RoiAlignOp)
def lower_roi_align(op: graph.RoiAlignOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic over the result; loops over the samples of a part inside its body.

    If the number of samples depends on data, the loops cover only those that may be in the image: the others count, but add nothing.
    """
    (x, boxes, batch_indices), attributes, result = operands, op.attribute_values(), op.result_types()[0]
    s, (images, _, *spatial) = Scalars(b, result.dtype), b.sizes(x)
    regions = Image(b, x, [b.size(boxes, 0), b.size(x, 1), *attributes["sizes"]])
    assume_pixels(op.operand_types()[0], op.result_types()[0])
    region = ir.AffineExpr.get_dim(0)
    corners = [[region, ir.AffineExpr.get_constant(i)] for i in range(4)]
    greatest = attributes["mode"] == "max"

    def body(batch: ir.Value, left: ir.Value, top: ir.Value, right: ir.Value, bottom: ir.Value, _: ir.Value) -> ir.Value:
        image, channel = b.place(batch, images), regions.channel()
        down, across = (
            Part(b, s, b.widen(low), b.widen(high), b.loop_index(regions.places[i]), spatial[i], attributes["sizes"][i], attributes)
            for i, (low, high) in enumerate(((top, bottom), (left, right)))
        )

        def row(i: ir.Value, outer: list[ir.Value]) -> list[ir.Value]:
            ys = down.sample(i)

            def column(j: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                xs = across.sample(j)
                inside = arith.AndIOp(ys.inside, xs.inside).result
                total = inner[0]
                for (y, weight), (z, other) in itertools.product(ys.pixels, xs.pixels):
                    term = s.mul(b.widen(regions.element(image, channel, [y, z])), s.mul(weight, other))
                    term = s.select(inside, term, s.const(0))
                    total = s.maximum(total, term) if greatest else s.add(total, term)
                return [total]

            return b.loop(across.first, across.end, outer, column)

        total = b.loop(down.first, down.end, [s.const(-inf if greatest else 0)], row)[0]
        if greatest and not attributes["samples"]:  # the term of a sample outside the image is 0
            some = arith.OrIOp(down.leaves_out, across.leaves_out).result
            total = s.select(some, s.maximum(total, s.const(0)), total)
        count = arith.MulIOp(down.count, across.count).result
        none = arith.CmpIOp(arith.CmpIPredicate.eq, count, b.index(0)).result
        if not greatest:
            total = s.div(total, arith.SIToFPOp(s.type, b.from_index(count)).result)
        return b.narrow(s.select(none, s.const(0), total), result.dtype)

    out = b.empty(result.dtype, regions.loops)
    return regions.result(b.generic([batch_indices, *[boxes] * 4], out, [[region], *corners, dims(*range(4))], 0, body))


class Sample:
    """A sample along one dimension: whether it is in the image, and the pixels below and above it with their weights."""

    def __init__(self, inside: ir.Value, pixels: list[tuple[ir.Value, ir.Value]]) -> None:
        self.inside, self.pixels = inside, pixels


class Part:
    """A part of a region along one dimension, with its size and its number of samples.

    Samples before `first` and from `end` on are outside the image.
    """

    def __init__(
        self, b: LinalgBuilder, s: Scalars, low: ir.Value, high: ir.Value, number: ir.Value, size: OpFoldResult, parts: int,
        attributes: dict[str, Any],
    ) -> None:  # fmt: skip
        self.b, self.s, self.size = b, s, size
        scale, offset = s.const(attributes["scale"]), s.const(0.5 if attributes["half_pixel"] else 0)
        low, high = (s.sub(s.mul(bound, scale), offset) for bound in (low, high))
        length = s.sub(high, low)
        if not attributes["half_pixel"]:
            length = s.maximum(length, s.const(1))
        self.step = s.div(length, s.const(parts))
        self.start = s.add(low, s.mul(self._float(number), self.step))
        if attributes["samples"]:
            self.count = b.index(attributes["samples"])
            self.first, self.end = b.index(0), self.count
        else:
            whole = s.call(math.CeilOp, self.step)
            whole = s.select(s.compare("lt", whole, s.const(MOST_SAMPLES)), whole, s.const(MOST_SAMPLES))
            whole = s.select(s.compare("gt", self.step, s.const(0)), whole, s.const(0))  # NaN: none
            self.count = self._index(whole)
            self.first, self.end = self._inside(whole)
        self.leaves_out = arith.CmpIOp(arith.CmpIPredicate.slt, arith.SubIOp(self.end, self.first).result, self.count).result

    def _inside(self, count: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The range of samples that may be in the image, from the first to below the end: about as many per pixel as requested, at most two."""
        s, size = self.s, self._float(self.b.index_of(self.size))
        # The rounding error in pixels: a few units in the last place of the values from which a position is computed.
        off = s.mul(s.add(s.abs(self.start), s.add(self.step, size)), s.const(2.0 ** (5 - (53 if s.width == 64 else 24))))
        density = s.div(count, self.step)
        one = s.const(1)
        begin = s.sub(s.mul(s.sub(s.sub(s.const(-1), off), self.start), density), s.const(1.5))
        length = s.add(s.mul(s.add(s.add(size, one), s.add(off, off)), density), s.const(4))
        ends = (s.call(math.FloorOp, begin), s.add(begin, length))
        # An infinite or NaN position is outside: comparisons with NaN are false.
        bounds = [s.select(s.compare("gt", end, s.const(0)), end, s.const(0)) for end in ends]
        first, end = (self._index(s.select(s.compare("lt", bound, count), bound, count)) for bound in bounds)
        return first, end

    def _index(self, number: ir.Value) -> ir.Value:
        return self.b.as_index(arith.FPToSIOp(ir.IntegerType.get_signless(64), number).result)

    def _float(self, number: ir.Value) -> ir.Value:
        return arith.SIToFPOp(self.s.type, self.b.from_index(number)).result

    def sample(self, number: ir.Value) -> Sample:
        """One of the samples."""
        b, s, size = self.b, self.s, self.size
        along = s.mul(s.add(self._float(number), s.const(0.5)), self.step)
        where = s.add(self.start, s.div(along, self._float(self.count)))
        inside = arith.AndIOp(s.compare("ge", where, s.const(-1)), s.compare("le", where, self._float(b.index_of(size)))).result
        where = s.select(inside, s.maximum(where, s.const(0)), s.const(0))
        last = arith.SubIOp(b.index_of(size), b.index(1)).result
        below = b.as_index(arith.FPToSIOp(ir.IntegerType.get_signless(64), where).result)
        at_end = arith.CmpIOp(arith.CmpIPredicate.sge, below, last).result
        below = s.select(at_end, last, below)
        above = s.select(at_end, s.const(0), s.sub(where, self._float(below)))
        after = arith.MinSIOp(arith.AddIOp(below, b.index(1)).result, last).result
        return Sample(inside, [(below, s.sub(s.const(1), above)), (after, above)])


@lowering(graph.RoiMaxPoolOp)
def lower_roi_max_pool(op: graph.RoiMaxPoolOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """One generic over the result, with loops over a window inside its body."""
    (x, batch_indices, rows, columns), result = operands, op.result_types()[0]
    s, (images, _, *spatial) = Scalars(b, result.dtype), b.sizes(x)
    regions = Image(b, x, [b.size(batch_indices, 0), b.size(x, 1), b.size(rows, 1), b.size(columns, 1)])
    region, loops = ir.AffineExpr.get_dim(0), dims(*regions.places)
    bounds = [[region, loops[axis], ir.AffineExpr.get_constant(end)] for axis in range(2) for end in range(2)]

    def body(batch: ir.Value, *edges: ir.Value) -> ir.Value:
        image, channel = b.place(batch, images), regions.channel()
        top, bottom, left, right = (clamped(b, edge, spatial[i // 2]) for i, edge in enumerate(edges[:4]))

        def row(y: ir.Value, outer: list[ir.Value]) -> list[ir.Value]:
            return b.loop(left, right, outer, lambda z, inner: [s.maximum(inner[0], b.widen(regions.element(image, channel, [y, z])))])

        greatest = b.loop(top, bottom, [s.const(-inf)], row)[0]
        empty = arith.OrIOp(*(arith.CmpIOp(arith.CmpIPredicate.sge, low, high).result for low, high in ((top, bottom), (left, right)))).result
        return b.narrow(s.select(empty, s.const(0), greatest), result.dtype)

    out = b.empty(result.dtype, regions.loops)
    return regions.result(b.generic([batch_indices, rows, rows, columns, columns], out, [[region], *bounds, dims(*range(4))], 0, body))


def clamped(b: LinalgBuilder, bound: ir.Value, size: OpFoldResult) -> ir.Value:
    """A bound of a window, clamped to an index from 0 up to the size of the dimension."""
    return arith.MaxSIOp(arith.MinSIOp(b.as_index(bound), b.index_of(size)).result, b.index(0)).result
