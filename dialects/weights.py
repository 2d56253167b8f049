"""The weight table: named numpy arrays that live beside the IR, with reading and writing as safetensors."""

import os
from collections.abc import Iterator, Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from stepwell.dialects.errors import ModelError
from stepwell.dialects.files import replacing


class WeightTable(Mapping[str, np.ndarray]):
    """Arrays by name, read-only once added. A `graph.parameter` names an entry; passes add entries, never change one."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        for name, array in (arrays or {}).items():
            self.add(name, array)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, name: str, array: np.ndarray) -> str:
        """Store `array` under `name`, or under `name.1`, `name.2`, … if that is taken; returns the name it got."""
        unique, count = name, 0
        while unique in self._arrays:
            count += 1
            unique = f"{name}.{count}"
        view = np.asarray(array).view()
        view.flags.writeable = False
        self._arrays[unique] = view
        return unique

    def keep_only(self, names: set[str]) -> None:
        """Drop every entry that is not in `names`."""
        self._arrays = {name: array for name, array in self._arrays.items() if name in names}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all entries to a safetensors file, atomically."""
        with replacing(path) as temporary:
            save_file({name: np.ascontiguousarray(array) if array.ndim else array for name, array in self._arrays.items()}, temporary)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "WeightTable":
        """Read a safetensors file. Raises ModelError if it is missing or damaged."""
        try:
            return WeightTable(load_file(path))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"weights {os.fspath(path)}: {error}") from None
