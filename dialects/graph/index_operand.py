"""Which operand of an op holds indices, and into what: the op says it itself, and the pass `check-indices` holds them to it."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, product
from stepwell.dialects.core.types import type_of


@dataclass(frozen=True)
class IndexOperand:
    """Integers that name places of the op's first operand; those below 0 count from the end, unless all count from the start.

    Each is an index along the one dimension in `dims`; or, if they are `vectors`, the last dimension of `indices` has one column for each of
    `dims`.
    """

    indices: ir.Value
    dims: tuple[int, ...]
    vectors: bool = False
    from_start: bool = False
    """Whether an index below 0 is out of range."""
    guarded: bool = False
    """Whether the op's lowering asks if there are elements, where only data tell, before it reads or writes one (`LinalgBuilder.has_elements`)."""

    @property
    def reads(self) -> Dim:
        """How many indices there are; None if that is not known."""
        return product(type_of(self.indices).shape)
