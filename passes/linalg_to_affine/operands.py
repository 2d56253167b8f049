"""Loads and stores of a nest's operands: single elements, vectors of neighbours, vectors across short rows, masked vectors."""

from collections.abc import Callable, Sequence

from stepwell.dialects.core.mlir import ir
from stepwell.passes.linalg.accesses import Access
from stepwell.passes.linalg_to_affine import emit
from stepwell.passes.linalg_to_affine.masks import masked_load, masked_store
from stepwell.passes.linalg_to_affine.position import Offsets, Position
from stepwell.passes.linalg_to_affine.scalar_body import as_vector
from stepwell.passes.linalg_to_affine.short_rows import ShortRows, store_lanes
from stepwell.passes.linalg_to_affine.values import load


def load_at(at: Position, access: Access, point: Offsets, width: int) -> ir.Value:
    """The value that an access reads at a point of the tile, in vectors of `width` along the nest's dimension."""
    return load_along(at, access, at.context.nest.vector, width, lambda lane: at.address(access, point, lane))


def load_along(at: Position, access: Access, dim: int, width: int, address: Callable[[int], ir.AffineMap]) -> ir.Value:
    """The values that an access reads at `width` iterations of `dim` (-1 for a single one); `address` maps an iteration to its address."""
    if not access.is_shaped:
        return access.value
    number = at.context.given_number(access)
    if number is not None:
        return number
    memory = at.context.memory(access)
    kind = access.kind(dim) if dim >= 0 and width > 1 else "scalar"
    if at.mask is not None and kind == "vector":
        return masked_load(memory, at.ivs, address(0), at.mask)
    rows = _short_rows(at, access, dim) if kind == "strided" else None
    if rows is not None:
        place = rows.place(address(0))
        if place is not None and rows.length < width:
            return rows.load(place, width, at.ivs, rows.start(address(0)))
    step = access.step(dim) if kind == "strided" and access.row(dim) is None else None
    return load(memory, kind, width, at.ivs, address, step)


def store_at(at: Position, access: Access, value: ir.Value, point: Offsets, width: int) -> None:
    """Store the value of a point of the tile: a scalar, or a vector of `width` neighbours."""
    where, memory = at.address(access, point), at.context.memory(access)
    if width == 1 or at.context.lanes_reduce:
        emit.store(value, memory, at.ivs, where)
    elif at.mask is not None:
        masked_store(as_vector(value, width), memory, at.ivs, where, at.mask)
    else:
        emit.store(as_vector(value, width), memory, at.ivs, where)


def store_across(at: Position, access: Access, points: Sequence[Offsets], values: Sequence[ir.Value], width: int) -> bool:
    """Store the tile's vectors if they lie across short rows, interleaved if they form whole rows. Returns False if they lie along rows."""
    context = at.context
    dim = context.nest.vector
    if width == 1 or context.lanes_reduce or access.kind(dim) != "strided":
        return False
    rows = _short_rows(at, access, dim)
    made: dict[str, dict[int | None, tuple[Offsets, ir.Value]]] = {}
    for point, value in zip(points, values, strict=True):
        where = at.address(access, point)
        place = None if rows is None else rows.place(where)
        row = str(where if rows is None or place is None else rows.start(where))
        made.setdefault(row, {})[place] = point, as_vector(value, width)
    for found in made.values():
        whole = {place: value for place, (_, value) in found.items() if place is not None}
        if rows is not None and len(whole) == rows.length:
            rows.store(whole, at.ivs, rows.start(at.address(access, found[0][0])))
            continue
        for point, value in found.values():
            store_lanes(value, context.memory(access), at.ivs, [at.address(access, point, lane) for lane in range(width)])
    return True


def _short_rows(at: Position, access: Access, dim: int) -> ShortRows | None:
    """The short rows of memory across which vectors along `dim` lie, if they do."""
    first, memory = access.row(dim), at.context.memory(access)
    if first is None or access.coefficients(dim)[first] != 1 or memory != access.value:
        return None
    return ShortRows(memory, first)
