"""Checks of indices that are known at run time only: which hidden result of @main says how far they reach, and how far they may.

@main of a checked model gives, after its outputs, one hidden result for each check: the greatest zigzag code of the indices, or of each
column of index vectors. The code of an index i is 2i, of a negative one -2i - 1: a dimension of size n takes indices from -n to n - 1,
whose codes are those below 2n. Where indices count from the start only, the code is the index in two's complement, read as unsigned:
those below n are right. If the model declares the sizes of a result and the data ask for others, the result is the zigzag code of the
difference: 0 is right. Sizes that may be others in each round of a loop are compared there: then the result is 0, or one more than the zigzag
code of an index that is out of range. A module lists its checks in `ModuleInfo.checks`.

In a program for all sizes the limits are expressions of symbols: `IndexCheck.at` gives the check for the sizes of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepwell.dialects.core.sizes import Size, evaluated_if_known, is_static, static_sizes


@dataclass(frozen=True)
class IndexCheck:
    """The range of one operand of indices, or the sizes of one result."""

    node: str
    """The ONNX nodes that the indices are used by, for messages."""
    op: str
    result: int
    """Which of the hidden results it is about; several checks may be about the same."""
    dims: tuple[int, ...]
    """The dimensions that the indices, or the columns of index vectors, go along."""
    sizes: tuple[int | Size, ...]
    """Of these dimensions: as many as the hidden result has elements."""
    exact: bool = False
    """Whether it is about the sizes themselves."""
    from_start: bool = False
    """Whether indices below 0 are out of range."""
    compared: bool = False
    """Whether the code itself compares: the sizes are those of a round of a loop, or of a branch that may not be taken."""
    count: int | Size = 1
    """How many indices there are, where there may be none: then any size will do, and the code is 0."""

    reason: str = ""
    """What to say of a code that is not 0, where it is about no index and no size."""

    def at(self, values: Mapping[str, int]) -> "IndexCheck":
        """The check where symbols stand for these numbers; others stay."""
        if self.compared:
            return self
        sizes = tuple(evaluated_if_known(size, values) for size in self.sizes)
        return replace(self, sizes=sizes, count=evaluated_if_known(self.count, values))

    @property
    def is_late(self) -> bool:
        """Whether its limits depend on sizes that are not known yet."""
        return not self.compared and not is_static([*self.sizes, self.count])

    @property
    def limits(self) -> tuple[int, ...]:
        """The codes from which on something is wrong. All sizes must be numbers, unless they are compared by the code."""
        if self.compared:
            return (1,) * len(self.sizes)
        [count] = static_sizes([self.count])
        least = 0 if count else 1
        return tuple(1 if self.exact else max(least, size if self.from_start else 2 * size) for size in static_sizes(self.sizes))

    def problem(self, codes: Sequence[int]) -> str | None:
        """What is wrong, given the elements of the hidden result; None if nothing is. Sizes as for `limits`."""
        for code, limit, dim, size in zip(codes, self.limits, self.dims, self.sizes, strict=True):
            if code >= limit:
                if self.reason:
                    return f"{self.node}: {self.reason}"
                if self.compared:
                    number = decoded(code - 1)
                    what = f"the data ask for {number:+} elements" if self.exact else f"index {number} is out of range"
                    return f"{self.op} of {self.node}: {what} for dimension {dim}, whose size, {size}, is that of a round of a loop or of a branch"
                [size] = static_sizes([size])
                if self.exact:
                    asked = size + decoded(code)
                    return f"{self.op} of {self.node}: the data ask for size {asked} along dimension {dim}, for which the model declares {size}"
                index = signed(code) if self.from_start else decoded(code)
                return f"{self.op} of {self.node}: {out_of_range(index, size, dim, from_start=self.from_start)}"
        return None


def out_of_range(index: int, size: int, dim: int | None = None, at: Sequence[int] = (), *, from_start: bool = False) -> str:
    """The words for an index, perhaps that at a place of its tensor, that a dimension does not have."""
    place = f", at {[int(i) for i in at]}," if at else ""
    expected = f" (expected {0 if from_start else -size} to {size - 1})" if size else ""
    return f"index {index}{place} is out of range for {'a dimension' if dim is None else f'dimension {dim}'} of size {size}{expected}"


def decoded(code: int) -> int:
    """The number that has this zigzag code."""
    return -(code + 1) // 2 if code % 2 else code // 2


def signed(code: int) -> int:
    """The number whose two's complement in 64 bits this is."""
    return code - (1 << 64) if code >> 63 else code


def widths(checks: Sequence[IndexCheck]) -> list[int]:
    """How many elements each hidden result has."""
    return list({check.result: len(check.sizes) for check in checks}.values())


def complaint(checks: Sequence[IndexCheck]) -> str | None:
    """What is wrong with a list of checks as a whole; None if nothing is."""
    for check in checks:
        if len(check.dims) != len(check.sizes) or not check.dims:
            return f"the check of {check.node}: expected as many sizes as dims, at least one, got {list(check.sizes)} and {list(check.dims)}"
    results = list(dict.fromkeys(check.result for check in checks))
    if results != list(range(len({(check.result, len(check.sizes)) for check in checks}))):
        return f"hidden results are counted from 0 in order and have one width each, got {[check.result for check in checks]}"
    return None
