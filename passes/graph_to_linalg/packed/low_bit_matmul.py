"""The lowering of products with low-bit weights: numbers are converted to floats one panel at a time, at the product."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.sizes import Size, is_static, product
from stepwell.dialects.packed import LowBitMatmulOp
from stepwell.dialects.packed.matmul import GROUP, NIBBLES
from stepwell.dialects.target.costs import Costs
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims, element
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars

MANTISSA, BIAS = 23, 127  # of f32: the number of mantissa bits, and the exponent's bias
SLICED = 21  # the largest number of a block is in 2**21 … 2**22: none of its three slices exceeds a byte
ROUNDS = 1.5 * 2**MANTISSA  # f32 has no fractions there
ABOVE_ZERO = 0x808080 - int(np.float32(ROUNDS).view(np.int32))  # makes the rest positive, and its bytes 128 too large


@lowering(LowBitMatmulOp)
def lower_low_bit_matmul(op: LowBitMatmulOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """For few rows a loop over panels, on threads: sums of some blocks at a time, which are scaled and added up while a first cache holds them.

    For many rows, or a dynamic number, a loop over groups of panels: these are converted to floats and multiplied by all rows.
    """
    types = op.operand_types()
    if not types[1].is_static or not is_static(types[0].shape[-1:]):
        return NoMatch(f"its columns and panels must have static sizes, got {types[0]} and {types[1]}")
    grouped = types[1].rank == 5
    few = grouped or are_few(op, b.state.machine.costs)
    made = (_SlicedProduct if grouped else _Product)(op, operands, b, few)
    outer, (panels, _, _, width) = b.sizes(operands[0])[:-1], types[1].static_shape[:4]
    out, before = [b.empty("f32", [*outer, panels, width])], [0] * len(outer)

    def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [b.insert(b.with_unit_dims(made.of_few_rows(number), [len(outer)]), carried[0], [*before, number, 0])]

    if few:
        return b.independent(panels, out, one)[0]

    def products_of_panels(first: ir.Value, count: int, result: ir.Value) -> ir.Value:
        return b.insert(made.of_many_rows(first, count), result, [*before, first, 0])

    return _in_groups(b, panels, b.state.machine.costs.converted_weights // (made.depth * width), out[0], products_of_panels)


def _in_groups(b: LinalgBuilder, count: int, group: int, start: ir.Value, compute: Callable[[ir.Value, int, ir.Value], ir.Value]) -> ir.Value:
    """A loop over groups of neighbours, and the remainder: `compute` takes the first of a group, the group's size, and the previous result."""
    group = min(count, max(1, group))
    rest = count % group

    def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [compute(arith.muli(number, b.index(group)), group, carried[0])]

    out = compute(b.index(0), count, start) if group == count else b.loop(b.index(0), b.index(count // group), [start], one)[0]
    return compute(b.index(count - rest), rest, out) if rest else out


def rows_of(op: LowBitMatmulOp) -> int | Size | None:
    """The number of rows of a product."""
    return product(op.operand_types()[0].shape[:-1])


def are_few(op: LowBitMatmulOp, costs: Costs) -> bool:
    """Whether a product has few rows, or is in a version of its kernel for few of them."""
    rows, function, most = rows_of(op), function_around(op.operation), costs.conversion_rows
    version = None if function is None else KernelInfo(function).version
    return (isinstance(rows, int) and rows <= most) or (version is not None and (version.size, version.most) == (rows, most))


class _Product:
    """One product being lowered, panel by panel."""

    sums = 1  # per block, for each row and column

    def __init__(self, op: LowBitMatmulOp, operands: Operands, b: LinalgBuilder, few: bool) -> None:
        x, self.w, self.scale, self.zero = operands
        self.b, self.s, self.kind = b, Scalars(b, "f32"), op.operand_types()[1].dtype
        self.bits = op.attribute_values()["bits"]
        self.each = 1 if self.bits == 8 else NIBBLES
        _, self.blocks, self.stored, self.width, *self.group = op.operand_types()[1].static_shape
        self.outer: list[OpFoldResult] = b.sizes(x)[:-1]
        self.rows = rows_of(op)
        count = len(self.outer)
        blocks = [*self.outer, self.blocks, self.stored * self.each]
        self.x = b.reshape(x, [*([i] for i in range(count)), [count, count + 1]], blocks)
        self.depth = self.blocks * self.stored * self.each
        self.one_zero = b.splat(self.zero) if self.zero.type.rank else b.extract(self.zero, [])
        if few:
            self.sums_of_x, self.x = self._sums(), self._factors()

    def _sums(self) -> ir.Value:
        """The sum of each block of `x`."""
        b, s = self.b, self.s
        *rows, block, place = dims(*range(len(self.outer) + 2))
        maps = [[*rows, block, place], [*rows, block]]
        zeros = b.filled(0, "f32", [*self.outer, self.blocks])
        return b.staged(b.generic([self.x], zeros, maps, 1, lambda v, total: s.accumulate("add", v, total)))

    def _factors(self) -> ir.Value:
        """`x` divided by the weight of a nibble at its position in the word, a power of two, so that the product is the same."""
        if self.each == 1:
            return self.x
        b, s, count = self.b, self.s, len(self.outer)
        apart = [*self.outer, self.blocks, self.stored, self.each]
        x = b.reshape(self.x, [*([i] for i in range(count + 1)), [count + 1, count + 2]], apart)
        factors = b.constant(np.array([0.5 ** (4 * i) for i in range(self.each - 1)] + [1], np.float32))
        loops = dims(*range(count + 3))
        return b.staged(b.generic([x, factors], b.empty("f32", apart), [loops, [loops[-1]], loops], 0, lambda v, factor, _: s.mul(v, factor)))

    def panels(self, first: ir.Value, count: int) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """The numbers, scales and zero points of some panels; no zero points if all weights have the same one."""
        b = self.b
        whole = [self.blocks, self.stored, self.width, *self.group]
        w = b.part(self.w, [first, *[0] * len(whole)], [count, *whole])
        others = [self.scale] if self.one_zero is not None else [self.scale, self.zero]
        scale, *zeros = (b.part(v, [first, 0, 0], [count, self.blocks, self.width]) for v in others)
        return w, scale, zeros

    def number(self, value: ir.Value) -> ir.Value:
        """A number, or a zero point, as a float."""
        return cast(self.b, value, self.kind if self.bits == 8 else "ui8", "f32", False)

    def nibble(self, word: ir.Value, which: int) -> ir.Value:
        """A nibble of a word as a float, times its weight there; the last one is shifted down, since it would be the sign."""
        integers = Scalars(self.b, "ui32")
        last = which == self.each - 1
        found = arith.shrui(word, integers.const(4 * which)) if last else arith.andi(word, integers.const(15 << 4 * which))
        return cast(self.b, found, "i32", "f32", False)

    def of_few_rows(self, number: ir.Value) -> ir.Value:
        """sum over blocks of (sum of x * number - zero * sum of x) * scale: each number is only converted to float, and multiplied once."""
        b = self.b
        w, scale, zeros = self.panels(number, 1)
        inner = [self.stored, self.width, *self.group]
        w = b.reshape(w, [[0, 1], *([i + 2] for i in range(len(inner)))], [self.blocks, *inner])
        factors = [b.reshape(v, [[0, 1], [2]], [self.blocks, self.width]) for v in (scale, *zeros)]

        def sum_of_blocks(first: ir.Value, blocks: int, total: ir.Value) -> ir.Value:
            sums = self._sums_of_blocks(first, b.part(w, [first, *[0] * len(inner)], [blocks, *inner]), blocks)
            return self._scaled(sums, first, blocks, [b.part(v, [first, 0], [blocks, self.width]) for v in factors], total)

        costs = b.state.machine.costs
        group = costs.waiting_sums // (self.sums * self.width * (self.rows if isinstance(self.rows, int) else costs.conversion_rows))
        return _in_groups(b, self.blocks, group, b.filled(0, "f32", [*self.outer, self.width]), sum_of_blocks)

    def _sums_of_blocks(self, first: ir.Value, w: ir.Value, blocks: int) -> ir.Value:
        """sum of x * number for each of `blocks` blocks of a panel."""
        b, s, count = self.b, self.s, len(self.outer)
        shape = b.sizes(self.x)[count + 1 :]
        x = b.part(self.x, [*[0] * count, first, *[0] * len(shape)], [*self.outer, blocks, *shape])

        def of_a_byte(*values: ir.Value) -> ir.Value:
            x, byte, total = values
            return s.multiply_accumulate(x, self.number(byte), total)

        def of_a_word(*values: ir.Value) -> ir.Value:
            first, *others, word, total = values
            term = arith.MulFOp(first, self.nibble(word, 0), fastmath=arith.FastMathFlags.contract).result
            for which, x in enumerate(others, start=1):
                term = s.multiply_accumulate(x, self.nibble(word, which), term)
            return s.accumulate("add", term, total)

        *rows, block, column, place = dims(*range(count + 3))
        if self.each == 1:
            sides, body = [[*rows, block, place]], of_a_byte
        else:
            sides, body = [[*rows, block, place, ir.AffineConstantExpr.get(i)] for i in range(self.each)], of_a_word
        maps = [*sides, [block, place, column], [*rows, block, column]]
        return b.generic([*[x] * self.each, w], b.filled(0, "f32", [*self.outer, blocks, self.width]), maps, 1, body)

    def _parts(self, sums: ir.Value, first: ir.Value, blocks: int, loops: Sequence[Any]) -> tuple[list[ir.Value], list[Any]]:
        """The inputs of `_sum` for a block, and its indices in loops over rows, blocks and columns."""
        return [sums], [loops]

    def _sum(self, *parts: ir.Value) -> ir.Value:
        """The sum of x * number of a block."""
        return parts[0]

    def _scaled(self, sums: ir.Value, first: ir.Value, blocks: int, factors: list[ir.Value], total: ir.Value) -> ir.Value:
        """`total` plus the sum over blocks of (sum - zero * sum of x) * scale; `factors` are the scales and, if they differ, the zero points."""
        b, s, count = self.b, self.s, len(self.outer)
        *rows, column, block = dims(*range(count + 2))
        parts, loops = self._parts(sums, first, blocks, [*rows, block, column])
        sums_of_x = b.part(self.sums_of_x, [*[0] * count, first], [*self.outer, blocks])

        def of_a_block(*values: ir.Value) -> ir.Value:
            part = self._sum(*values[: len(parts)])
            all_of_x, factor, *zeros, before = values[len(parts) :]
            zero = s.neg(self.number(self.one_zero if self.one_zero is not None else zeros[0]))
            return s.multiply_accumulate(s.multiply_accumulate(all_of_x, zero, part), factor, before)

        maps = [*loops, [*rows, block], *[[block, column]] * len(factors), [*rows, column]]
        return b.generic([*parts, sums_of_x, *factors], total, maps, 1, of_a_block)

    def of_many_rows(self, first: ir.Value, count: int) -> ir.Value:
        """The product with `count` panels converted to floats."""
        b, s, rank = self.b, self.s, len(self.outer)
        w, scale, zeros = self.panels(first, count)

        def weight(found: ir.Value, factor: ir.Value, *values: ir.Value) -> ir.Value:
            if self.each == 1:
                one = self.number(found)
            else:  # the first of the neighbours is in the lowest bits
                shift = arith.index_cast(found.type, arith.muli(b.loop_index(3), b.index(4)))
                one = cast(b, arith.andi(arith.shrui(found, shift), b.scalar(15, "ui32")), "i32", "f32", False)
            zero = s.neg(self.number(self.one_zero if self.one_zero is not None else values[0]))
            return s.mul(s.add(one, zero), factor)

        panel, block, place, which, column = dims(*range(5))
        maps = [[panel, block, place, column], *[[panel, block, column]] * (1 + len(zeros)), [panel, block, place, which, column]]
        sizes: list[OpFoldResult] = [count, self.blocks, self.stored, self.each, self.width]
        floats = b.generic([w, scale, *zeros], b.empty("f32", sizes), maps, 0, weight)
        matrix = b.staged(b.reshape(floats, [[0], [1, 2, 3], [4]], [count, self.depth, self.width]))
        x = b.reshape(self.x, [*([i] for i in range(rank)), [rank, rank + 1]], [*self.outer, self.depth])
        *rows, panel, column, summed = dims(*range(rank + 3))
        return contract(b, x, [*rows, summed], matrix, [panel, summed, column], "f32", [*self.outer, count, self.width], 1)


class _SlicedProduct(_Product):
    """A product whose numbers lie in groups of bytes: rows of `x` become 24-bit integers per block, in slices of one byte each.

    Products of slices are summed exactly, by dot products of bytes (Ozaki, Ogita, Oishi and Rump, "Error-free transformations of matrix
    multiplication by using fast routines of matrix multiplication", Numerical Algorithms 59, 2012). A number of `x` is rounded to a multiple of
    2**-21 of the largest power of two in its block. An infinity makes its block NaN, and thus its row.
    """

    sums = 3

    def _factors(self) -> ir.Value:
        """The slices of `x`, ordered by weight, the lowest one first: (…, slice, block, word, half, position in it)."""
        b, s, count = self.b, self.s, len(self.outer)
        bits = Scalars(b, "i32")
        *rows, block, place = dims(*range(count + 2))
        zeros = b.filled(0, "f32", [*self.outer, self.blocks])
        largest = b.staged(b.generic([self.x], zeros, [[*rows, block, place], [*rows, block]], 1, lambda v, most: s.maximum(most, s.abs(v))))

        def exponent(most: ir.Value) -> ir.Value:
            found = arith.shrui(arith.bitcast(bits.type, most), bits.const(MANTISSA))
            return bits.maximum(found, bits.const(SLICED + 1))

        def unit(most: ir.Value, _: ir.Value) -> ir.Value:
            power = arith.shli(bits.sub(exponent(most), bits.const(SLICED)), bits.const(MANTISSA))
            return s.add(arith.bitcast(s.type, power), s.sub(most, most))  # NaN for infinities and NaN

        each = [dims(*range(count + 1))] * 2
        self.units = b.staged(b.generic([largest], b.empty("f32", [*self.outer, self.blocks]), each, 0, unit))

        def slice_(v: ir.Value, most: ir.Value, _: ir.Value) -> ir.Value:
            power = arith.shli(bits.sub(bits.const(2 * BIAS + SLICED), exponent(most)), bits.const(MANTISSA))
            rounded = s.add(s.mul(v, arith.bitcast(s.type, power)), s.const(ROUNDS))  # to an integer, in the lowest bits
            whole = bits.add(arith.bitcast(bits.type, rounded), bits.const(ABOVE_ZERO))
            shift = arith.muli(b.from_index(b.loop_index(count), "i32"), bits.const(8))
            return arith.xori(arith.trunci(element("i8"), arith.shrui(whole, shift)), b.scalar(-128, "i8"))

        *rows, which, block, place = dims(*range(count + 3))
        maps = [[*rows, block, place], [*rows, block], [*rows, which, block, place]]
        out = b.empty("i8", [*self.outer, self.sums, self.blocks, self.stored * self.each])
        sliced = b.staged(b.generic([self.x, largest], out, maps, 0, slice_))
        apart = [*self.outer, self.sums, self.blocks, self.stored, *GROUP]
        return b.reshape(sliced, [*([i] for i in range(count + 2)), [count + 2, count + 3, count + 4]], apart)

    def _sums_of_blocks(self, first: ir.Value, w: ir.Value, blocks: int) -> ir.Value:
        """sum of slice * number for each slice and each of `blocks` blocks of a panel."""
        b, bits, count = self.b, Scalars(self.b, "i32"), len(self.outer)
        inner = [self.stored, *GROUP]
        x = b.part(self.x, [*[0] * (count + 1), first, 0, 0, 0], [*self.outer, self.sums, blocks, *inner])
        *outer, block, column, word, half, place = dims(*range(count + 6))

        def body(part: ir.Value, byte: ir.Value, total: ir.Value) -> ir.Value:
            shift = arith.muli(b.from_index(b.loop_index(count + 4), "i8"), b.scalar(4, "i8"))
            number = arith.andi(arith.shrui(byte, shift), b.scalar(15, "i8"))
            return bits.multiply_accumulate(arith.extsi(bits.type, part), arith.extui(bits.type, number), total)

        maps = [[*outer, block, word, half, place], [block, word, column, place], [*outer, block, column]]
        return b.generic([x, w], b.filled(0, "i32", [*self.outer, self.sums, blocks, self.width]), maps, 3, body)

    def _parts(self, sums: ir.Value, first: ir.Value, blocks: int, loops: Sequence[Any]) -> tuple[list[ir.Value], list[Any]]:
        *rows, block, column = loops
        units = self.b.part(self.units, [*[0] * len(rows), first], [*self.outer, blocks])
        which = [[*rows, ir.AffineConstantExpr.get(i), block, column] for i in range(self.sums)]
        return [*[sums] * self.sums, units], [*which, [*rows, block]]

    def _sum(self, *parts: ir.Value) -> ir.Value:
        *slices, unit = parts
        total, *lower = [arith.sitofp(self.s.type, v) for v in reversed(slices)]
        for part in lower:
            total = self.s.multiply_accumulate(total, self.s.const(256), part)
        return self.s.mul(total, unit)
