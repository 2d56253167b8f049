"""Cases of ops that rearrange, resample or make tensors."""

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.dtypes import from_numpy
from stepwell.dialects.core.types import UNSIGNED, is_float, to_numpy

ENDS = (-(2**31), 2**31 - 1)  # what ONNX models give as the bounds of slices that have none


def factors(r: Random, count: int, rank: int) -> tuple[int, ...]:
    """Random sizes whose product is `count`."""
    if count == 0:
        return tuple(r.choice([0, 3]) for _ in range(rank - 1)) + (0,)
    sizes = []
    for _ in range(rank - 1):
        size = r.choice([d for d in range(1, count + 1) if count % d == 0])
        sizes.append(size)
        count //= size
    return (*sizes, count)


@case("reshape")
def reshape(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4, least=r.least))
    shape = list(factors(r, x.size, r.integer(1, 4)))
    if x.size and r.boolean():
        shape[r.integer(0, len(shape) - 1)] = -1
    return Case([x], {"shape": tuple(shape)})


@case("dynamic_reshape")
def dynamic_reshape(r: Random) -> Case:
    made = reshape(r)
    return Case([*made.operands, np.array(made.attributes["shape"], np.int64)], {})


@case("transpose")
def transpose(r: Random) -> Case:
    shape = r.shape()
    return Case([r.array(r.dtype(), shape)], {"perm": r.permutation(len(shape))})


@case("pixel_shuffle")
def pixel_shuffle(r: Random) -> Case:
    spatial, group, each = r.integer(1, 3), r.integer(1, 3), r.integer(1, 3)
    strides, places = r.integers(spatial, 1, 3), r.sizes(spatial, 1, 3)
    block = (r.integer(1, 3),) if r.boolean() else ()
    x = r.array(r.dtype(), (r.size(1, 2), group * each * int(np.prod(strides)), *places, *block))
    whole = [n * s for n, s in zip(places, strides, strict=True)]
    offsets = tuple(0 if r.boolean() else r.integer(0, min(s, n - 1)) for s, n in zip(strides, whole, strict=True))
    sizes = tuple(n - o if r.boolean() else r.integer(1, n - o) for n, o in zip(whole, offsets, strict=True))
    return Case([x], {"strides": strides, "offsets": offsets, "sizes": sizes, "group": group})


@case("expand")
def expand(r: Random) -> Case:
    full = r.shape()
    new = r.integer(0, len(full))
    shape = tuple(r.choice([1, d]) for d in full[new:])
    wanted = tuple(-1 if i >= new and shape[i - new] == d and r.boolean() else d for i, d in enumerate(full))
    return Case([r.array(r.dtype(), shape)], {"shape": wanted})


@case("dynamic_expand")
def dynamic_expand(r: Random) -> Case:
    a, b = r.broadcastable()
    return Case([r.array(r.dtype(), a), np.array(b, np.int64)], {})


@case("tile")
def tile(r: Random) -> Case:
    shape = r.shape(1, 4)
    return Case([r.array(r.dtype(), shape)], {"repeats": r.integers(len(shape), 0, 3)})


@case("concat")
def concat(r: Random) -> Case:
    shape, dtype = r.shape(1, 4), r.dtype()
    axis = r.integer(0, len(shape) - 1)
    parts = [(*shape[:axis], r.size(0, 3), *shape[axis + 1 :]) for _ in range(r.integer(1, 4))]
    return Case([[r.array(dtype, p) for p in parts]], {"axis": axis})


@case("pad")
def pad(r: Random) -> Case:
    mode, shape = r.choice(["constant", "edge", "reflect", "wrap"]), r.shape(1, 3, least=2)
    low, high = (tuple(r.integer(0, min(d - 1, 5)) for d in shape) for _ in range(2))
    return Case([r.array(r.dtype(), shape)], {"low": low, "high": high, "mode": mode, "value": r.choice([0.0, 3.0])})


@case("shape_of")
def shape_of(r: Random) -> Case:
    return Case([r.array(r.dtype(), r.shape())], {})


@case("sizes")
def sizes(r: Random) -> Case:
    return Case([], {"values": tuple(r.integer(0, 9) for _ in range(r.integer(0, 4)))})


@case("range")
def arange(r: Random) -> Case:
    dtype, size = r.dtype(), r.size(0, 8)
    start, delta = (r.integer(0, 5), r.choice([1, 2])) if dtype in UNSIGNED else (r.integer(-5, 5), r.choice([-1, 1, 2 - size % 5]))
    scale = 0.5 if is_float(dtype) else 1
    limit = (start + delta * size) % (128 if dtype == "i8" else 1 << 15)
    return Case([np.array(v * scale).astype(to_numpy(dtype)) for v in (start, limit, delta or 1)], {})


@case("slice")
def static_slice(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4, least=1))
    starts, sizes, steps = [], [], []
    for dim in x.shape:
        step = r.choice([-2, -1, 1, 2, 3])
        start = r.integer(0, dim - 1)
        room = (dim - 1 - start) // step if step > 0 else start // -step
        starts.append(start)
        steps.append(step)
        sizes.append(-1 if step > 0 and r.boolean() else r.integer(0, room + 1))
    return Case([x], {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)})


@case("dynamic_slice")
def dynamic_slice(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4))
    axes = r.axes(x.ndim)
    steps = [r.choice([-2, -1, 1, 2]) for _ in axes]
    vectors = [
        [r.choice([r.integer(-7, 7), ENDS[s < 0]]) for s in steps],
        [r.choice([r.integer(-7, 7), ENDS[s > 0]]) for s in steps],
        [a - r.choice([0, x.ndim]) for a in axes],
        steps,
    ]
    dtype = to_numpy(r.choice(("i32", "i64")))
    return Case([x, *(np.array(v, dtype) for v in vectors)], {})


@case("first")
def first(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape())
    return Case([x], {"sizes": tuple(r.integer(-1, size) for size in x.shape)})


@case("overwrite")
def overwrite(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape())
    starts = tuple(r.integer(0, size) for size in x.shape)
    part = r.array(from_numpy(x.dtype), tuple(r.integer(0, size - start) for size, start in zip(x.shape, starts, strict=True)))
    return Case([x, part], {"starts": starts})


@case("non_zero", "non_zero_places")
def non_zero(r: Random) -> Case:
    return Case([r.array(r.dtype(), r.shape(1, 4), -1, 1)], {})


@case("at_round")
def at_round(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4, least=1))
    axis = r.integer(0, x.ndim - 1)
    return Case([x, np.array(r.integer(0, x.shape[axis] - 1))], {"axis": axis, "backwards": r.boolean()})


@case("resize")
def resize(r: Random) -> Case:
    mode = r.choice(["nearest", "linear", "cubic"])
    dtype, shape = r.dtype(), (*r.sizes(2, 1, 2), *r.sizes(2, 2, 6))
    x = r.array(dtype, shape, 0, 100) if is_float(dtype) else r.within(dtype, shape, 0, 100)
    coordinates = r.choice(["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"])
    scales, sizes = [1.0, 1.0], [-1, -1]
    for have in x.shape[2:]:
        scales.append(r.real(0.4, 0.6, 1.5, 2.0, 2.6))
        sizes.append(max(int(np.float32(have) * np.float32(scales[-1])), 1))
        if sizes[-1] > have * scales[-1] + 0.01:
            scales[-1] = float(np.float32(sizes[-1] / have))
    roi = (0.0, 0.0, 0.1, -0.2, 1.0, 1.0, 0.8, 1.3) if coordinates == "tf_crop_and_resize" else ()
    return Case([x], {
        "sizes": tuple(sizes), "scales": tuple(scales), "mode": mode, "coordinates": coordinates,
        "rounding": r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]), "cubic_coefficient": r.choice([-0.75, -0.5]),
        "exclude_outside": mode == "cubic" and r.boolean(), "antialias": mode != "nearest" and not roi and r.boolean(),
        "roi": roi, "extrapolation": 7.0,
    })  # fmt: skip


@case("constant")
def constant(r: Random) -> Case:
    return Case([], {"value": r.array(r.dtype(), r.shape())})
