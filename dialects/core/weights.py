"""The weight table: named numpy arrays that live beside the IR, read and written as safetensors."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from stepwell.dialects.core.dtypes import plain_booleans
from stepwell.dialects.support.errors import InputError, ModelError, shown
from stepwell.dialects.support.files import replacing


@dataclass(frozen=True)
class Deferred:
    """An array that is computed from others on demand, such as transformed weights, so that it does not occupy memory early."""

    dtype: np.dtype
    shape: tuple[int, ...]
    make: Callable[[], Iterable[np.ndarray]]
    """Yields the array in parts, from first to last element. May be called from any thread, several times, or never."""
    plain: Callable[[], np.ndarray] | None = None
    """Computes the array that this one is a transform of, for passes that choose another transform for some sizes."""

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def parts(self) -> Iterator[np.ndarray]:
        """The parts that `make` yields. Raises ModelError if together they are no array of this type."""
        made = 0
        for part in self.make():
            made += part.nbytes if part.dtype == self.dtype else self.nbytes + 1
            if made > self.nbytes:
                break
            yield part
        if made != self.nbytes:
            raise ModelError(f"a weight of {self.dtype} and shape {list(self.shape)} was computed as something else")

    def array(self) -> np.ndarray:
        """The whole array. Raises like `parts`."""
        parts = list(self.parts())
        whole = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, self.dtype), *(part.reshape(-1) for part in parts)])
        return whole.reshape(self.shape)


class WeightTable(Mapping[str, np.ndarray]):
    """Arrays by name, read-only once added. A `graph.parameter` names an entry; passes add entries and never change them.

    A Deferred entry is computed on its first read, and kept; `entry` returns it uncomputed.
    """

    def __init__(self, arrays: "Mapping[str, np.ndarray | Deferred] | None" = None) -> None:
        self._arrays: dict[str, np.ndarray | Deferred] = {}
        self._numbers: dict[str, int] = {}  # by name, the last number that was appended to it
        self._kept: set[str] = set()
        self.unsettled_bytes = 0
        """The bytes added since unused entries were last dropped."""
        for name, array in (arrays or {}).items():
            self.add(name, array)

    def __getitem__(self, name: str) -> np.ndarray:
        found = self._arrays[name]
        if not isinstance(found, Deferred):
            return found
        array = _read_only(found.array())
        self._arrays[name] = array if found.plain is None else replace(found, make=lambda: [array])
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def entry(self, name: str) -> np.ndarray | Deferred:
        """An entry with known dtype, shape and bytes, without computing it. Raises KeyError if there is none."""
        return self._arrays[name]

    def parts(self, name: str) -> Iterator[np.ndarray]:
        """An entry in successive parts; a deferred one is computed but not kept. Raises KeyError if there is none."""
        found = self._arrays[name]
        return found.parts() if isinstance(found, Deferred) else iter([found])

    def source(self, name: str) -> Callable[[], np.ndarray]:
        """A function that returns an entry, from any thread and even after it is dropped; a deferred one is computed but not kept."""
        found = self._arrays[name]
        return found.array if isinstance(found, Deferred) else lambda: found

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, name: str, array: np.ndarray | Deferred) -> str:
        """Store `array` under `name`, or under `name.1`, `name.2`, … if that is taken; returns the name used."""
        unique, count = name, self._numbers.get(name, 0)
        while unique in self._arrays:
            count += 1
            unique = f"{name}.{count}"
        self._numbers[name] = count
        self.unsettled_bytes += array.nbytes
        if not isinstance(array, Deferred):
            array = np.asarray(array)
            array = _read_only(plain_booleans(array) if array.dtype == np.bool_ else array)
        self._arrays[unique] = array
        return unique

    @property
    def nbytes(self) -> int:
        """The bytes of all entries."""
        return sum(array.nbytes for array in self._arrays.values())

    def keep_all(self) -> None:
        """Never drop the current entries, because users unknown to `keep_only` may exist."""
        self._kept = set(self._arrays)
        self.unsettled_bytes = 0

    def clear(self) -> None:
        """Drop every entry, when the table is no longer needed."""
        self._arrays = {}
        self.unsettled_bytes = 0

    def keep_only(self, names: set[str]) -> None:
        """Drop every entry that is not in `names`, except those present at `keep_all`."""
        self._arrays = {name: array for name, array in self._arrays.items() if name in names or name in self._kept}
        self.unsettled_bytes = 0

    def save(self, path: str | os.PathLike[str], names: Collection[str] | None = None) -> None:
        """Write all entries, or those of the `names`, to a safetensors file, atomically. Deferred entries are computed but not kept."""
        arrays = {name: self.source(name)() for name in self if names is None or name in names}
        with replacing(path) as temporary:
            save_file({name: np.ascontiguousarray(array) if array.ndim else array for name, array in arrays.items()}, temporary)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "WeightTable":
        """Read a safetensors file. Raises ModelError if it is missing or damaged, InputError for another kind of path."""
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"weights: expected the path of a safetensors file, got {shown(path)}")
        try:
            arrays = load_file(path)
        except (OSError, SafetensorError, ValueError) as error:  # a zero byte in the path
            raise ModelError(f"weights {path}: {error}") from None
        return WeightTable(arrays)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
