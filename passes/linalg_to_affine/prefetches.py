"""Prefetches of a register tile: vectors that are loaded some iterations later, and the lines of the other operand."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from stepwell.dialects.core.mlir import affine, ir
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.numbers import LINE
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.position import Offsets
from stepwell.passes.linalg_to_affine.tile import RegisterTile

EARLY = 16
"""The first iterations of a dynamic dimension, in which tiles prefetch along an outer loop."""
NEAR, FAR = 3, 2
"""MLIR's locality hints for a prefetch into the first cache, and into the second."""


def prefetch(tile: RegisterTile, access: Access, point: Offsets) -> None:
    """Prefetch the lines of a vector that is loaded some iterations later, or of the neighbours that an intrinsic takes for each of its lanes.

    Beyond the end of a loop, this prefetches the data that follow.
    """
    at, context = tile.at, tile.context
    if tile.width == 1 or at.mask is not None or not access.is_shaped:
        return
    apart = context.use.intrinsic.depth if context.use is not None and context.use.is_grouped(access, context.nest.vector) else 1
    if apart == 1 and access.kind(context.nest.vector) != "vector":
        return
    if any(place and access.kind(d) == "scalar" for d, place in at.fixed.items() if d in context.root.reduction_dims):
        return  # the previous iteration, which is not in a loop, has prefetched the same line
    for dim, ahead, locality in _ahead(tile, access):
        later = {**point, dim: point.get(dim, 0) + ahead}
        with _early(tile) if dim == context.nest.along else nullcontext():
            for lane in range(0, tile.width, LINE * 8 // (apart * element_bits(access.element_type))):
                emit.prefetch(context.memory(access), at.ivs, at.address(access, later, lane), locality)


def prefetch_lines(tile: RegisterTile, around: int, innermost: int) -> None:
    """If vectors are prefetched, also prefetch the other operand: one line for the whole innermost reduction loop, an outer iteration early.

    Hardware follows adjacent lines, but the next line of each point is elsewhere.
    """
    at, context, nest = tile.at, tile.context, tile.context.nest
    if not nest.prefetch or nest.along >= 0 or tile.width == 1 or at.mask is not None:
        return
    for access in context.root.inputs:
        if not access.used or not access.is_shaped or (access.kind(nest.vector), access.kind(innermost)) != ("scalar", "vector"):
            continue
        if access.kind(around) == "scalar" or context.sizes[innermost] * element_bits(access.element_type) != LINE * 8:
            continue
        now, later = ({at.place(access, p): p for p in ({**p, around: i} for p in tile.points)} for i in (0, 1))
        for text in [t for t in later if t not in now]:  # the other lines of overlapping windows are there in any case
            emit.prefetch(context.memory(access), at.ivs, at.address(access, later[text]), NEAR)


@contextmanager
def _early(tile: RegisterTile) -> Iterator[None]:
    """Restrict ops to the first tiles of a dimension if it is dynamic: what these prefetch is there for the others.

    With many rows a panel is read from the second cache again and again, and prefetching it in each tile would use as much of that cache's bandwidth.
    """
    at, root = tile.at, tile.context.root
    exprs = at.point_exprs({})
    early = [EARLY - 1 - exprs[d] for d in root.parallel_dims if d in root.open and tile.context.nest.unroll[d] > 1]
    if not early:
        yield
        return
    tiles = ir.IntegerSet.get(len(at.ivs), 0, early, [False] * len(early))
    choice = affine.AffineIfOp(tiles, cond_operands=list(at.ivs))
    with ir.InsertionPoint(choice.then_block):
        yield
        affine.AffineYieldOp([])


def _ahead(tile: RegisterTile, access: Access) -> Sequence[tuple[int, int, int]]:
    """The dimensions along which vectors are prefetched, with the distance in iterations and the cache.

    These are the nest's own dimension and those of fused loops. Remainder tiles prefetch nothing along an outer loop: they compute so little that
    they wait for memory anyway.
    """
    context, nest, root, found = tile.context, tile.context.nest, tile.context.root, []
    if nest.prefetch and (nest.along < 0 or tile.whole):
        inner = root.reduction_dims[-1] if context.use is None else context.use.innermost(root)
        dim = nest.along if nest.along >= 0 else inner
        found.append((dim, nest.prefetch * nest.step(dim), NEAR if nest.along < 0 else FAR))
    if access.value not in context.enclosing.shrunk:
        found += [(loop.dim, loop.prefetch * loop.step, NEAR) for loop in root.fused if loop.prefetch]
    return [ahead for ahead in found if access.kind(ahead[0]) != "scalar"]
