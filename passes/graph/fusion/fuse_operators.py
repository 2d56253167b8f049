"""The pass that decides which ops become one kernel: groups of ops become `graph.fused` regions."""

from collections.abc import Sequence

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import create_operation, defining_op, ir, users
from stepwell.dialects.core.types import TensorType, is_float, type_of
from stepwell.dialects.graph.builder import LITERAL_ELEMENTS
from stepwell.dialects.graph.control import FusedOp, YieldOp
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import clone_into, functions
from stepwell.passes.graph.fusion.grouping import NAME, Grouping, repeats_cheaply
from stepwell.passes.graph.fusion.prologues import is_view
from stepwell.passes.graph.matching import is_used
from stepwell.passes.graph.narrow_products import read_shared


def belongs_inside(constant: TensorType) -> bool:
    """Whether a constant is part of the computation: one number, or a few integers.

    Others are data, so that kernels that differ only in data are shared.
    """
    return constant.elements == 1 or (not is_float(constant.dtype) and constant.elements <= LITERAL_ELEMENTS)


def own_copy(op: ir.Operation, members: Sequence[ir.Operation]) -> ir.Operation:
    """A copy of an op that only these ops use."""
    copy = clone_into(op, {}, ir.InsertionPoint(op))
    for use in list(op.results[0].uses):
        if use.owner.operation in members:
            use.owner.operands[use.operand_number] = copy.results[0]
    return copy


def fuse(members: Sequence[ir.Operation], tail: ir.Operation) -> ir.Operation:
    """Move ops (in program order) into a new `graph.fused` at the position of the tail.

    Small constants that they use are cloned into it, and so are ops before the tail that have other users too.
    """
    shared = {op for op in members if op != tail and not all(use.owner.operation in members for result in op.results for use in result.uses)}
    members = [own_copy(op, members) if op in shared else op for op in members]
    inside = {result for op in members for result in op.results}
    constants: dict[ir.Value, ir.Operation] = {}
    inputs: dict[ir.Value, None] = {}
    for op in members:
        for value in op.operands:
            if value in inside:
                continue
            source = defining_op(value)
            if source is not None and source.name == "graph.constant" and belongs_inside(type_of(value)):
                constants[value] = source
            else:
                inputs[value] = None
    location = members[0].location if len(members) == 1 else ir.Location.fused([op.location for op in members])
    with ir.InsertionPoint(tail), location:
        fused: ir.Operation = create_operation(FusedOp, [list(inputs)], [[r.type for r in tail.results]], {}).operation
    for old, new in zip(tail.results, fused.results, strict=True):
        old.replace_all_uses_with(new)
    block = fused.regions[0].blocks.append(*[v.type for v in inputs], arg_locs=[location] * len(inputs))
    mapping: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    with ir.InsertionPoint(block), location:
        for source in constants.values():
            clone_into(source, mapping, ir.InsertionPoint(block))
        end = create_operation(YieldOp, [list(tail.results)], [], {}).operation
    for op in members:
        op.move_before(end)
        for i, value in enumerate(op.operands):
            if value in mapping:
                op.operands[i] = mapping[value]
    return fused


@register_pass(NAME, level="graph", switches={"fuse-operators": "max-ops=1", "fuse-producers": "producers=false"})
class FuseOperators(Pass):
    """Group ops into `graph.fused` regions, each of which becomes one kernel.

    A root (contraction, pooling, normalisation, reduction) takes the element-wise ops after it, as long as the shape stays the same and one value
    comes out; a residual or bias that they use becomes an input. Other element-wise ops join each other. One constant pad may end a group, or follow
    a transposition. Every other op is a group of its own, except ops that compute nothing: constants, parameters, reshapes, contiguous
    concatenations, control flow. A group takes the position of its last op, so that all its operands come before it.

    Element-wise ops read through slices and transpositions that keep whole rows together. Concatenations that copy their operands, and scatters, take
    the element-wise groups of their operands, which then write directly into the result (`producers`).

    A root also takes the producers of its data, if nothing else uses them and nothing is computed twice (`producers`):
    - element-wise ops before a reduction, or before a pooling whose windows do not overlap; they end up in its loops;
    - a convolution on blocked data before such a pooling, and element-wise ops or a depthwise convolution before a pointwise one; they stay separate
      ops,
      in loops over rows that `fuse-loops` fuses;
    - before a product of integers, the casts that widen its operands, if the target has an intrinsic for the narrow type; they end up in its body.
    """

    max_ops: int = 64  # the largest number of ops in a group
    producers: bool = True  # let a root take the producers of its data

    def run(self, op: ir.Operation, state: PassState) -> None:
        for function in functions(op):
            if not KernelInfo(function).is_kernel:
                self._run_on_regions(function.operation, state)

    def _run_on_regions(self, op: ir.Operation, state: PassState) -> None:
        blocks: list[ir.Block] = []
        waiting = [op]
        while waiting:
            own = [block for region in waiting.pop().regions for block in region.blocks]
            blocks += own
            inside = [inner.operation for block in own for inner in block.operations]
            waiting += [inner for inner in inside if len(inner.regions) and inner.name != "graph.fused"]
        for block in reversed(blocks):  # inner blocks first
            self._run_on_block(block, state)

    def _run_on_block(self, block: ir.Block, state: PassState) -> None:
        for op in [o.operation for o in block.operations] if self.producers else ():
            for shared in read_shared(op):  # widening elements is free inside a product
                own_copy(shared, [op])
            if repeats_cheaply(op):  # and cheaper than passing on more bytes
                for reader in list(dict.fromkeys(users(op.results[0])))[1:]:
                    own_copy(op, [reader])
        grouping = Grouping(block, self.max_ops, self.producers, state)
        groups = [(grouping.members(g), g.tail) for g in grouping.groups()]
        for members, tail in groups:
            for op in members if state.decisions is not None else ():
                others = ", ".join(f"'{other.name}'" for other in members if other != op)
                state.did(self.name, op, f"computed in one kernel with {others}" if others else "a kernel of its own")
            fuse(members, tail)
        state.count(f"{self.name}.groups", len(groups))
        state.count(f"{self.name}.ops", sum(len(members) for members, _ in groups))
        for op in grouping.ops:
            if (op.name == "graph.constant" or is_view(op)) and not is_used(op.results[0]):
                op.erase()
