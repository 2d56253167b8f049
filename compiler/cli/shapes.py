"""What `--shape` says of inputs: sizes, ranges of sizes, and sizes that stay free; and what numbers free sizes get where a run needs some."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from stepwell.cli.common import UsageError
from stepwell.dialects.core.sizes import evaluated, parse

if TYPE_CHECKING:
    from stepwell.runtime.infos import TensorInfo

FORM = "expected NAME=SIZExSIZE…, as in image=1x3x224x224; a size may be ? (free) or a range, as in 32..1024"
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}|(\d+)\.\.(\d+)")  # without braces too: shells have a meaning for these


@dataclass(frozen=True)
class Range:
    """The sizes from `low` to `high`; those in between are multiples of what divides both."""

    low: int
    high: int

    def at(self, part: float) -> int:
        """The size at a part of the way from the first to the last, by equal factors."""
        step = math.gcd(self.low, self.high) or 1
        low = max(self.low, 1)
        size = low * (max(self.high, 1) / low) ** part
        return self.low if part == 0 else self.high if part == 1 else max(self.low, min(self.high, step * round(size / step)))

    @property
    def middle(self) -> int:
        """The size in the middle."""
        return self.at(0.5)


Given: TypeAlias = Mapping[str, tuple[int | Range | None, ...]]
"""By the names of inputs their sizes, of which None is a free one."""
DEFAULT = Range(1, 128)
"""The range of a free size that none is given for."""


def parse_given(texts: Sequence[str]) -> Given:
    """What the texts of `--shape` say. Raises UsageError."""
    given: dict[str, tuple[int | Range | None, ...]] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        if not name:
            raise UsageError(f"--shape {text}: {FORM}")
        if name in given:
            raise UsageError(f"--shape {text}: the shape of '{name}' is given twice")
        given[name] = tuple(_size(size, text) for size in sizes.split("x")) if sizes else ()
    return given


def _size(size: str, text: str) -> int | Range | None:
    if size == "?":
        return None
    if size.isascii() and size.isdecimal():
        return int(size)
    found = _RANGE.fullmatch(size)
    low, high = (int(number) for number in found.groups() if number is not None) if found is not None else (1, 0)
    if low > high:
        raise UsageError(f"--shape {text}: {FORM}")
    return Range(low, high)


def fixed(given: Given) -> dict[str, tuple[int | None, ...]] | None:
    """The shapes to compile for, None for each size of a range and for each free one; None if there are none."""
    return {name: tuple(size if isinstance(size, int) else None for size in shape) for name, shape in given.items()} or None


def ranges_of(given: Given, inputs: "Sequence[TensorInfo]") -> dict[str, Range]:
    """The ranges that are given for free sizes of the inputs, by the names of these. Raises UsageError for contradictions."""
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


def shapes_at(inputs: "Sequence[TensorInfo]", values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of inputs where free sizes are these numbers."""
    return {info.name: tuple(evaluated(parse(size), values) if isinstance(size, str) else int(size or 0) for size in info.shape) for info in inputs}


def sweep_points(ranges: Mapping[str, Range], count: int) -> list[dict[str, int]]:
    """So many combinations of sizes from the first of each range to the last, all of them growing together; each once."""
    points = [{name: wanted.at(i / max(count - 1, 1)) for name, wanted in ranges.items()} for i in range(count)]
    return [point for i, point in enumerate(points) if point not in points[:i]]


def free_sizes(inputs: "Sequence[TensorInfo]") -> list[str]:
    """The names of the free sizes of inputs."""
    return list(dict.fromkeys(size for info in inputs for size in info.shape if isinstance(size, str) and size.isidentifier()))
