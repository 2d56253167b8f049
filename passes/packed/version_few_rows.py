"""The pass that makes a separate kernel for few rows if a product has low-bit weights."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import func, ops_below
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.types import type_of
from stepwell.dialects.packed import LowBitMatmulOp
from stepwell.passes.framework.registry import PassState, register_pass
from stepwell.passes.framework.versions import KernelVersionPass, VersionProposal


@register_pass("version-few-rows", level="graph-opt", optional=True)
@dataclass
class VersionFewRows(KernelVersionPass):
    """Give a kernel with a `packed.low_bit_matmul` of rows that only a run counts a version for few rows.

    rewrite: @k { packed.low_bit_matmul(x, w) }  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 8}}

    For few rows the lowering makes a float of a number where it is multiplied; for many it makes floats of a panel first.
    """

    def propose(self, subject: func.FuncOp, state: PassState) -> VersionProposal[func.FuncOp] | None:
        found = ops_below(subject.operation, LowBitMatmulOp.OPERATION_NAME)
        rows = product(type_of(found[0].operands[0]).shape[:-1]) if len(found) == 1 else None
        if not isinstance(rows, Size):
            return None
        hints, reason = dict.fromkeys(sorted(rows.symbols), 1), "which makes a float of a number where it is multiplied"
        return VersionProposal(found[0], rows, state.machine.costs.conversion_rows, hints=hints, reason=reason)
