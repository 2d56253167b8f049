"""The lowering of top-k and sorting: elements become integers with the same order, and the best are selected by insertion or radix sort."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TypeAlias

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder, OpFoldResult, dims, element
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.order_codes import Codes, place_of_first
from stepwell.passes.schedule.parallel import THREADED_ROUNDS

FEWEST, SHORT = 8, 128
"""The largest k and row length for which several rows are searched side by side."""
FEW = 32
"""The largest k for which the best elements are kept sorted by insertion, one step for each element that is among the best so far."""
BLOCK = 32
"""Neighbouring elements that are skipped together if none is among the best."""
ENOUGH = 4
"""Blocks per selected element, whose maxima then bound the selected elements closely."""
DIGIT, LONG_DIGIT = 8, 11
"""Bits of a digit in one pass of a radix sort: short digits have small tables, long ones need fewer passes."""
LONG = 2048
"""The smallest number of elements for which fewer passes are worth larger tables."""

Step: TypeAlias = Callable[[ir.Value, list[ir.Value]], list[ir.Value]]
Better: TypeAlias = Callable[[ir.Value, list[ir.Value]], ir.Value]


@lowering(graph.TopKOp)
def lower_top_k(op: graph.TopKOp, operands: Operands, b: LinalgBuilder) -> list[ir.Value]:
    """The indices of the selected elements, in order, among equal ones the first one first; then the elements."""
    (x, _), attributes, results = operands, op.attribute_values(), op.result_types()
    axis, dtype, sizes = attributes["axis"], results[0].dtype, b.sizes(x)
    count = b.given(results[0].shape[axis])
    codes = Codes(b, dtype, attributes["largest"])
    out_sizes = [*sizes[:axis], count, *sizes[axis + 1 :]]
    empty = b.empty("i64", out_sizes)
    if isinstance(count, int) and suits_side_by_side(sizes, axis, count):
        places = side_by_side(codes, x, axis, count, empty)
    else:
        places = one_by_one(codes, x, axis, count, empty)

    def value(place: ir.Value) -> ir.Value:
        return b.extract(x, [b.as_index(place) if i == axis else b.loop_index(i) for i in range(len(sizes))])

    return [b.elementwise([places], dtype, out_sizes, value, exact=True), places]


def suits_side_by_side(sizes: Sequence[OpFoldResult], axis: int, count: int) -> bool:
    """Whether it pays to go through all elements of several rows at once."""
    size = sizes[axis]
    if count == 1:
        return size != 0
    return 1 < count <= FEWEST and isinstance(size, int) and (size <= SHORT or axis < len(sizes) - 1)


def side_by_side(codes: Codes, x: ir.Value, axis: int, count: int, out: ir.Value) -> ir.Value:
    """One generic whose loop along the axis carries, for each rank, the code and the index of the element.

    It runs backwards, so that an element comes before all that are no better than it.
    """
    b, rank, kind = codes.b, x.type.rank, codes.kind
    if count == 1:
        return b.insert(b.with_unit_dims(place_of_first(codes, x, axis), [axis]), out, [0] * rank)
    others = [i for i in range(rank) if i != axis]
    sizes = [b.size(x, i) for i in others]
    last = x.type.shape[axis] - 1
    source = [ir.AffineExpr.get_dim(rank - 1) * -1 + last if i == axis else ir.AffineExpr.get_dim(others.index(i)) for i in range(rank)]
    starts = [b.filled(0, dtype, sizes) for _ in range(count) for dtype in (kind, "i32")]

    def step(value: ir.Value, _: ir.Value, *kept: ir.Value) -> list[ir.Value]:
        code = codes.code(value)
        here = b.from_index(arith.subi(b.index(last), b.loop_index(rank - 1)), "i32")
        made: list[ir.Value] = []
        before: tuple[ir.Value, ir.Value] = (code, here)
        goes_here = None
        for old_code, old_place in zip(kept[::2], kept[1::2], strict=True):
            belongs = arith.cmpi(arith.CmpIPredicate.uge, code, old_code)
            new = (code, here) if goes_here is None else [arith.select(goes_here, b4, own) for b4, own in zip(before, (code, here), strict=True)]
            made += [arith.select(belongs, n, old) for n, old in zip(new, (old_code, old_place), strict=True)]
            before, goes_here = (old_code, old_place), belongs
        return made

    span = b.empty("i8", [last + 1])  # which determines the loop's extent, unlike a reversed access
    maps = [source, dims(rank - 1), *[dims(*range(rank - 1))] * len(starts)]
    found = b.generics([x, span], starts, maps, 1, step)[1::2]
    for number, where in enumerate(found):
        wide = b.elementwise([where], "i64", sizes, lambda v: arith.extsi(element("i64"), v))
        out = b.insert(b.with_unit_dims(wide, [axis]), out, [number if i == axis else 0 for i in range(rank)])
    return out


def one_by_one(codes: Codes, x: ir.Value, axis: int, count: OpFoldResult, out: ir.Value) -> ir.Value:
    """A loop over the rows, on threads if they have many elements."""
    b, sizes = codes.b, codes.b.sizes(x)
    others = [*sizes[:axis], *sizes[axis + 1 :]]

    def row(at: list[ir.Value], outs: list[ir.Value]) -> list[ir.Value]:
        line = b.line(x, at, axis)
        if isinstance(count, int) and count <= FEW:
            chosen = insertion_select(codes, line, sizes[axis], count)
        else:
            chosen = many(codes, line, sizes[axis], count)

        def put(place: ir.Value, outs: list[ir.Value]) -> list[ir.Value]:
            where = b.from_index(b.as_index(b.extract(chosen, [place])))
            return [b.insert_element(where, outs[0], [*at[:axis], place, *at[axis:]])]

        return b.loop(b.index(0), b.index_of(count), outs, put)

    known = [size for size in others if isinstance(size, int)]
    rows, length = prod(known), sizes[axis]
    if len(known) < len(others) or rows < 2 or not isinstance(length, int) or rows * length < b.state.machine.costs.threaded_work:
        return b.loops(others, [out], row)[0]
    piece = -(-rows // THREADED_ROUNDS)

    def rows_of_piece(number: ir.Value, outs: list[ir.Value]) -> list[ir.Value]:
        """The rows of one piece, one after the other: each piece has one copy of a row's temporaries."""
        start = arith.muli(number, b.index(piece))
        end = arith.minui(arith.addi(start, b.index(piece)), b.index(rows))
        return b.loop(start, end, outs, lambda place, outs: row(b.unflattened(place, known), outs))

    return b.independent(-(-rows // piece), [out], rows_of_piece)[0]


def insertion_select(codes: Codes, row: ir.Value, size: OpFoldResult, count: int) -> ir.Value:
    """The indices of the first `count` elements of a row in order: one pass that keeps them sorted.

    Blocks of neighbours whose best element is no better than the worst kept one are skipped.
    """
    b, kind = codes.b, codes.kind
    zero, room = b.index(0), max(1, count)
    best, where, last = b.filled(0, kind, [room]), b.filled(0, "i64", [room]), b.index(room - 1)

    def take(at: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        """Insert the element at an index into the sorted best ones: worse ones move on by one position."""
        code = codes.code(b.extract(row, [at]))

        def insert() -> list[ir.Value]:
            def step(i: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
                best, where, found, code, place = inner
                other, other_place = b.extract(best, [i]), b.extract(where, [i])
                free = arith.cmpi(arith.CmpIPredicate.sge, i, state[2])
                found = arith.ori(found, arith.ori(free, arith.cmpi(arith.CmpIPredicate.ugt, code, other)))
                best = b.insert_element(arith.select(found, code, other), best, [i])
                where = b.insert_element(arith.select(found, place, other_place), where, [i])
                return [best, where, found, arith.select(found, other, code), arith.select(found, other_place, place)]

            start = [state[0], state[1], b.scalar(False, "i1"), code, b.from_index(at)]
            best, where, *_ = b.loop(zero, b.index(count), start, step)
            return [best, where, arith.minsi(arith.addi(state[2], b.index(1)), b.index(count))]

        return b.branch(better(code, state), state, insert)

    def better(code: ir.Value, state: list[ir.Value]) -> ir.Value:
        """Whether a code belongs to the best so far."""
        free = arith.cmpi(arith.CmpIPredicate.slt, state[2], b.index(count))
        return arith.ori(free, arith.cmpi(arith.CmpIPredicate.ugt, code, b.extract(state[0], [last])))

    state = [best, where, zero]
    blocks = size // BLOCK if isinstance(size, int) else arith.divui(size, b.index(BLOCK))
    if blocks != 0:
        state = b.loop(zero, b.index_of(blocks), state, over_blocks(codes, greatest_of_blocks(codes, row, blocks), better, take))
    rest = blocks * BLOCK if isinstance(blocks, int) else arith.muli(blocks, b.index(BLOCK))
    return b.loop(b.index_of(rest), b.index_of(size), state, take)[1]


def over_blocks(codes: Codes, greatest: ir.Value, better: Better, take: Step) -> Step:
    """The body of a loop over blocks of a row: if the largest code of a block is `better`, its elements are taken one by one."""
    b = codes.b

    def pass_over(number: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        start = arith.muli(number, b.index(BLOCK))
        end = arith.addi(start, b.index(BLOCK))
        return b.branch(better(b.extract(greatest, [number]), state), state, lambda: b.loop(start, end, state, take))

    return pass_over


def greatest_of_blocks(codes: Codes, row: ir.Value, blocks: OpFoldResult) -> ir.Value:
    """The largest code of each whole block of a row."""
    b = codes.b
    block, inside = dims(0, 1)
    return b.generic(
        [row, b.empty("i8", [BLOCK])],  # the second input determines the extent of the loop over a block
        b.filled(0, codes.kind, [blocks]),
        [[block * BLOCK + inside], [inside], [block]],
        1,
        lambda value, _, most: arith.maxui(most, codes.code(value)),
    )


def many(codes: Codes, row: ir.Value, size: OpFoldResult, count: OpFoldResult) -> ir.Value:
    """The indices of the first `count` elements of a row in order, perhaps followed by others.

    Elements that are no worse than a bound are picked, then sorted. The bound is a code that at least `count` elements reach: the code of the last of
    them, or, if there are many more blocks, one that `count` block maxima reach. Blocks below it are skipped.
    """
    b, kind, zero = codes.b, codes.kind, codes.b.index(0)
    if isinstance(count, int) and count == size:
        return sort(codes, b.elementwise([row], kind, [size], codes.code, exact=True), size, count)
    whole = size // BLOCK if isinstance(size, int) and isinstance(count, int) and size // BLOCK >= ENOUGH * count else 0
    state = [b.empty(kind, [size]), b.empty("i32", [size]), zero]
    if whole:
        greatest = greatest_of_blocks(codes, row, whole)
        bound = reached(codes, greatest, count)
    else:
        code = b.elementwise([row], kind, [size], codes.code, exact=True)
        bound = reached(codes, code, count)

    def good(code: ir.Value, _: list[ir.Value]) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.uge, code, bound)

    def pick(at: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        picked, where, used = state
        value = codes.code(b.extract(row, [at])) if whole else b.extract(code, [at])
        picked = b.insert_element(value, picked, [used])
        where = b.insert_element(b.from_index(at, "i32"), where, [used])
        return [picked, where, arith.addi(used, arith.index_castui(ir.IndexType.get(), good(value, state)))]

    if whole:
        state = b.loop(zero, b.index(whole), state, over_blocks(codes, greatest, good, pick))
    picked, where, used = b.loop(b.index(whole * BLOCK), b.index_of(size), state, pick)
    return sort(codes, picked, used, count, where)


def reached(codes: Codes, code: ir.Value, count: OpFoldResult) -> ir.Value:
    """The largest code that at least `count` elements of a vector reach, found bit by bit from the highest on."""
    b, kind = codes.b, codes.kind

    def bit(number: ir.Value, found: list[ir.Value]) -> list[ir.Value]:
        place = b.from_index(arith.subi(b.index(codes.bits - 1), number), kind)
        least = arith.ori(found[0], arith.shli(b.scalar(1, kind), place))

        def counted(value: ir.Value, total: ir.Value) -> ir.Value:
            return arith.addi(total, arith.extui(element("i32"), arith.cmpi(arith.CmpIPredicate.uge, value, least)))

        reaching = b.as_index(b.extract(b.generic([code], b.filled(0, "i32", []), [dims(0), []], 1, counted), []))
        enough = arith.cmpi(arith.CmpIPredicate.sge, reaching, b.index_of(count))
        return [arith.select(enough, least, found[0])]

    return b.loop(b.index(0), b.index(codes.bits), [b.scalar(0, kind)], bit)[0]


def sort(codes: Codes, code: ir.Value, used: OpFoldResult, count: OpFoldResult, where: ir.Value | None = None) -> ir.Value:
    """`where`, or the numbers from 0 on, sorted by the first `used` codes in descending order; stable.

    A radix sort from the lowest digit on (Knuth, The Art of Computer Programming, volume 3, 5.2.5): a pass counts the occurrences of each digit to
    compute where its elements go.
    """
    b, kind = codes.b, codes.kind
    size = b.size(code, 0)
    digit = LONG_DIGIT if isinstance(count, int) and count >= LONG and codes.bits > 2 * DIGIT else min(DIGIT, codes.bits)
    passes, values = -(-codes.bits // digit), 1 << digit
    zero, end = b.index(0), b.index_of(used)

    def place(value: ir.Value, number: int) -> ir.Value:
        """The digit of a code in a pass, with the largest as 0."""
        turned = arith.xori(value, b.scalar(-1, kind))
        moved = arith.shrui(turned, b.scalar(number * digit, kind))
        return arith.index_castui(ir.IndexType.get(), arith.andi(moved, b.scalar((1 << digit) - 1, kind)))

    def count_digits(at: ir.Value, tables: list[ir.Value]) -> list[ir.Value]:
        value, [table] = b.extract(code, [at]), tables
        for number in range(passes):
            cell = [b.index(number), place(value, number)]
            table = b.insert_element(arith.addi(b.extract(table, cell), b.scalar(1, "i32")), table, cell)
        return [table]

    [table] = b.loop(zero, end, [b.filled(0, "i32", [passes, values])], count_digits)

    def add_up(cell: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        table, *sums = state
        for number in range(passes):
            own = [b.index(number), cell]
            times = b.extract(table, own)
            table = b.insert_element(sums[number], table, own)
            sums[number] = arith.addi(sums[number], times)
        return [table, *sums]

    def move(code: ir.Value, where: ir.Value | None, number: int, at: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        table, *outs = state
        value = b.extract(code, [at])
        cell = [b.index(number), place(value, number)]
        to = b.extract(table, cell)
        index = b.from_index(at, "i32") if where is None else b.extract(where, [at])
        moved = [b.insert_element(v, out, [b.as_index(to)]) for v, out in zip((index, value), outs, strict=False)]
        return [b.insert_element(arith.addi(to, b.scalar(1, "i32")), table, cell), *moved]

    table = b.loop(zero, b.index(values), [table, *[b.scalar(0, "i32")] * passes], add_up)[0]
    for number in range(passes):
        outs = [b.empty("i32", [size]), *([b.empty(kind, [size])] if number < passes - 1 else [])]
        table, where, *rest = b.loop(zero, end, [table, *outs], partial(move, code, where, number))
        code = rest[0] if rest else code
    assert where is not None
    return where
