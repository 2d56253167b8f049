"""Checks of indices that only a run knows. Each maps a hidden result of @main to the range that it must lie in.

@main of a checked model returns, after its outputs, one hidden result for each check: the greatest zigzag code of the indices, or of each
column of index vectors. The code of an index i is 2i, of a negative one -2i - 1: a dimension of size n accepts indices from -n to n - 1,
whose codes are below 2n. If indices count from the start only, the code is the index in two's complement, read as unsigned, and codes
below n are valid. If the model declares the sizes of a result and the data demand others, the result is the zigzag code of the
difference, and 0 is valid. Sizes that may change in each iteration of a loop are compared there: then the result is 0, or 1 plus the zigzag
code of an index that is out of range. A module lists its checks in `ModuleInfo.checks`. From the level affine on @main
compares, and returns the number of the first check that fails in its status.

In a shape-polymorphic program the limits are expressions of symbols: `IndexCheck.with_sizes` gives the check for the sizes of a run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stepwell.dialects.core.sizes import Size, evaluated_if_known, static_sizes


@dataclass(frozen=True)
class IndexCheck:
    """The range of one operand of indices, or the sizes of one result."""

    node: str
    """The ONNX nodes that use the indices, for messages."""
    op: str
    result: int
    """The number of the hidden result; several checks may share one."""
    dims: tuple[int, ...]
    """The dimensions that the indices, or the columns of index vectors, index."""
    sizes: tuple[int | Size, ...]
    """The sizes of these dimensions, one for each element of the hidden result."""
    exact: bool = False
    """Whether the check compares the sizes themselves."""
    from_start: bool = False
    """Whether indices below 0 are out of range."""
    compared: bool = False
    """Whether the code itself compares: the sizes belong to one iteration of a loop, or to a branch that may not be executed."""
    count: int | Size = 1
    """The number of indices, if there may be none: then any size is valid, and the code is 0."""

    reason: str = ""
    """The message for a nonzero code, if the check is about neither an index nor a size."""

    def with_sizes(self, values: Mapping[str, int]) -> "IndexCheck":
        """The check with symbols replaced by numbers; unbound symbols stay."""
        if self.compared:
            return self
        sizes = tuple(evaluated_if_known(size, values) for size in self.sizes)
        return replace(self, sizes=sizes, count=evaluated_if_known(self.count, values))

    @property
    def limits(self) -> tuple[int, ...]:
        """The smallest invalid codes. All sizes must be numbers, unless the code compares them."""
        if self.compared:
            return (1,) * len(self.sizes)
        [count] = static_sizes([self.count])
        least = 0 if count else 1
        return tuple(1 if self.exact else max(least, size if self.from_start else 2 * size) for size in static_sizes(self.sizes))

    def problem(self, codes: Sequence[int]) -> str | None:
        """The error message for the elements of the hidden result; None if all are valid. Sizes as for `limits`."""
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
    """The message for an index that a dimension does not have, optionally with its position in its tensor."""
    place = f", at {[int(i) for i in at]}," if at else ""
    expected = f" (expected {0 if from_start else -size} to {size - 1})" if size else ""
    return f"index {index}{place} is out of range for {'a dimension' if dim is None else f'dimension {dim}'} of size {size}{expected}"


def decoded(code: int) -> int:
    """The number with this zigzag code."""
    return -(code + 1) // 2 if code % 2 else code // 2


def signed(code: int) -> int:
    """The number with this 64-bit two's complement."""
    return code - (1 << 64) if code >> 63 else code


def widths(checks: Sequence[IndexCheck]) -> list[int]:
    """The number of elements of each hidden result."""
    return list({check.result: len(check.sizes) for check in checks}.values())


def complaint(checks: Sequence[IndexCheck]) -> str | None:
    """The problem of a list of checks as a whole; None if there is none."""
    for check in checks:
        if len(check.dims) != len(check.sizes) or not check.dims:
            return f"the check of {check.node}: expected as many sizes as dims, at least one, got {list(check.sizes)} and {list(check.dims)}"
    results = list(dict.fromkeys(check.result for check in checks))
    if results != list(range(len({(check.result, len(check.sizes)) for check in checks}))):
        return f"hidden results are counted from 0 in order and have one width each, got {[check.result for check in checks]}"
    return None
