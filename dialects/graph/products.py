"""A description of ops that sum products of the elements of two operands: the mapping from their dimensions to dimensions of the result."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepwell.dialects.core.sizes import Dim


@dataclass(frozen=True)
class SumOfProducts:
    """For each dimension of both operands, the matching dimension of the result.

    An element of the result is the sum, over the other dimensions of `rhs`, of the products of elements of `lhs` and `rhs`. Dimensions of the result
    that match no dimension of either operand are the positions of windows, which overlap in `lhs`.
    """

    lhs: tuple[int | None, ...]
    """None for a dimension that is summed, or along which windows move."""
    rhs: tuple[int | None, ...]
    """None for a dimension that is summed."""
    rank: int
    """The rank of the result."""
    depth: Dim
    """The number of products in the sum for each element of the result."""
    by_channel: bool = False
    """Whether a sum reads only one channel. Then products of different sums share no operand, and dot-product instructions do not pay off."""

    @property
    def has_windows(self) -> bool:
        """Whether `lhs` is read in windows, so that one element is read for several positions of the result."""
        return len({dim for dim in (*self.lhs, *self.rhs) if dim is not None}) < self.rank

    @property
    def is_matrix_product(self) -> bool:
        """Whether both operands end in a matrix: rows of `lhs` with the summed dimension last, and `rhs` with columns last, batch by batch."""
        if len(self.lhs) < 2 or len(self.rhs) < 2 or self.has_windows:
            return False
        *batch, before, last = self.rhs
        return (self.lhs[-1], before, last) == (None, None, self.rank - 1) and all(dim is not None and dim < self.rank - 2 for dim in batch)

    @property
    def column_axis(self) -> int | None:
        """The dimension of `rhs`, a matrix, that runs along the last of the result, where all of the matrix meets each row of `lhs`.

        Rows lie along the last dimension of `lhs`, which is summed. None for other products.
        """
        column = self.rank - 1
        rows_meet_all = self.lhs == (*range(column), None) and len(self.rhs) == 2 and {*self.rhs} == {None, column}
        return self.rhs.index(column) if rows_meet_all else None

    @property
    def multiplies_rows(self) -> bool:
        """Whether rows of `lhs` are multiplied by matrices: by one, or batch by batch."""
        return self.is_matrix_product or self.column_axis is not None

    def rows(self, lhs: Sequence[Dim]) -> list[Dim] | None:
        """The sizes of `lhs` that are not summed: each of their elements is multiplied by all of `rhs`. None if windows overlap."""
        return None if self.has_windows else [size for size, dim in zip(lhs, self.lhs, strict=True) if dim is not None]

    def column_sums(self, rhs: np.ndarray) -> np.ndarray:
        """For each element of the result, the sum of its factors in `rhs`; its shape broadcasts to the result."""
        sums = rhs.sum(axis=tuple(dim for dim, along in enumerate(self.rhs) if along is None), keepdims=True)
        shape = self.along_result(sums.shape, self.rhs)
        return sums if shape is None else sums.reshape(shape)

    def along_result(self, shape: Sequence[Dim], dims: Sequence[int | None]) -> tuple[int, ...] | None:
        """The shape in which an operand's parameter broadcasts to the result, if it broadcasts to the operand and has size 1 in summed dimensions.

        None if it needs no new shape. One size may be unknown, or known only at run time: it becomes -1.
        """
        own = dims[len(dims) - len(shape) :]
        places = range(-len(shape), 0)
        if all(size == 1 or along is None or along - self.rank == place for place, along, size in zip(places, own, shape, strict=True)):
            return None
        first = min((along for along, size in zip(own, shape, strict=True) if along is not None and size != 1), default=self.rank)
        sizes = [1] * (self.rank - first)
        for along, size in zip(own, shape, strict=True):
            if along is not None and size != 1:
                sizes[along - first] = size if isinstance(size, int) else -1
        return tuple(sizes)


def changes_along_sum(shape: Sequence[Dim], dims: Sequence[int | None]) -> bool:
    """Whether a parameter that broadcasts to an operand has different values for the elements of one sum."""
    own = dims[len(dims) - len(shape) :]
    return any(along is None and size != 1 for along, size in zip(own, shape, strict=True))
