"""Immutable arrays by name: the input values for which code is specialised."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stepwell.dialects.core.dtypes import plain_booleans
from stepwell.dialects.support.digests import digest_of


class Values(Mapping[str, np.ndarray]):
    """Immutable arrays by name, equal if their bytes are."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        copies = {name: np.array(array, order="C") for name, array in arrays.items()}
        self._arrays = {name: plain_booleans(array) if array.dtype == np.bool_ else array for name, array in copies.items()}
        for array in self._arrays.values():
            array.flags.writeable = False

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def key(self) -> list[tuple[str, str, tuple[int, ...], str]]:
        """The arrays as plain data."""
        return sorted((name, a.dtype.name, a.shape, digest_of(a.tobytes()).hex()) for name, a in self._arrays.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(tuple(self.key()))
