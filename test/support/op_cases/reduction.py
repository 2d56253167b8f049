"""Cases of reductions, scans, orderings and normalisations."""

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.types import is_float, to_numpy


@case("reduce_sum", "reduce_max", "reduce_min")
def reduction(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(0, 4, least=r.least))
    return Case([x], {"axes": r.axes(x.ndim), "keepdims": r.boolean()})


@case("reduce_prod")
def product(r: Random) -> Case:
    """Of factors about 1, so that floats neither overflow nor vanish on the way: that would depend on the order."""
    x = about_one(r, r.dtype(), r.shape(0, 4, least=r.least))
    return Case([x], {"axes": r.axes(x.ndim), "keepdims": r.boolean()})


def about_one(r: Random, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Floats whose products stay about 1; any integers."""
    if not is_float(dtype):
        return r.array(dtype, shape)
    return np.asarray(np.exp(r.within("f64", shape, -0.05, 0.05)) * np.where(r.within("i1", shape), 1, -1)).astype(to_numpy(dtype))


@case("cumprod")
def running_product(r: Random) -> Case:
    x = about_one(r, r.dtype(), r.shape(1, 4, least=r.least))
    return Case([x], {"axis": r.integer(0, x.ndim - 1), "exclusive": r.boolean(), "reverse": r.boolean()})


@case("arg_max", "arg_min")
def arg_extreme(r: Random) -> Case:
    shape = r.shape(1, 4, least=1)
    x = r.array(r.dtype(), shape, -2, 2)  # with ties among integers
    return Case([x], {"axis": r.integer(0, len(shape) - 1), "keepdims": r.boolean(), "select_last": r.boolean()})


@case("softmax", "log_softmax")
def softmax(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4, least=r.least), -20, 20)
    return Case([x], {"axis": r.integer(0, x.ndim - 1)})


@case("top_k")
def top_k(r: Random) -> Case:
    shape = r.shape(1, 3, least=1)
    axis = r.integer(0, len(shape) - 1)
    k = np.array(r.integer(0, shape[axis]), to_numpy(r.choice(("i32", "i64"))))
    return Case([r.array(r.dtype(), shape, -3, 3), k], {"axis": axis, "largest": r.boolean()})


@case("batch_norm")
def batch_norm(r: Random) -> Case:
    dtype, shape = r.dtype(), r.shape(2, 4, least=r.least)
    scale, bias, mean = (r.within(dtype, shape[1:2]) for _ in range(3))
    return Case([r.array(dtype, shape), scale, bias, mean, r.within(dtype, shape[1:2], 0.5, 3)], {"epsilon": r.real(1e-5, 1e-3)})


@case("lrn")
def lrn(r: Random) -> Case:
    shape = (r.size(1, 2), r.size(1, 7), *r.sizes(2, 1, 3))
    attributes = {"size": r.integer(1, 5), "alpha": r.real(1e-4, 0.5), "beta": r.real(0.75, 0.5), "bias": r.real(1.0, 2.0)}
    return Case([r.within(r.dtype(), shape)], attributes)


@case("packed.lrn")
def blocked_lrn(r: Random) -> Case:
    blocks, block = r.sizes(2, 1, 4)
    attributes = {"size": r.integer(1, 6), "alpha": r.real(1e-4, 0.5), "beta": r.real(0.75, 0.5), "bias": r.real(1.0, 2.0)}
    x = r.within(r.dtype(), (r.size(1, 2), blocks, *r.sizes(r.integer(1, 2), 1, 3), block))
    return Case([x], {**attributes, "channels": blocks * block - r.integer(0, block - 1)})
