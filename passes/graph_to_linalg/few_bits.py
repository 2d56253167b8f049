"""The lowering of products with weights of few bits: numbers become floats a panel at a time, where they are multiplied."""

from collections.abc import Callable

import numpy as np

from stepwell.dialects.core.kernel_info import KernelInfo, function_around
from stepwell.dialects.core.mlir import arith, ir
from stepwell.dialects.core.sizes import Size, known, product
from stepwell.dialects.graph import PackedMatmulOfBitsOp
from stepwell.passes.framework.rewriting import NoMatch
from stepwell.passes.graph.layout.few_bits import FEW_ROWS
from stepwell.passes.graph_to_linalg.casts import cast
from stepwell.passes.graph_to_linalg.contraction import contract
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.scalars import Scalars

NIBBLES = 8  # in a word
FLOATS_AT_ONCE = 1 << 20  # that are made of numbers for many rows: few enough for a cache, enough for all threads
SUMS_AT_ONCE = 1 << 10  # of blocks, that wait for their scales: few enough for the first cache, beside the numbers that pass through it


@lowering(PackedMatmulOfBitsOp)
def lower_packed_matmul_of_bits(op: PackedMatmulOfBitsOp, operands: Operands, b: LinalgBuilder) -> ir.Value | NoMatch:
    """For few rows a loop over panels, on threads: sums of some blocks at a time, which are scaled and added up while a first cache holds them.

    For many rows, or a number that only a run tells, a loop over groups of panels: these in floats, and their product with all rows.
    """
    types = op.operand_types()
    if not types[1].is_static or not known(types[0].shape[-1:]):
        return NoMatch(f"its columns and panels must have static sizes, got {types[0]} and {types[1]}")
    few = are_few(op)
    made = _Product(op, operands, b, few)
    outer, (panels, _, _, width) = b.sizes(operands[0])[:-1], types[1].static_shape
    out, before = [b.empty("f32", [*outer, panels, width])], [0] * len(outer)

    def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [b.insert(b.with_unit_dims(made.of_few_rows(number), [len(outer)]), carried[0], [*before, number, 0])]

    if few:
        return b.independent(panels, out, one)[0]

    def some(first: ir.Value, count: int, result: ir.Value) -> ir.Value:
        return b.insert(made.of_many_rows(first, count), result, [*before, first, 0])

    return _in_groups(b, panels, FLOATS_AT_ONCE // (made.depth * width), out[0], some)


def _in_groups(b: LinalgBuilder, count: int, group: int, start: ir.Value, some: Callable[[ir.Value, int, ir.Value], ir.Value]) -> ir.Value:
    """A loop over groups of neighbours, and what is left over: `some` takes the first of them, how many they are, and what came of those before."""
    group = min(count, max(1, group))
    rest = count % group

    def one(number: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        return [some(arith.muli(number, b.index(group)), group, carried[0])]

    out = some(b.index(0), count, start) if group == count else b.loop(b.index(0), b.index(count // group), [start], one)[0]
    return some(b.index(count - rest), rest, out) if rest else out


def rows_of(op: PackedMatmulOfBitsOp) -> int | Size | None:
    """How many rows a product has."""
    return product(op.operand_types()[0].shape[:-1])


def are_few(op: PackedMatmulOfBitsOp) -> bool:
    """Whether a product has few rows, or is in a version of its kernel for few of them."""
    rows, function = rows_of(op), function_around(op.operation)
    version = None if function is None else KernelInfo(function).version
    return (isinstance(rows, int) and rows <= FEW_ROWS) or (version is not None and (version.size, version.most) == (rows, FEW_ROWS))


class _Product:
    """One product being lowered, panel by panel."""

    def __init__(self, op: PackedMatmulOfBitsOp, operands: Operands, b: LinalgBuilder, few: bool) -> None:
        x, self.w, self.scale, self.zero = operands
        self.b, self.s, self.kind = b, Scalars(b, "f32"), op.operand_types()[1].dtype
        self.bits = op.attribute_values()["bits"]
        self.each = 1 if self.bits == 8 else NIBBLES
        _, self.blocks, self.stored, self.width = op.operand_types()[1].static_shape
        self.outer: list[OpFoldResult] = b.sizes(x)[:-1]
        self.rows = rows_of(op)
        count = len(self.outer)
        blocks = [*self.outer, self.blocks, self.stored * self.each]
        self.x = b.reshape(x, [*([i] for i in range(count)), [count, count + 1]], blocks)
        self.depth = self.blocks * self.stored * self.each
        self.one_zero = b.splat(self.zero) if self.zero.type.rank else b.extract(self.zero, [])
        if few:
            self.sums_of_x, self.x = self._sums(), self._for_nibbles()

    def _sums(self) -> ir.Value:
        """The sum of each block of `x`."""
        b, s = self.b, self.s
        *rows, block, place = dims(*range(len(self.outer) + 2))
        maps = [[*rows, block, place], [*rows, block]]
        zeros = b.filled(0, "f32", [*self.outer, self.blocks])
        return b.staged(b.generic([self.x], zeros, maps, 1, lambda v, total: s.accumulate("add", v, total)))

    def _for_nibbles(self) -> ir.Value:
        """`x` divided by what a nibble that stays where it is in its word counts: a power of two, so that the product is the same."""
        if self.each == 1:
            return self.x
        b, s, count = self.b, self.s, len(self.outer)
        apart = [*self.outer, self.blocks, self.stored, self.each]
        x = b.reshape(self.x, [*([i] for i in range(count + 1)), [count + 1, count + 2]], apart)
        factors = b.constant(np.array([0.5 ** (4 * i) for i in range(self.each - 1)] + [1], np.float32))
        loops = dims(*range(count + 3))
        return b.staged(b.generic([x, factors], b.empty("f32", apart), [loops, [loops[-1]], loops], 0, lambda v, factor, _: s.mul(v, factor)))

    def panels(self, first: ir.Value, count: int) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """The numbers, scales and zero points of some panels; no zero points where all weights have one."""
        b = self.b
        w = b.part(self.w, [first, 0, 0, 0], [count, self.blocks, self.stored, self.width])
        others = [self.scale] if self.one_zero is not None else [self.scale, self.zero]
        scale, *zeros = (b.part(v, [first, 0, 0], [count, self.blocks, self.width]) for v in others)
        return w, scale, zeros

    def number(self, value: ir.Value) -> ir.Value:
        """A number, or a zero point, as a float."""
        return cast(self.b, value, self.kind if self.bits == 8 else "ui8", "f32", False)

    def nibble(self, word: ir.Value, which: int) -> ir.Value:
        """A nibble of a word as a float, times what it counts there; the last one as it is, since there it would be the sign."""
        integers = Scalars(self.b, "ui32")
        last = which == self.each - 1
        found = arith.shrui(word, integers.const(4 * which)) if last else arith.andi(word, integers.const(15 << 4 * which))
        return cast(self.b, found, "i32", "f32", False)

    def of_few_rows(self, number: ir.Value) -> ir.Value:
        """sum over blocks of (sum of x * number - zero * sum of x) * scale: a number only becomes a float, and is multiplied once."""
        b, count = self.b, len(self.outer)
        w, scale, zeros = self.panels(number, 1)
        w = b.reshape(w, [[0, 1], [2], [3]], [self.blocks, self.stored, self.width])
        factors = [b.reshape(v, [[0, 1], [2]], [self.blocks, self.width]) for v in (scale, *zeros)]
        before = [0] * count

        def some(first: ir.Value, blocks: int, total: ir.Value) -> ir.Value:
            shape = b.sizes(self.x)[count + 1 :]
            x = b.part(self.x, [*before, first, *[0] * len(shape)], [*self.outer, blocks, *shape])
            sums = self._sums_of_blocks(x, b.part(w, [first, 0, 0], [blocks, self.stored, self.width]), blocks)
            sums_of_x = b.part(self.sums_of_x, [*before, first], [*self.outer, blocks])
            return self._scaled(sums, sums_of_x, [b.part(v, [first, 0], [blocks, self.width]) for v in factors], total)

        group = SUMS_AT_ONCE // (self.width * (self.rows if isinstance(self.rows, int) else FEW_ROWS))
        return _in_groups(b, self.blocks, group, b.filled(0, "f32", [*self.outer, self.width]), some)

    def _sums_of_blocks(self, x: ir.Value, w: ir.Value, blocks: int) -> ir.Value:
        """sum of x * number of each of so many blocks of a panel."""
        b, s, count = self.b, self.s, len(self.outer)

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

    def _scaled(self, sums: ir.Value, sums_of_x: ir.Value, factors: list[ir.Value], total: ir.Value) -> ir.Value:
        """`total` and sum over blocks of (sum - zero * sum of x) * scale; `factors` are the scales and, where they differ, the zero points."""
        b, s = self.b, self.s

        def of_a_block(part: ir.Value, all_of_x: ir.Value, factor: ir.Value, *values: ir.Value) -> ir.Value:
            zero = s.neg(self.number(self.one_zero if self.one_zero is not None else values[0]))
            return s.multiply_accumulate(s.multiply_accumulate(all_of_x, zero, part), factor, values[-1])

        *rows, column, block = dims(*range(len(self.outer) + 2))
        maps = [[*rows, block, column], [*rows, block], *[[block, column]] * len(factors), [*rows, column]]
        return b.generic([sums, sums_of_x, *factors], total, maps, 1, of_a_block)

    def of_many_rows(self, first: ir.Value, count: int) -> ir.Value:
        """The product with so many panels in floats."""
        b, s, rank = self.b, self.s, len(self.outer)
        w, scale, zeros = self.panels(first, count)

        def weight(found: ir.Value, factor: ir.Value, *values: ir.Value) -> ir.Value:
            if self.each == 1:
                one = self.number(found)
            else:  # the first of the neighbours is in the lowest bits
                shift = arith.index_cast(found.type, arith.muli(b.here(3), b.index(4)))
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
