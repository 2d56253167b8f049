"""How each op may be grouped with others into one kernel: the four classical categories, and what needs no kernel at all."""

import enum
from typing import Any

from stepwell.dialects.core.mlir import ir
from stepwell.dialects.core.types import type_of
from stepwell.passes.graph.matching import is_elementwise


class Category(enum.Enum):
    """What fusion asks of an op (after TVM, OSDI 2018)."""

    INJECTIVE = "element-wise: joins any group that computes one of its operands"
    REDUCTION = "a reduction: takes element-wise ops after it into its group"
    COMPLEX = "a contraction, pooling or normalisation: takes element-wise ops after it into its group"
    OPAQUE = "anything else: a group of its own"
    PAD = "constant padding: may end a group"
    FREE = "no computation: stays outside of groups"


_CATEGORIES: dict[str, Category] = {
    **dict.fromkeys(("graph.reduce_sum", "graph.reduce_prod", "graph.reduce_max", "graph.reduce_min"), Category.REDUCTION),
    **dict.fromkeys(("graph.conv", "graph.conv_transpose", "graph.col2im", "graph.matmul", "graph.panel_matmul"), Category.COMPLEX),
    **dict.fromkeys(("graph.max_pool", "graph.avg_pool"), Category.COMPLEX),
    **dict.fromkeys(("graph.blocked_conv", "graph.blocked_depthwise_conv", "graph.winograd_conv", "graph.reblock"), Category.COMPLEX),
    **dict.fromkeys(("graph.softmax", "graph.lrn", "graph.blocked_lrn"), Category.COMPLEX),
    **dict.fromkeys(("graph.constant", "graph.parameter", "graph.reshape", "graph.if", "graph.loop", "graph.fused", "graph.yield"), Category.FREE),
}


def set_category(op_class: Any, category: Category) -> None:
    """Have fusion treat a (plugin's) op class as `category`; unless it is element-wise, the default is OPAQUE."""
    _CATEGORIES[op_class.OPERATION_NAME] = category


def category(op: ir.Operation) -> Category:
    """The category of an op as it stands; ops of other dialects are FREE."""
    if not op.name.startswith("graph."):
        return Category.FREE
    known = _CATEGORIES.get(op.name)
    if known is not None:
        return known
    if is_elementwise(op.opview):
        return Category.INJECTIVE
    if op.name == "graph.pad" and op.attributes["mode"].value == "constant":
        return Category.PAD
    if op.name == "graph.concat" and is_contiguous(op):
        return Category.FREE
    return Category.OPAQUE


def is_contiguous(concat: ir.Operation) -> bool:
    """Whether a concatenation puts its operands one after the other in memory: all dimensions before its axis are 1."""
    return all(size == 1 for size in type_of(concat.results[0]).shape[: concat.attributes["axis"].value])
