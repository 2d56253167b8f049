"""The pass that distributes the iterations of large loops to threads in chunks."""

from math import prod

from stepwell.dialects.core.mlir import arith, ir, ops_below
from stepwell.dialects.core.symbolic_shapes import constant, element_bits
from stepwell.passes.affine_to_llvm.openmp_operands import groups_of_operands, with_operand
from stepwell.passes.affine_to_llvm.trip_counts import trip_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

_REDUCTIONS = 5  # index among the operand groups of omp.wsloop
_CHUNK = 6  # likewise
_REGISTER = 256
"""Bits of a register, the unit in which operations are counted; the same for all targets, so that `work` means one amount of work."""
_FEW = 4
"""The smallest number of iterations of a loop that may be chunked; below it, each iteration is one thread's, with its own part of the workspace."""
_ARITHMETIC = ("arith.", "math.", "vector.", "x86vector.", "memref.load", "memref.store")


@register_pass("guide-loops", level="affine", optional=True)
class GuideLoops(Pass):
    """Let threads take the iterations of large parallel loops chunk by chunk, instead of an equal share each.

    rewrite: omp.wsloop { … }  ->  omp.wsloop schedule(guided = iterations / pieces) { … }

    Cores are seldom equally fast: they share a physical core, its clock or a power budget with others, or come in large and small. With equal shares
    all wait for the slowest. A chunk is a fraction of the remaining iterations, so there are few chunks, and the last ones are small (guided
    self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers 36, 1987). A loop with less than `work` operations on a register, as
    far as constant bounds tell (about 0.2 ms on two cores), keeps equal shares: taking a chunk costs a few tenths of a microsecond, and each core's
    cache holds the data that its share of the previous loop wrote, which small loops behind a large one would miss as well. A loop with a reduction
    also keeps equal shares, because its order of summation would be nondeterministic.
    """

    work: int = 4_000_000
    pieces: int = 64  # upper bound on the number of chunks, not counting the first ones

    def run(self, op: ir.Operation, state: PassState) -> None:
        for loop in ops_below(op, "omp.wsloop"):
            nest = loop.regions[0].blocks[0].operations[0].operation
            bounds = _bounds(nest)
            counts = [trip_count(bound) for bound in bounds]
            iterations = prod(map(_at_least, counts))
            work = iterations * _work(nest.regions[0].blocks[0])
            is_short = None not in counts and iterations < _FEW
            if work < self.work or is_short or groups_of_operands(loop)[_REDUCTIONS]:
                continue
            state.did(self.name, loop, f"threads take chunks of it, as it is {work:.0f} operations on registers or more")
            with ir.InsertionPoint(loop), loop.location:
                chunk, guided = self._chunk(bounds), ir.Attribute.parse("#omp<schedulekind guided>")
            with_operand(loop, _CHUNK, chunk, {"schedule_kind": guided})
            state.count(self.name)

    def _chunk(self, bounds: list[list[ir.Value]]) -> ir.Value:
        """The smallest number of iterations of a chunk; the following canonicalisation folds constant bounds."""
        iterations = constant(1)
        for low, high, step in bounds:
            iterations = arith.MulIOp(iterations, arith.CeilDivSIOp(arith.SubIOp(high, low).result, step).result).result
        chunk = arith.MaxSIOp(arith.DivSIOp(iterations, constant(self.pieces)).result, constant(1)).result
        return arith.IndexCastOp(ir.IntegerType.get_signless(64), chunk).result


def _bounds(nest: ir.Operation) -> list[list[ir.Value]]:
    """Lower bound, upper bound and step of each dimension of an `omp.loop_nest`."""
    operands = list(nest.operands)
    dimensions = len(operands) // 3
    return [operands[at::dimensions] for at in range(dimensions)]


def _work(block: ir.Block) -> float:
    """Operations on registers in one execution of the block. A loop with a dynamic trip count counts as a single iteration."""
    total = 0.0
    for operation in [o.operation for o in block.operations]:
        inside = sum(_work(inner) for region in operation.regions for inner in region.blocks)
        if operation.name == "scf.for":
            inside *= _at_least(trip_count(list(operation.operands)[:3]))
        elif operation.name.startswith(_ARITHMETIC) and operation.name != "arith.constant":
            inside += _registers(operation)
        total += inside
    return total


def _at_least(count: int | None) -> int:
    return 1 if count is None else count


def _registers(operation: ir.Operation) -> float:
    """The number of registers of the largest value that an operation defines or stores."""
    vectors = [value.type for value in (*operation.results, *operation.operands) if isinstance(value.type, ir.VectorType)]
    return max((prod(vector.shape) * element_bits(vector.element_type) / _REGISTER for vector in vectors), default=1.0)
