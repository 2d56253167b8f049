"""Operators that move elements of any type, including strings, and ones that return their sizes or compare them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.border.operators.labels import ML, strings
from stepwell.border.registry import Group, Kind, Prepared, border_operator
from stepwell.border.shapes import Size, broadcast, flattened, reshaped, total
from stepwell.dialects.support.errors import InputError, ModelError
from stepwell.signature import UNRANKED, is_string

I64, BOOL = np.dtype(np.int64), np.dtype(np.bool_)


def _of_strings(attributes: Mapping[str, Any]) -> bool:
    value = attributes.get("value")
    return "value_string" in attributes or "value_strings" in attributes or (isinstance(value, np.ndarray) and is_string(value.dtype))


@dataclass(frozen=True)
class ConstantNumbers(Group):
    """The attributes of Constant that hold numbers."""

    value: np.ndarray | None = None
    value_float: float | None = None
    value_floats: Sequence[float] | None = None
    value_int: int | None = None
    value_ints: Sequence[int] | None = None

    def arrays(self) -> list[np.ndarray]:
        """The arrays of the attributes that are given."""
        forms = [(self.value_float, np.float32), (self.value_floats, np.float32), (self.value_int, np.int64), (self.value_ints, np.int64)]
        return [np.asarray(v, dtype) for v, dtype in forms if v is not None] + ([] if self.value is None else [self.value])


@border_operator("Constant", since=1, of_strings=_of_strings)
def constant(*, numbers: ConstantNumbers, value_string: str | None = None, value_strings: Sequence[str] | None = None) -> Prepared:
    given = numbers.arrays()
    given += [strings([value_string or ""]).reshape(())] * (value_string is not None) + [strings(value_strings or ())] * (value_strings is not None)
    if len(given) != 1:
        raise ModelError(f"it must have one value, got {len(given)}")
    return Prepared(lambda: given[0], lambda: Kind.constant(given[0]))


@border_operator("Identity", since=1)
def identity() -> Prepared:
    return Prepared(lambda x: x, lambda x: x)


@border_operator("Reshape", since=5)
def reshape(*, allowzero: int = 0) -> Prepared:
    def run(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        sizes = [x.shape[i] if n == 0 and not allowzero else n for i, n in enumerate(shape.tolist())]
        return x.reshape(sizes)

    def infer(x: Kind, shape: Kind) -> Kind:
        if shape.array is not None:
            return x.with_shape(reshaped(x.shape, shape.array.reshape(-1).tolist(), allowzero=bool(allowzero)))
        rank = shape.shape[0] if shape.rank == 1 else None
        return x.with_shape((None,) * rank if isinstance(rank, int) else UNRANKED)

    return Prepared(run, infer)


@border_operator("Flatten", since=1)
def flatten(*, axis: int = 1) -> Prepared:
    def run(x: np.ndarray) -> np.ndarray:
        place = axis + x.ndim * (axis < 0)
        return x.reshape(int(np.prod(x.shape[:place])), -1) if x.size else x.reshape(int(np.prod(x.shape[:place])), int(np.prod(x.shape[place:])))

    return Prepared(run, lambda x: x.with_shape(flattened(x.shape, axis)))


@border_operator("Transpose", since=1)
def transpose(*, perm: Sequence[int] | None = None) -> Prepared:
    def infer(x: Kind) -> Kind:
        if x.rank is None:
            return x.with_shape(UNRANKED)
        order = range(x.rank)[::-1] if perm is None else perm
        if sorted(order) != list(range(x.rank)):
            raise ModelError(f"perm={list(order)} is no order of {x.rank} dimensions")
        return x.with_shape(tuple(x.shape[i] for i in order))

    return Prepared(lambda x: x.transpose(perm), infer)


def _squeezed(x: Kind, axes: Sequence[int] | None, *, known: bool) -> Kind:
    if x.rank is None or not known:
        return x.with_shape(UNRANKED)
    if axes is None:
        return x.with_shape(tuple(n for n in x.shape if n != 1) if all(isinstance(n, int) for n in x.shape) else UNRANKED)
    gone = {axis + x.rank * (axis < 0) for axis in axes}
    return x.with_shape(tuple(n for i, n in enumerate(x.shape) if i not in gone))


def _unsqueezed(x: Kind, axes: Sequence[int] | None) -> Kind:
    if x.rank is None or axes is None:
        return x.with_shape(UNRANKED)
    rank = x.rank + len(axes)
    new = {axis + rank * (axis < 0) for axis in axes}
    rest = iter(x.shape)
    return x.with_shape(tuple(1 if i in new else next(rest, None) for i in range(rank)))


def _listed(axes: np.ndarray | None) -> tuple[int, ...] | None:
    return None if axes is None else tuple(axes.reshape(-1).tolist())


@border_operator("Squeeze", since=1)
def squeeze_1(*, axes: Sequence[int] | None = None) -> Prepared:
    return Prepared(lambda x: np.squeeze(x, None if axes is None else tuple(axes)), lambda x: _squeezed(x, axes, known=True))


@border_operator("Squeeze", since=13)
def squeeze() -> Prepared:
    def infer(x: Kind, axes: Kind | None = None) -> Kind:
        return _squeezed(x, _listed(None if axes is None else axes.array), known=axes is None or axes.array is not None)

    return Prepared(lambda x, axes=None: np.squeeze(x, _listed(axes)), infer)


@border_operator("Unsqueeze", since=1)
def unsqueeze_1(*, axes: Sequence[int]) -> Prepared:
    return Prepared(lambda x: np.expand_dims(x, tuple(axes)), lambda x: _unsqueezed(x, axes))


@border_operator("Unsqueeze", since=13)
def unsqueeze() -> Prepared:
    return Prepared(lambda x, axes: np.expand_dims(x, _listed(axes) or ()), lambda x, axes: _unsqueezed(x, _listed(axes.array)))


@border_operator("Concat", since=4)
def concat(*, axis: int) -> Prepared:
    def infer(*xs: Kind) -> Kind:
        if any(x.rank is None for x in xs):
            return xs[0].with_shape(UNRANKED)
        ranks = {x.rank or 0 for x in xs}
        if len(ranks) != 1 or not -min(ranks) <= axis < min(ranks) or len({is_string(x.dtype) for x in xs}) != 1:
            raise ModelError(f"its inputs must have one type and one rank, which has an axis {axis}")
        place = axis % min(ranks)
        sizes: list[Size] = []
        for i, along in enumerate(zip(*(x.shape for x in xs), strict=True)):
            number = next((n for n in along if isinstance(n, int)), None)
            sizes.append(total(along) if i == place else along[0] if number is None else number)
        return xs[0].with_shape(tuple(sizes))

    return Prepared(lambda *xs: np.concatenate(xs, axis=axis), infer)


@border_operator("Gather", since=1)
def gather(*, axis: int = 0) -> Prepared:
    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        size = x.shape[axis]
        if indices.size and not -size <= indices.min() <= indices.max() < size:
            raise InputError(f"an index is out of range: they are {indices.min()} to {indices.max()}, of {size} elements")
        return np.asarray(np.take(x, indices, axis=axis), x.dtype)

    def infer(x: Kind, indices: Kind) -> Kind:
        if x.rank is None or indices.rank is None:
            return x.with_shape(UNRANKED)
        if not -x.rank <= axis < x.rank:
            raise ModelError(f"axis={axis} is none of {x.rank} dimensions")
        place = axis % x.rank
        return x.with_shape((*x.shape[:place], *indices.shape, *x.shape[place + 1 :]))

    return Prepared(run, infer)


@border_operator("ArrayFeatureExtractor", since=1, domain=ML)
def array_feature_extractor() -> Prepared:
    """The chosen columns; a vector is a matrix of one row."""

    def run(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        rows, places = (x.reshape(1, -1) if x.ndim == 1 else x), indices.reshape(-1)
        if places.size and not 0 <= places.min() <= places.max() < rows.shape[-1]:
            raise InputError(f"an index is out of range: they are {places.min()} to {places.max()}, of {rows.shape[-1]} columns")
        return rows[..., places]

    def infer(x: Kind, indices: Kind) -> Kind:
        if x.rank is None or indices.rank is None:
            return x.with_shape(UNRANKED)
        count = indices.shape[0] if indices.rank == 1 else reshaped(indices.shape, [-1], allowzero=False)[0]
        return x.with_shape((*((1,) if x.rank == 1 else x.shape[:-1]), count))

    return Prepared(run, infer)


@border_operator("Slice", since=10)
def slice_() -> Prepared:
    def run(x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray | None = None, steps: np.ndarray | None = None) -> np.ndarray:
        chosen = [slice(None)] * x.ndim
        places = range(len(starts)) if axes is None else axes.tolist()
        jumps = [1] * len(starts) if steps is None else steps.tolist()
        for place, start, end, step in zip(places, starts.tolist(), ends.tolist(), jumps, strict=True):
            # Python has no number for an end before the first element of a slice with a negative step.
            chosen[place] = slice(start, None if step < 0 and end < -x.shape[place] else end, step)
        return x[tuple(chosen)]

    def infer(x: Kind, *bounds: Kind | None) -> Kind:
        return x.with_shape(UNRANKED if x.rank is None else (None,) * x.rank)

    return Prepared(run, infer)


@border_operator("Where", since=9)
def where() -> Prepared:
    return Prepared(np.where, lambda c, x, y: x.with_shape(broadcast(broadcast(c.shape, x.shape), y.shape)))


@border_operator("Equal", since=19)
def equal() -> Prepared:
    return Prepared(lambda x, y: np.asarray(x == y, BOOL), lambda x, y: Kind(BOOL, broadcast(x.shape, y.shape)))


@border_operator("Not", since=1)
def not_() -> Prepared:
    return Prepared(np.logical_not, lambda x: x.with_shape(x.shape))


@border_operator("Shape", since=1)
def shape(*, start: int = 0, end: int | None = None) -> Prepared:
    def infer(x: Kind) -> Kind:
        return Kind(I64, (None,) if x.rank is None else (len(x.shape[start:end]),))

    return Prepared(lambda x: np.array(x.shape[start:end], np.int64), infer)
