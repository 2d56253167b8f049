"""The pass that merges the two versions of a kernel into one function."""

from typing import Any

from stepwell.dialects.core.kernel_info import KernelInfo, Version
from stepwell.dialects.core.mlir import arith, ir, scf
from stepwell.dialects.core.symbolic_shapes import shapes_around
from stepwell.dialects.support.errors import PassError
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions
from stepwell.passes.linalg_to_affine.branches import body, move_into
from stepwell.passes.linalg_to_affine.position import value_of


@register_pass("merge-versions", level="affine")
class MergeVersions(Pass):
    """Merge a kernel and its version for small sizes into one function, which chooses between them (see `version-kernels`).

    rewrite: @k {A}, @k.few {B} {stepwell.version = {of = "k", size = "n", most = 2}}  ->  @k { if n <= 2 {B} else {A} }
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        kernels = {f.sym_name.value: f for f in functions(op)}
        for few in kernels.values():
            version = KernelInfo(few).version
            if version is not None:
                kernel = kernels.get(version.of)
                if kernel is None or KernelInfo(kernel).version is not None:
                    raise PassError(f"'{few.sym_name.value}' is a version of '{version.of}', but there is no such kernel")
                if [argument.type for argument in few.arguments] != [argument.type for argument in kernel.arguments]:
                    raise PassError(f"'{few.sym_name.value}' is a version of '{version.of}', but takes other arguments")
                _merge(kernel, few, version)
                few.operation.erase()
                state.count(self.name)


def _merge(kernel: ir.OpView, few: Any, version: Version) -> None:
    block, own = kernel.regions[0].blocks[0], few.regions[0].blocks[0]
    for mine, theirs in zip(own.arguments, block.arguments, strict=True):
        mine.replace_all_uses_with(theirs)
    usual, fewer = body(kernel.operation), body(few.operation)
    with ir.InsertionPoint.at_block_begin(block), kernel.location:
        shapes = shapes_around(kernel.operation)
        enough = arith.cmpi(arith.CmpIPredicate.sle, value_of(shapes, version.size), value_of(shapes, version.most))
        chosen = scf.IfOp(enough, has_else=True)
    move_into(chosen.then_block, chosen.operation, fewer)
    move_into(chosen.else_block, chosen.operation, usual)
