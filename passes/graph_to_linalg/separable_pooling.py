"""Maxima over windows, first along the outer dimensions and then along rows, which reads few elements for each result."""

import itertools
from dataclasses import dataclass
from math import prod
from typing import Any

from stepwell.dialects.core.mlir import arith, defining_op, ir
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.core.types import TensorType
from stepwell.dialects.graph.borders import Border, Stretch
from stepwell.dialects.graph.pooling import separable
from stepwell.dialects.graph.windows import overhang
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, dims, element
from stepwell.passes.graph_to_linalg.reduction import narrowed, neutral
from stepwell.passes.graph_to_linalg.scalars import Scalars

MOST_STRETCHES = 32
"""The largest number of parts of an image, cut by its borders, that get their own loops."""


@dataclass
class Separable:
    """A pooling of plain images (N, C, spatial…) whose windows are folded along all dimensions but the last, and then along the last.

    Positions near a border are folded over fewer elements, so that only rows need padding.
    """

    b: LinalgBuilder
    x: ir.Value
    result: TensorType
    attributes: dict[str, Any]
    outer: list[Border]
    """The spatial dimensions but the last."""
    high: int
    """The padding that windows need at the end of each row."""

    @staticmethod
    def from_pooling(b: LinalgBuilder, x: ir.Value, types: tuple[TensorType, TensorType], attributes: dict[str, Any]) -> "Separable | None":
        """The separable form of a pooling; None if it does not pay.

        It does not for channels in blocks, for windows of one dimension or of few elements, for an image that is computed where it is read, and if a
        window lies outside of the image or the borders cut windows in many ways.
        """
        image, result = types
        kernel, pads, spatial = attributes["kernel"], attributes["pads"], len(attributes["kernel"])
        is_plain = result.rank == 2 + spatial and spatial > 1 and result.is_static and image.is_static and result.elements > 0
        if not is_plain or not separable(kernel) or defining_op(x) is not None:
            return None
        window = {name: attributes[name] for name in ("strides", "dilations")}
        high = overhang(image.static_shape[2:], kernel, result.static_shape[2:], pads=pads, **window)
        borders = [
            Border(pads[i], image.static_shape[2 + i], result.static_shape[2 + i], kernel[i], window["strides"][i], window["dilations"][i])
            for i in range(spatial)
        ]
        if not all(border.reached_from_all for border in borders) or prod(len(border.alike()) for border in borders[:-1]) > MOST_STRETCHES:
            return None
        return Separable(b, x, result, attributes, borders[:-1], high[-1])

    def lower(self) -> ir.Value:
        """A loop over planes, a few at a time, so that the values between the two steps stay in a cache."""
        b, (n, c, *sizes), shape = self.b, self.x.type.shape, self.result.static_shape
        planes, counts = n * c, list(shape[2:])
        step = self._planes_at_once(planes)
        images = b.reshape(self.x, [[0, 1], *([2 + i] for i in range(len(sizes)))], [planes, *sizes])

        def round_(iv: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            first = arith.MulIOp(iv, b.index(step)).result
            folded = self._rows(self._columns(images, first, step), step)
            return [b.insert(narrowed(b, folded, self.result.dtype), carried[0], [first, *[0] * len(counts)])]

        start, rounds = [b.empty(self.result.dtype, [planes, *counts])], planes // step
        threaded = rounds > 1 and planes * prod(counts) * sum(self.attributes["kernel"]) >= b.state.machine.costs.threaded_work
        made = b.independent(rounds, start, round_) if threaded else b.loop(b.index(0), b.index(rounds), start, round_)
        return b.reshape(made[0], [[0, 1], *([2 + i] for i in range(len(sizes)))], shape)

    def _between(self) -> list[int]:
        """The sizes of a plane between the steps: positions of the outer dimensions, elements of padded rows."""
        return [*(border.positions for border in self.outer), self.attributes["pads"][len(self.outer)] + self.x.type.shape[-1] + self.high]

    def _planes_at_once(self, planes: int) -> int:
        plane = prod(self._between()) * element_bits(element(Scalars(self.b, self.result.dtype).dtype)) // 8
        machine = self.b.state.machine
        room = max(1, int(machine.caches.l1d * machine.costs.step_share) // plane)
        return max(d for d in range(1, min(room, planes) + 1) if planes % d == 0)

    def _columns(self, images: ir.Value, first: ir.Value, planes: int) -> ir.Value:
        """Windows of `planes` planes folded along the outer dimensions, in rows padded with the neutral element."""
        b, dtype = self.b, Scalars(self.b, self.result.dtype).dtype
        low, width, between = self.attributes["pads"][len(self.outer)], self.x.type.shape[-1], self._between()
        out = b.empty(dtype, [planes, *between])
        for at, size in ((0, low), (low + width, self.high)):
            if size:
                border = b.filled(neutral("maximum", self.result.dtype), dtype, [planes, *between[:-1], size])
                out = b.insert(border, out, [*[0] * len(between), at])
        for stretches in itertools.product(*(border.alike() for border in self.outer)):
            out = b.insert(self._stretch(images, first, planes, stretches), out, [0, *(s.low for s in stretches), low])
        return out

    def _stretch(self, images: ir.Value, first: ir.Value, planes: int, stretches: tuple[Stretch, ...]) -> ir.Value:
        """The positions of a run of each outer dimension, folded over the taps that reach the image from there."""
        seen = [s.seen(border.stride, border.dilation) for s, border in zip(stretches, self.outer, strict=True)]
        starts = [start - border.before for (start, _), border in zip(seen, self.outer, strict=True)]
        width = self.x.type.shape[-1]
        part = self.b.part(images, [first, *starts, 0], [planes, *(size for _, size in seen), width])
        plane, *positions, column = dims(*range(2 + len(self.outer)))
        taps = dims(*range(2 + len(self.outer), 2 + 2 * len(self.outer)))
        walked = [p * border.stride + t * border.dilation for p, t, border in zip(positions, taps, self.outer, strict=True)]
        counts = [s.positions for s in stretches]
        return self._fold(part, [plane, *walked, column], [planes, *counts, width], [s.taps for s in stretches])

    def _rows(self, between: ir.Value, planes: int) -> ir.Value:
        """Windows folded along rows."""
        last, rank = len(self.outer), 2 + len(self.outer)
        stride, dilation = self.attributes["strides"][last], self.attributes["dilations"][last]
        *others, column, tap = dims(*range(rank + 1))
        counts = list(self.result.static_shape[2:])
        return self._fold(between, [*others, column * stride + tap * dilation], [planes, *counts], [self.attributes["kernel"][last]])

    def _fold(self, x: ir.Value, read: list[Any], sizes: list[int], taps: list[int]) -> ir.Value:
        """The largest of the elements that `read` addresses over loops of `sizes`, followed by `taps`."""
        b, s = self.b, Scalars(self.b, self.result.dtype)
        out, window = b.filled(neutral("maximum", self.result.dtype), s.dtype, sizes), b.empty(s.dtype, taps)
        loops = dims(*range(len(sizes) + len(taps)))
        maps = [read, loops[len(sizes) :], loops[: len(sizes)]]
        return b.generic([x, window], out, maps, len(taps), lambda value, _, total: s.accumulate("maximum", b.widen(value), total))
