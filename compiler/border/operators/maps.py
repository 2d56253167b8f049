"""Maps, which are dicts in Python: ZipMap makes them from rows; DictVectorizer and CastMap convert them to rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.border.operators.casts import as_type
from stepwell.border.operators.labels import ML
from stepwell.border.registry import Kind, Prepared, border_operator
from stepwell.border.values import Map
from stepwell.dialects.support.errors import InputError, ModelError, UnsupportedError
from stepwell.signature import MAP, SEQUENCE, STRING, is_string


@border_operator("ZipMap", since=1, domain=ML, of_strings=True)
def zip_map(*, classlabels_int64s: Sequence[int] = (), classlabels_strings: Sequence[str] = ()) -> Prepared:
    """A dict for each row, from labels to the row's numbers; a vector is one row."""
    if bool(classlabels_int64s) == bool(classlabels_strings):
        raise ModelError("its class labels must be either integers or strings")
    labels: Sequence[Any] = classlabels_int64s or classlabels_strings
    keys = np.dtype(np.int64) if classlabels_int64s else STRING

    def run(x: np.ndarray) -> list[dict[Any, float]]:
        if x.ndim not in (1, 2) or x.shape[-1] != len(labels):
            raise InputError(f"expected rows of {len(labels)} numbers, one for each label, got shape {list(x.shape)}")
        return [dict(zip(labels, row, strict=True)) for row in x.reshape(-1, len(labels)).tolist()]

    def infer(x: Kind) -> Kind:
        if x.rank not in (None, 1, 2) or (x.rank and isinstance(x.shape[-1], int) and x.shape[-1] != len(labels)):
            raise ModelError(f"its input must be rows of {len(labels)} numbers, one for each label, got shape {list(x.shape)}")
        return Kind(np.dtype(np.float32), (), (SEQUENCE, MAP), keys)

    return Prepared(run, infer)


@border_operator("DictVectorizer", since=1, domain=ML, of_strings=True)
def dict_vectorizer(*, int64_vocabulary: Sequence[int] = (), string_vocabulary: Sequence[str] = ()) -> Prepared:
    """A row with the map's entry for each word of the vocabulary, 0 or the empty string for missing entries; other keys are ignored."""
    if bool(int64_vocabulary) == bool(string_vocabulary):
        raise ModelError("its vocabulary must be either of integers or of strings")
    words: Sequence[Any] = int64_vocabulary or string_vocabulary

    def run(x: Map) -> np.ndarray:
        out = np.empty((1, len(words)), x.dtype)
        out[0, :] = [x.get(word, "" if is_string(x.dtype) else 0) for word in words]
        return out

    def infer(x: Kind) -> Kind:
        if MAP not in x.form or x.keys is None or is_string(x.keys) != bool(string_vocabulary):
            raise ModelError(f"its input must be a map with keys that are {'strings' if string_vocabulary else 'integers'}")
        return Kind(x.dtype, (1, len(words)))

    return Prepared(run, infer)


LONGEST = 1 << 24
"""The largest number of elements in a row made from a map."""
CASTS = {"TO_FLOAT": np.dtype(np.float32), "TO_STRING": STRING, "TO_INT64": np.dtype(np.int64)}


@border_operator("CastMap", since=1, domain=ML, of_strings=True)
def cast_map(*, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Prepared:
    """A row of the values of a map, by ascending keys; with SPARSE, each at the index given by its key, in a row of `max_map`."""
    if cast_to not in CASTS or map_form not in ("DENSE", "SPARSE"):
        raise UnsupportedError(f"cast_to={cast_to!r} with map_form={map_form!r} is not supported; supported: {', '.join(CASTS)}, DENSE and SPARSE")
    if not 1 <= max_map <= LONGEST:
        raise ModelError(f"max_map must be from 1 to {LONGEST}, got {max_map}")
    dtype = CASTS[cast_to]

    def run(x: Map) -> np.ndarray:
        entries: list[Any] = [value for _, value in sorted(x.items())]
        if map_form == "SPARSE":
            if any(not 0 <= key < max_map for key in x):
                raise InputError(f"expected keys from 0 to {max_map - 1} (max_map), got {min(x)} to {max(x)}")
            entries = [x.get(place, "0" if is_string(x.dtype) else 0) for place in range(max_map)]
        given = np.empty(len(entries), x.dtype)
        given[:] = entries
        return as_type(given, dtype).reshape(1, -1)

    def infer(x: Kind) -> Kind:
        if MAP not in x.form or x.keys is None or is_string(x.keys):
            raise ModelError("its input must be a map with keys that are integers")
        return Kind(dtype, (1, max_map if map_form == "SPARSE" else None))

    return Prepared(run, infer)
