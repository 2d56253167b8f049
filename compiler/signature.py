"""What the inputs and outputs of a model are, and how sequences and optionals among them consist of tensors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepwell.dialects.core.dtypes import to_numpy

if TYPE_CHECKING:
    from stepwell.dialects.core.types import TensorType

UNRANKED = ("*",)
"""The shape of a tensor whose rank is not known before the run: that of an output depends on values of inputs, say."""
SEQUENCE, OPTIONAL, MAP = "seq", "optional", "map"
TENSOR, LIST, BOXES, NOTHING = "tensor", "list", "boxes", "nothing"
Shape: TypeAlias = "Sequence[Any] | None"
"""The shape of an array, None for a size that is free; those of the elements of a list; None of an optional that holds nothing."""
STRING = np.dtype(object)
"""The numpy type of strings: arrays of Python's."""


def is_string(dtype: np.dtype) -> bool:
    """Whether arrays of this type hold strings."""
    return dtype == STRING


def type_name(dtype: np.dtype) -> str:
    """What a type of elements is called, strings included."""
    return "string" if is_string(dtype) else dtype.name


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a model."""

    name: str
    shape: tuple[int | str | None, ...]
    """Sizes; a free dimension is its name (equal names are equal sizes) or None; `UNRANKED` if not even the rank is known.

    In a `CompiledModel` all are numbers, but those of outputs that only a run tells."""
    dtype: np.dtype
    form: tuple[str, ...] = ()
    """What tensors of this shape and dtype are in, from outside: `OPTIONAL`, `SEQUENCE`, or both. As Python values, optionals are None or what
    they hold, sequences are lists of arrays."""
    any_integers: bool = False
    """Whether this is an input of integers that may hold any number of the type: nothing reads it as indices, sizes or counts."""
    keys: np.dtype | None = None
    """The type of the keys, where `form` ends in `MAP`: as Python values maps are dicts."""

    @property
    def is_unranked(self) -> bool:
        """Whether not even its rank is known."""
        return self.shape == UNRANKED

    @staticmethod
    def of(name: str, tensor: "TensorType", any_integers: Collection[str] = ()) -> "TensorInfo":
        """The record of an IR tensor; `any_integers` are the names of inputs that may hold any integer."""
        shape = tuple(size if isinstance(size, int) or size is None else str(size) for size in tensor.shape)
        return TensorInfo(name, shape, to_numpy(tensor.dtype), any_integers=name in any_integers)

    def __str__(self) -> str:
        sizes = "x".join("?" if size is None else str(size) for size in self.shape)
        text = type_name(self.dtype) if MAP in self.form else f"{type_name(self.dtype)}[{sizes}]"
        for word in reversed(self.form):
            text = f"{word}({text})" if word != MAP or self.keys is None else f"{word}({type_name(self.keys)}, {text})"
        return text


@dataclass(frozen=True)
class OutputGroup:
    """An output of a model, and of how many results of its code it consists."""

    info: TensorInfo
    held: str
    """`TENSOR`, `LIST`, `BOXES` (of a sequence whose length the run tells: the backend's code gives a list for that one result) or `NOTHING`."""
    count: int = 1

    def gather(self, results: Iterator[Any]) -> Any:
        """The output as a call returns it, from the next of the results."""
        if self.held == LIST:
            return [next(results) for _ in range(self.count)]
        return None if self.held == NOTHING else next(results)

    def described(self, results: Iterator[TensorInfo]) -> TensorInfo:
        """What the output is, from the next of what the results are: sizes that elements of a list do not share are left out."""
        parts = [next(results) for _ in range(0 if self.held == NOTHING else self.count)]
        if not parts or self.held == BOXES:
            return self.info
        if len({len(part.shape) for part in parts}) > 1:
            return replace(self.info, shape=UNRANKED)
        shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(part.shape for part in parts), strict=True))
        return replace(self.info, shape=shape)


def boxed_results(groups: Sequence[OutputGroup]) -> dict[int, tuple[np.dtype, int]]:
    """The results of code that are rows of boxes, by their numbers: the type of what lies in these, and its number of dimensions."""
    found, number = {}, 0
    for group in groups:
        if group.held == BOXES:
            found[number] = (group.info.dtype, len(group.info.shape))
        number += 0 if group.held == NOTHING else group.count
    return found


def gathered(groups: Sequence[OutputGroup], results: Sequence[Any]) -> list[Any]:
    """The outputs that results of code form."""
    rest = iter(results)
    return [group.gather(rest) for group in groups]


def part_name(name: str, number: int) -> str:
    """What the tensor of that number is called of which an input or output consists."""
    return f"{name}.{number}"


def shape_of(value: Any) -> Shape:
    """The shape of what is given for an input."""
    if value is None:
        return None
    return tuple(array.shape for array in value) if isinstance(value, (list, tuple)) else value.shape


def tensors_of(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors of which inputs or outputs consist, by name."""
    parts = [{name: value} if isinstance(value, np.ndarray) else arrays_of(name, value) for name, value in values.items()]
    return {name: array for part in parts for name, array in part.items()}


def arrays_of(name: str, value: Any) -> dict[str, np.ndarray]:
    """The tensors of which a sequence or an optional consists, by name; of maps with the same keys these, and the values with a row for each map."""
    if value is None:
        return {}
    maps = [value] if isinstance(value, dict) else value if isinstance(value, list) and all(isinstance(row, dict) for row in value) else None
    if maps and all(row.keys() == maps[0].keys() for row in maps):
        keys = sorted(maps[0])
        values = np.array([[row[key] for key in keys] for row in maps], np.float32).reshape(len(maps), len(keys))
        return {f"{name}.keys": np.array(keys, STRING if keys and isinstance(keys[0], str) else np.int64), f"{name}.values": values}
    return {part_name(name, i): array for i, array in enumerate(value if isinstance(value, (list, tuple)) else [value])}
