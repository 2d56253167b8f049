"""Default schedules by kind of structured op, computed from the op's extents and the target's vectors and registers."""

from dataclasses import replace
from math import prod

from stepwell.dialects.core.sizes import is_static
from stepwell.dialects.core.symbolic_shapes import element_bits
from stepwell.dialects.target.costs import Costs
from stepwell.dialects.target.description import GENERIC, Target
from stepwell.dialects.target.dot_products import NONE
from stepwell.dialects.target.numbers import COMMON_PIPES, LINE, SHUFFLED_BITS
from stepwell.passes.linalg.accesses import FEW_NUMBERS
from stepwell.passes.linalg.copies import stretch
from stepwell.passes.linalg.structured import Structured
from stepwell.passes.schedule.cost_model import bytes_read_by_tile, register_budget
from stepwell.passes.schedule.intrinsics import Use, available
from stepwell.passes.schedule.nest import Nest
from stepwell.passes.schedule.parallel import threaded
from stepwell.passes.schedule.schedulers import schedule
from stepwell.passes.schedule.space import MAX_PREFETCH

COMMON_FACTOR = 8
"""A factor that many dynamic sizes have: tiles of a multiple of this many rows often leave no remainder."""


def costs_of(target: Target | None) -> Costs:
    """The costs of a target, or common ones."""
    return (target or GENERIC).costs


def lanes_of(op: Structured, target: Target | None) -> int:
    """Elements of the widest type the op handles that fit one vector register of the target (256 bits if unknown)."""
    bits = max(element_bits(a.element_type) for a in op.accesses)
    return (target or GENERIC).lanes(bits)


def vector_width(size: int, lanes: int, vectors: int) -> int:
    """The largest power of two that is at most `vectors` registers of `lanes` elements, and at most `size`."""
    width = lanes * vectors
    while width > 1 and width > size:
        width //= 2
    return width


def best_parallel_vector(op: Structured) -> int:
    """The parallel dimension to vectorise: contiguous in the output and in most inputs; the innermost one of equals, or -1."""
    candidates = [d for d in op.parallel_dims if op.sizes[d] > 1 and op.can_vectorise(d)]

    def rank(dim: int) -> tuple[bool, int, int, int]:
        read = [a for a in op.inputs if a.used and a.is_shaped]
        short = op.sizes[dim] * max(element_bits(o.element_type) for o in op.outputs) < SHUFFLED_BITS
        return (short, sum(a.is_gathered(dim) for a in read), sum(a.kind(dim) == "strided" for a in read), -dim)

    return min(candidates, key=rank, default=-1)


def nest(op: Structured, target: Target | None, order: tuple[int, ...], unroll: dict[int, int], vector: int, width: int) -> Nest:
    """A Nest whose number of threaded loops follows from its work."""
    chosen = Nest(order, 0, tuple(unroll.get(d, 1) for d in range(len(op.sizes))), vector, width)
    return threaded(op, chosen, costs_of(target))


@schedule("any")
def default(op: Structured, target: Target | None) -> Nest:
    """Loops in the op's order, vectors along the innermost contiguous dimension.

    Inputs that are contiguous along another dimension are transposed in registers, in groups of as many vectors as a vector has elements. If the rows
    of the output have only a few elements, vectors lie across the rows, one vector per column. A running sum over rows handles as much of each row as
    the registers hold.
    """
    vector = best_parallel_vector(op)
    places = interleaved(op, vector)
    if places is not None:
        return nest(op, target, tuple(op.parallel_dims), {places: op.sizes[places]}, vector, vector_width(op.sizes[vector], lanes_of(op, target), 1))
    turned = transposed_dim(op, vector)
    lanes = lanes_of(op, target)
    if turned is not None:
        width = vector_width(op.sizes[vector], lanes, 1)
        return nest(op, target, tuple(op.parallel_dims), {turned: min(width, op.sizes[turned])}, vector, width)
    width = vector_width(op.sizes[vector], lanes, costs_of(target).panel_registers) if vector >= 0 else 1
    if scans_rows(op, vector):
        columns = columns_per_core(op, vector, target or GENERIC)
        width = max(width, vector_width(columns, lanes, (target or GENERIC).vector_registers // 2))
        plain = nest(op, target, tuple(op.parallel_dims), {}, vector, width)
        return plain if columns < op.sizes[vector] else replace(plain, parallel=min(plain.parallel, plain.order.index(vector)))
    plain = nest(op, target, tuple(op.parallel_dims), {}, vector, width)
    return contiguous_copy(op, target, plain) or plain


def contiguous_copy(op: Structured, target: Target | None, plain: Nest) -> Nest | None:
    """A nest for a copy that moves contiguous blocks of memory; None if `op` is not such a copy."""
    box, block, around, costs = [1] * len(op.sizes), [0] * len(op.sizes), len(plain.order), costs_of(target)
    for place, dim in reversed(list(enumerate(plain.order))):
        inside, step = stretch(op, box), plain.step(dim)
        box[dim] = op.sizes[dim]
        if not stretch(op, box):
            box[dim] = 1
            break
        around = place
        if stretch(op, box) > costs.copied_bytes:
            box[dim] = block[dim] = even_block(op.sizes[dim], max(step, costs.copied_bytes // inside // step * step), step)
            around = place + 1
            break
    if stretch(op, box) < costs.memcpy_bytes:
        return None
    chosen = threaded(op, replace(plain, block=tuple(block) if any(block) else ()), costs)
    return replace(chosen, parallel=min(chosen.parallel, around))


def even_block(size: int, limit: int, step: int) -> int:
    """The largest multiple of `step` that divides `size` and is at most `limit`, or `limit` if none exceeds half of it."""
    fewest = -(-size // limit)
    cuts = (size // pieces for pieces in range(fewest, 2 * fewest) if size % pieces == 0)
    return next((block for block in cuts if block % step == 0), limit)


def interleaved(op: Structured, vector: int) -> int | None:
    """The dimension that walks the short rows of the outputs, if vectors along `vector` lie across these rows; otherwise None."""
    if vector < 0 or op.reduction_dims or not all(o.interleaves(vector) for o in op.outputs):
        return None
    return next(d for d in op.parallel_dims if op.outputs[0].kind(d) == "vector")


def scans_rows(op: Structured, vector: int) -> bool:
    """Whether a state of vectors along `vector` is carried from row to row and each row leaves a result, as in a running sum.

    Read in strips of columns, each row is a jump; wider strips make longer contiguous runs for the hardware prefetcher.
    """
    moving = [any(a.kind(d) != "scalar" for d in op.reduction_dims) for a in op.outputs]
    return vector >= 0 and moving.count(True) == moving.count(False) == 1 and all(a.kind(vector) == "vector" for a in op.accesses if a.is_shaped)


def columns_per_core(op: Structured, vector: int, target: Target) -> int:
    """The number of elements along `vector` for each core if `vector` is split among the cores that the other parallel loops leave idle.

    This is the whole dimension if the part per core would be short: the prefetcher of one core would take lines that its neighbour writes.
    """
    others = prod(op.sizes[d] for d in op.parallel_dims if d != vector)
    part = -(-op.sizes[vector] // target.cores)
    size = max(element_bits(a.element_type) for a in op.outputs) // 8
    return op.sizes[vector] if others >= target.cores or part * size < target.costs.page_bytes // 2 else part


def transposed_dim(op: Structured, vector: int) -> int | None:
    """The dimension along which inputs are contiguous whose vectors along `vector` would have to be gathered; None if there is none.

    Also None if one register holds more than the whole dimension, or more elements than a tile has room for: shuffles would not pay.
    """
    if vector < 0 or op.reduction_dims:
        return None
    gathered = [a for a in op.inputs if a.used and a.is_shaped and a.is_gathered(vector)]
    across = [(d, element_bits(a.element_type)) for a in gathered for d in op.parallel_dims if d != vector and a.kind(d) == "vector"]
    found = [d for d, bits in across if min(op.sizes[d], op.sizes[vector]) * bits >= SHUFFLED_BITS]
    return max(found, key=lambda d: (found.count(d), op.sizes[d]), default=None)


@schedule("reduction", start=True)
def reduction(op: Structured, target: Target | None) -> Nest:
    """Vectors along the output if the input is contiguous there too, else along a contiguous reduction, with the lanes folded at the end."""
    vector = best_parallel_vector(op)
    if vector < 0 or any(a.is_gathered(vector) for a in op.inputs if a.used and a.is_shaped):
        inside = [d for d in op.reduction_dims if op.can_vectorise(d) and op.sizes[d] > 1 and contiguous_inputs(op, d)]
        vector = max(inside, key=lambda d: op.sizes[d], default=vector)
    lanes, most = lanes_of(op, target), costs_of(target).accumulators
    # A single row of accumulators waits for its own latency. For a long row, four vectors of accumulators leave only a small remainder.
    vectors = 4 if vector in op.reduction_dims and op.sizes[vector] >= 16 * lanes else 2
    width = vector_width(op.sizes[vector], lanes, vectors) if vector >= 0 else 1
    plain = nest(op, target, tuple(op.parallel_dims), independent_accumulators(op, vector, max(1, width // lanes), most), vector, width)
    if vector in op.parallel_dims:
        return whole_row_nest(op, target, plain, vector_width(op.sizes[vector], lanes, most // 2)) or plain
    return replace(plain, prefetch=prefetch_distance(op, target, vector, width)) if vector >= 0 else plain


def prefetch_distance(op: Structured, target: Target | None, vector: int, width: int) -> int:
    """The prefetch distance, in steps of `width` elements along `vector`, for a stream that does not fit the first cache.

    The hardware prefetcher stops at the end of a page. Even on a core whose second cache holds the stream, prefetching saves a few percent.
    """
    streams = [a for a in op.inputs if a.used and a.is_shaped and a.kind(vector) == "vector"]
    if target is None or len(streams) != 1 or op.fused or vector != op.reduction_dims[-1]:
        return 0
    [stream] = streams
    size = element_bits(stream.element_type) // 8
    return iterations_per_page(width * size, target.costs) if prod(stream.shape) * size > target.caches.l1d else 0


def iterations_per_page(size: int, costs: Costs) -> int:
    """The number of iterations in which a loop that reads `size` bytes per iteration reads a page, at most the largest legal prefetch distance."""
    return min(-(-costs.page_bytes // size), MAX_PREFETCH)


def independent_accumulators(op: Structured, vector: int, vectors: int, most: int) -> dict[int, int]:
    """A register tile of at most `most` independent accumulators, for folds without reuse: each fold's latency hides behind the others."""
    free = [d for d in op.parallel_dims if d != vector and op.sizes[d] > 1]
    if vector not in op.parallel_dims or not op.reduction_dims or not free:
        return {}
    return {free[-1]: tile_step(op.sizes[free[-1]], max(1, most // vectors), vectors)}


def contiguous_inputs(op: Structured, dim: int) -> bool:
    """Whether every input moves to the next element along `dim`, or not at all."""
    return all(a.kind(dim) != "strided" for a in op.inputs if a.used and a.is_shaped)


@schedule("contraction", start=True)
def contraction(op: Structured, target: Target | None) -> Nest:
    """A register tile as an outer product: vectors of one input times scalars of the other, with all accumulators in registers."""
    tiled = in_tiles(op, target)
    if tiled is not None:
        return tiled
    vector = best_parallel_vector(op)
    if vector < 0:
        return reduction(op, target)
    lanes, costs = lanes_of(op, target), costs_of(target)
    rows = constant_matrix_rows(op, vector)
    # the rows share partial sums, and single registers hold the most of them
    if rows is not None and op.sizes[rows] <= (target or GENERIC).vector_registers:
        return nest(op, target, vectors_outermost(op, vector), {rows: op.sizes[rows]}, vector, vector_width(op.sizes[vector], lanes, 1))
    reused = [d for d in op.parallel_dims if d != vector and op.sizes[d] > 1 and outer_product(op, d, vector)]
    if not reused:
        most = costs.accumulators
        alone = vector_width(op.sizes[vector], lanes, most)
        streamed = streaming_nest(op, target, vector, alone, alone // lanes)
        if streamed is not None:
            return streamed
        plain = nest(op, target, tuple(op.parallel_dims), independent_accumulators(op, vector, max(1, alone // lanes), most), vector, alone)
        if reads_from_memory(op, target, plain):
            plain = replace(plain, prefetch=costs.near_prefetch_rounds)
        return whole_row_nest(op, target, plain, vector_width(op.sizes[vector], lanes, most // 2)) or plain
    width = vector_width(op.sizes[vector], lanes, costs.panel_registers)
    vectors = max(1, width // lanes)
    unroll: dict[int, int] = {}
    # If there is only one vector, a second dimension that adds vectors but no scalars widens the tile.
    wider = [d for d in op.parallel_dims if d != vector and d not in reused and op.sizes[d] > 1 and moves_with(op, d, vector)]
    if vectors == 1 and wider:
        unroll[wider[-1]] = vectors = 2
    dim = max(reused, key=lambda d: (op.sizes[d], d))
    intrinsic = in_groups(op, target, vector, width)
    use = available(op, target).get(intrinsic)
    accumulators = register_budget(op, vector, (target or GENERIC).vector_registers, use, vectors)
    limit, panel = accumulators // vectors, panels(op, target, vector, dim)
    if dim in op.open and limit >= COMMON_FACTOR and op.sizes[dim] > limit:
        unroll[dim] = limit - limit % COMMON_FACTOR
    elif panel is not None:
        unroll[dim] = -(-op.sizes[dim] // -(-op.sizes[dim] // limit))  # tiles of equal size: a small remainder would wait for memory
    else:
        unroll[dim] = tile_step(op.sizes[dim], limit, vectors)
    others = [d for d in reused if d != dim and d not in op.open]
    if intrinsic != NONE and others and limit // unroll[dim] > 1:  # use the remaining registers for more rows: each row saves one read of the vectors
        unroll[others[-1]] = tile_step(op.sizes[others[-1]], limit // unroll[dim], unroll[dim] * vectors)
    beside = costs.accumulators // (unroll[dim] * vectors)
    # so few accumulators would wait for each other; and each panel is a memory stream of its own
    if beside > 1 and wider and wider[-1] not in unroll:
        unroll[wider[-1]], panel = tile_step(op.sizes[wider[-1]], beside, unroll[dim] * vectors), None
    if use is not None and not wider:  # as many accumulators as hide the latency
        while unroll[dim] * vectors < costs.accumulators and op.sizes[vector] % (2 * width) == 0:
            width, vectors = 2 * width, 2 * vectors
    chosen = replace(nest(op, target, vectors_outermost(op, vector), unroll, vector, width), intrinsic=intrinsic)
    if use is not None and (streamed := with_page_prefetch(op, target, chosen, use)) is not None:
        return streamed
    if panel is not None:
        return replace(chosen, prefetch=1, along=panel)
    return replace(chosen, prefetch=tile_prefetch(op, target, chosen))


def tile_prefetch(op: Structured, target: Target | None, chosen: Nest) -> int:
    """The prefetch distance for the vectors of a register tile; 0 if prefetching does not pay."""
    use, costs = available(op, target).get(chosen.intrinsic), costs_of(target)
    if exceeds_first_cache(op, target, chosen, use):
        return costs.prefetch_rounds if use is None else costs.near_prefetch_rounds
    return next_panels(op, target, chosen) or 0


def exceeds_first_cache(op: Structured, target: Target | None, chosen: Nest, use: Use | None) -> bool:
    """Whether the vectors of a register tile are neighbours in memory and each tile reads them from the second cache again.

    A tile that reads more than the first cache holds evicts them. Hardware prefetches them too late: without software prefetching, products with a
    panel of 98 to 393 kB took 5 to 12 % longer with AVX-512, and a quarter longer with AVX2 on the same machine; pointwise convolutions took up to a
    tenth longer with AVX-512. Vectors of half a cache line, as convolutions have with AVX2, would prefetch each line twice, and gained nothing.
    """
    if use is None:
        streams = [a for a in op.inputs if a.used and a.is_shaped and a.kind(chosen.vector) == "vector"]
        dim, width = op.reduction_dims[-1], chosen.width
    else:
        streams = [op.inputs[i] for i in use.sides if use.is_grouped(op.inputs[i], chosen.vector)]
        dim, width = use.innermost(op), chosen.width * use.intrinsic.depth
    if target is None or len(streams) != 1 or op.open & set(op.reduction_dims):
        return False
    [stream] = streams
    if stream.distance(dim) != width or width * element_bits(stream.element_type) // 8 < LINE:
        return False
    return bytes_read_by_tile(op, chosen) > target.caches.l1d


def next_panels(op: Structured, target: Target | None, chosen: Nest) -> int | None:
    """The prefetch distance for panels that only a few tiles of rows pass: to the panels of the next tile.

    These come from the second cache or beyond, which takes a good part of the time: so in Winograd's products, each of which has a matrix of its own.
    If the first cache does not hold the panels of two tiles, the distance is `Costs.prefetch_rounds`. None if all is in the first cache, or if the
    panels serve so many tiles that waiting for them once does not count. The gains are listed in docs/measurements/choices.md.
    """
    streams = [a for a in op.inputs if a.used and a.is_shaped and a.kind(chosen.vector) == "vector"]
    if target is None or len(streams) != 1 or chosen.intrinsic != NONE or op.open or not op.reduction_dims:
        return None
    [stream], costs, first = streams, target.costs, target.caches.l1d
    together = [d for d in op.parallel_dims if stream.kind(d) != "scalar" and d != chosen.vector]
    passes = prod(-(-op.sizes[d] // chosen.step(d)) for d in op.parallel_dims if stream.kind(d) == "scalar")
    if passes > costs.panel_passes or stream.distance(op.reduction_dims[-1]) != chosen.width or stream.bytes <= first:
        return None
    rounds = prod(op.sizes[d] for d in op.reduction_dims) * prod(chosen.unroll[d] for d in together)
    panels_bytes = rounds * chosen.width * element_bits(stream.element_type) // 8
    return min(rounds, MAX_PREFETCH) if panels_bytes <= costs.panels_share * first else costs.prefetch_rounds


def reads_from_memory(op: Structured, target: Target | None, chosen: Nest) -> bool:
    """Whether a nest for one row reads one matrix, of contiguous panels, that no cache of a core holds."""
    streams = [a for a in op.inputs if a.used and a.is_shaped and a.kind(chosen.vector) == "vector"]
    if target is None or len(streams) != 1 or op.open or not op.reduction_dims or chosen.block:
        return False
    return streams[0].distance(op.reduction_dims[-1]) == chosen.width and streams[0].bytes > target.caches.l2


def streaming_nest(op: Structured, target: Target | None, vector: int, width: int, vectors: int) -> Nest | None:
    """A nest that reads part of a matrix once, in memory order, and prefetches a page ahead.

    This applies if rows of `width` elements are summed one after the other and the next sums begin where they end. Several such runs at once would
    hide each other's latency, but would alternate between addresses in one page, which hardware does not prefetch. None if there are no such runs, or
    fewer than `vectors` in a row.
    """
    matrices = [a for a in op.inputs if a.used and a.is_shaped and a.kind(vector) == "vector"]
    outer = [d for d in op.parallel_dims if d != vector and op.sizes[d] > 1]
    costs = costs_of(target)
    if len(matrices) != 1 or len(outer) != 1 or len(op.reduction_dims) != 1 or vectors < costs.accumulators // 2 or width != op.sizes[vector]:
        return None
    [matrix], [stretch_], [summed] = matrices, outer, op.reduction_dims
    row = op.sizes[summed] * width
    size = row * element_bits(matrix.element_type) // 8
    if (matrix.distance(summed), matrix.distance(stretch_)) != (width, row) or size > costs.page_bytes:
        return None
    return replace(nest(op, target, tuple(op.parallel_dims), {}, vector, width), prefetch=iterations_per_page(size, costs), along=stretch_)


def with_page_prefetch(op: Structured, target: Target | None, chosen: Nest, use: Use) -> Nest | None:
    """`chosen` with prefetching a page ahead, if each iteration of a loop over products reads its own part of a matrix from end to end.

    None if there is no such loop, or if a part is larger than a page.
    """
    streams = [op.inputs[i] for i in use.sides if use.is_grouped(op.inputs[i], chosen.vector)]
    apart = [d for d in op.parallel_dims if op.sizes[d] > 1 and all(op.inputs[i].kind(d) != "scalar" for i in use.sides)]
    if len(streams) != 1 or len(apart) != 1 or chosen.width != op.sizes[chosen.vector]:
        return None
    [stream], [part] = streams, apart
    length = prod(op.sizes[d] for d in (*op.reduction_dims, chosen.vector) if stream.kind(d) != "scalar")
    size = length * element_bits(stream.element_type) // 8
    if stream.distance(part) != length or size > costs_of(target).page_bytes:
        return None
    return replace(chosen, prefetch=iterations_per_page(size, costs_of(target)), along=part)


def in_groups(op: Structured, target: Target | None, vector: int, width: int) -> str:
    """The intrinsic with the most products for vectors of `width` whose memory layout an input has, so that its lanes need no gathering."""
    fitting = [
        use.intrinsic
        for use in available(op, target).values()
        if use.intrinsic.tile is None and width % use.intrinsic.lanes == 0 and any(use.is_grouped(op.inputs[i], vector) for i in use.sides)
    ]
    best = max(fitting, key=lambda i: i.products / i.instructions, default=None)
    return NONE if best is None else best.name


def in_tiles(op: Structured, target: Target | None) -> Nest | None:
    """A nest of two by two tile registers, each operand of which is used twice; None if the target has no tile registers for `op`.

    With few rows, tile registers would be mostly empty: such ops are left to vectors if an instruction takes the same neighbours.
    """
    uses = available(op, target)
    for name, use in uses.items():
        tile, lanes = use.intrinsic.tile, use.intrinsic.lanes
        if tile is None:
            continue
        y = op.inputs[use.sides[1]]
        vector = next(d for d in op.parallel_dims if use.is_grouped(y, d))
        rows = 1 if use.rows is None else op.sizes[use.rows]
        alike = any(other.is_grouped(y, vector) for other in uses.values() if other.intrinsic.tile is None)
        if op.sizes[vector] < lanes or (rows < costs_of(target).tile_rows and alike):
            continue
        unroll = {} if use.rows is None else {use.rows: -(-rows // -(-rows // (2 * tile.rows)))}
        return replace(nest(op, target, vectors_outermost(op, vector), unroll, vector, vector_width(op.sizes[vector], lanes, 2)), intrinsic=name)
    return None


def constant_matrix_rows(op: Structured, vector: int) -> int | None:
    """The dimension that walks the rows of a small constant matrix by which the op multiplies columns; None if there is no such matrix."""
    matrices = [a for a in op.inputs if a.used and a.is_constant and prod(a.shape) <= FEW_NUMBERS]
    if len(matrices) != 1 or not op.adds_products or matrices[0].kind(vector) != "scalar":
        return None
    rows = [d for d in op.parallel_dims if matrices[0].kind(d) != "scalar"]
    return rows[0] if len(rows) == 1 and op.sizes[rows[0]] > 1 and rows[0] not in op.open else None


def panels(op: Structured, target: Target | None, vector: int, rows: int) -> int | None:
    """The dimension that walks panels of packed weights, if few rows pass each of them; None if prefetching the next panel does not pay.

    The first tile of rows reads a panel from memory, at memory's speed, while the others compute, so they prefetch the next panel meanwhile. With
    many rows this gains little, and weights in the second cache are close enough.
    """
    others, few = [d for d in op.parallel_dims if d not in (rows, vector)], costs_of(target).arithmetic_rows
    if len(others) != 1 or len(op.reduction_dims) != 1 or (rows not in op.open and not 1 < op.sizes[rows] <= few):
        return None
    weights = [a for a in op.inputs if a.used and a.is_shaped and is_static(a.exact_shape) and a.kind(vector) == "vector"]
    if len(weights) != 1 or weights[0].bytes <= (target or GENERIC).caches.l2:
        return None
    [panel], [summed], [packed] = others, op.reduction_dims, weights
    in_panels = (packed.distance(summed), packed.distance(panel)) == (op.sizes[vector], op.sizes[vector] * op.sizes[summed])
    return panel if in_panels and op.sizes[panel] > 1 else None


def whole_row_nest(op: Structured, target: Target | None, plain: Nest, width: int) -> Nest | None:
    """A nest that reads a large matrix once, a few whole rows at a time; None if `plain` does so anyway.

    In strips of columns, each row would be a jump to another page. In blocks of a few rows, each core reads long contiguous runs of all of them, and
    the sums of a row, which are small, stay in its first cache.
    """
    matrices = [a for a in op.inputs if a.used and a.is_shaped and a.kind(plain.vector) == "vector"]
    if target is None or len(matrices) != 1 or plain.width >= op.sizes[plain.vector] or not op.can_block(plain.vector):
        return None
    [matrix] = matrices
    summed = [d for d in op.reduction_dims if matrix.kind(d) == "strided" and op.sizes[d] > target.costs.prefetch_streams and op.can_block(d)]
    once = all(matrix.kind(d) != "scalar" for d in range(len(op.sizes)) if op.sizes[d] > 1)
    if len(summed) != 1 or not once or prod(matrix.shape) * element_bits(matrix.element_type) // 8 <= target.caches.l2:
        return None
    columns = -(-op.sizes[plain.vector] // (target.cores * width)) * width
    blocks = {summed[0]: target.costs.prefetch_streams, plain.vector: min(columns, op.sizes[plain.vector] // width * width)}
    block = tuple(blocks.get(d, 0) for d in range(len(op.sizes)))
    return threaded(op, replace(plain, unroll=(1,) * len(op.sizes), width=width, block=block), target.costs)


def vectors_outermost(op: Structured, vector: int) -> tuple[int, ...]:
    """The order of the parallel loops, with those that select the loaded vectors outermost, so that these vectors stay in a cache.

    The input with the vectors is usually the larger one, the weights, so it is read from memory only once.
    """

    def place(dim: int) -> int:
        if dim == vector:
            return 3
        moving = [a.kind(dim) != "scalar" for a in op.inputs if a.used and a.is_shaped]
        return 0 if all(moving) else 1 if moves_with(op, dim, vector) else 2

    return tuple(sorted(op.parallel_dims, key=place))


def outer_product(op: Structured, dim: int, vector: int) -> bool:
    """Whether a tile of `dim` x `vector` loads each input once per row or column: no input moves along both."""
    moving = [(a.kind(dim) != "scalar", a.kind(vector) != "scalar") for a in op.inputs if a.used and a.is_shaped]
    return (True, False) in moving and (False, True) in moving and (True, True) not in moving


def moves_with(op: Structured, dim: int, vector: int) -> bool:
    """Whether the same inputs move along `dim` as along `vector`."""
    return all((a.kind(dim) != "scalar") == (a.kind(vector) != "scalar") for a in op.inputs if a.used and a.is_shaped)


def tile_step(size: int, limit: int, vectors: int) -> int:
    """The tile of at most `limit` scalars that walks `size` in the fewest cycles; the larger one of equals.

    A tile of t scalars by v vectors takes, per iteration of the reduction loops, t * v FMAs and t + v loads, and at least the latency of an FMA that
    waits for the one before. The pipelines are those of most cores, so that a target's tiles do not depend on the core's name.
    """
    pipes = COMMON_PIPES

    def cycles(tile: int) -> float:
        return max(tile * vectors / pipes.fmas, (tile + vectors) / pipes.loads, pipes.latency) if tile else 0

    return min(range(1, min(size, limit) + 1), key=lambda t: (size // t * cycles(t) + cycles(size % t), -t))
