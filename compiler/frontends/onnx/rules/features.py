"""Rules for preparing features: scaling, imputing, encoding, selecting and joining columns."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from stepwell.border.operators.labels import LabelTable
from stepwell.dialects.core.sizes import holds
from stepwell.dialects.core.types import from_numpy, is_float, to_numpy, type_of
from stepwell.dialects.support.errors import ModelError, UnsupportedError
from stepwell.frontends.blocks.slicing import slice_axis, with_new_axes
from stepwell.frontends.builder import Value, static_dim
from stepwell.frontends.onnx.builder import ImportBuilder
from stepwell.frontends.onnx.registry import onnx_rule
from stepwell.frontends.onnx.rules.reductions import euclidean_norm, sum_of_absolutes
from stepwell.frontends.onnx.rules.scores import ML

LEAST_NORM = 1e-30  # the smallest divisor of a row, so that a row of zeros stays zero


def per_feature(b: ImportBuilder, x: Value, numbers: Sequence[Any], what: str, dtype: str) -> Value:
    """One number for each feature (the last dimension of `x`), or one for all. Raises ModelError for another count."""
    kind = type_of(x)
    if len(numbers) != 1 and (kind.rank == 0 or not holds(kind.shape[-1], "==", len(numbers))):
        raise ModelError(f"{what} must have one entry, or one for each feature of {kind}; got {len(numbers)}")
    return b.literal(np.array(numbers).astype(to_numpy(dtype)))


@onnx_rule("Scaler", since=1, domain=ML)
def scaler(b: ImportBuilder, x: Value, *, offset: Sequence[float] = (), scale: Sequence[float] = ()) -> Value:
    wide = "f64" if type_of(x).dtype in ("f64", "i64", "i32") else "f32"
    moved = b.convert(x, wide)
    if offset:
        moved = b.sub(moved, per_feature(b, x, offset, "offset", wide))
    if scale:
        moved = b.mul(moved, per_feature(b, x, scale, "scale", wide))
    return b.convert(moved, "f32")


@onnx_rule("Normalizer", since=1, domain=ML)
def normalizer(b: ImportBuilder, x: Value, *, norm: Literal["MAX", "L1", "L2"] = "MAX") -> Value:
    """Each row divided by its norm. MAX is the largest magnitude, as in ONNX's reference and in scikit-learn before 1.0."""
    rank = type_of(x).rank
    if rank not in (1, 2):
        raise ModelError(f"its input must have rank 1 or 2, got {type_of(x)}")
    wide, axes = b.convert(x, "f64" if type_of(x).dtype in ("f64", "i64", "i32") else "f32"), (rank - 1,)
    if norm == "MAX":
        size = b.reduce_max(b.abs(wide), axes=axes, keepdims=True)
    elif norm == "L1":
        size = sum_of_absolutes(b, wide, axes, True)
    else:
        size = euclidean_norm(b, wide, axes, True)
    return b.convert(b.div(wide, b.maximum(size, b.scalar(LEAST_NORM, like=size))), "f32")


@onnx_rule("Binarizer", since=1, domain=ML)
def binarizer(b: ImportBuilder, x: Value, *, threshold: float = 0.0) -> Value:
    dtype = type_of(x).dtype
    wide = b.convert(x, dtype if is_float(dtype) else "f64")
    return b.convert(b.greater(wide, b.scalar(threshold, like=wide)), dtype)


@onnx_rule("Imputer", since=1, domain=ML)
def imputer(
    b: ImportBuilder,
    x: Value,
    *,
    imputed_value_floats: Sequence[float] = (),
    imputed_value_int64s: Sequence[int] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Value:
    dtype = type_of(x).dtype
    given: Sequence[float] = imputed_value_floats if is_float(dtype) else imputed_value_int64s
    replaced = replaced_value_float if is_float(dtype) else replaced_value_int64
    if not given or (imputed_value_floats and imputed_value_int64s):
        kind = "imputed_value_floats" if is_float(dtype) else "imputed_value_int64s"
        raise ModelError(f"{kind} and no other imputed values must be given for {type_of(x)}")
    if np.isnan(replaced):
        found = b.is_nan(x)
    else:
        limits = None if is_float(dtype) else np.iinfo(to_numpy(dtype))
        if limits is not None and not limits.min <= replaced <= limits.max:
            raise ModelError(f"replaced_value_int64={replaced} is no number of type {dtype}")
        found = b.equal(x, b.scalar(replaced, like=x))
    return b.select(found, per_feature(b, x, given, "the imputed values", dtype), x)


@onnx_rule("ArrayFeatureExtractor", since=1, domain=ML)
def array_feature_extractor(b: ImportBuilder, x: Value, indices: Value) -> Value:
    """The chosen columns; a vector is a matrix of one row."""
    if type_of(x).rank == 0:
        raise ModelError(f"its input must not be a scalar, got {type_of(x)}")
    rows = b.reshape(x, shape=(1, -1)) if type_of(x).rank == 1 else x
    return b.gather(rows, b.reshape(indices, shape=(-1,)), axis=type_of(rows).rank - 1)


@onnx_rule("FeatureVectorizer", since=1, domain=ML)
def feature_vectorizer(b: ImportBuilder, *inputs: Value, inputdimensions: Sequence[int] = ()) -> Value:
    """The inputs side by side as f32, each cut or padded with zeros to its number of columns; a vector is one column."""
    if not inputs or len(inputdimensions) != len(inputs):
        raise ModelError(f"inputdimensions must have an entry for each of {len(inputs)} inputs, got {len(inputdimensions)}")
    parts = []
    for x, wanted in zip(inputs, inputdimensions, strict=True):
        columns = with_new_axes(b, x, [1]) if type_of(x).rank == 1 else x
        kind = type_of(columns)
        if kind.rank != 2 or wanted < 0:
            raise ModelError(f"its inputs must have rank 1 or 2 and inputdimensions 0 or more, got {type_of(x)} and {wanted}")
        have = static_dim(columns, 1, "an input")
        columns = b.convert(slice_axis(b, columns, 1, 0, min(have, wanted)), "f32")
        parts.append(b.pad(columns, low=(0, 0), high=(0, wanted - have), mode="constant", value=0.0) if wanted > have else columns)
    return b.concat(parts, axis=1)


def place_among(b: ImportBuilder, x: Value, keys: np.ndarray) -> Value:
    """For each element of `x`, the index of the last equal key (NaN equals NaN), -1 if there is none; i64."""
    kind = type_of(x)
    column = with_new_axes(b, x, [kind.rank])
    known = b.literal(keys)
    same = b.equal(column, known)
    if is_float(kind.dtype) and np.isnan(keys).any():
        same = b.or_(same, b.and_(b.is_nan(column), b.literal(np.isnan(keys))))
    places = b.select(same, b.literal(np.arange(len(keys), dtype=np.int64)), b.literal(np.array(-1, np.int64)))
    return b.reduce_max(places, axes=(kind.rank,), keepdims=False)


@onnx_rule("OneHotEncoder", since=1, domain=ML)
def one_hot_encoder(b: ImportBuilder, x: Value, *, cats_int64s: Sequence[int] = (), cats_strings: Sequence[str] = (), zeros: int = 1) -> Value:
    """Without `zeros`, an unknown category is an index out of range, which is an error at run time."""
    if cats_strings:
        raise UnsupportedError("categories that are strings are not supported; supported: cats_int64s")
    if not cats_int64s:
        raise ModelError("it has no categories: cats_int64s must have an entry")
    categories = np.array(cats_int64s, np.int64)
    numbers = b.convert(x, "i64")
    if zeros:
        return b.convert(b.equal(with_new_axes(b, numbers, [type_of(x).rank]), b.literal(categories)), "f32")
    place, count = place_among(b, numbers, categories), len(categories)
    beyond = b.select(b.less(place, b.scalar(0, like=place)), b.scalar(count, like=place), place)
    return b.gather(b.literal(np.eye(count, dtype=np.float32)), beyond, axis=0)


@onnx_rule("LabelEncoder", since=2, domain=ML)
def label_encoder(b: ImportBuilder, x: Value, *, table: LabelTable) -> Value:
    if table.keys_strings or table.values_strings:
        raise UnsupportedError(f"strings as keys or values (default_string={table.default_string!r}) are not supported; supported: numbers")
    keys, values, default = table.arrays()
    if from_numpy(keys.dtype) != type_of(x).dtype:
        raise ModelError(f"its keys are {from_numpy(keys.dtype)}, its input is {type_of(x)}")
    place = place_among(b, x, keys)
    rows = np.concatenate([values, np.array([default]).astype(values.dtype)])
    known = b.greater_equal(place, b.scalar(0, like=place))
    return b.gather(b.literal(rows), b.select(known, place, b.scalar(len(keys), like=place)), axis=0)
