"""Lowerings of ops that select elements by value, into tensors of the largest possible size."""

from dataclasses import dataclass

from stepwell.dialects import graph
from stepwell.dialects.core.mlir import arith, ir, math
from stepwell.dialects.core.types import is_float
from stepwell.passes.graph_to_linalg.linalg_builder import LinalgBuilder
from stepwell.passes.graph_to_linalg.lowerings import Operands, lowering
from stepwell.passes.graph_to_linalg.order_codes import Codes
from stepwell.passes.graph_to_linalg.reshaping import product
from stepwell.passes.graph_to_linalg.scalars import Scalars

_CMP = arith.CmpIPredicate


@lowering(graph.FirstOp)
def lower_first(op: graph.FirstOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """A slice from the beginning."""
    return b.first(operands[0], b.given_all(op.result_types()[0].shape))


@lowering(graph.OverwriteOp)
def lower_overwrite(op: graph.OverwriteOp, operands: Operands, b: LinalgBuilder) -> ir.Value:
    """The part, inserted at its start."""
    if 0 in operands[1].type.shape:  # nothing, which may begin behind the last element
        return operands[0]
    return b.insert(operands[1], operands[0], b.given_all(op.attribute_values()["starts"]))


@lowering(graph.NonZeroPlacesOp)
def lower_non_zero_places(op: graph.NonZeroPlacesOp, operands: Operands, b: LinalgBuilder) -> list[ir.Value]:
    """One pass without branches: each element's index is written behind those found so far, and is kept if the element is not 0."""
    (x,), s = operands, Scalars(b, op.operand_types()[0].dtype)

    def look(at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        places, found = carried
        for i, iv in enumerate(at):
            places = b.insert_element(b.from_index(iv), places, [b.index(i), found])
        is_set = s.compare("ne", b.widen(b.extract(x, at)), s.const(0))
        return [places, arith.AddIOp(found, arith.IndexCastUIOp(ir.IndexType.get(), is_set).result).result]

    sizes = b.sizes(x)
    places, found = b.loops(sizes, [b.empty("i64", [x.type.rank, product(b, sizes)]), b.index(0)], look)
    return [places, one_number(b, found)]


def one_number(b: LinalgBuilder, number: ir.Value) -> ir.Value:
    """An index as a vector of one i64."""
    return b.insert_element(b.from_index(number), b.empty("i64", [1]), [b.index(0)])


@lowering(graph.OrderRowsOp)
def lower_order_rows(op: graph.OrderRowsOp, operands: Operands, b: LinalgBuilder) -> list[ir.Value]:
    """A bottom-up merge sort of the row numbers; two rows are compared by the codes of their elements up to the first difference."""
    (x,), kind = operands, op.operand_types()[0]
    codes = Codes(b, kind.dtype if kind.dtype != "i1" else "ui8", largest=True)
    rows, columns = (b.index_of(b.size(x, i)) for i in range(2))
    zero, one, two = b.index(0), b.index(1), b.index(2)

    def code(row: ir.Value, column: ir.Value) -> ir.Value:
        value = b.extract(x, [row, column])
        return codes.code(arith.ExtUIOp(ir.IntegerType.get_signless(8), value).result if kind.dtype == "i1" else value)

    def compared(left: ir.Value, right: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Whether row `right` comes before row `left`, and whether the two are equal."""
        if kind.shape[1] == 1:
            one_code, other = code(left, zero), code(right, zero)
            return arith.CmpIOp(_CMP.ult, other, one_code).result, arith.CmpIOp(_CMP.eq, one_code, other).result
        false, true = b.scalar(0, "i1"), b.scalar(1, "i1")

        def look(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            before, equal = carried
            one_code, other = code(left, column), code(right, column)
            less = arith.CmpIOp(_CMP.ult, other, one_code).result
            same = arith.CmpIOp(_CMP.eq, one_code, other).result
            return [arith.SelectOp(equal, less, before).result, arith.AndIOp(equal, same).result]

        before, equal = b.loop(zero, columns, [false, true], look)
        return before, equal

    def merge(run: ir.Value, width: ir.Value, side: ir.Value, both: ir.Value) -> ir.Value:
        """Merge the runs of `width` from `run` on, from one buffer to the other; among equal rows those of the first run come first."""
        middle = arith.MinSIOp(arith.AddIOp(run, width).result, rows).result
        end = arith.MinSIOp(arith.AddIOp(middle, width).result, rows).result
        last = arith.SubIOp(rows, one).result

        def step(place: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            left, right, out = carried
            rows_at = [b.as_index(b.extract(out, [side, arith.MinSIOp(at, last).result])) for at in (left, right)]
            earlier, _ = compared(*rows_at)
            has_left, has_right = (arith.CmpIOp(_CMP.slt, at, bound).result for at, bound in ((left, middle), (right, end)))
            from_right = arith.AndIOp(has_right, arith.OrIOp(arith.XOrIOp(has_left, b.scalar(1, "i1")).result, earlier).result).result
            taken = arith.SelectOp(from_right, rows_at[1], rows_at[0]).result
            out = b.insert_element(b.from_index(taken), out, [arith.SubIOp(one, side).result, place])
            moved = arith.IndexCastUIOp(ir.IndexType.get(), from_right).result
            return [arith.AddIOp(left, arith.SubIOp(one, moved).result).result, arith.AddIOp(right, moved).result, out]

        return b.loop(run, end, [run, middle, both], step)[2]

    def sweep(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        width, side, both = carried
        pair = arith.MulIOp(width, two).result

        def one_run(number: ir.Value, inside: list[ir.Value]) -> list[ir.Value]:
            return [merge(arith.MulIOp(number, pair).result, width, side, inside[0])]

        both = b.loop(zero, arith.CeilDivSIOp(rows, pair).result, [both], one_run)[0]
        return [pair, arith.SubIOp(one, side).result, both]

    # The numbers are in two buffers: each pass reads from one, and writes runs of twice the width to the other.
    count = b.size(x, 0)
    both = b.elementwise([], "i64", [2, count], lambda: b.from_index(b.loop_index(1)))
    bits = math.CountLeadingZerosOp(arith.SubIOp(b.from_index(rows), b.scalar(1, "i64")).result).result
    some = arith.CmpIOp(_CMP.ne, rows, zero).result
    sweeps = arith.SelectOp(some, b.as_index(arith.SubIOp(b.scalar(64, "i64"), bits).result), zero).result
    _, side, both = b.loop(zero, sweeps, [one, zero, both], sweep)

    def row_at(place: ir.Value) -> ir.Value:
        return b.as_index(b.extract(both, [side, place]))

    def starts(place: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        before = arith.MaxSIOp(arith.SubIOp(place, one).result, zero).result
        _, equal = compared(row_at(before), row_at(place))
        first = arith.CmpIOp(_CMP.eq, place, zero).result
        differs = arith.OrIOp(first, arith.XOrIOp(equal, b.scalar(1, "i1")).result).result
        return [b.insert_element(differs, carried[0], [place])]

    order = b.elementwise([], "i64", [count], lambda: b.extract(both, [side, b.loop_index(0)]), exact=True)
    return [order, b.loop(zero, rows, [b.empty("i1", [count])], starts)[0]]


@lowering(graph.KeptBoxesOp)
def lower_kept_boxes(op: graph.KeptBoxesOp, operands: Operands, b: LinalgBuilder) -> list[ir.Value]:
    """For each image and class: the boxes above the threshold, then repeatedly the best remaining one, which removes those that it overlaps.

    That is one pass over the candidates for each box that is kept.
    """
    boxes, scores, most, iou, least = operands
    s = Scalars(b, op.operand_types()[0].dtype)
    count = b.index_of(b.size(scores, 2))
    zero, one = b.index(0), b.index(1)
    largest = b.as_index(b.extract(most, []))
    overlap, threshold = (as_type(b, b.widen(b.extract(v, [])), s.dtype) for v in (iou, least))
    choice = _Suppression(b, s, boxes, scores, count, zero, one, largest, overlap, threshold, is_centred=op.attribute_values()["centred"])
    total = product(b, b.sizes(scores))
    rows = b.empty("i64", [total, 3])
    scratch = [b.empty("i64", [b.size(scores, 2)]), b.empty(s.dtype, [b.size(scores, 2)])]
    rows, found, *_ = b.loops([b.size(scores, 0), b.size(scores, 1)], [rows, zero, *scratch], choice.of_class)
    return [rows, one_number(b, found)]


@dataclass
class _Suppression:
    """The steps of `lower_kept_boxes`; values are of type index, or floats of `s`."""

    b: LinalgBuilder
    s: Scalars
    boxes: ir.Value
    scores: ir.Value
    count: ir.Value
    """The number of boxes of an image."""
    zero: ir.Value
    one: ir.Value
    largest: ir.Value
    """The largest number of boxes to keep."""
    overlap: ir.Value
    """The overlap above which a box is taken out, as the ratio of areas."""
    threshold: ir.Value
    """The least score."""
    is_centred: bool

    def of_class(self, at: list[ir.Value], carried: list[ir.Value]) -> list[ir.Value]:
        """Go over the boxes of an image and a class. Carried are the rows that are kept, their number, and candidates with their scores."""
        b, (image, number), (rows, found, candidates, values) = self.b, at, carried

        def collect(box: ir.Value, kept: list[ir.Value]) -> list[ir.Value]:
            chosen, own, so_far = kept
            score = b.widen(b.extract(self.scores, [image, number, box]))
            chosen = b.insert_element(b.from_index(box), chosen, [so_far])
            own = b.insert_element(score, own, [so_far])
            good = self.s.compare("gt", score, self.threshold)
            return [chosen, own, arith.AddIOp(so_far, arith.IndexCastUIOp(ir.IndexType.get(), good).result).result]

        candidates, values, left = b.loop(self.zero, self.count, [candidates, values, self.zero], collect)
        rounds = arith.MaxSIOp(arith.MinSIOp(self.largest, left).result, self.zero).result

        def keep(_: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            return b.branch(arith.CmpIOp(_CMP.sgt, state[-1], self.zero).result, state, lambda: self._keep_best(image, number, state))

        return b.loop(self.zero, rounds, [rows, found, candidates, values, left], keep)[:4]

    def _keep_best(self, image: ir.Value, number: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        """Move the best candidate to the rows that are kept, and take out those that it overlaps."""
        b, (rows, found, candidates, values, left) = self.b, state

        def better(place: ir.Value, best: list[ir.Value]) -> list[ir.Value]:
            value = b.extract(values, [place])
            wins = self.s.compare("gt", value, best[1])
            return [arith.SelectOp(wins, place, best[0]).result, arith.SelectOp(wins, value, best[1]).result]

        best = b.loop(self.one, left, [self.zero, b.extract(values, [self.zero])], better)[0]
        chosen = b.as_index(b.extract(candidates, [best]))
        mine = self._corners(image, chosen)
        for column, value in enumerate((image, number, chosen)):
            rows = b.insert_element(b.from_index(value), rows, [found, b.index(column)])

        def thin(place: ir.Value, kept: list[ir.Value]) -> list[ir.Value]:
            inside, own, so_far = kept
            box = b.extract(inside, [place])
            value = b.extract(own, [place])
            is_best = arith.CmpIOp(_CMP.eq, place, best).result
            gone = arith.OrIOp(is_best, self._overlap(mine, self._corners(image, b.as_index(box)))).result
            inside = b.insert_element(box, inside, [so_far])
            own = b.insert_element(value, own, [so_far])
            stays = arith.SubIOp(self.one, arith.IndexCastUIOp(ir.IndexType.get(), gone).result).result
            return [inside, own, arith.AddIOp(so_far, stays).result]

        rest = b.loop(self.zero, left, [candidates, values, self.zero], thin)
        return [rows, arith.AddIOp(found, self.one).result, *rest]

    def _corners(self, image: ir.Value, box: ir.Value) -> list[ir.Value]:
        """The lower and the upper corner of a box, and its area."""
        b, s = self.b, self.s
        a, c, d, e = (b.widen(b.extract(self.boxes, [image, box, b.index(i)])) for i in range(4))
        if self.is_centred:
            half = s.const(0.5)
            low, high = [s.sub(a, s.mul(d, half)), s.sub(c, s.mul(e, half))], [s.add(a, s.mul(d, half)), s.add(c, s.mul(e, half))]
        else:
            low, high = [s.minimum(a, d), s.minimum(c, e)], [s.maximum(a, d), s.maximum(c, e)]
        return [*low, *high, s.mul(s.sub(high[0], low[0]), s.sub(high[1], low[1]))]

    def _overlap(self, mine: list[ir.Value], other: list[ir.Value]) -> ir.Value:
        """Whether two boxes, each as corners and area, overlap by too much."""
        s = self.s
        sides = [s.sub(s.minimum(mine[i + 2], other[i + 2]), s.maximum(mine[i], other[i])) for i in range(2)]
        nothing = s.const(0)
        common = s.mul(*(s.maximum(side, nothing) for side in sides))
        union = s.sub(s.add(mine[4], other[4]), common)
        real = [s.compare("gt", value, nothing) for value in (common, mine[4], other[4], union)]
        above = s.compare("gt", s.div(common, union), self.overlap)
        # The ratio of boxes without an area is 0, which only a threshold below that is less than.
        always = s.compare("gt", nothing, self.overlap)
        every = real[0]
        for flag in real[1:]:
            every = arith.AndIOp(every, flag).result
        return arith.SelectOp(every, above, always).result


def as_type(b: LinalgBuilder, value: ir.Value, dtype: str) -> ir.Value:
    """A float in another float type."""
    wanted = Scalars(b, dtype).type
    if value.type == wanted or not is_float(dtype):
        return value
    return (arith.ExtFOp if wanted.width > value.type.width else arith.TruncFOp)(wanted, value).result
