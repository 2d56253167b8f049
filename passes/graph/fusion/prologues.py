"""Ops that may be computed in the kernel of the op that reads their result."""

from dataclasses import dataclass

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.sizes import Dim, is_static
from stepwell.dialects.core.symbolic_shapes import hints_around, likely_elements
from stepwell.dialects.core.types import is_float, type_of
from stepwell.dialects.graph.attention import AttentionOp, scores_of
from stepwell.dialects.graph.base import GraphOp
from stepwell.dialects.graph.indexing import SliceOp
from stepwell.dialects.graph.state import OverwriteOp
from stepwell.dialects.graph.traits import ComputesRows, Fusion, KeepsChannels, Pools, Trait
from stepwell.passes.framework.decisions import NoMatch
from stepwell.passes.graph.integer_products import sum_of_products
from stepwell.passes.graph.matching import category, has_one_use, producer, states

ROW = 16
"""The shortest contiguous run, in elements, that a consumer reads in place: with shorter runs its arithmetic would use short vectors, too."""
PAIR = 2
"""Elements of a row that vectors across rows hold side by side in registers."""
FEW_READS = 4
"""The largest number of reads per element for which a transposed matrix is read in place."""


@dataclass(frozen=True)
class Sliced:
    """An operand that can be computed a few rows at a time, by ops with these traits."""

    operand: ir.Value
    traits: tuple[type[Trait], ...]

    @property
    def makers(self) -> str:
        """The ops that may compute it, in words."""
        return f"an op that states {' and '.join(trait.__name__ for trait in self.traits)}"

    def takes(self, op: ir.Operation) -> bool:
        """Whether an op may compute it."""
        return states(op, *self.traits)


@dataclass(frozen=True)
class Changes:
    """Ops that are computed in one kernel with the overwrite that returns their result, so that they write in place."""

    first: ir.Operation
    scatter: ir.Operation


def is_view(op: ir.Operation) -> bool:
    """Whether an op is a view: a slice or a transposition that keeps whole rows together, or many pairs."""
    view = op.opview
    if not isinstance(view, GraphOp) or len(op.results) != 1 or None in type_of(op.results[0]).shape:
        return False
    run, shape = view.contiguous_run(), type_of(op.results[0]).shape
    if isinstance(view, SliceOp) and shape[-1:] == type_of(view.x).shape[-1:] == (PAIR,):  # both vectors of a tile are loaded anyway
        return is_static(view.attribute_values()["starts"]) and _is_long(shape[-2:][0])
    return _is_long(run)


def read_once(root: ir.Operation) -> ir.Value:
    """The operand whose elements are each read at most once, so that they may be computed where they are read. Raises NoMatch if there is none."""
    view = root.opview
    if category(root) == Fusion.REDUCTION:
        return root.operands[0]
    if states(root, Pools):
        values = view.attribute_values()
        disjoint = all(s >= d * (k - 1) + 1 for s, d, k in zip(values["strides"], values["dilations"], values["kernel"], strict=True))
        if any(values["pads"]) or values["ceil_mode"]:
            raise NoMatch("what makes its image is computed apart: its windows reach beyond the image")
        if not disjoint:
            raise NoMatch("what makes its image is computed apart: its windows overlap")
        return root.operands[0]
    raise NoMatch("what makes its operands is computed apart: it reads each element several times")


def read_in_slices(root: ir.Operation) -> Sliced:
    """An operand that can be computed a slice at a time, in a loop that is fused with its reader's (see the pass `fuse-loops`), and by which ops.

    Raises NoMatch if there is none.

    The image of a pointwise convolution: a position of the result needs the same position of all its channels. That also holds for grouped
    convolutions, but does not pay: ShuffleNet takes as long and needs a twelfth more memory, since an image, its slice and the result are then live
    at once.

    The image of a pooling whose windows neither overlap nor have gaps: each row of the result needs rows that no other row needs. If windows overlap,
    as in most first layers, only channels are independent: a convolution with a few filters at a time, which reads its image again for each group of
    filters, was slower in one kernel with its pooling than separately. A global pooling takes too little time to gain anything.
    """
    view = root.opview
    if states(root, Pools):
        image, strides = read_once(root), view.attribute_values()["strides"]
        read = [-1 if n is None else s * n for s, n in zip(strides, type_of(root.results[0]).shape[2:], strict=False)]
        if list(type_of(image).shape[2 : 2 + len(strides)]) != read:
            raise NoMatch("it is not fused with what makes its image: its windows leave part of that out")
        return Sliced(image, (ComputesRows,))
    if isinstance(view, GraphOp) and view.is_pointwise():
        return Sliced(root.operands[0], (ComputesRows, KeepsChannels))
    kind = category(root)
    if kind == Fusion.REDUCTION:
        text = "element-wise ops that make its operand are computed with it, another kernel is not"
        raise NoMatch(f"{text}: only with poolings and pointwise convolutions, this is '{root.name}'")
    text = "it is not fused with what makes its operands: reductions, poolings and pointwise convolutions are"
    raise NoMatch(f"{text}, this is '{root.name}', of fusion category {kind.name}")


def read_transposed(root: ir.Operation) -> list[ir.Operation]:
    """The transposition before a product with few rows that reads its matrix in place; empty if a copy is worth it, or there is none.

    A row of the matrix is then a column of the product: vectors lie along the reduction dimension, and lanes are summed at the end. That costs less
    than moving each element, as long as it is read only a few times. A state tensor, such as a cache of keys, would be moved for each token, so it is
    always read in place.
    """
    if not _multiplies_matrices(root):
        return []
    rows, matrix = list(root.operands)[:2]
    turned = producer(matrix, "transpose")
    if turned is None or not has_one_use(matrix) or turned.operation.block != root.block:
        return []
    left, right = type_of(rows), type_of(matrix)
    if left.rank < 2 or right.rank < 2:
        return []
    *others, last, before = range(right.rank)
    if tuple(turned.attribute_values()["perm"]) != (*others, before, last) or not is_float(right.dtype) or None in (*left.shape, *right.shape):
        return []
    hints = hints_around(root)
    result = scores_of(left, right) if isinstance(root.opview, AttentionOp) else type_of(root.results[0])
    products, elements = (likely_elements(shape, hints) for shape in ((*result.shape, right.shape[-2]), right.shape))
    reads = products / max(elements, 1)
    return [turned.operation] if reads <= FEW_READS or is_kept(turned.x) else []


def read_prefix(root: ir.Operation, turned: list[ir.Operation]) -> list[ir.Operation]:
    """The slices of the first elements of a product's operands, which are then read in place; `turned` is the result of `read_transposed`."""
    view = root.opview
    if not _multiplies_matrices(root):
        return []
    matrices = [turned[0].operands[0] if turned else root.operands[1], *([view.v] if isinstance(view, AttentionOp) else [])]
    return [first.operation for value in matrices if is_kept(value) and (first := producer(value, "first")) is not None]


def _multiplies_matrices(root: ir.Operation) -> bool:
    """Whether an op multiplies rows of its first operand by columns of its second: a product of matrices, or attention."""
    products = sum_of_products(root.opview)
    return isinstance(root.opview, AttentionOp) or (products is not None and products.is_matrix_product)


def is_kept(value: ir.Value) -> bool:
    """Whether a value is the first part of a state tensor (see `append-in-place`)."""
    first = producer(value, "first")
    return first is not None and producer(first.x, "overwrite") is not None


def changes_kept(written: ir.Operation) -> Changes | None:
    """The ops that change some of the first elements of a state tensor, if `written` returns that tensor with the changes."""
    view = written.opview
    if not isinstance(view, OverwriteOp) or any(start != 0 for start in view.attribute_values()["starts"]):
        return None
    scatter = producer(view.part, "scatter_elements")
    first = None if scatter is None else producer(scatter.x, "first")
    if first is None or first.x != view.x or not has_one_use(view.part) or not has_one_use(scatter.x):
        return None
    return Changes(first.operation, scatter.operation)


def _is_long(size: Dim) -> bool:
    """Whether a row is known to be long enough."""
    return isinstance(size, int) and size >= ROW
