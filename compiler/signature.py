"""The inputs and outputs of a model, and how sequences and optionals among them consist of tensors."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from stepwell.dialects.core.dtypes import to_numpy

if TYPE_CHECKING:
    from stepwell.dialects.core.types import TensorType

UNRANKED = ("*",)
"""The shape of a tensor whose rank is not known before the run, such as an output whose rank depends on values of inputs."""
SEQUENCE, OPTIONAL, MAP = "seq", "optional", "map"
TENSOR, LIST, BOXES, NOTHING = "tensor", "list", "boxes", "nothing"
Shape: TypeAlias = "Sequence[Any] | None"
"""The shape of an array, with None for a dynamic size; for a list the shapes of its elements; for an empty optional None."""
STRING = np.dtype(object)
"""The numpy type of strings: arrays of Python objects."""


def is_string(dtype: np.dtype) -> bool:
    """Whether arrays of this type hold strings."""
    return dtype == STRING


def type_name(dtype: np.dtype) -> str:
    """The name of an element type, including strings."""
    return "string" if is_string(dtype) else dtype.name


@dataclass(frozen=True)
class TensorInfo:
    """An input or output of a model."""

    name: str
    shape: tuple[int | str | None, ...]
    """Sizes; a dynamic dimension is its name (equal names are equal sizes) or None; `UNRANKED` if even the rank is unknown.

    In a `CompiledModel` all sizes are numbers, except those of outputs that are known only after a run.
    """
    dtype: np.dtype
    form: tuple[str, ...] = ()
    """The container of tensors with this shape and dtype, outermost first: `OPTIONAL`, `SEQUENCE`, or both.

    As Python values, optionals are None or their content, and sequences are lists of arrays.
    """
    any_integers: bool = False
    """Whether this is an input of integers that may hold any number of the type: nothing reads it as indices, sizes or counts."""
    keys: np.dtype | None = None
    """The type of the keys, if `form` ends in `MAP`: as Python values, maps are dicts."""

    @property
    def is_unranked(self) -> bool:
        """Whether even its rank is unknown."""
        return self.shape == UNRANKED

    @property
    def is_static(self) -> bool:
        """Whether all its sizes are numbers."""
        return all(isinstance(size, int) for size in self.shape)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether an array of that shape has its rank, and the sizes that are numbers."""
        same_rank = len(shape) == len(self.shape)
        return self.is_unranked or (same_rank and all(not isinstance(size, int) or size == n for size, n in zip(self.shape, shape, strict=True)))

    @staticmethod
    def from_type(name: str, tensor: "TensorType", any_integers: Collection[str] = ()) -> "TensorInfo":
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
    """An output of a model, and the number of results of its code that it consists of."""

    info: TensorInfo
    held: str
    """`TENSOR`, `LIST`, `BOXES` (a sequence of dynamic length: the backend's code returns a list as that one result) or `NOTHING`."""
    count: int = 1

    def gather(self, results: Iterator[Any]) -> Any:
        """The output as a call returns it, made from the next results."""
        if self.held == LIST:
            return [next(results) for _ in range(self.count)]
        return None if self.held == NOTHING else next(results)

    def described(self, results: Iterator[TensorInfo]) -> TensorInfo:
        """The description of the output, from those of the next results: sizes that differ between elements of a list are omitted."""
        parts = [next(results) for _ in range(0 if self.held == NOTHING else self.count)]
        if not parts or self.held == BOXES:
            return self.info
        if len({len(part.shape) for part in parts}) > 1:
            return replace(self.info, shape=UNRANKED)
        shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*(part.shape for part in parts), strict=True))
        return replace(self.info, shape=shape)


def boxed_results(groups: Sequence[OutputGroup]) -> dict[int, tuple[np.dtype, int]]:
    """Maps the index of each result that is a row of boxes to the element type and rank of the tensors in them."""
    found, number = {}, 0
    for group in groups:
        if group.held == BOXES:
            found[number] = (group.info.dtype, len(group.info.shape))
        number += 0 if group.held == NOTHING else group.count
    return found


def gathered(groups: Sequence[OutputGroup], results: Sequence[Any]) -> list[Any]:
    """The outputs made from the results of code."""
    rest = iter(results)
    return [group.gather(rest) for group in groups]


def part_name(name: str, number: int) -> str:
    """The name of the tensor with that number in an input or output."""
    return f"{name}.{number}"


def shape_text(shape: Sequence[int]) -> str:
    """`2x3`, the shape of an array for messages."""
    return "x".join(map(str, shape)) or "() (a scalar)"


def shape_of(value: Any) -> Shape:
    """The shape of the value for an input."""
    if value is None:
        return None
    return tuple(array.shape for array in value) if isinstance(value, (list, tuple)) else value.shape


def tensors_of(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The tensors in inputs or outputs, by name."""
    parts = [{name: value} if isinstance(value, np.ndarray) else arrays_of(name, value) for name, value in values.items()]
    return {name: array for part in parts for name, array in part.items()}


def arrays_of(name: str, value: Any) -> dict[str, np.ndarray]:
    """The tensors in a sequence or an optional, by name; for maps with equal keys, these keys, and the values with one row per map."""
    if value is None:
        return {}
    maps = [value] if isinstance(value, dict) else value if isinstance(value, list) and all(isinstance(row, dict) for row in value) else None
    if maps and all(row.keys() == maps[0].keys() for row in maps):
        keys = sorted(maps[0])
        values = np.array([[row[key] for key in keys] for row in maps], np.float32).reshape(len(maps), len(keys))
        return {f"{name}.keys": np.array(keys, STRING if keys and isinstance(keys[0], str) else np.int64), f"{name}.values": values}
    return {part_name(name, i): array for i, array in enumerate(value if isinstance(value, (list, tuple)) else [value])}
