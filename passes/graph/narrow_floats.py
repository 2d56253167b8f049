"""The pass that stores the operands of convolutions and matrix products in bf16."""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.locations import node_names
from stepwell.dialects.core.mlir import defining_op, ir, ops_below, users
from stepwell.dialects.core.symbolic_shapes import hints_around, likely_elements
from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.graph import GraphBuilder
from stepwell.dialects.graph.traits import ChoosesData, JoinsData, Pools
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.choices import Candidate
from stepwell.passes.framework.decisions import NoMatch, expect
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.graph.integer_products import HALF, SINGLE, kind_of, one_channel, rate, sum_of_products, widened
from stepwell.passes.graph.matching import derived_name, keeps_each_element, moves_by_place, states, stored, with_operands

PRECISION = "precision"
"""The kind of choice: f32 or bf16."""


@register_pass("narrow-floats", level="graph")
class NarrowFloats(Pass):
    """Store the operands of convolutions and matrix products with known weights in bf16: weights and activations.

    rewrite: conv(x, w) -> conv(cast(cast(x, to bf16), to f32), cast(w in bf16, to f32)), and matmul(x, w) likewise

    Every other reader of `x` gets the rounded value too, so that only one is kept in memory, with half of the bytes; a network's results, and nodes
    of `keep`, get the value in f32. Products are summed in f32, by the target's dot products of bf16; all other ops compute in f32.

    If no instruction of the target multiplies bf16, only the weights of products with few rows gain, each of which is read from memory once:
    everything else stays unchanged, unless `always` is set. A depthwise convolution keeps its weights, which are few.
    """

    to: str = ""  # "bf16"; empty leaves floats unchanged
    keep: str = ""  # nodes that stay in f32: names, or patterns such as */attention/*, separated by ';'
    always: bool = False  # round even if it does not pay, to see the effect on a network on other targets

    def run(self, op: ir.Operation, state: PassState) -> None:
        if not self.to and not state.choices.plans(PRECISION) and not state.choices.recording:
            return
        if self.to not in ("", HALF):
            raise PassError(f"option 'to' must be {HALF}, or nothing, got '{self.to}'")
        kept = [pattern for pattern in self.keep.split(";") if pattern]
        for function in functions(op):
            if not KernelInfo(function).is_kernel:
                rounding = _Rounding(state, kept, self.always, by_plan_alone=not self.to)
                for product in [o for o in ops_below(function) if sum_of_products(o.opview) is not None]:
                    with state.attempt(self.name, product):
                        rounding.rewrite(product)
                        state.count(self.name)
                        state.did(self.name, product, f"reads {HALF}")


@dataclass
class _Rounding:
    """One run on a function."""

    state: PassState
    kept: list[str]
    always: bool
    by_plan_alone: bool
    """Whether products without an entry in the plan stay in f32."""
    rounded: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """Maps rounded values to their values in f32."""

    def rewrite(self, op: ir.Operation) -> None:
        """Make a product read bf16. Raises NoMatch if it stays in f32."""
        if any(type_of(value).dtype != SINGLE for value in op.operands):
            raise NoMatch("it does not multiply f32")
        weights = expect(stored(op.operands[1], self.state.weights), "its right-hand side is not known")
        why_not = self.why_not_profitable(op)
        if self.is_kept(op) or self.by_plan_alone:
            usual: NoMatch | None = NoMatch("it is one of the nodes to keep")
        else:
            usual = None if self.always else why_not

        def candidates() -> list[Candidate]:
            read = [self.state.machine.seconds(moved=float(weights.size * size)) for size in (4, 2)]
            return [Candidate(name, seconds, {"weights": weights.size}, name) for name, seconds in zip((SINGLE, HALF), read, strict=True)]

        if self.state.choose(PRECISION, op, candidates, HALF if usual is None else SINGLE) == SINGLE:
            raise usual or NoMatch(f"a plan or a model of costs leaves {type_of(op.results[0])} in {SINGLE}")
        b = GraphBuilder(self.state.weights)
        op.operands[0] = self.round(op.operands[0], op.location, b)
        if not one_channel(op.opview):
            rounded = weights.astype(to_numpy(HALF))
            with ir.InsertionPoint(op), op.location:
                if why_not is None:
                    op.operands[1] = b.cast(b.weight(derived_name(op.operands[1]), rounded), to=SINGLE, saturate=True)
                else:
                    op.operands[1] = b.weight(derived_name(op.operands[1]), rounded.astype(weights.dtype))

    def why_not_profitable(self, op: ir.Operation) -> NoMatch | None:
        """Why a product should rather read f32; None if it gains by bf16."""
        machine = self.state.machine
        products = rate(kind_of(HALF), kind_of(HALF), machine, SINGLE)
        if products > machine.lanes(32):
            return None
        found = sum_of_products(op.opview)
        assert found is not None
        rows = found.rows(type_of(op.operands[0]).shape)
        read_once = rows is not None and likely_elements(rows, hints_around(op)) <= machine.costs.conversion_rows
        return None if read_once and products else NoMatch(f"the target multiplies f32 as fast as {HALF}, and the weights are read more than once")

    def is_kept(self, op: ir.Operation) -> bool:
        """Whether an op belongs to a node that stays in f32."""
        return any(fnmatchcase(name, pattern) for name in node_names(op.location) for pattern in self.kept)

    def round(self, value: ir.Value, reader: ir.Location, b: GraphBuilder) -> ir.Value:
        """`value` rounded to bf16 and back, for this reader and all later ones."""
        if value in self.rounded.values():
            return value
        if value not in self.rounded:
            op, owner = defining_op(value), value.owner
            where = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
            with where, reader if op is None else op.location:
                narrow = self.narrow(value, reader, b)
                wide = b.cast(narrow, to=SINGLE, saturate=True)
            self.rounded[value] = wide
            own = {defining_op(narrow)}
            for user in users(value):
                if user not in own and not user.name.startswith("func.") and not self.is_kept(user):
                    for number, operand in enumerate(user.operands):
                        if operand == value:
                            user.operands[number] = wide
        return self.rounded[value]

    def narrow(self, value: ir.Value, reader: ir.Location, b: GraphBuilder) -> ir.Value:
        """`value` in bf16; if it is moved, it is moved in the stored type."""
        moved = defining_op(value)
        if moved is None or not commutes_with_rounding(moved):
            cast = widened(value)
            return b.cast(value, to=HALF, saturate=True) if cast is None else cast.x
        return with_operands(b, moved, [widened(self.round(operand, reader, b)).x for operand in moved.operands])


def commutes_with_rounding(op: ir.Operation) -> bool:
    """Whether rounding an op's operands equals rounding its result: it moves, joins or pads data, or takes the maximum of a window."""
    return moves_by_place(op) or keeps_each_element(op) or states(op, JoinsData) or states(op, Pools, ChoosesData)
