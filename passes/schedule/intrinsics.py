"""Maps a structured op to a dot product of the target: which operand goes where, and along which dimensions."""

from dataclasses import dataclass, replace

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Size, is_static
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.dialects.target.dot_products import Intrinsic, dot_products
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.factors import Factor
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.segments import Segment


@dataclass(frozen=True)
class Use:
    """How an intrinsic computes a contraction."""

    intrinsic: Intrinsic
    sides: tuple[int, int]
    """The inputs of the op that are the first and the second operand of the intrinsic."""
    signed: tuple[bool, bool]
    """Whether each of them is sign-extended."""
    values: tuple[ir.Value, ir.Value]
    """The functions that the body applies to them before widening."""
    summed: int
    """The dimension whose neighbouring iterations are summed in one lane, if vectors do not lie along a reduction dimension."""
    rows: int | None = None
    """The dimension along which the rows of tile registers lie, if there is more than one row."""
    steps: int | None = None
    """The reduction dimension along which the rows of the second operand lie, if there is more than one."""

    def cut(self, dim: int, extent: "int | Size") -> "list[tuple[Segment, Use | None]]":
        """The segments of a reduction dimension: whole blocks, computed by this intrinsic, and the remainder, computed by the body."""
        step = 1
        if dim == self.summed:
            step = self.intrinsic.depth
        elif dim == self.steps and self.intrinsic.tile is not None:
            step = self.intrinsic.tile.steps
        whole = extent // step * step
        if whole == extent:
            return [(Segment(0, extent, step), self)]
        rest = extent - whole
        if dim == self.steps and isinstance(rest, int):
            return [*([(Segment(0, whole, step), self)] if whole else []), (Segment(whole, extent, rest), self)]
        return [(Segment(0, whole, step), self), (Segment(whole, extent, 1), None)]

    def is_grouped(self, access: Access, vector: int) -> bool:
        """Whether an input has the operand's layout in memory: for each lane along `vector`, its neighbours side by side."""
        return access.kind(self.summed) == "vector" and access.distance(vector) == self.intrinsic.depth

    def innermost(self, op: Structured) -> int:
        """The innermost reduction dimension of `op` that blocks walk: preferably not one that a single block covers whole."""
        whole = op.sizes[self.summed] <= self.intrinsic.depth
        return next((d for d in reversed(op.reduction_dims) if d != self.summed or not whole), self.summed)

    def is_as_wide(self, access: Access, op: Structured) -> bool:
        """Whether the operand to which an input of `op` goes has the same number of bits, so that nothing is widened."""
        operands = zip(self.sides, self.intrinsic.operands, strict=True)
        return any(op.inputs[i] is access and int(kind[1:]) == element_bits(access.element_type) for i, kind in operands)


def available(op: Structured, target: Target | None) -> dict[str, Use]:
    """The intrinsics of `target` that can compute `op`, by name, largest first."""
    return {name: use for name, use in considered(op, target).items() if isinstance(use, Use)}


def considered(op: Structured, target: Target | None) -> dict[str, Use | NoMatch]:
    """The intrinsics of `target` by name, largest first: how each computes `op`, or why it cannot."""
    return {i.name: use_of(i, op) for i in sorted(dot_products(target or GENERIC), key=lambda i: -i.products)}


def use_of(chosen: Intrinsic, op: Structured) -> Use | NoMatch:
    """How `chosen` computes `op`, or why it cannot."""
    if op.kind != "contraction":
        return NoMatch("it is no contraction")
    factors = op.factors
    if factors is None:
        return NoMatch("its body is not a sum of products of two inputs of integers, or of bf16")
    if str(op.outputs[0].element_type) != chosen.result:
        return NoMatch(f"it sums in {op.outputs[0].element_type}, not {chosen.result}")
    order = _in_tiles(chosen, op, factors) if chosen.tile is not None else chosen.takes(*(factor.kind for factor in factors))
    if isinstance(order, NoMatch):
        return order
    if order is None:
        return NoMatch(f"its inputs do not fit {' and '.join(chosen.operands)}")
    sides = [factors[i] for i in order]
    summed = _summed(op, [side.index for side in sides], chosen.depth)
    if summed is None:
        return NoMatch(f"no summed dimension that both inputs move along has {chosen.depth} iterations")
    first, second = sides
    use = Use(chosen, (first.index, second.index), (first.kind[0] == "s", second.kind[0] == "s"), (first.value, second.value), summed)
    return use if chosen.tile is None else _tiled(use, op)


def _in_tiles(chosen: Intrinsic, op: Structured, factors: list[Factor]) -> tuple[int, int] | NoMatch | None:
    """The inputs with the rows and with the lanes; None if their types are not those of the operands, or not as wide."""
    grouped = [n for n, factor in enumerate(factors) if any(op.inputs[factor.index].distance(d) == chosen.depth for d in op.parallel_dims)]
    if len(grouped) != 1:
        return NoMatch("neither input has its neighbours side by side for each column, or both do")
    order = (0, 1) if grouped == [1] else (1, 0)
    return order if tuple(factors[n].kind for n in order) == chosen.operands else None


def _tiled(use: Use, op: Structured) -> Use | NoMatch:
    """`use` with the dimensions along which tile registers lie, or why it has none."""
    x, y = (op.inputs[index] for index in use.sides)
    lanes = [d for d in op.parallel_dims if use.is_grouped(y, d) and x.kind(d) == "scalar"]
    others = [d for d in op.reduction_dims if d != use.summed]
    if len(lanes) != 1 or x.kind(use.summed) != "vector" or not is_static([op.bounds[d] for d in op.reduction_dims]):
        return NoMatch("its inputs do not lie in memory as rows of tiles, or only a run knows how much it sums")
    if op.sizes[use.summed] % use.intrinsic.depth:
        return NoMatch(f"its {op.sizes[use.summed]} neighbours are no multiple of {use.intrinsic.depth}")
    rows = [d for d in op.parallel_dims if op.sizes[d] > 1 and x.distance(d) is not None and x.kind(d) != "scalar" and y.kind(d) == "scalar"]
    steps = [d for d in others if op.sizes[d] > 1 and x.distance(d) == use.intrinsic.depth and y.distance(d) is not None]
    return replace(use, rows=max(rows, key=lambda d: (op.sizes[d], d), default=None), steps=max(steps, default=None))


def _summed(op: Structured, inputs: list[int], depth: int) -> int | None:
    """The reduction dimension whose neighbours are combined: the one along which most inputs are contiguous, the innermost of equals."""
    moving = [d for d in op.reduction_dims if op.sizes[d] >= depth and all(op.inputs[i].kind(d) != "scalar" for i in inputs)]
    return max(moving, key=lambda d: (sum(op.inputs[i].kind(d) == "vector" for i in inputs), d), default=None)
