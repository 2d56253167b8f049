"""The arithmetic of a schedule: what in it changes the order of sums, and so the bits of the results."""

from collections.abc import Iterator
from itertools import pairwise
from math import prod

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.sched.nest import NestKnobs
from stepwell.dialects.target.dot_products import NONE
from stepwell.passes.linalg.accesses import FEW_NUMBERS
from stepwell.passes.linalg.structured import Structured

SELECTING = ("arith.maximumf", "arith.minimumf", "arith.maxnumf")
"""Folds whose result is one of the operands."""
IN_ORDER = ""
"""The arithmetic of schedules that add in the order of the op's loops, one product after the other."""


def arithmetic(nest: NestKnobs, op: Structured) -> str:
    """A text for all in a schedule that changes the bits of the results of `op`: schedules with equal texts compute equal bits.

    The order of sums depends on these knobs, where `r0` is the outermost reduction dimension with several iterations. Kernels whose dimensions are
    numbered differently, because of other fused loops, have the same texts.
    - `lanes.r1=16`: each of 16 lanes along a reduction dimension has a sum of its own;
    - `block.r1=8`: blocks, unless the elements still follow each other in the order of the loops, as in blocks of the outermost dimension;
    - `by=vdpbf16ps.512`: an intrinsic for floats, which rounds in its own way, and sums each block apart if it has tile registers;
    - `rows=8`: for a product with a small constant matrix, the rows that a register tile holds, since rows share sums;
    - `tile=4x1 width=8`: for a maximum or minimum of floats, the register tile and the blocks, if some elements are computed one by one: LLVM may
      then vectorise the tile and exchange the operands, and of two zeros with different signs either is the result.

    Otherwise tiles, the order and the threads of parallel loops, vectors along them and prefetches change nothing: each element is computed by the
    same operations, fused multiply-adds included. Sums of integers wrap, so their order is free. The sign and the payload of a NaN are not counted.
    """
    return " ".join(_parts(nest, op)) if op.reduction_dims and not op.is_fill and not _is_exact(op) else IN_ORDER


def _is_exact(op: Structured) -> bool:
    """Whether the order of the op's folds is free: folds of integers are associative, as all of them wrap."""
    return op.combiner is not None and isinstance(op.outputs[0].element_type, (ir.IntegerType, ir.IndexType))


def _parts(nest: NestKnobs, op: Structured) -> Iterator[str]:
    name = {d: f"r{n}" for n, d in enumerate(_summed(op))}
    in_lanes, by_intrinsic = nest.vector in name, nest.intrinsic != NONE
    if in_lanes and lanes(nest, op) > 1:
        yield f"lanes.{name[nest.vector]}={lanes(nest, op)}"
    # Sums in parts, and the remainder of a block that an intrinsic leaves to the op's body, begin anew in each block.
    if by_intrinsic or op.part or not _in_order(nest, op):
        cut = [d for d, size in nest.blocks.items() if d in name and size < op.sizes[d]]
        yield from (f"block.{name[d]}={nest.blocks[d]}" for d in cut)
    if by_intrinsic:
        yield f"by={nest.intrinsic}"
    rows = _rows(nest, op)
    if rows:
        yield f"rows={'x'.join(map(str, rows))}"
    if op.combiner in SELECTING and _has_scalars(nest, op):
        yield f"tile={'x'.join(map(str, nest.unroll))} vector={nest.vector} width={nest.width}"
        yield from (f"block.{d}={size}" for d, size in nest.blocks.items())


def lanes(nest: NestKnobs, op: Structured) -> int:
    """The width of vectors along `nest.vector`: that of the widest ones that the dimension holds."""
    size = op.sizes[nest.vector]
    return nest.width if nest.vector in op.open else min(nest.width, 1 << max(0, size.bit_length() - 1))


def _in_order(nest: NestKnobs, op: Structured) -> bool:
    """Whether the loops over blocks of sums and the loops inside walk the elements in the same order as without blocks."""
    sizes, blocks = op.sizes, nest.blocks
    outer = [d for d in _summed(op) if blocks.get(d, sizes[d]) < sizes[d]]
    inner = [d for d in _summed(op) if blocks.get(d, sizes[d]) > 1]
    return all(a <= b for a, b in pairwise([*outer, *inner]))


def _summed(op: Structured) -> list[int]:
    """The reduction dimensions with several iterations."""
    return [d for d in op.reduction_dims if op.sizes[d] > 1 or d in op.free]


def _has_scalars(nest: NestKnobs, op: Structured) -> bool:
    """Whether elements are computed one by one: all of them, or those that are left over after halves of vectors."""
    return nest.vector < 0 or nest.width == 1 or nest.vector in op.open or op.sizes[nest.vector] % 2 == 1


def _rows(nest: NestKnobs, op: Structured) -> list[int]:
    """The iterations in the register tile of the dimensions along which constants move that are written into the code."""
    constants = [a for a in op.inputs if a.used and a.is_constant and prod(a.shape) <= FEW_NUMBERS]
    dims = [d for d in op.parallel_dims if op.sizes[d] > 1 and any(a.kind(d) != "scalar" for a in constants)]
    return [lanes(nest, op) if d == nest.vector else min(nest.unroll[d], op.sizes[d]) for d in dims]
