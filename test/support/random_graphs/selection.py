"""What chooses or counts elements by their values. Sizes that depend on data are known where the data are: those are constants here."""

from typing import Any

import numpy as np
from random_graphs.compact import is_float
from random_graphs.movement import any_value
from random_graphs.net import Declined, Net, Value
from random_graphs.operators import operator

from stepwell.dialects.core.dtypes import to_numpy


def repeating(net: Net, dtype: str, low: int = 0) -> Value:
    """A constant of few different numbers."""
    x = net.fresh(dtype, net.shape(low), -2, 3, constant=True, keep=False)
    array = (
        np.floor(x.array)
        if is_float(dtype)
        else np.where(net.r.generator.random(x.shape) < 0.5, x.array, x.array.reshape(-1)[:1])
        if x.array.size
        else x.array
    )
    return net.keep(Value(x.name, array.astype(to_numpy(dtype)).reshape(x.shape), x.constant))


@operator("Unique")
def unique(net: Net, op_type: str) -> None:
    x = repeating(net, net.dtype(op_type))
    axis = None if x.rank == 0 or net.r.boolean() else net.axis(x.rank)
    net.node(op_type, x, outputs=net.r.integer(1, 4), axis=axis, sorted=net.r.choice([None, 0, 1]))


@operator("NonZero")
def non_zero(net: Net, op_type: str) -> None:
    net.node(op_type, repeating(net, net.dtype(op_type), 0 if net.opset >= 13 else 1))


@operator("NonMaxSuppression")
def suppression(net: Net, op_type: str) -> None:
    r = net.r
    batch, classes, count = r.integers(2, 1, 3)[0], r.integer(1, 3), r.choice([1, 2, 3, 8, 17])
    centred = r.choice([None, 0, 1])
    ends = r.generator.uniform(0, 4, (batch, count, 2, 2)).astype(np.float32)
    if centred:
        ends[:, :, 1] = r.generator.uniform(0.5, 3, (batch, count, 2))
    elif r.boolean():
        ends = np.sort(ends, axis=2)  # else either corner comes first
    boxes = net.fresh("f32", (batch, count, 4), constant=True, keep=False)
    boxes = net.keep(Value(boxes.name, ends.reshape(batch, count, 4), boxes.constant))
    scores = net.fresh("f32", (batch, classes, count), 0, 1, constant=True, tame=True)

    def number(value: Any, dtype: type) -> np.ndarray | None:
        return None if value is None else np.array(r.choice([value, [value]]), dtype)

    most, overlap, least = r.choice([None, 0, 1, 2, 20]), r.choice([None, 0.0, 0.2, 0.5, 1.0]), r.choice([None, 0.25, 0.6])
    operands = number(most, np.int64), number(overlap, np.float32), number(least, np.float32)
    net.node(op_type, boxes, scores, *operands, center_point_box=centred)


@operator("Compress")
def compress(net: Net, op_type: str) -> None:
    x = any_value(net, op_type, 1)
    axis = net.r.choice([None, net.axis(x.rank)])
    size = x.array.size if axis is None else x.shape[axis]
    net.node(op_type, x, net.fresh("i1", (net.r.integer(0, size),), constant=True), axis=axis)


@operator("TfIdfVectorizer")
def vectorizer(net: Net, op_type: str) -> None:
    r = net.r
    dtype = str(r.choice([d for d in net.dtypes(op_type) if d in ("i32", "i64")]))
    tokens = net.fresh(dtype if net.dtype(op_type) not in ("i32", "i64") else net.dtype(op_type), net.shape(1, 2), 0, 3, tame=True)
    if 0 in tokens.shape:
        raise Declined("no tokens")
    longest = r.integer(1, 3)
    grams: list[tuple[int, ...]] = []
    starts = []
    for length in range(1, longest + 1):
        starts.append(sum(map(len, grams)))
        grams += sorted({r.integers(length, 0, 4) for _ in range(r.integer(0 if length < longest or grams else 1, 4))})
    columns = list(r.permutation(len(grams)))
    if r.integer(0, 3) == 0:
        columns = [c + 2 for c in columns]  # of which two stay empty
    weights = [float(np.float32(w)) for w in r.generator.uniform(0.2, 2, len(grams))] if r.boolean() else None
    net.node(
        op_type, tokens, mode=r.choice(["TF", "IDF", "TFIDF"]), ngram_counts=starts, ngram_indexes=columns, pool_int64s=[t for g in grams for t in g],
        max_skip_count=r.integer(0, 3), min_gram_length=r.integer(1, longest), max_gram_length=longest, weights=weights,
    )  # fmt: skip
