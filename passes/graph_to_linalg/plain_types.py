"""Types below the graph dialect: unsignedness is in operations, not types; compact types are i8; no type names sizes."""

import re
from typing import Any

from stepwell.dialects.core.dtypes import ELEMENT_TYPES, is_compact
from stepwell.dialects.core.kernel_info import KernelInfo
from stepwell.dialects.core.mlir import ir, ops_below
from stepwell.dialects.core.sizes import Dim
from stepwell.dialects.core.types import TensorType
from stepwell.passes.framework.rewriting import CAST, functions


def is_graph_type(mlir_type: ir.Type) -> bool:
    """Whether a type exists only on graph ops: it has unsigned integers or compact elements, or names its sizes."""
    return _has_graph_element(mlir_type) or (isinstance(mlir_type, ir.RankedTensorType) and mlir_type.encoding is not None)


def _has_graph_element(mlir_type: ir.Type) -> bool:
    if not isinstance(mlir_type, ir.ShapedType):
        return False
    element = mlir_type.element_type
    if isinstance(element, ir.IntegerType):
        return bool(element.is_unsigned) or 1 < element.width < 8
    return not isinstance(element, _PLAIN) and is_compact(str(element))


_PLAIN = (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type, ir.IndexType)


def plain_type(mlir_type: ir.Type) -> Any:
    """A tensor or memref type with signless elements and unnamed sizes; any other type unchanged."""
    if not is_graph_type(mlir_type):
        return mlir_type
    element = mlir_type.element_type
    if _has_graph_element(mlir_type):
        element = ir.IntegerType.get_signless(max(element.width, 8))
    if isinstance(mlir_type, ir.RankedTensorType):
        return ir.RankedTensorType.get(mlir_type.shape, element)
    return ir.MemRefType.get(mlir_type.shape, element, mlir_type.layout, mlir_type.memory_space)


def make_plain(module: ir.Operation) -> None:
    """Make every tensor type in a module plain, in signatures and bodies, and remove casts without effect."""
    compact = "|".join(filter(is_compact, ELEMENT_TYPES))
    if not re.search(rf"[x<](?:ui\d+|{compact})>|[x<]\w+, \"[^\"]*\">", str(module)):  # much quicker than a walk, which few models need
        return
    for function in functions(module):
        kind = function.type
        info = KernelInfo(function)
        if (info.is_kernel or info.is_region) and any(isinstance(t, ir.RankedTensorType) and t.encoding is not None for t in kind.inputs):
            info.sizes = [_free_sizes(t) for t in kind.inputs]
        signature = ir.FunctionType.get([plain_type(t) for t in kind.inputs], [plain_type(t) for t in kind.results])
        function.attributes["function_type"] = ir.TypeAttr.get(signature)
    idle = []
    for op in ops_below(module):
        for region in op.regions:
            for block in region.blocks:
                _retype(block.arguments)
        _retype(op.results)
        if op.name == CAST and op.operands[0].type == op.results[0].type:
            idle.append(op)
    for op in idle:
        op.results[0].replace_all_uses_with(op.operands[0])
    for op in reversed(idle):
        op.erase()


def _free_sizes(mlir_type: ir.Type) -> tuple[Dim, ...]:
    """The dynamic dimensions of a type."""
    if not isinstance(mlir_type, ir.RankedTensorType):
        return ()
    return tuple(size for size in TensorType.from_mlir(mlir_type).shape if not isinstance(size, int))


def _retype(values: Any) -> None:
    for value in values:
        if is_graph_type(value.type):
            value.set_type(plain_type(value.type))
