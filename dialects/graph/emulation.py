"""Which ops do arithmetic on emulated element types, such as 8-bit floats, and their types with compute types in the place of these."""

from typing import Any

from stepwell.dialects.core.dtypes import ELEMENT_TYPES
from stepwell.dialects.core.types import TensorType, compute_dtype, is_emulated
from stepwell.dialects.graph.callbacks import inferred_types
from stepwell.dialects.support.errors import StepwellError

_STORED_ONLY = next(name for name, info in ELEMENT_TYPES.items() if info.is_small_float and info.compute is None)


def needs_emulation(op: Any) -> bool:
    """Whether a graph op computes with an emulated type. Ops that move, convert or reinterpret elements do not: their `infer` accepts any type."""
    groups = op.operand_types()
    if not any(is_emulated(kind.dtype) for group in groups if group is not None for kind in (group if isinstance(group, list) else [group])):
        return False
    if type(op).infer is None:
        return False

    def stored_only(kind: TensorType) -> TensorType:
        return kind.with_dtype(_STORED_ONLY) if is_emulated(kind.dtype) else kind

    moved = [None if g is None else [stored_only(t) for t in g] if isinstance(g, list) else stored_only(g) for g in groups]
    try:
        inferred_types(type(op), moved, op.attribute_values())
    except StepwellError:
        return True
    return False


def emulated_in(kind: TensorType) -> TensorType:
    """A type with its compute type in the place of an emulated one."""
    return kind.with_dtype(compute_dtype(kind.dtype)) if is_emulated(kind.dtype) else kind
