"""Structured ops on tensors that continue each other's output: what bufferisation makes one nest of."""

from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.rewriting import ops_below


def tensor_chains(op: ir.Operation) -> list[list[ir.Operation]]:
    """The structured ops below `op`, those that continue each other's output together, in order."""
    chains: list[list[ir.Operation]] = []
    ends: dict[ir.Value, list[ir.Operation]] = {}
    for operation in ops_below(op):
        if operation.name not in ("linalg.generic", "linalg.fill") or len(operation.results) != 1:
            continue
        chain = ends.pop(operation.operands[len(operation.operands) - 1], None)
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(operation)
        ends[operation.results[0]] = chain
    return chains
