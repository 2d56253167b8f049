"""Signless element types: below the graph dialect an integer type does not say whether it is unsigned; its operations do. Compact types are i8."""

import re
from typing import Any

from stepwell.dialects.core.dtypes import COMPACT
from stepwell.dialects.core.mlir import ir
from stepwell.passes.framework.rewriting import CAST, functions, ops_below


def is_unsigned_tensor(mlir_type: ir.Type) -> bool:
    """Whether a type is a tensor or memref of unsigned integers or of compact elements."""
    if not isinstance(mlir_type, ir.ShapedType):
        return False
    element = mlir_type.element_type
    if isinstance(element, ir.IntegerType):
        return bool(element.is_unsigned) or 1 < element.width < 8
    return not isinstance(element, _PLAIN) and str(element) in COMPACT


_PLAIN = (ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type, ir.IndexType)


def signless_type(mlir_type: Any) -> Any:
    """A tensor or memref type with signless elements; any other type as it is."""
    if not is_unsigned_tensor(mlir_type):
        return mlir_type
    element = ir.IntegerType.get_signless(max(mlir_type.element_type.width, 8))
    if isinstance(mlir_type, ir.RankedTensorType):
        return ir.RankedTensorType.get(mlir_type.shape, element)
    return ir.MemRefType.get(mlir_type.shape, element, mlir_type.layout, mlir_type.memory_space)


def remove_signs(module: ir.Operation) -> None:
    """Make every unsigned tensor type in a module signless, in signatures and bodies, and remove the casts that no longer do anything."""
    if not re.search(rf"[x<](?:ui\d+|{'|'.join(COMPACT)})>", str(module)):  # much quicker than a walk, which few models need
        return
    for function in functions(module):
        kind = function.type
        signature = ir.FunctionType.get([signless_type(t) for t in kind.inputs], [signless_type(t) for t in kind.results])
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


def _retype(values: Any) -> None:
    for value in values:
        if is_unsigned_tensor(value.type):
            value.set_type(signless_type(value.type))
