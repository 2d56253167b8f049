"""Parses `--shape`: sizes, ranges of sizes, and sizes that stay dynamic; chooses numbers for dynamic sizes if a run needs some."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from stepwell.cli.common import UsageError
from stepwell.dialects.core.size_parser import parse
from stepwell.dialects.core.sizes import evaluated_if_known
from stepwell.dialects.support.numbers import whole_number

if TYPE_CHECKING:
    from stepwell.signature import TensorInfo

FORM = (
    "expected NAME=SIZExSIZE…, as in image=1x3x224x224; a size may be ? (free) or a range, as in 32..1024; of a sequence the sizes of each "
    "element, with commas between them, as in s=1x3,2x3; of an optional that holds nothing NAME=nothing"
)
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|(\d+)\.\.(\d+)")  # also without braces, which have a meaning in shells


@dataclass(frozen=True)
class Range:
    """The sizes from `low` to `high`; those in between are multiples of a common divisor of both."""

    low: int
    high: int

    def size_at(self, part: float) -> int:
        """The size at a fraction of the way from the first to the last, on a geometric scale."""
        step = math.gcd(self.low, self.high) or 1
        low = max(self.low, 1)
        size = low * (max(self.high, 1) / low) ** part
        return self.low if part == 0 else self.high if part == 1 else max(self.low, min(self.high, step * round(size / step)))

    @property
    def middle(self) -> int:
        """The size in the middle."""
        return self.size_at(0.5)


Sizes: TypeAlias = tuple[int | Range | None, ...]
Given: TypeAlias = Mapping[str, Sizes]
"""The sizes of inputs by name; None for a dynamic one."""
NOTHING = "nothing"
"""The value for an empty optional."""
DEFAULT = Range(1, 128)
"""The range of a dynamic size without a given range."""


def parse_given(texts: Sequence[str]) -> Given:
    """The contents of `--shape` options, for sequences one for each element. Raises UsageError."""
    from stepwell.signature import part_name  # imported here, because it loads numpy

    given, lists = _parsed(texts)
    return {**given, **{part_name(name, i): sizes for name, parts in lists.items() for i, sizes in enumerate(parts or ())}}


def _parsed(texts: Sequence[str]) -> "tuple[dict[str, Sizes], dict[str, list[Sizes] | None]]":
    """The sizes of inputs that are tensors; those of sequences, and None for empty optionals. Raises UsageError."""
    given: dict[str, Sizes] = {}
    lists: dict[str, list[Sizes] | None] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        if not name:
            raise UsageError(f"--shape {text}: {FORM}")
        if name in given or name in lists:
            raise UsageError(f"--shape {text}: the shape of '{name}' is given twice")
        if sizes == NOTHING:
            lists[name] = None
        elif "," in sizes:
            lists[name] = [_sizes(part, text) for part in sizes.split(",") if part]
        else:
            given[name] = _sizes(sizes, text)
    return given, lists


def _sizes(sizes: str, text: str) -> Sizes:
    return tuple(_size(size, text) for size in sizes.split("x")) if sizes else ()


def _size(size: str, text: str) -> int | Range | None:
    if size == "?":
        return None
    if (number := whole_number(size)) is not None:
        return number
    found = _RANGE.fullmatch(size)
    low, high = (whole_number(end) for end in found.groups() if end is not None) if found is not None else (None, None)
    if low is None or high is None or low > high:
        raise UsageError(f"--shape {text}: {FORM}")
    return Range(low, high)


def fixed(texts: Sequence[str]) -> dict[str, Any] | None:
    """The shapes to compile for, with None for each size with a range and each dynamic one; None if there are none. Raises UsageError."""
    given, lists = _parsed(texts)
    shapes: dict[str, Any] = {name: _numbers(sizes) for name, sizes in given.items()}
    shapes.update({name: None if parts is None else list(map(_numbers, parts)) for name, parts in lists.items()})
    return shapes or None


def _numbers(sizes: Sizes) -> tuple[int | None, ...]:
    return tuple(size if isinstance(size, int) else None for size in sizes)


def ranges_of(given: Given, inputs: "Sequence[TensorInfo]") -> dict[str, Range]:
    """The given ranges for dynamic sizes of the inputs, by the names of the sizes. Raises UsageError for contradictions."""
    found: dict[str, Range] = {}
    for info in inputs:
        shape = given.get(info.name, (None,) * len(info.shape))
        for size, wanted in zip(info.shape, shape, strict=True):
            if not isinstance(size, str) or not size.isidentifier():
                if isinstance(wanted, Range):
                    raise UsageError(f"--shape: a range is for a free size by itself; a size of '{info.name}' is {size}")
            elif isinstance(wanted, Range) and found.setdefault(size, wanted) != wanted:
                raise UsageError(f"--shape: two ranges are given for '{size}': {_text(found[size])} and {_text(wanted)}")
    return found


def _text(given: Range) -> str:
    return f"{{{given.low}..{given.high}}}"


def sized(info: "TensorInfo", values: Mapping[str, int]) -> "TensorInfo":
    """An input with these numbers for dynamic sizes; sizes that do not follow from them stay."""
    sizes = (evaluated_if_known(parse(size), values) if isinstance(size, str) else size for size in info.shape)
    return replace(info, shape=tuple(size if size is None or isinstance(size, int) else str(size) for size in sizes))


def usual_ranges(given: Given, inputs: "Sequence[TensorInfo]", asked: Sequence[str]) -> dict[str, Range]:
    """The ranges of dynamic sizes: the given ones, and the default for the others in `asked`. Raises UsageError like `ranges_of`."""
    return dict.fromkeys(asked, DEFAULT) | ranges_of(given, inputs)


def usual_values(given: Given, inputs: "Sequence[TensorInfo]") -> dict[str, int]:
    """The middle of the range of each dynamic size that has one or is given as `?`. Raises UsageError like `ranges_of`."""
    asked = free_sizes([info for info in inputs if info.name in given])
    return {name: wanted.middle for name, wanted in usual_ranges(given, inputs, asked).items()}


def sweep_points(ranges: Mapping[str, Range], count: int) -> list[dict[str, int]]:
    """Up to `count` shape combinations from the first size of each range to the last, all growing together, without duplicates."""
    points = [{name: wanted.size_at(i / max(count - 1, 1)) for name, wanted in ranges.items()} for i in range(count)]
    return [point for i, point in enumerate(points) if point not in points[:i]]


def shown_free_sizes(given: Given, inputs: "Sequence[TensorInfo]") -> str:
    """The names of the dynamic sizes of inputs, with their given ranges. Raises UsageError like `ranges_of`."""
    ranges = ranges_of(given, inputs)
    return ", ".join(f"{name} {_text(ranges[name])}" if name in ranges else name for name in free_sizes(inputs))


def free_sizes(inputs: "Sequence[TensorInfo]") -> list[str]:
    """The names of the dynamic sizes of inputs."""
    return list(dict.fromkeys(size for info in inputs for size in info.shape if isinstance(size, str) and size.isidentifier()))
