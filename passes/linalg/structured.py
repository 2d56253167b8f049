"""A view of a linalg op (on tensors or memrefs) as an iteration space with accesses, for scheduling and lowering."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import defining_op, ir, known_index, linalg, ops_below, use_count
from stepwell.dialects.core.sizes import Dim, Size, always, product, sizes_text
from stepwell.dialects.core.symbolic_shapes import SymbolicShapes, fewer, likely, shapes_around
from stepwell.dialects.sched.fused_loops import FusedLoop
from stepwell.dialects.sched.schedule_info import LoopInfo, ScheduleInfo
from stepwell.dialects.support.errors import PassError
from stepwell.dialects.support.properties import cached_property
from stepwell.passes.linalg.accesses import Access, last_stride
from stepwell.passes.linalg.factors import Factor, product_factors
from stepwell.passes.linalg.views import origin

STRUCTURED = ("linalg.generic", "linalg.fill")
VECTOR_DIALECTS = ("arith", "math")
READS = ("tensor.extract", "memref.load")  # reads of an element at indices that the body computes
LOOP = "scf.for"
WITHOUT_VALUE = ("linalg.yield", "scf.yield")
# Reductions that may be split into lanes: the combining op of the body, and its `vector.reduction` kind.
COMBINERS = {
    "arith.addf": "add", "arith.addi": "add", "arith.mulf": "mul", "arith.muli": "mul", "arith.maximumf": "maximumf", "arith.minimumf": "minimumf",
    "arith.maxnumf": "maxnumf", "arith.maxsi": "maxsi", "arith.minsi": "minsi", "arith.maxui": "maxui", "arith.minui": "minui",
    "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor",
}  # fmt: skip

CONVERSIONS = (
    "arith.extf", "arith.truncf", "arith.extsi", "arith.extui", "arith.trunci", "arith.sitofp", "arith.uitofp",
)  # fmt: skip


class Structured:
    """A linalg.generic or linalg.fill as an iteration space."""

    def __init__(self, op: ir.Operation) -> None:
        self.operation: ir.Operation = op.operation
        if self.operation.name not in STRUCTURED:
            raise PassError(f"'{self.operation.name}' at {self.operation.location} is not a linalg.generic or linalg.fill")

    @cached_property
    def is_fill(self) -> bool:
        return self.operation.name == "linalg.fill"

    @property
    def body(self) -> ir.Block:
        return self.operation.regions[0].blocks[0]

    @cached_property
    def accesses(self) -> list[Access]:
        """Inputs, then outputs."""
        if self.is_fill:
            out = self.operation.operands[1]
            rank = len(ir.ShapedType(out.type).shape)
            maps = [ir.AffineMap.get(rank, 0, []), ir.AffineMap.get_identity(rank)]
        else:
            maps = [ir.AffineMapAttr(a).value for a in self.operation.attributes["indexing_maps"]]
        arguments = self.body.arguments
        return [Access(v, m, any(True for _ in a.uses)) for v, m, a in zip(self.operation.operands, maps, arguments, strict=True)]

    @cached_property
    def outputs(self) -> list[Access]:
        count = 1 if self.is_fill else self.operation.attributes["operandSegmentSizes"][1]
        return self.accesses[len(self.accesses) - count :]

    @cached_property
    def inputs(self) -> list[Access]:
        return self.accesses[: len(self.accesses) - len(self.outputs)]

    @cached_property
    def iterators(self) -> list[str]:
        """The kind of each dimension: "parallel" or "reduction"."""
        if self.is_fill:
            return ["parallel"] * self.accesses[0].map.n_dims
        kinds = str(self.operation.attributes["iterator_types"]).split(",")  # one text: printing one kind costs as much as printing all
        return ["reduction" if "reduction" in kind else "parallel" for kind in kinds if "<" in kind]

    @cached_property
    def parallel_dims(self) -> list[int]:
        return [i for i, kind in enumerate(self.iterators) if kind == "parallel"]

    @cached_property
    def reduction_dims(self) -> list[int]:
        return [i for i, kind in enumerate(self.iterators) if kind == "reduction"]

    @cached_property
    def fused(self) -> tuple[FusedLoop, ...]:
        """The fused loops of this op. Raises PassError for a dimension or step that the op does not have."""
        loops = ScheduleInfo(self.operation).fused
        for loop in loops:
            if loop.dim not in self.parallel_dims or self.bounds[loop.dim] % loop.unit != 0:
                raise PassError(
                    f"'{self.operation.name}' at {self.operation.location} cannot be fused in loop '{loop.loop}' over dimension {loop.dim} in steps "
                    f"of {loop.unit}: its parallel dimensions are {self.parallel_dims}, of extents {[self.bounds[d] for d in self.parallel_dims]}"
                )
        return loops

    @cached_property
    def may_thread(self) -> bool:
        """Whether its own loops may run on threads: not if it is inside a loop that runs on threads, or in a fused loop that may."""
        return not self.fused and LoopInfo.parallel_around(self.operation) is None

    @cached_property
    def sizes(self) -> list[int]:
        """The iterations of each dimension in the op's own nest: its extent, or the step of the fused loop over it."""
        steps = {loop.dim: loop.step for loop in self.fused}
        return [steps.get(d, extent) for d, extent in enumerate(self.extents)]

    @cached_property
    def free(self) -> frozenset[int]:
        """The dimensions with a dynamic extent."""
        return frozenset(d for d, size in enumerate(self.bounds) if not isinstance(size, int))

    @cached_property
    def open(self) -> frozenset[int]:
        """The dynamic dimensions that the op's own nest walks, not in steps of a fused loop."""
        return self.free - {loop.dim for loop in self.fused}

    @cached_property
    def extents(self) -> list[int]:
        """The extent of each dimension, from the operands' shapes; the likely one for a dynamic dimension.

        Raises PassError if one is not determined.
        """
        return [size if isinstance(size, int) else self.shapes.likely(size) for size in self.bounds]

    @cached_property
    def small_extents(self) -> list[int]:
        """Like `extents`, but dynamic ones have the values for symbols that are a few times smaller than is likely (`fewer`)."""
        return [size if isinstance(size, int) else likely(size, fewer(size.symbols, self.shapes.hints)) for size in self.bounds]

    @cached_property
    def bounds(self) -> list[int | Size]:
        """Like `extents`, exactly: an expression of symbols for a dynamic dimension."""
        found: dict[int, Dim] = {}
        for access in self.accesses:
            if access.is_shaped:
                for place, (dim, size) in enumerate(zip(access.dims, access.value.type.shape, strict=True)):
                    if dim >= 0 and not isinstance(found.get(dim), int):
                        if size >= 0:
                            found[dim] = size
                        elif found.get(dim) is None:
                            found[dim] = self.shapes.dim(access.value, place)
        out = [found.get(d) for d in range(len(self.iterators))]
        known = [size for size in out if size is not None]
        if len(known) != len(out):
            raise PassError(f"'{self.operation.name}' at {self.operation.location}: extents {sizes_text(out)} of its loops are not all known")
        return known

    @cached_property
    def shapes(self) -> SymbolicShapes:
        """The shapes of the values in its function."""
        return shapes_around(self.operation)

    @cached_property
    def is_elementwise(self) -> bool:
        """Whether all loops are parallel and there is one output, written at the identity."""
        return not self.reduction_dims and len(self.outputs) == 1 and self.outputs[0].map == ir.AffineMap.get_identity(len(self.iterators))

    @cached_property
    def kind(self) -> str:
        """The key under which schedules are registered: elementwise, contraction (multiply-accumulate of two inputs), reduction, or other."""
        if self.is_elementwise:
            return "elementwise"
        if self.reduction_dims and self.combiner is not None:
            multiplies = any(o.operation.name in ("arith.mulf", "arith.muli") for o in self.body.operations)
            reading = {a.value for a in self.inputs if a.used and a.is_shaped}
            return "contraction" if multiplies and len(reading) == 2 and self.combiner.endswith(("addf", "addi")) else "reduction"
        return "other"

    @cached_property
    def combiner(self) -> str | None:
        """The op that folds the body's value into its single output, if the body is such a fold."""
        if self.is_fill or len(self.outputs) != 1:
            return None
        last = self.body.operations[len(self.body.operations) - 1]
        owner = last.operands[0].owner
        if isinstance(owner, ir.Block) or owner.operation.name not in COMBINERS:
            return None
        accumulator = self.body.arguments[len(self.body.arguments) - 1]
        uses = [u.owner.operation for u in accumulator.uses]
        return owner.operation.name if len(uses) == 1 and uses[0] == owner.operation else None

    @cached_property
    def multiplied(self) -> frozenset[int]:
        """The inputs that are a factor of the term that the body adds to its sum, possibly after conversions: a zero there adds nothing."""
        if self.combiner not in ("arith.addf", "arith.addi"):
            return frozenset()
        accumulator = self.body.arguments[len(self.body.arguments) - 1]
        total = self.body.operations[len(self.body.operations) - 1].operands[0]
        [term] = [v for v in total.owner.operands if v != accumulator]
        product = defining_op(origin(term, CONVERSIONS))
        if product is None or product.name not in ("arith.mulf", "arith.muli"):
            return frozenset()
        factors = [origin(v, CONVERSIONS) for v in product.operands]
        return frozenset(n for n, argument in enumerate(list(self.body.arguments)[: len(self.inputs)]) if argument in factors)

    @cached_property
    def contracted(self) -> dict[ir.Value, tuple[ir.Value, tuple[ir.Value, ...]]]:
        """The sums x * y + z in the body that may be contracted and whose product has no other reader: maps the product to x, y and z."""
        out = {}
        for total in (inner.operation for inner in self.body.operations):
            if total.name == "arith.addf" and may_contract(total):
                for product, other in ((total.operands[1], total.operands[0]), (total.operands[0], total.operands[1])):
                    made = defining_op(product)
                    if made is not None and made.name == "arith.mulf" and may_contract(made) and use_count(product) == 1:
                        out[total.results[0]] = product, (*made.operands, other)
                        break
        return out

    @property
    def part(self) -> int:
        """The number of products that are summed separately before they are added to the others; 0 for all."""
        return ScheduleInfo(self.operation).part

    @cached_property
    def adds_products(self) -> bool:
        """Whether the body only adds the product of two inputs to its sum: floats, which may be contracted, or integers, possibly widened."""
        if self.combiner == "arith.addi":
            return len(self.inputs) == 2 and self.factors is not None
        return self.combiner == "arith.addf" and len(self.inputs) == 2 and len(self.body.operations) == 3 and bool(self.contracted)

    @cached_property
    def factors(self) -> list[Factor] | None:
        """The two factors if the body adds the product of two inputs, of integers (possibly widened) or bf16, to its sum; None for any other body."""
        return None if self.combiner is None else product_factors(self.body, self._stays)

    def _stays(self, index: int, dim: int) -> bool:
        """Whether a dimension is a reduction along which an input does not move."""
        return dim in self.reduction_dims and self.accesses[index].kind(dim) == "scalar"

    @cached_property
    def inner_rounds(self) -> int:
        """The number of iterations of the loops inside the body per iteration of the op, as far as it is known; 1 if there are none."""
        rounds = 0
        for loop in (o.operation for o in self.body.operations):
            if loop.name == LOOP:
                low, high, step = (known_index(loop.operands[i]) for i in range(3))
                rounds += len(range(low, high, step)) if low is not None and high is not None and step else 0
        return max(1, rounds)

    @cached_property
    def inner_ops(self) -> list[ir.Operation]:
        """The ops of the body, including those in loops inside it, which follow their loop."""
        found: list[ir.Operation] = []
        waiting = [o.operation for o in reversed(list(self.body.operations))]
        while waiting:
            op = waiting.pop()
            found.append(op)
            if op.name == LOOP:
                waiting += [o.operation for o in reversed(list(op.regions[0].blocks[0].operations))]
        return found

    @cached_property
    def scalar_op(self) -> str | None:
        """The name of an op in the body that has no vector form; None if there is none."""
        known = ("linalg.index", LOOP, *WITHOUT_VALUE, *READS)
        return next((o.name for o in self.inner_ops if o.name.split(".")[0] not in VECTOR_DIALECTS and o.name not in known), None)

    @cached_property
    def reads(self) -> list[ir.Operation]:
        """The ops of the body that read an element at computed indices."""
        return [op for op in self.inner_ops if op.name in READS]

    @cached_property
    def loops(self) -> list[ir.Operation]:
        """The loops inside of the body."""
        return [op for op in self.inner_ops if op.name == LOOP]

    def read_kind(self, read: ir.Operation, dim: int) -> str:
        """How one of `reads` moves along `dim`, as in `Access.kind`."""
        moves = self._moves(dim)
        *outer, last = [moves.get(index, "scalar") for index in list(read.operands)[1:]] or ["scalar"]
        if any(kind != "scalar" for kind in outer):
            return "strided"
        contiguous = last == "vector" and last_stride(read.operands[0].type) == 1 and str(read.results[0].type) not in ("i1", "index")
        return last if last == "scalar" or contiguous else "strided"

    def _moves(self, dim: int) -> dict[ir.Value, str]:
        """Maps each value of the body to how it changes along `dim`: "scalar" (not at all), "vector" (an index that grows by one), else "strided"."""
        if dim not in self._moving:
            made: dict[ir.Value, str] = {}
            for argument, access in zip(self.body.arguments, self.accesses, strict=True):
                made[argument] = "scalar" if not access.is_shaped or access.kind(dim) == "scalar" else "strided"
            for op in self.inner_ops:
                kinds = [made.get(v, "scalar") for v in op.operands]
                if op.name == LOOP:
                    counter, *carried = op.regions[0].blocks[0].arguments
                    made[counter], kind = "scalar" if set(kinds[:3]) == {"scalar"} else "strided", "strided"
                    made.update((value, kind) for value in carried)
                elif op.name == "linalg.index":
                    kind = "vector" if ir.IntegerAttr(op.attributes["dim"]).value == dim else "scalar"
                elif all(k == "scalar" for k in kinds) and not len(op.regions):
                    kind = "scalar"
                elif (op.name == "arith.addi" and set(kinds) == {"scalar", "vector"}) or (op.name == "arith.subi" and kinds == ["vector", "scalar"]):
                    kind = "vector"
                else:
                    kind = "strided"
                made.update((result, kind) for result in op.results)
            self._moving[dim] = made
        return self._moving[dim]

    @cached_property
    def _moving(self) -> dict[int, dict[ir.Value, str]]:
        return {}

    def why_not_vector(self, dim: int) -> str | None:
        """Why `dim` cannot be vectorised; None if it can."""
        if self.scalar_op is not None:
            return f"the body contains '{self.scalar_op}'"
        for read in self.reads:
            if self.read_kind(read, dim) == "strided":
                return f"the body contains '{read.name}' of elements that are not neighbours along it"
        if any(self._moves(dim).get(bound) not in ("scalar", None) for loop in self.loops for bound in list(loop.operands)[:3]):
            return f"the body contains an '{LOOP}' whose rounds depend on it"
        for access in self.outputs:
            if isinstance(access.element_type, ir.IndexType):
                return f"elements of type {access.element_type} have no vectors in memory"
        if dim in self.reduction_dims:
            if self.combiner is None:
                return "the body is not a fold with a known neutral element"
            if any(o.kind(dim) != "scalar" for o in self.outputs):
                return "the output moves along it"
            return None
        interleaved = not self.reduction_dims and all(o.interleaves(dim) for o in self.outputs)
        if not interleaved and any(o.kind(dim) != "vector" for o in self.outputs):
            return "the output is not contiguous along it"
        return None

    def can_vectorise(self, dim: int) -> bool:
        return self.why_not_vector(dim) is None

    def can_block(self, dim: int) -> bool:
        """Whether `dim` may be walked in blocks: a sum only if partial sums can be stored in its output and continued."""
        if dim in self.free:  # block sizes are static
            return False
        return dim in self.parallel_dims or (self.combiner is not None and not any(a.is_constant for a in self.inputs))


@dataclass(frozen=True)
class Walk:
    """How a loop traverses an operand: along one of its dimensions, with separate elements for each iteration."""

    place: int
    """The dimension of the operand."""
    stride: int
    """The distance between iterations, in indices: more than 1 for windows that do not overlap."""
    at_once: int | Size
    """The number of separate places that an iteration touches, because of the dimensions before this one."""
    stretch: int | Size
    """The number of contiguous elements from the beginning of one iteration to that of the next."""


def walk(op: Structured, access: Access, dim: int) -> Walk | None:
    """How loop `dim` of an op traverses an operand; None if it does not move along a single dimension, or if its iterations overlap."""
    steps = access.coefficients(dim)
    places = [place for place, step in enumerate(steps) if step != 0]
    if len(places) != 1:
        return None
    [place], shape = places, access.exact_shape
    beside = [(c[place], op.bounds[d]) for d in range(len(op.iterators)) if d != dim and (c := access.coefficients(d))[place] != 0]
    stride = steps[place]
    first = access.map.results[place].compose(ir.AffineMap.get(0, 0, [ir.AffineConstantExpr.get(0)] * len(op.iterators)))
    if stride is None or any(c is None or c < 0 for c, _ in beside) or first != ir.AffineConstantExpr.get(0):
        return None
    others, row = product(shape[:place]), product(shape[place + 1 :])
    if not always(sum((c or 0) * (extent - 1) for c, extent in beside), "<", stride) or others is None or row is None:
        return None
    return Walk(place, stride, others, stride * row)


def filled(value: ir.Value, out: ir.Value) -> ir.Value:
    """The result of a `linalg.fill` of the tensor `out` with a scalar."""
    op = linalg.FillOp([out.type], [value], [out])
    linalg.fill_builtin_region(op.operation)
    return op.results[0]


def structured_ops(function: ir.Operation) -> list[Structured]:
    """The structured ops of a function in order, as a schedule file counts them."""
    return [Structured(o) for o in ops_below(function) if o.name in STRUCTURED]


def may_contract(op: ir.Operation) -> bool:
    """Whether a floating-point op may be rounded together with a neighbour."""
    return "fastmath" in op.attributes and "contract" in str(op.attributes["fastmath"])
