"""The pass that deals large loops out to threads in chunks."""

from dataclasses import dataclass
from math import prod

from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.passes.affine_to_llvm.trip_counts import trip_count
from stepwell.passes.framework.registry import Pass, PassState, register_pass

_SEGMENTS = "operandSegmentSizes"
_REDUCTIONS = 5  # of the groups of operands of omp.wsloop
_CHUNK = 6
_REGISTER = 32  # bytes: what an operation is counted in
_FEW = 4  # iterations: a round for each thread, with an own part of the workspace
_ARITHMETIC = ("arith.", "math.", "vector.", "x86vector.", "memref.load", "memref.store")


@register_pass("guide-loops", level="affine", optional=True)
@dataclass
class GuideLoops(Pass):
    """Have threads take the iterations of large parallel loops chunk by chunk, in place of an equal share each.

    rewrite: omp.wsloop { … }  ->  omp.wsloop schedule(guided = iterations / pieces) { … }

    Cores are seldom equally fast: they share a physical core, its clock or a power budget with others, or are large and small ones. With equal
    shares all wait for the slowest. A chunk is a part of what is left, so there are few of them, and the last ones are small (guided
    self-scheduling: Polychronopoulos and Kuck, IEEE Transactions on Computers 36, 1987). A loop with less than `work` operations on a
    register, as far as constant bounds tell, keeps equal shares: taking a chunk costs some tenths of a microsecond, and in the cache of a core
    lies what its share of the loop before has written. So does one with a reduction, whose order of summation would be left to chance.
    """

    work: int = 500_000
    pieces: int = 64  # as many chunks as there are at most, but for the first ones

    def run(self, op: ir.Operation, state: PassState) -> None:
        for loop in list(ops_below(op, "omp.wsloop")):
            nest = loop.regions[0].blocks[0].operations[0].operation
            bounds = _bounds(nest)
            counts = [trip_count(bound) for bound in bounds]
            work = prod(map(_at_least, counts)) * _work(nest.regions[0].blocks[0])
            is_short = None not in counts and prod(map(_at_least, counts)) < _FEW
            if work < self.work or is_short or list(loop.attributes[_SEGMENTS])[_REDUCTIONS]:
                continue
            state.did(self.name, loop, f"threads take chunks of it, as it is {work:.0f} operations on registers or more")
            self._guide(loop, bounds)
            state.count(self.name)

    def _guide(self, loop: ir.Operation, bounds: list[list[ir.Value]]) -> None:
        attributes = {name: loop.attributes[name] for name in loop.attributes}
        sizes = list(attributes[_SEGMENTS])
        sizes[_CHUNK] = 1
        index = ir.IndexType.get()
        with ir.InsertionPoint(loop), loop.location:

            def make(name: str, *operands: ir.Value) -> ir.Value:
                return ir.Operation.create(name, results=[index], operands=list(operands)).result

            def number(value: int) -> ir.Value:
                return ir.Operation.create("arith.constant", results=[index], attributes={"value": ir.IntegerAttr.get(index, value)}).result

            iterations = number(1)
            for low, high, step in bounds:
                iterations = make("arith.muli", iterations, make("arith.ceildivsi", make("arith.subi", high, low), step))
            chunk = make("arith.maxsi", make("arith.divsi", iterations, number(self.pieces)), number(1))
            narrow = ir.Operation.create("arith.index_cast", results=[ir.IntegerType.get_signless(64)], operands=[chunk]).result
            attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get(sizes)
            attributes["schedule_kind"] = ir.Attribute.parse("#omp<schedulekind guided>")
            made = ir.Operation.create("omp.wsloop", operands=[*loop.operands, narrow], attributes=attributes, regions=1)
        for block in list(loop.regions[0].blocks):
            block.append_to(made.regions[0])
        loop.erase()


def _bounds(nest: ir.Operation) -> list[list[ir.Value]]:
    """First bound, second bound and step of each dimension of an `omp.loop_nest`."""
    operands = list(nest.operands)
    dimensions = len(operands) // 3
    return [operands[at::dimensions] for at in range(dimensions)]


def _work(block: ir.Block) -> float:
    """Operations on registers when a block is run once. A loop that goes round as often as only a run knows counts as one that does once."""
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
    """How many registers the largest value is that an operation makes or stores."""
    vectors = [value.type for value in (*operation.results, *operation.operands) if isinstance(value.type, ir.VectorType)]
    return max((prod(vector.shape) * _bytes(vector.element_type) / _REGISTER for vector in vectors), default=1.0)


def _bytes(element: ir.Type) -> float:
    return 8.0 if isinstance(element, ir.IndexType) else element.width / 8
