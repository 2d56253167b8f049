"""The rule for n-grams of tokens: TfIdfVectorizer."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from stepwell.dialects.core.types import to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.builder import Value, dims_of
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule


@onnx_rule("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(
    b: ImportBuilder,
    x: Value,
    *,
    mode: Literal["TF", "IDF", "TFIDF"],
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    max_skip_count: int,
    min_gram_length: int,
    max_gram_length: int,
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Value:
    """The sum of the counts for each length of n-grams; `ngram_counts` says where in the pool those of each length begin."""
    if pool_strings:
        raise UnsupportedError("a pool of strings is not supported; supported: pool_int64s")
    dims = dims_of(x)
    if len(dims) not in (1, 2):
        raise ModelError(f"its input must have rank 1 or 2, got {type_of(x)}")
    if min_gram_length < 1 or max_gram_length < min_gram_length or max_skip_count < 0:
        given = f"{min_gram_length}, {max_gram_length} and {max_skip_count}"
        raise ModelError(f"min_gram_length must be from 1 to max_gram_length, and max_skip_count 0 or more; got {given}")
    if not ngram_indexes or min(ngram_indexes) < 0:
        raise ModelError("ngram_indexes must name a column of the result for each n-gram")
    size = max(ngram_indexes) + 1
    factors = column_weights(weights, ngram_indexes) if mode != "TF" and weights else None
    rows = b.with_shape(x, (1, *dims) if len(dims) == 1 else dims)
    total: Value | None = None
    for length, (pool, columns) in enumerate(pools(pool_int64s, ngram_counts, ngram_indexes), 1):
        if min_gram_length <= length <= max_gram_length and len(pool):
            kind = to_numpy(type_of(x).dtype)
            possible = (pool == pool.astype(kind)).all(axis=1)  # a number that no token of this type can have is never found
            pool, first = np.unique(pool[possible], axis=0, return_index=True)  # ascending, as the lookup requires
            operands = (b.literal(pool.astype(kind)), b.literal(columns[possible][first]))
            counts = b.count_ngrams(rows, *operands, size=size, skips=max_skip_count if length > 1 else 0)
            total = counts if total is None else b.add(total, counts)
    if total is None:
        total = b.expand(b.literal(np.zeros((), np.int64)), shape=(dims_of(rows)[0], size))
    result = b.convert(total, "f32")
    if mode == "IDF":
        result = b.convert(b.greater(total, b.scalar(0, like=total)), "f32")
    if factors is not None:
        result = b.mul(result, b.literal(factors))
    return b.with_shape(result, (size,) if len(dims) == 1 else (dims[0], size))


def column_weights(weights: Sequence[float], columns: Sequence[int]) -> np.ndarray:
    """The weight of each column of the result: that of its n-gram. Raises UnsupportedError if it has n-grams of several weights."""
    if len(weights) != len(columns):
        raise ModelError(f"weights must have an entry for each of the {len(columns)} n-grams of the pool, got {len(weights)}")
    factors = np.zeros(max(columns) + 1, np.float32)
    factors[list(columns)] = weights
    if not np.array_equal(factors[list(columns)], np.array(weights, np.float32)):
        raise UnsupportedError("n-grams of different weights in one column are not supported; supported: one weight for each column")
    return factors


def pools(pool: Sequence[int], starts: Sequence[int], columns: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each length from 1 on, the n-grams of the pool (n-grams, length) and the columns that count them."""
    ends = [*starts[1:], len(pool)]
    if list(starts) != sorted(starts) or any(not 0 <= s <= len(pool) for s in starts):
        raise ModelError(f"ngram_counts must ascend from 0 to the size of the pool, {len(pool)}; got {list(starts)}")
    found, seen = [], 0
    for length, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        if (end - start) % length:
            raise ModelError(f"the pool has {end - start} numbers for n-grams of {length}, which is no multiple")
        count = (end - start) // length
        grams = np.array(pool[start:end], np.int64).reshape(count, length)
        found.append((grams, np.array(columns[seen : seen + count], np.int64)))
        seen += count
    if seen != len(columns):
        raise ModelError(f"ngram_indexes must have an entry for each of the {seen} n-grams of the pool, got {len(columns)}")
    return found
