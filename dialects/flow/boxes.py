"""Boxes: vectors of numbers that hold a tensor's address and sizes, so that tensors of different sizes are interchangeable."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.segments import BOX_ELEMENTS
from stepwell.dialects.core.sizes import Dim, Size
from stepwell.dialects.core.types import DTYPES, TensorType
from stepwell.dialects.flow.dialect import Flow
from stepwell.dialects.graph.base import Fusion, GraphOp, InferredTypes, Operand, Pure, Result, Sizes, VariadicOperand
from stepwell.dialects.graph.flops import no_arithmetic
from stepwell.dialects.support.errors import InferenceError

BOX = TensorType("i64", (BOX_ELEMENTS,))
"""The length of a box: the address, then the sizes, then zeros."""
MOST_DIMENSIONS = BOX_ELEMENTS - 1
BOX_OP, UNBOX_OP = "flow.box", "flow.unbox"


class BoxOp(GraphOp, dialect=Flow, name="box", fusion=Fusion.FREE, flops=no_arithmetic, traits=[Pure]):
    """A box of `x`, which then has memory of its own and stays unchanged there for as long as a box of it can be reached.

    `destinations` as in `flow.if`: from the level `graph-opt` on there is one.
    """

    x: Operand
    destinations: VariadicOperand
    result: Result

    @staticmethod
    def infer(x: TensorType, destinations: Sequence[TensorType]) -> InferredTypes:
        if x.rank > MOST_DIMENSIONS:
            raise InferenceError(f"operand 'x' ({x}) must have at most {MOST_DIMENSIONS} dimensions")
        if len(destinations) > 1 or any(kind != BOX for kind in destinations):
            raise InferenceError(f"operand 'destinations' must be nothing or one {BOX}, got {', '.join(map(str, destinations))}")
        return BOX


class UnboxOp(GraphOp, dialect=Flow, name="unbox", fusion=Fusion.FREE, flops=no_arithmetic, traits=[Pure]):
    """The tensor in a box, with element type `to` and these sizes, which are already known (see `opened`)."""

    box: Operand
    result: Result
    to: ir.TypeAttr
    sizes: Sizes

    @staticmethod
    def infer(box: TensorType, *, to: str, sizes: Sequence[int | Size]) -> InferredTypes:
        if box != BOX:
            raise InferenceError(f"operand 'box' must be a {BOX}, got {box}")
        if to not in DTYPES:
            raise InferenceError(f"attribute 'to' must be one of {', '.join(DTYPES)}; got {to}")
        if len(sizes) > MOST_DIMENSIONS:
            raise InferenceError(f"attribute 'sizes' must have at most {MOST_DIMENSIONS} entries, got {len(sizes)}")
        return TensorType(to, tuple(sizes))


def may_hold_boxes(kind: TensorType | ir.Type) -> bool:
    """Whether the elements of a tensor may be boxes, by its type: if so, the tensors in them are looked up before memory is freed."""
    tensor = kind if isinstance(kind, TensorType) else TensorType.from_mlir(kind)
    return tensor.dtype == "i64" and tensor.rank > 0 and tensor.shape[-1] == BOX_ELEMENTS


def boxed(b: Any, x: ir.Value) -> ir.Value:
    """A box of `x`, built by a GraphBuilder."""
    return b.build(BoxOp, x, [])


def opened(b: Any, box: ir.Value, dtype: str, sizes: Sequence[Dim]) -> ir.Value:
    """The tensor in a box, built by a GraphBuilder. Unknown sizes become known here; known ones are compared at run time."""
    assert None not in sizes
    if sizes:
        numbers = b.slice(box, starts=(1,), sizes=(len(sizes),), steps=(1,))
        b.bind_sizes(numbers, sizes=tuple(sizes))
    return b.build(UnboxOp, box, to=dtype, sizes=tuple(sizes))


class Boxes:
    """The boxes of a run in numpy: the reference semantics of the two ops."""

    def __init__(self) -> None:
        self._held: list[np.ndarray] = []

    def box(self, x: np.ndarray) -> np.ndarray:
        """A box of a copy of `x`."""
        self._held.append(np.array(x))
        return np.array([len(self._held), *x.shape, *[0] * (MOST_DIMENSIONS - x.ndim)], np.int64)

    def unbox(self, box: np.ndarray) -> np.ndarray:
        """The tensor in a box."""
        return self._held[int(box[0]) - 1]
