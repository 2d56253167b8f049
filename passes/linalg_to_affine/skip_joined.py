"""The pass that skips the copies of a concatenation whose operands already lie in its result."""

from functools import reduce
from typing import Any

from stepwell.dialects.core.kernel_info import Concat, KernelInfo
from stepwell.dialects.core.mlir import arith, ir, memref, scf
from stepwell.dialects.core.symbolic_shapes import shapes_around
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg_to_affine.branches import body, move_into
from stepwell.passes.linalg_to_affine.position import value_of


@register_pass("skip-joined", level="affine")
class SkipJoined(Pass):
    """Skip the copies of a concatenation if all of its operands already lie in the result.

    rewrite: @concat(%0, %1, %out) {A} {stepwell.concat = {one = "n", arguments = [0, 1]}}
    ->  @concat { if not (n == 1 and %0 is at %out and %1 is at %out + size of %0) {A} }

    `bufferize` places them there for a single image, say, where it can.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for kernel in functions(op):
            concat = KernelInfo(kernel).concat
            if concat is not None:
                _skip(kernel, concat)
                KernelInfo(kernel).concat = None
                state.count(self.name)


def _skip(kernel: Any, concat: Concat) -> None:
    block, ops = kernel.regions[0].blocks[0], body(kernel.operation)
    arguments = list(block.arguments)
    result = arguments[KernelInfo(kernel).first_destination(len(arguments))]
    with ir.InsertionPoint.at_block_begin(block), kernel.location:
        shapes = shapes_around(kernel.operation)
        place = memref.extract_aligned_pointer_as_index(result)
        elsewhere = [arith.cmpi(arith.CmpIPredicate.ne, value_of(shapes, concat.one), value_of(shapes, 1))]
        for number in concat.arguments:
            have = memref.extract_aligned_pointer_as_index(arguments[number])
            elsewhere.append(arith.cmpi(arith.CmpIPredicate.ne, have, place))
            place = arith.addi(place, value_of(shapes, shapes.bytes(arguments[number])))
        chosen = scf.IfOp(reduce(arith.ori, elsewhere))
    move_into(chosen.then_block, chosen.operation, ops)
