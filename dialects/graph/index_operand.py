"""The operand of an op that holds indices, and the dimensions that they index: declared by the op, checked by the pass `check-indices`."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.types import type_of


@dataclass(frozen=True)
class IndexOperand:
    """Integers that index the op's first operand; negative ones count from the end, unless `from_start`.

    Each is an index along the single dimension in `dims`. If they are `vectors`, the last dimension of `indices` has one column for each of `dims`.
    """

    indices: ir.Value
    dims: tuple[int, ...]
    vectors: bool = False
    from_start: bool = False
    """Whether a negative index is out of range."""
    guarded: bool = False
    """Whether the op's lowering tests at run time for an empty tensor before it reads or writes an element (`LinalgBuilder.has_elements`)."""

    @property
    def reads(self) -> Dim:
        """The number of indices; None if it is unknown."""
        return product(type_of(self.indices).shape)
