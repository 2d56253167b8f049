"""Masked vectors: the remainder of a dynamic dimension in one vector whose last lanes are off."""

from collections.abc import Sequence
from typing import Any

from stepwell.dialects.core.mlir import affine, arith, ir, vector
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.nest import Nest


def masked_lanes(root: Structured, nest: Nest, epilogues: Sequence[Structured], target: Target | None) -> int:
    """The lanes of a register in which the last of the nest's vectors are masked; 0 if they are not.

    Masks need a target with masked loads and stores, a dynamic dimension, and operands that are contiguous along it or do not move. They change the
    order of sums in lanes, so such sums have none if they are to be the same on all machines.
    """
    dim = nest.vector
    maskable = (target or GENERIC).capabilities.masked_bits
    if target is None or not maskable or dim not in root.open or nest.width == 1 or any(nest.blocks.values()):
        return 0
    if target.reproducible and dim in root.reduction_dims:
        return 0
    if len(root.outputs) != 1 or any(root.outputs[0].kind(d) != "scalar" for d in root.reduction_dims):
        return 0
    if any(op.reads or op.loops for op in (root, *epilogues)) or any(a.is_constant for a in root.inputs):
        return 0
    accesses = [(a, dim) for a in (*(a for a in root.inputs if a.used), *root.outputs) if a.is_shaped]
    place = [getattr(r, "position", -1) for r in root.outputs[0].map.results]
    along = place.index(dim) if dim in place else -1
    accesses += [(a, along) for op in epilogues for a in (*(a for a in op.inputs if a.used), *op.outputs) if a.is_shaped]
    if not all(_fits(a, d, maskable) for a, d in accesses):
        return 0
    return target.lanes(max(element_bits(a.element_type) for a, _ in accesses))


def _fits(access: Access, dim: int, maskable: frozenset[int]) -> bool:
    kind = access.element_type
    number = isinstance(kind, (ir.F32Type, ir.F64Type, ir.IntegerType)) and element_bits(kind) in maskable
    return (dim < 0 or access.kind(dim) in ("scalar", "vector")) and (number or dim < 0 or access.kind(dim) == "scalar")


def first_lanes(width: int, count: ir.Value) -> ir.Value:
    """The mask of the first `count` of `width` lanes."""
    return vector.CreateMaskOp(ir.VectorType.get([width], ir.IntegerType.get_signless(1)), [count]).result


def masked_load(source: ir.Value, ivs: Sequence[ir.Value], address: Any, mask: ir.Value) -> ir.Value:
    """Load the neighbours from an address on in the lanes of a mask, and zeros in the other lanes."""
    kind = ir.VectorType.get(ir.VectorType(mask.type).shape, ir.MemRefType(source.type).element_type)
    element = kind.element_type
    zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    zeros = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result
    return vector.MaskedLoadOp(kind, source, _indices(address, ivs), mask, zeros).result


def masked_store(value: ir.Value, target: ir.Value, ivs: Sequence[ir.Value], address: Any, mask: ir.Value) -> None:
    """Store the lanes of a mask to the neighbours from an address on."""
    vector.MaskedStoreOp(target, _indices(address, ivs), mask, value)


def _indices(address: Any, ivs: Sequence[ir.Value]) -> list[ir.Value]:
    maps = [ir.AffineMapAttr.get(ir.AffineMap.get(address.n_dims, 0, [place])) for place in address.results]
    return [affine.AffineApplyOp(one, list(ivs)).result for one in maps]
