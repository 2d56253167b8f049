"""Random operands and attributes for every op of the graph dialect, for tests that hold for all of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from op_random import Case, Random

from stepwell.dialects.types import FLOATS, INTEGERS, NUMERIC, SIGNED, UNSIGNED, from_numpy, is_float, to_numpy

Maker = Callable[[Random], Case]
CASES: dict[str, Maker] = {}


def case(*mnemonics: str) -> Callable[[Maker], Maker]:
    def add(make: Maker) -> Maker:
        CASES.update(dict.fromkeys(mnemonics, make))
        return make

    return add


def unary(dtypes: Any, low: float = -4, high: float = 4) -> Maker:
    return lambda r: Case([r.array(r.choice(dtypes), r.shape(), low, high)], {})


def binary(dtypes: Any, low: float = -4, high: float = 4) -> Maker:
    def make(r: Random) -> Case:
        dtype = r.choice(dtypes)
        a, b = r.broadcastable()
        return Case([r.array(dtype, a, low, high), r.array(dtype, b, low, high)], {})

    return make


def with_specials(r: Random, x: np.ndarray) -> np.ndarray:
    """Some elements of a float array made NaN, infinite or a zero of either sign."""
    specials = r.generator.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]), x.shape).astype(x.dtype)
    return np.where(r.generator.random(x.shape) < 0.3, specials, x)


case("neg")(unary((*SIGNED, *FLOATS)))
case("abs", "sign", "relu")(unary(NUMERIC))
case("exp", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "erf", "sigmoid", "softplus", "floor", "ceil", "reciprocal")(unary(FLOATS))
case("sqrt", "rsqrt", "log")(unary(FLOATS, 0.1, 9))
case("asin", "acos", "atanh")(unary(FLOATS, -0.9, 0.9))
case("acosh")(unary(FLOATS, 1.1, 9))
case("round")(lambda r: Case([np.asarray(np.round(r.array("f32", r.shape(), -8, 8) * 4) / 4).astype(to_numpy(r.choice(FLOATS)))], {}))
case("is_nan")(lambda r: Case([with_specials(r, r.array(r.choice(FLOATS), r.shape()))], {}))
case("is_inf")(
    lambda r: Case([with_specials(r, r.array(r.choice(FLOATS), r.shape()))], {"detect_negative": r.boolean(), "detect_positive": r.boolean()})
)
case("leaky_relu", "elu")(lambda r: Case([r.array(r.choice(FLOATS), r.shape())], {"alpha": r.real(0.01, 0.3, 1.0, -0.5, 2.5)}))
case("not")(unary(("i1",)))
case("bitwise_not")(lambda r: Case([r.any_bits(r.choice(INTEGERS), r.shape())], {}))
case("add", "sub", "mul")(lambda r: whole_range(r, NUMERIC))
case("maximum", "minimum")(lambda r: whole_range(r, NUMERIC))
case("less", "less_equal", "greater", "greater_equal")(lambda r: whole_range(r, NUMERIC))
case("equal")(binary((*NUMERIC, "i1"), -2, 2))
case("and", "or", "xor")(binary(("i1",)))
case("bitwise_and", "bitwise_or", "bitwise_xor")(lambda r: whole_range(r, INTEGERS))


def whole_range(r: Random, dtypes: Any) -> Case:
    """Two operands of every value that their type has."""
    dtype = r.choice(dtypes)
    shapes = r.broadcastable()
    return Case([with_specials(r, r.array(dtype, s)) if is_float(dtype) else r.any_bits(dtype, s) for s in shapes], {})


def nonzero_divisor(r: Random) -> list[np.ndarray]:
    dtype = r.choice(NUMERIC)
    a, b = r.broadcastable()
    lhs, rhs = r.array(dtype, a, -100, 100), r.array(dtype, b, -9, 9)
    return [lhs, np.where(rhs == 0, np.ones((), rhs.dtype), rhs)]


@case("div")
def div(r: Random) -> Case:
    return Case(nonzero_divisor(r), {})


@case("mod")
def mod(r: Random) -> Case:
    operands = nonzero_divisor(r)
    return Case(operands, {"fmod": True if is_float(from_numpy(operands[0].dtype)) else r.boolean()})


@case("pow")
def power(r: Random) -> Case:
    dtype = r.choice(NUMERIC)
    a, b = r.broadcastable()
    if is_float(dtype):
        return Case([r.array(dtype, a, 0.1, 4), r.array(dtype, b, -3, 3)], {})
    return Case([r.array(dtype, a, -3, 3), r.array(dtype, b, 0, 4)], {})


@case("shift_left", "shift_right")
def shift(r: Random) -> Case:
    dtype = r.choice(UNSIGNED)
    a, b = r.broadcastable()
    return Case([r.any_bits(dtype, a), r.array(dtype, b, 0, to_numpy(dtype).itemsize * 8 - 1)], {})


@case("clamp")
def clamp(r: Random) -> Case:
    dtype = r.choice(NUMERIC)
    low, high = r.choice([-2.0, 0.0, -np.inf, 1.0]), r.choice([2.0, 6.0, np.inf, 1.0])
    return Case([r.array(dtype, r.shape(), -9, 9)], {"min": low, "max": high})


@case("cast")
def cast(r: Random) -> Case:
    source, to = r.choice((*NUMERIC, "i1")), r.choice((*NUMERIC, "i1"))
    low = 0 if to in UNSIGNED else -100
    x = r.array(source, r.shape(), low, 100) if is_float(source) or is_float(to) or source == "i1" else r.any_bits(source, r.shape())
    return Case([x], {"to": to, "saturate": r.boolean()})


@case("select")
def select(r: Random) -> Case:
    dtype = r.choice((*NUMERIC, "i1"))
    a, b = r.broadcastable()
    return Case([r.array("i1", r.choice([a, b])), r.array(dtype, a), r.array(dtype, b)], {})


def axes_of(r: Random, rank: int) -> tuple[int, ...]:
    return tuple(a for a in r.draw(st.permutations(range(rank))) if r.boolean())


@case("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
def reduction(r: Random) -> Case:
    shape = r.shape(0, 4, least=1)
    return Case([r.array(r.choice(NUMERIC), shape)], {"axes": axes_of(r, len(shape)), "keepdims": r.boolean()})


@case("arg_max", "arg_min")
def arg_extreme(r: Random) -> Case:
    shape = r.shape(1, 4, least=1)
    x = r.array(r.choice(NUMERIC), shape, -2, 2)  # with ties among integers
    return Case([x], {"axis": r.integer(0, len(shape) - 1), "keepdims": r.boolean(), "select_last": r.boolean()})


@case("cumsum")
def cumsum(r: Random) -> Case:
    shape = r.shape(1, 4)
    x = r.array(r.choice(NUMERIC), shape)
    return Case([x], {"axis": r.integer(0, len(shape) - 1), "exclusive": r.boolean(), "reverse": r.boolean()})


@case("softmax")
def softmax(r: Random) -> Case:
    shape = r.shape(1, 4, least=1)
    return Case([r.array(r.choice(FLOATS), shape, -20, 20)], {"axis": r.integer(0, len(shape) - 1)})


@case("top_k")
def top_k(r: Random) -> Case:
    shape = r.shape(1, 3, least=1)
    axis = r.integer(0, len(shape) - 1)
    k = np.array(r.integer(0, shape[axis]), to_numpy(r.choice(("i32", "i64"))))
    return Case([r.array(r.choice(NUMERIC), shape, -3, 3), k], {"axis": axis, "largest": r.boolean()})


@case("matmul")
def matmul(r: Random) -> Case:
    dtype = r.choice(NUMERIC)
    a, b = r.broadcastable(least=1)
    m, k, n = r.integers(3, 1, 5)
    return Case([r.array(dtype, (*a[-2:], m, k)), r.array(dtype, (*b[-2:], k, n))], {})


def window(r: Random, spatial: int, kernel: tuple[int, ...]) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Spatial sizes that a window fits into, and the attributes of the window."""
    dilations = r.integers(spatial, 1, 2)
    pads = tuple(r.integer(0, k - 1) for k in kernel * 2)
    sizes = tuple(d * (k - 1) + 1 + r.integer(0, 4) for d, k in zip(dilations, kernel, strict=True))
    return sizes, {"strides": r.integers(spatial, 1, 3), "pads": pads, "dilations": dilations}


@case("conv")
def conv(r: Random) -> Case:
    dtype, spatial = r.choice((*FLOATS, "i32")), r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    group, inputs, filters = r.integers(3, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    x = r.array(dtype, (r.integer(1, 2), group * inputs, *sizes))
    return Case([x, r.array(dtype, (group * filters, inputs, *kernel))], {**attributes, "group": group})


@case("conv_transpose")
def conv_transpose(r: Random) -> Case:
    dtype, spatial = r.choice((*FLOATS, "i32")), r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    group, inputs, filters = r.integers(3, 1, 3)
    _, attributes = window(r, spatial, kernel)
    x = r.array(dtype, (r.integer(1, 2), group * inputs, *r.integers(spatial, 3, 4)))
    output_padding = tuple(r.integer(0, s - 1) for s in attributes["strides"])
    w = r.array(dtype, (group * inputs, filters, *kernel))
    return Case([x, w], {**attributes, "group": group, "output_padding": output_padding})


@case("blocked_conv")
def blocked_conv(r: Random) -> Case:
    dtype, spatial = r.choice(FLOATS), r.integer(1, 2)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    kept = {k: attributes[k] for k in ("strides", "dilations")}
    images, filters, blocks, lanes, outer = r.integers(5, 1, 3)
    if r.boolean():
        x = r.array(dtype, (images, blocks, *sizes))
        return Case([x, r.array(dtype, (filters, blocks, *kernel, outer))], {**kept, "group": 1})
    sets, side_by_side = r.integers(2, 1, 2)
    group = sets * side_by_side
    x = r.array(dtype, (images, sets * blocks, *sizes, side_by_side * lanes + r.integer(0, 2)))
    return Case([x, r.array(dtype, (group * filters, blocks, *kernel, lanes, outer))], {**kept, "group": group})


@case("reblock")
def reblock(r: Random) -> Case:
    dtype, block = r.choice(FLOATS), r.integer(1, 4)
    shape = (r.integer(1, 2), *r.integers(r.integer(1, 2), 1, 3))
    inputs = [r.array(dtype, (shape[0], r.integer(1, 3), *shape[1:], r.integer(1, 4))) for _ in range(r.integer(1, 3))]
    lanes = sum(x.shape[1] * x.shape[-1] for x in inputs)
    starts = r.integers(r.integer(1, 4), -1, lanes - 1)
    sizes = [r.integer(1, 5 if start < 0 else min(5, lanes - start)) for start in starts]
    return Case([inputs], {"starts": (*starts, -1), "sizes": (*sizes, block - sum(sizes) % block), "block": block})


@case("blocked_depthwise_conv")
def blocked_depthwise_conv(r: Random) -> Case:
    dtype, spatial = r.choice(FLOATS), r.integer(1, 2)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    blocks, block = r.integers(2, 1, 3)
    x = r.array(dtype, (r.integer(1, 2), blocks, *sizes, block))
    return Case([x, r.array(dtype, (blocks, *kernel, block))], {k: attributes[k] for k in ("strides", "dilations")})


@case("winograd_conv")
def winograd_conv(r: Random) -> Case:
    dtype, tile = r.choice(("f32", "f64")), r.choice((2, 4))
    images, blocks, inner, filters, outer = r.integers(5, 1, 3)
    rows, columns, group = r.integers(3, 1, 2)
    x = r.array(dtype, (images, blocks * group, rows * tile + 2, columns * tile + 2, inner))
    transformed = r.choice((True, False))
    taps, dealt = (tile + 2, tile + 2) if transformed else (3, 3), (filters * group, blocks)
    u = r.array(dtype, (*taps, *dealt, inner, outer) if transformed else (*dealt, *taps, inner, outer), -1, 1)
    return Case([x, u], {"tile": tile, "group": group, "transformed": transformed})


@case("panel_matmul")
def panel_matmul(r: Random) -> Case:
    dtype, (panels, summed, width) = r.choice(FLOATS), r.integers(3, 1, 4)
    rows = r.integers(r.integer(1, 3), 1, 3)
    return Case([r.array(dtype, (*rows, summed)), r.array(dtype, (panels, summed, width))], {})


def pooling(r: Random, dtypes: Any) -> Case:
    spatial = r.integer(1, 3)
    kernel = r.integers(spatial, 1, 3)
    sizes, attributes = window(r, spatial, kernel)
    x = r.array(r.choice(dtypes), (r.integer(1, 2), r.integer(1, 3), *sizes))
    return Case([x], {"kernel": kernel, **attributes, "ceil_mode": r.boolean()})


@case("max_pool")
def max_pool(r: Random) -> Case:
    return pooling(r, NUMERIC)


@case("avg_pool")
def avg_pool(r: Random) -> Case:
    made = pooling(r, FLOATS)
    return Case(made.operands, {**made.attributes, "count_include_pad": r.boolean()})


@case("batch_norm")
def batch_norm(r: Random) -> Case:
    dtype, shape = r.choice(FLOATS), r.shape(2, 4, least=1)
    scale, bias, mean = (r.array(dtype, shape[1:2]) for _ in range(3))
    return Case([r.array(dtype, shape), scale, bias, mean, r.array(dtype, shape[1:2], 0.5, 3)], {"epsilon": r.real(1e-5, 1e-3)})


@case("lrn")
def lrn(r: Random) -> Case:
    shape = (r.integer(1, 2), r.integer(1, 7), *r.integers(2, 1, 3))
    attributes = {"size": r.integer(1, 5), "alpha": r.real(1e-4, 0.5), "beta": r.real(0.75, 0.5), "bias": r.real(1.0, 2.0)}
    return Case([r.array(r.choice(FLOATS), shape)], attributes)


@case("blocked_lrn")
def blocked_lrn(r: Random) -> Case:
    blocks, block = r.integers(2, 1, 4)
    attributes = {"size": r.integer(1, 6), "alpha": r.real(1e-4, 0.5), "beta": r.real(0.75, 0.5), "bias": r.real(1.0, 2.0)}
    x = r.array(r.choice(FLOATS), (r.integer(1, 2), blocks, *r.integers(r.integer(1, 2), 1, 3), block))
    return Case([x], {**attributes, "channels": blocks * block - r.integer(0, block - 1)})


def factors(r: Random, count: int, rank: int) -> tuple[int, ...]:
    """Random sizes whose product is `count`."""
    sizes = []
    for _ in range(rank - 1):
        size = r.choice([d for d in range(1, count + 1) if count % d == 0])
        sizes.append(size)
        count //= size
    return (*sizes, count)


@case("reshape")
def reshape(r: Random) -> Case:
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 4, least=1))
    shape = list(factors(r, x.size, r.integer(1, 4)))
    if r.boolean():
        shape[r.integer(0, len(shape) - 1)] = -1
    return Case([x], {"shape": tuple(shape)})


@case("dynamic_reshape")
def dynamic_reshape(r: Random) -> Case:
    made = reshape(r)
    return Case([*made.operands, np.array(made.attributes["shape"], np.int64)], {})


@case("transpose")
def transpose(r: Random) -> Case:
    shape = r.shape()
    return Case([r.array(r.choice((*NUMERIC, "i1")), shape)], {"perm": tuple(r.draw(st.permutations(range(len(shape)))))})


@case("expand")
def expand(r: Random) -> Case:
    full = r.shape()
    new = r.integer(0, len(full))
    shape = tuple(r.choice([1, d]) for d in full[new:])
    wanted = tuple(-1 if i >= new and shape[i - new] == d and r.boolean() else d for i, d in enumerate(full))
    return Case([r.array(r.choice((*NUMERIC, "i1")), shape)], {"shape": wanted})


@case("dynamic_expand")
def dynamic_expand(r: Random) -> Case:
    a, b = r.broadcastable()
    return Case([r.array(r.choice((*NUMERIC, "i1")), a), np.array(b, np.int64)], {})


@case("tile")
def tile(r: Random) -> Case:
    shape = r.shape(1, 4)
    return Case([r.array(r.choice((*NUMERIC, "i1")), shape)], {"repeats": r.integers(len(shape), 0, 3)})


@case("concat")
def concat(r: Random) -> Case:
    shape, dtype = r.shape(1, 4), r.choice((*NUMERIC, "i1"))
    axis = r.integer(0, len(shape) - 1)
    parts = [(*shape[:axis], r.integer(0, 3), *shape[axis + 1 :]) for _ in range(r.integer(1, 4))]
    return Case([[r.array(dtype, p) for p in parts]], {"axis": axis})


@case("pad")
def pad(r: Random) -> Case:
    mode, shape = r.choice(["constant", "edge", "reflect", "wrap"]), r.shape(1, 3, least=2)
    low, high = (tuple(r.integer(0, d - 1) for d in shape) for _ in range(2))
    return Case([r.array(r.choice(NUMERIC), shape)], {"low": low, "high": high, "mode": mode, "value": r.choice([0.0, 3.0])})


@case("shape_of")
def shape_of(r: Random) -> Case:
    return Case([r.array(r.choice((*NUMERIC, "i1")), r.shape())], {})


@case("range")
def arange(r: Random) -> Case:
    dtype = r.choice(("i16", "i32", "i64", "f32", "f64"))
    delta = r.choice([-3, -1, 1, 2]) * (0.5 if is_float(dtype) else 1)
    return Case([np.array(v).astype(to_numpy(dtype)) for v in (r.integer(-5, 5), r.integer(-9, 9), delta)], {})


@case("slice")
def static_slice(r: Random) -> Case:
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 4, least=1))
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
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 4))
    axes = axes_of(r, x.ndim)
    vectors = [
        [r.integer(-7, 7) for _ in axes],
        [r.integer(-7, 7) for _ in axes],
        [a - r.choice([0, x.ndim]) for a in axes],
        [r.choice([-2, -1, 1, 2]) for _ in axes],
    ]
    dtype = to_numpy(r.choice(("i32", "i64")))
    return Case([x, *(np.array(v, dtype) for v in vectors)], {})


def indices(r: Random, shape: tuple[int, ...], size: int) -> np.ndarray:
    return np.asarray(r.generator.integers(-size, size, shape)).astype(to_numpy(r.choice(("i32", "i64"))))


@case("gather")
def gather(r: Random) -> Case:
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 3, least=1))
    axis = r.integer(0, x.ndim - 1)
    return Case([x, indices(r, r.shape(0, 3), x.shape[axis])], {"axis": axis})


@case("gather_elements")
def gather_elements(r: Random) -> Case:
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 3, least=1))
    axis = r.integer(0, x.ndim - 1)
    shape = tuple(r.integer(1, 5) if i == axis else r.integer(1, d) for i, d in enumerate(x.shape))
    return Case([x, indices(r, shape, x.shape[axis])], {"axis": axis})


def index_vectors(r: Random, shape: tuple[int, ...], batch: int, depth: int) -> np.ndarray:
    outer = (*shape[:batch], *r.integers(r.integer(0, 2), 1, 3))
    columns = [r.generator.integers(-shape[batch + i], shape[batch + i], outer) for i in range(depth)]
    return np.stack(columns, axis=-1).astype(np.int64)


@case("gather_nd")
def gather_nd(r: Random) -> Case:
    x = r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 4, least=1))
    depth = r.integer(1, x.ndim)
    batch = r.integer(0, x.ndim - depth)
    return Case([x, index_vectors(r, x.shape, batch, depth)], {"batch_dims": batch})


def reduction_of(r: Random) -> str:
    return str(r.choice(["none", "add", "mul", "max", "min"]))


@case("scatter_elements")
def scatter_elements(r: Random) -> Case:
    x = r.array(r.choice(NUMERIC), r.shape(1, 3, least=1))
    axis, reduction = r.integer(0, x.ndim - 1), reduction_of(r)
    count = r.integer(1, x.shape[axis])
    shape = tuple(count if i == axis else r.integer(1, d) for i, d in enumerate(x.shape))
    if reduction == "none":  # then no place may come twice
        order = np.argsort(r.generator.random((*shape[:axis], x.shape[axis], *shape[axis + 1 :])), axis=axis)
        places = np.take(order, range(count), axis=axis).astype(np.int64)
    else:
        places = indices(r, shape, x.shape[axis])
    return Case([x, places, r.array(from_numpy(x.dtype), shape)], {"axis": axis, "reduction": reduction})


@case("scatter_nd")
def scatter_nd(r: Random) -> Case:
    x = r.array(r.choice(NUMERIC), r.shape(1, 3, least=1))
    depth, reduction = r.integer(1, x.ndim), reduction_of(r)
    if reduction == "none":
        space = int(np.prod(x.shape[:depth]))
        flat = r.generator.permutation(space)[: r.integer(1, space)]
        places = np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1).astype(np.int64)
    else:
        places = index_vectors(r, x.shape, 0, depth)
    return Case([x, places, r.array(from_numpy(x.dtype), (*places.shape[:-1], *x.shape[depth:]))], {"reduction": reduction})


@case("non_zero")
def non_zero(r: Random) -> Case:
    return Case([r.array(r.choice((*NUMERIC, "i1")), r.shape(1, 4), -1, 1)], {})


@case("resize")
def resize(r: Random) -> Case:
    mode = r.choice(["nearest", "linear", "cubic"])
    spatial = 2
    dtypes = ("f32", "f64", "f16") if mode == "cubic" else ("f32", "f64", "f16", "ui8")
    x = r.array(r.choice(dtypes), (*r.integers(2, 1, 2), *r.integers(spatial, 2, 6)), 0, 100)
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
    return Case([], {"value": r.array(r.choice((*NUMERIC, "i1")), r.shape())})


@st.composite
def cases(draw: Any, mnemonic: str) -> Case:
    """A random case of one op."""
    return CASES[mnemonic](Random(draw))


@st.composite
def cases_and_random(draw: Any, mnemonic: str) -> tuple[Case, Random]:
    """A random case and where it came from, for more of it."""
    random = Random(draw)
    return CASES[mnemonic](random), random
