"""Samples of a network's inputs, in batches, from arrays, an .npz file or a folder; with labels if there are some."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from blake3 import blake3

from stepwell.analysis.archives import Archive
from stepwell.analysis.data_files import DATA_FILES, TEXT, read_data
from stepwell.arguments import checked_by
from stepwell.dialects.support.errors import InputError
from stepwell.dialects.support.names import printable_keys
from stepwell.quantizer import arguments
from stepwell.signature import TensorInfo

if TYPE_CHECKING:
    from onnx import ModelProto

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Batch:
    """The inputs of one run, and the labels of its samples, if there are some."""

    source: str
    """Its origin, for messages."""
    inputs: Mapping[str, np.ndarray]
    labels: np.ndarray | None


class Samples:
    """Batches of samples for a model, which can be iterated as often as needed; files of a folder are read each time.

    `labels` is the key of the labels among the arrays, if they are needed: for each sample a number, or an array, along the first axis.
    """

    def __init__(self, infos: Sequence[TensorInfo], loads: Sequence[Callable[[], Batch]]) -> None:
        """`loads` return the batches, whose arrays are not checked yet."""
        self.infos = tuple(infos)
        self._loads = tuple(loads)

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._loads)

    def __iter__(self) -> Iterator[Arrays]:
        """Iterates over the inputs of each run. Raises InputError for data that do not fit or are not finite."""
        return (batch.inputs for batch in self.batches())

    def batches(self) -> Iterator[Batch]:
        """Iterates over the batches. Raises InputError for data that do not fit the model or are not finite."""
        for load in self._loads:
            batch = load()
            yield replace(batch, inputs={info.name: _checked(batch.inputs, info, batch.source) for info in self.infos})

    @property
    def labelled(self) -> bool:
        """Whether the first batch has labels."""
        return next((batch.labels is not None for batch in self.batches()), False)

    def first(self, count: int) -> "Samples":
        """The first batches."""
        return Samples(self.infos, self._loads[:count])

    def with_labels(self, labels: Sequence[np.ndarray]) -> "Samples":
        """The same batches with these labels, an array for each batch."""
        return Samples(self.infos, [partial(_relabelled, load, own) for load, own in zip(self._loads, labels, strict=True)])

    def digest(self) -> str:
        """A digest of all inputs. Raises InputError like `batches`."""
        found = blake3()
        for batch in self.batches():
            for name, array in batch.inputs.items():
                found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
                found.update(np.ascontiguousarray(array).view(np.uint8).reshape(-1).data)
        return found.hexdigest()

    @staticmethod
    @checked_by(model=arguments.proto, data=arguments.data, labels=arguments.like("text"), batch=arguments.whole(1), limit=arguments.whole(1))
    def from_data(
        data: "str | Path | Arrays | Samples", model: "ModelProto", *, labels: str | None = None, batch: int | None = None, limit: int | None = None
    ) -> "Samples":  # fmt: skip
        """The samples in `data` for the inputs of `model`.

        Arrays, or an .npz file of arrays, have one for each input by name, with samples along the first axis: either the input's own first axis, or
        an additional one. They are run in batches of the model's size, else of `batch` (default 1); a remainder that fills no batch is left out. In a
        folder each file (.npz; .npy, .pb or an image if the model has one input) is one batch, in the order of their names. `limit` is the largest
        number of batches. Raises InputError for data that do not fit the model, or if there are none.
        """
        from stepwell.quantizer.graphs import input_infos  # imported here, because it loads onnx

        if isinstance(data, Samples):
            return data
        infos = input_infos(model)
        if isinstance(data, (str, os.PathLike)):
            path = Path(data)
            if path.is_dir():
                files = sorted(file for file in path.iterdir() if file.suffix.lower() in set(DATA_FILES) - {TEXT})
                if not files:
                    raise InputError(f"{path}: there are no files {', '.join(DATA_FILES)} in it")
                found = Samples(infos, [partial(_read, file, infos, labels) for file in files])
            elif path.suffix.lower() == ".npz" and path.is_file():
                found = _of_arrays(str(path), Archive(path), infos, labels, batch, limit)
            else:
                raise InputError(f"{path}: expected an .npz file, or a folder of files {', '.join(DATA_FILES)}")
        else:
            found = _of_arrays("the data", printable_keys(data), infos, labels, batch, limit)
        return found if limit is None else found.first(limit)


def _of_arrays(source: str, arrays: Arrays, infos: Sequence[TensorInfo], labels: str | None, batch: int | None, limit: int | None) -> Samples:
    keys = _keys(source, arrays, infos, labels)
    shapes = {info.name: _shape(arrays, keys[info.name]) for info in infos}
    sizes = {info.name: _samples_of_a_run(source, shapes[info.name], info, batch) for info in infos}
    counts = {name: shapes[name][0] // size for name, size in sizes.items()}
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{count} for '{name}'" for name, count in counts.items())
        raise InputError(f"{source}: expected as many samples for every input, got {text}")
    count = next(iter(counts.values()), 0)
    if count == 0:
        raise InputError(f"{source}: there are no samples in it" + (", or fewer than a batch" if any(s[0] for s in shapes.values()) else ""))
    size = sizes[infos[0].name]
    if labels is not None and (held := (*_shape(arrays, labels), 0)[0]) < count * size:
        raise InputError(f"{source}: expected a label in '{labels}' for each of {count * size} samples, got {held}")
    count = count if limit is None else min(count, limit)
    parts = {name: _first(arrays, keys[name], count * sizes[name]) for name in sizes}
    own_labels = None if labels is None else _first(arrays, labels, count * size)
    ranks = {info.name: len(info.shape) for info in infos}
    loads = []
    for index in range(count):
        chosen = {
            name: array[index] if array.ndim > ranks[name] else array[index * sizes[name] : (index + 1) * sizes[name]]
            for name, array in parts.items()
        }  # fmt: skip
        own = None if own_labels is None else own_labels[index * size : (index + 1) * size]
        loads.append(partial(Batch, f"{source}, batch {index}", chosen, own))
    return Samples(infos, loads)


def _keys(source: str, arrays: Arrays, infos: Sequence[TensorInfo], labels: str | None) -> dict[str, str]:
    """The key of the array for each input: its name, or any if there is one input, and one array besides `labels`. Raises InputError."""
    keys = {info.name: info.name for info in infos}
    if len(infos) == 1 and infos[0].name not in arrays and len(rest := [name for name in arrays if name != labels]) == 1:
        keys[infos[0].name] = rest[0]
    missing = [name for name in (*keys.values(), *([] if labels is None else [labels])) if name not in arrays]
    if missing:
        what = "key of labels" if missing[0] == labels else "input"
        raise InputError(f"{source}: it lacks an array for the {what} '{missing[0]}'; it has {', '.join(arrays) or 'none'}")
    return keys


def _shape(arrays: Arrays, name: str) -> tuple[int, ...]:
    """The shape of an array, without unpacking an archive."""
    return arrays.shape(name) if isinstance(arrays, Archive) else np.asarray(arrays[name]).shape


def _first(arrays: Arrays, name: str, count: int) -> np.ndarray:
    """The first entries of an array, without unpacking more of an archive."""
    return arrays.rows(name, count) if isinstance(arrays, Archive) else np.asarray(arrays[name])[:count]


def _samples_of_a_run(source: str, shape: tuple[int, ...], info: TensorInfo, batch: int | None) -> int:
    """The number of entries along the first axis of an array of samples that one run takes."""
    rank = len(info.shape)
    if len(shape) == rank + 1:
        return 1
    if len(shape) != rank or rank == 0:
        raise InputError(f"{source}: expected samples for input '{info.name}' {info} along the first axis, got the shape {list(shape)}")
    own = info.shape[0]
    return max(own, 1) if isinstance(own, int) else batch or 1


def _relabelled(load: Callable[[], Batch], labels: np.ndarray) -> Batch:
    return replace(load(), labels=labels)


def _read(path: Path, infos: Sequence[TensorInfo], labels: str | None) -> Batch:
    if path.suffix.lower() == ".npz":
        archive = Archive(path)
        keys = _keys(str(path), archive, infos, labels)
        return Batch(str(path), {name: archive[key] for name, key in keys.items()}, None if labels is None else archive[labels])
    if labels is not None:
        raise InputError(f"{path}: labels are read from .npz files only")
    if len(infos) != 1:
        raise InputError(f"{path}: expected an .npz file with an array for each of {', '.join(info.name for info in infos)}")
    return Batch(str(path), {infos[0].name: read_data(path, infos[0])}, None)


def _checked(arrays: Arrays, info: TensorInfo, source: str) -> np.ndarray:
    """The array for an input, in its type. Raises InputError unless it fits."""
    array = np.asarray(arrays[info.name])
    if not info.fits(array.shape):
        raise InputError(f"{source}: input '{info.name}' is {info}, got the shape {list(array.shape)}")
    if array.size == 0:
        raise InputError(f"{source}: the array for input '{info.name}' has no elements")
    if array.dtype != info.dtype:
        if not np.can_cast(array.dtype, info.dtype, "same_kind") and not (array.dtype.kind in "iu" and info.dtype.kind in "iuf"):
            raise InputError(f"{source}: input '{info.name}' is {info}, got {array.dtype.name}")
        array = array.astype(info.dtype)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{source}: the array for input '{info.name}' has {int((~np.isfinite(array)).sum())} elements that are NaN or infinite")
    return array
