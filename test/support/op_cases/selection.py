"""Cases of determinants and coupled pairs, of samples between elements and windows, of choices by value, of n-grams and of random bits."""

import numpy as np
from op_random import Case, Random

from op_cases.table import case
from stepwell.dialects.core.types import to_numpy


@case("det")
def det(r: Random) -> Case:
    size = r.integer(0, 9)
    return Case([r.array(r.dtype(), (*r.shape(0, 2), size, size), -1, 1)], {})


@case("pairwise_coupling")
def pairwise_coupling(r: Random) -> Case:
    dtype, shape = r.dtype(), (r.size(0, 4), *[r.integer(1, 6)] * 2)
    first = np.triu(np.asarray(r.generator.uniform(1e-7, 1 - 1e-7, shape)), 1)
    return Case([(first + np.tril(1 - first.transpose(0, 2, 1), -1)).astype(to_numpy(dtype))], {})


@case("interpolate")
def interpolate(r: Random) -> Case:
    dtype, spatial = r.dtype(), r.sizes(r.integer(1, 3), 1, 6)
    batch = r.size(0, 2)
    shape = (batch, *r.shape(0, 2), len(spatial))
    near = r.within("f64", shape, -0.3, 1.3) * np.array(spatial)
    whole = np.where(r.within("i1", shape), near, np.round(near))  # on elements, and half way between them
    places = np.where(r.within("i1", shape), whole, np.round(whole * 2) / 2).astype(np.float64 if dtype == "f64" else np.float32)
    channels = r.size(0, 7) if r.boolean() else r.integer(8, 13)  # few are filled up to short vectors
    return Case([r.array(dtype, (batch, channels, *spatial)), places], {"last_first": r.boolean()})


@case("roi_align")
def roi_align(r: Random) -> Case:
    channels = r.size(0, 3) if r.boolean() else r.integer(8, 13)  # many are computed in vectors
    dtype, shape, count = r.dtype(), (r.integer(1, 3), channels, r.integer(1, 9), r.integer(1, 9)), r.size(0, 4)
    boxes = r.within(dtype, (count, 4), -3, 12)
    batch = np.asarray(r.generator.integers(-shape[0], shape[0], count)).astype(to_numpy(r.choice(("i32", "i64"))))
    return Case([r.array(dtype, shape), boxes, batch], {
        "sizes": r.integers(2, 1, 3), "samples": r.integer(0, 3), "scale": r.real(1.0, 0.5, 1.3), "half_pixel": r.boolean(),
        "mode": r.choice(["avg", "max"]),
    })  # fmt: skip


@case("roi_max_pool")
def roi_max_pool(r: Random) -> Case:
    channels = r.size(0, 3) if r.boolean() else r.integer(8, 13)  # many are computed in vectors
    shape, count = (r.integer(1, 3), channels, r.integer(1, 9), r.integer(1, 9)), r.size(0, 4)
    batch = np.asarray(r.generator.integers(-shape[0], shape[0], count)).astype(to_numpy(r.choice(("i32", "i64"))))
    bounds = [np.asarray(r.generator.integers(-2, size + 3, (count, r.size(0, 3), 2))) for size in shape[2:]]
    return Case([r.array(r.dtype(), shape), batch, *bounds], {})


@case("count_ngrams")
def count_ngrams(r: Random) -> Case:
    dtype, length, size = r.dtype(), r.integer(1, 3), r.integer(1, 5)
    pool = np.unique(r.within(dtype, (r.size(0, 6), length), -2, 2), axis=0)
    columns = np.asarray(r.generator.integers(0, size, len(pool)))
    return Case([r.within(dtype, (r.size(0, 3), r.size(0, 9)), -2, 2), pool, columns], {"size": size, "skips": r.integer(0, 3)})


@case("random_bits")
def random_bits(r: Random) -> Case:
    r.dtype()
    return Case([], {"seed": r.choice([0, 1, -7, 2**63 - 1]), "shape": r.shape()})


@case("unique")
def unique(r: Random) -> Case:
    x = r.array(r.dtype(), r.shape(1, 3), -1, 1)
    return Case([x], {"axis": r.integer(0, x.ndim - 1), "sorted": r.boolean()})


@case("order_rows")
def order_rows(r: Random) -> Case:
    return Case([r.array(r.dtype(), (r.size(), r.size(0, 4)), -1, 1)], {})


@case("non_max_suppression", "kept_boxes")
def non_max_suppression(r: Random) -> Case:
    dtype, batch, boxes = r.dtype(), r.size(1, 2), r.size(1, 6)
    places = r.within(dtype, (batch, boxes, 4), 0, 4)
    scores = np.round(r.within("f32", (batch, r.size(1, 2), boxes), 0, 5)).astype(places.dtype)  # with ties
    scores[..., 0] = 5  # so that one is kept
    most, thresholds = np.array(r.integer(1, 4)), (np.array(t, np.float32) for t in (r.choice([0.0, 0.3, 0.9]), r.choice([0.0, 2.0])))
    return Case([places, scores, most, *thresholds], {"centred": r.boolean()})
