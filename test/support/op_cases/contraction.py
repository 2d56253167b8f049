"""Cases of matrix products, convolutions and poolings, and of their forms on blocked data."""

import math
from typing import Any

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.graph.windows import window_counts
from stepwell.dialects.packed.integer_winograd import INTEGER_POINTS
from stepwell.dialects.packed.winograd import POINTS


@case("matmul")
def matmul(r: Random) -> Case:
    dtype, (m, k, n) = r.dtype(), r.sizes(3, r.least, 5)
    a, b = r.broadcastable(least=r.least)
    return Case([r.array(dtype, (*a[-2:], m, k)), r.array(dtype, (*b[-2:], k, n))], {})


@case("attention")
def attention(r: Random) -> Case:
    dtype, (queries, depth, keys, columns) = r.dtype(), r.sizes(4, r.least, 5)
    a, b, c = r.broadcastable(3, least=r.least)
    q, k, v = (r.array(dtype, (*batch[-2:], *matrix)) for batch, matrix in ((a, (queries, depth)), (b, (depth, keys)), (c, (keys, columns))))
    mask = r.choice([None, r.array(dtype, (keys,)), r.array(dtype, (queries, 1))])
    return Case([q, k, v, mask], {"scale": r.choice([1.0, 0.125, -0.3])})


def window(r: Random, spatial: int, kernel: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Spatial sizes that a window fits into, and the attributes of the window."""
    dilations = r.integers(spatial, 1, 2)
    pads = tuple(r.integer(0, k - 1) for k in kernel * 2)
    sizes = tuple(d * (k - 1) + 1 + r.size(0, 4) for d, k in zip(dilations, kernel, strict=True))
    return sizes, {"strides": r.integers(spatial, 1, 3), "pads": pads, "dilations": dilations}


@case("conv")
def conv(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    group, inputs, filters = r.integer(1, 3), *r.sizes(2, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    x = r.array(dtype, (r.size(1, 2), group * inputs, *sizes))
    return Case([x, r.array(dtype, (group * filters, inputs, *kernel))], {**attributes, "group": group})


@case("conv_transpose")
def conv_transpose(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    group, inputs, filters = r.integer(1, 3), *r.sizes(2, 1, 3)
    _, attributes = window(r, spatial, kernel)
    x = r.array(dtype, (r.size(1, 2), group * inputs, *r.sizes(spatial, 3, 4)))
    output_padding = tuple(r.integer(0, s - 1) for s in attributes["strides"])
    w = r.within(dtype, (group * inputs, filters, *kernel))
    return Case([x, w], {**attributes, "group": group, "output_padding": output_padding})


@case("col2im")
def col2im(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    image, attributes = window(r, spatial, kernel)
    counts = window_counts(image, kernel, **attributes)
    x = r.array(dtype, (r.size(1, 2), r.size(1, 3) * math.prod(kernel), math.prod(counts)))
    return Case([x], {"image": image, "kernel": kernel, **attributes})


@case("packed.conv")
def blocked_conv(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.integer(1, 2)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    kept = {k: attributes[k] for k in ("strides", "dilations")}
    filters, lanes, outer, images, blocks = r.sizes(5, 1, 3)
    if r.boolean():
        x = r.array(dtype, (images, blocks, *sizes))
        return Case([x, r.array(dtype, (filters, blocks, *kernel, outer))], {**kept, "group": 1})
    sets, side_by_side = r.integers(2, 1, 2)
    group = sets * side_by_side
    x = r.array(dtype, (images, sets * blocks, *sizes, side_by_side * lanes + r.integer(0, 2)))
    return Case([x, r.array(dtype, (group * filters, blocks, *kernel, lanes, outer))], {**kept, "group": group})


@case("packed.bordered_conv")
def bordered_conv(r: Random) -> Case:
    made = blocked_conv(r)
    x, w = made.operands
    spatial = len(made.attributes["strides"])
    before = [r.integer(0, n) for n in x.shape[2 : 2 + spatial]]
    after = [r.integer(0, n - low) for n, low in zip(x.shape[2 : 2 + spatial], before, strict=True)]
    inside = (slice(None), slice(None), *(slice(low, n - high) for n, low, high in zip(x.shape[2:], before, after, strict=False)))
    bordered = np.zeros_like(x)
    bordered[inside] = x[inside]
    return Case([bordered, w], {**made.attributes, "zeros": (*before, *after)})


@case("packed.relayout")
def relayout(r: Random) -> Case:
    dtype, block = r.dtype(), r.integer(1, 4)
    shape = (r.size(1, 2), *r.sizes(r.integer(1, 2), 1, 3))
    inputs = [r.array(dtype, (shape[0], r.integer(1, 3), *shape[1:], r.size(1, 4))) for _ in range(r.integer(1, 3))]
    lanes = sum(x.shape[1] * x.shape[-1] for x in inputs)
    starts = r.integers(r.integer(1, 4), -1, lanes - 1)
    sizes = [r.integer(1, 5 if start < 0 else min(5, lanes - start)) for start in starts]
    return Case([inputs], {"starts": (*starts, -1), "sizes": (*sizes, block - sum(sizes) % block), "block": block})


@case("packed.depthwise_conv")
def blocked_depthwise_conv(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.integer(1, 2)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    blocks, block = r.sizes(2, 1, 3)
    x = r.array(dtype, (r.size(1, 2), blocks, *sizes, block))
    return Case([x, r.array(dtype, (blocks, *kernel, block))], {k: attributes[k] for k in ("strides", "dilations")})


@case("packed.winograd_conv")
def winograd_conv(r: Random) -> Case:
    dtype, tile = r.dtype(), r.choice(tuple(POINTS))
    images, blocks, inner, filters, outer = r.sizes(5, 1, 3)
    rows, columns, group = *r.sizes(2, 1, 2), r.integer(1, 2)
    x = r.within(dtype, (images, blocks * group, rows * tile + 2, columns * tile + 2, inner))
    transformed = r.choice((True, False))
    taps, dealt = (tile + 2, tile + 2) if transformed else (3, 3), (filters * group, blocks)
    u = r.within(dtype, (*taps, *dealt, inner, outer) if transformed else (*dealt, *taps, inner, outer), -1, 1)
    return Case([x, u], {"tile": tile, "group": group, "transformed": transformed})


@case("packed.integer_winograd_conv")
def integer_winograd_conv(r: Random) -> Case:
    dtype, tile, depth = r.dtype(), r.choice(tuple(INTEGER_POINTS)), r.choice((1, 2))
    images, blocks, lanes, filters, outer = r.sizes(5, 1, 3)
    rows, columns, group = *r.sizes(2, 1, 2), r.integer(1, 2)
    x = r.array(dtype, (images, blocks * group, rows * tile + 2, columns * tile + 2, lanes * depth))
    transformed = r.choice((True, False))
    taps, dealt = (tile + 2, tile + 2) if transformed else (3, 3), (filters * group, blocks)
    outside = (*taps, *dealt) if transformed else (*dealt, *taps)
    u = r.array("i16" if transformed else r.choice(("i8", "ui8")), (*outside, lanes, outer, depth))
    return Case([x, u], {"tile": tile, "group": group, "transformed": transformed})


@case("packed.matmul")
def packed_matmul(r: Random) -> Case:
    dtype, (panels, summed, width) = r.dtype(), r.sizes(3, 1, 4)
    rows = r.sizes(r.rank(1, 3), 1, 3)
    return Case([r.array(dtype, (*rows, summed)), r.array(dtype, (panels, summed, width))], {})


@case("packed.low_bit_matmul")
def packed_matmul_of_bits(r: Random) -> Case:
    bits, panels, blocks, words, width = r.choice((4, 8)), *r.sizes(4, 1, 3)
    kind, stored, block = ("ui8", "ui32", 8 * words) if bits == 4 else (k := r.choice(("i8", "ui8")), k, words)
    rows, all_of_them = r.sizes(r.rank(1, 3), 1, 3), (panels, blocks, width)
    grouped = bits == 4 and r.boolean()
    w = r.array("ui8" if grouped else stored, (panels, blocks, words, width, *[4] * grouped))
    zero_point = r.within(kind, r.choice(((), all_of_them)), 0, 15)
    return Case([r.array("f32", (*rows, blocks * block)), w, r.within("f32", all_of_them, -1, 1), zero_point], {"bits": bits})


@case("max_pool")
def pooling(r: Random) -> Case:
    spatial = r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    x = r.array(r.dtype(), (r.size(1, 2), r.size(1, 3), *sizes))
    return Case([x], {"kernel": kernel, **attributes, "ceil_mode": r.boolean()})


@case("avg_pool")
def avg_pool(r: Random) -> Case:
    made = pooling(r)
    return Case(made.operands, {**made.attributes, "count_include_pad": r.boolean()})
