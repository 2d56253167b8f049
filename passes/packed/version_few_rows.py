"""The pass that makes a separate kernel for few rows if a product has low-bit weights."""

from dataclasses import dataclass

from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.sizes import Size, product
from stepwell.dialects.core.types import type_of
from stepwell.passes.framework.choices import ONE_VERSION, TWO_VERSIONS, Candidate
from stepwell.passes.framework.registry import Pass, PassState, register_pass
from stepwell.passes.framework.rewriting import functions, version_for_few


@register_pass("version-few-rows", level="graph-opt", optional=True)
@dataclass
class VersionFewRows(Pass):
    """Split a kernel with a `packed.low_bit_matmul` of rows that only a run counts into one for many and one for few.

    rewrite: @k { packed.low_bit_matmul(x, w) }  ->  @k and a copy @k.few {stepwell.version = {of = "k", size = "n", most = 8}}

    For few rows the lowering makes a float of a number where it is multiplied; for many it makes floats of a panel first. `merge-versions` later
    makes one function of both.
    """

    def run(self, op: ir.Operation, state: PassState) -> None:
        for kernel in functions(op):
            found = ops_below(kernel.operation, "packed.low_bit_matmul")
            if KernelInfo(kernel).is_kernel and len(found) == 1:
                rows = product(type_of(found[0].operands[0]).shape[:-1])
                if isinstance(rows, Size) and state.choose("few-rows", found[0], _candidates, TWO_VERSIONS) == TWO_VERSIONS:
                    copy = version_for_few(kernel, rows, state.machine.costs.conversion_rows)
                    KernelInfo(copy).hints = dict.fromkeys(sorted(rows.symbols), 1)
                    state.count(self.name)


def _candidates() -> list[Candidate]:
    return [Candidate(ONE_VERSION), Candidate(TWO_VERSIONS)]
