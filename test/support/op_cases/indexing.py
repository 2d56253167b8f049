"""Cases of gathers and scatters."""

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.types import from_numpy, to_numpy


def indices(r: Random, shape: tuple[int, ...], size: int) -> np.ndarray:
    return np.asarray(r.generator.integers(-size, size, shape)).astype(to_numpy(r.choice(("i32", "i64"))))


@case("gather")
def gather(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 3, least=1))
    axis = r.integer(0, x.ndim - 1)
    return Case([x, indices(r, r.shape(0, 3), x.shape[axis])], {"axis": axis})


@case("gather_elements")
def gather_elements(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 3, least=1))
    axis = r.integer(0, x.ndim - 1)
    shape = tuple(r.integer(1, 5) if i == axis else r.integer(1, d) for i, d in enumerate(x.shape))
    return Case([x, indices(r, shape, x.shape[axis])], {"axis": axis})


def index_vectors(r: Random, shape: tuple[int, ...], batch: int, depth: int) -> np.ndarray:
    outer = (*shape[:batch], *r.sizes(r.integer(0, 2), 1, 3))
    columns = [r.generator.integers(-shape[batch + i], shape[batch + i], outer) for i in range(depth)]
    return np.stack(columns, axis=-1).astype(np.int64)


@case("gather_nd")
def gather_nd(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 4, least=1))
    depth = r.integer(1, x.ndim)
    batch = r.integer(0, x.ndim - depth)
    return Case([x, index_vectors(r, x.shape, batch, depth)], {"batch_dims": batch})


def reduction_of(r: Random, x: np.ndarray) -> str:
    return str(r.choice(["none", "add", "mul", "max", "min"])) if x.dtype.kind != "b" else "none"


@case("scatter_elements")
def scatter_elements(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 3, least=1))
    axis, reduction = r.integer(0, x.ndim - 1), reduction_of(r, x)
    count = r.integer(1, x.shape[axis])
    shape = tuple(count if i == axis else r.integer(1, d) for i, d in enumerate(x.shape))
    if reduction == "none":  # then no place may come twice
        order = np.argsort(r.generator.random((*shape[:axis], x.shape[axis], *shape[axis + 1 :])), axis=axis)
        places = np.take(order, range(count), axis=axis).astype(np.int64)
    else:
        places = indices(r, shape, x.shape[axis])
    from_start = bool((places >= 0).all())
    return Case([x, places, r.array(from_numpy(x.dtype), shape)], {"axis": axis, "reduction": reduction, "from_start": from_start})


@case("scatter_nd")
def scatter_nd(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 3, least=1))
    depth, reduction = r.integer(1, x.ndim), reduction_of(r, x)
    if reduction == "none":
        space = int(np.prod(x.shape[:depth]))
        flat = r.generator.permutation(space)[: r.integer(1, space)]
        places = np.stack(np.unravel_index(flat, x.shape[:depth]), axis=-1).astype(np.int64)
    else:
        places = index_vectors(r, x.shape, 0, depth)
    return Case([x, places, r.array(from_numpy(x.dtype), (*places.shape[:-1], *x.shape[depth:]))], {"reduction": reduction})
