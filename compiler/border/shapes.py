"""Shapes of values at the border, whose sizes are numbers, names or unknown (None)."""

import math
from collections.abc import Sequence

from stepwell.border.registry import Shape
from stepwell.signature import UNRANKED

Size = int | str | None


def broadcast(one: Shape, other: Shape) -> Shape:
    """The shape of an element-wise operator's result from those of its two operands."""
    if UNRANKED in (one, other):
        return UNRANKED
    rank = max(len(one), len(other))
    sides = [(1,) * (rank - len(shape)) + shape for shape in (one, other)]
    return tuple(_common(a, b) for a, b in zip(*sides, strict=True))


def _common(a: Size, b: Size) -> Size:
    if a == b or b == 1:
        return a
    return b if a == 1 or isinstance(b, int) else a if isinstance(a, int) else None


def total(sizes: Sequence[Size]) -> Size:
    """The sum; None if it is not a number."""
    return sum(n for n in sizes if isinstance(n, int)) if all(isinstance(n, int) for n in sizes) else None


def product(sizes: Sequence[Size]) -> Size:
    """The product: a number, or a name if all other factors are 1."""
    names = [n for n in sizes if not isinstance(n, int)]
    number = math.prod(n for n in sizes if isinstance(n, int))
    return number if not names else names[0] if len(names) == 1 and number == 1 else None


def reshaped(shape: Shape, wanted: Sequence[int], *, allowzero: bool) -> Shape:
    """The shape `wanted`, in which 0 means the existing size, unless `allowzero`, and -1 the remaining one."""
    if shape == UNRANKED:
        return tuple(n if n > 0 else None for n in wanted)
    sizes: list[Size] = [shape[i] if n == 0 and not allowzero and i < len(shape) else n for i, n in enumerate(wanted)]
    if -1 not in sizes:
        return tuple(sizes)
    place = sizes.index(-1)
    left, rest = list(shape), [n for i, n in enumerate(sizes) if i != place]
    for size in list(rest):
        if size in left and size is not None:
            left.remove(size)
            rest.remove(size)
    known = product(rest)
    count = product(left)
    if isinstance(known, int) and known > 0:
        sizes[place] = count // known if isinstance(count, int) else count if known == 1 else None
    else:
        sizes[place] = None
    return tuple(sizes)


def flattened(shape: Shape, axis: int) -> Shape:
    """The sizes before `axis` and those from there on, each multiplied."""
    if shape == UNRANKED:
        return (None, None)
    axis += len(shape) * (axis < 0)
    return product(shape[:axis]), product(shape[axis:])
